"""Mutation testing: small changes to the product's code, each of which some test must notice.

cosmic-ray makes the mutants and stores their results. `python -m mutants FOLDER` tries them: a process that has
imported everything forks one child for each mutant, which swaps the changed code in and runs the tests that run the
changed line.
"""
