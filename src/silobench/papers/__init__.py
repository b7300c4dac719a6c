"""The published studies: one folder per paper with its suites, published numbers, findings, tables and figures."""
