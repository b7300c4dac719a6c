"""Measures: what a run can report after every round besides accuracy. The loop does not know them."""

from silobench.measures.divergence import weight_divergence
from silobench.measures.inversion import inversion
from silobench.measures.measure import MEASURES, Course, Measure, measured
from silobench.measures.norms import norm_divergence
from silobench.measures.parties import accuracy_loss, replicas, update_delta

__all__ = [
    "MEASURES",
    "Course",
    "Measure",
    "accuracy_loss",
    "inversion",
    "measured",
    "norm_divergence",
    "replicas",
    "update_delta",
    "weight_divergence",
]
