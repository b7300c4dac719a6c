"""The command line: parse arguments, call the library, print. No command computes anything itself."""

from silobench.cli.app import main

__all__ = ["main"]
