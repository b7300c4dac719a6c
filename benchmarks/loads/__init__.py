"""The parts of `benchmarks/load.py`: many parties, many runs in a directory, and many runs in a plan."""
