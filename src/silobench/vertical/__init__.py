"""Vertical federation: parties hold different columns of the same rows, and one of them has the labels."""
