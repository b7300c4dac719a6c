"""Vertical federation: parties that hold different columns of the same rows."""
