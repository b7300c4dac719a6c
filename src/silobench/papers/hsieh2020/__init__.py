"""The Non-IID Data Quagmire (Hsieh et al., 2020): suites, published numbers, findings, tables and figures."""
