"""Runs: from an experiment file to plans, from a plan to a run directory, and back from the directory to typed facts.

Reading a run directory needs no torch.
"""
