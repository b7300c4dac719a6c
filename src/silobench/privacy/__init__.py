"""Differential privacy as numbers: noisy releases, the ledger of a run, and the accountants that read it.

`intersection` is private set intersection.
"""
