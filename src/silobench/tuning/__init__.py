"""Tuning: search the arguments of an experiment by validation rows, and confirm the best setting on fresh seeds."""
