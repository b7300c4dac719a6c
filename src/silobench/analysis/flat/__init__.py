"""Runs as flat tables with one row per run, per round or per party: the core of files and DataFrames."""
