"""Tasks: a network, what is asked of it, and how its answers are scored. Training lives in `method` and `training`."""
