"""Vertical federations: parties hold different columns of the same rows."""
