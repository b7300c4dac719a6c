"""The data directory: the catalogue of datasets, downloads and imports, checksums, and cached arrays."""
