"""Gradient-boosted trees over columns: parties send histograms of gradients, and the label holder chooses splits."""
