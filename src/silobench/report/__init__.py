"""Figures and the HTML page, from cells and the sections of papers. The same runs give the same bytes."""
