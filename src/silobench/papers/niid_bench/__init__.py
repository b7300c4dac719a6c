"""NIID-Bench (Li et al., 2022): suites, published numbers and findings."""
