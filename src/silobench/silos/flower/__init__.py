"""Flower as the carrier of letters between a lead and its silos: apps, certificates, and processes that are watched.

Flower is imported inside functions only, because it is an optional package.
"""
