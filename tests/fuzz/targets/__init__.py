"""Targets: every module here has a tuple `TARGETS`, and is listed by `fuzz.target.all_targets`."""
