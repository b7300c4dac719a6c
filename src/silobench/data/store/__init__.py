"""The data directory: the catalogue of datasets, fetching their files, checking sums, and caching arrays."""
