"""Federated Learning with Non-IID Data (Zhao et al., 2018): suites, published numbers, findings, tables and figures."""
