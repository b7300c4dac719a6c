"""Matching of rows of several owners by keys: exact, normalised, fuzzy, private, or by order."""
