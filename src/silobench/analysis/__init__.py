"""Cells, tables and tests of stored runs. Reads run directories only; what papers found is in `silobench.papers`."""
