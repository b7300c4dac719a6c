"""Readers turn checked files into a `Dataset`; one module per format or family of datasets."""
