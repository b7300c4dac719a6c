"""Advice: what parties' data are like, which kind of skew they have, and which method stored runs recommend for it.

Parties are seen through histograms with bins that are agreed in advance, exact or differentially private. Nothing is
trained here; `silobench.cli` runs what the advice proposes to try.
"""
