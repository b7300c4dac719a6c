"""Tasks: a network, its loss and its scores. Training is in `method` and `training`."""
