"""Measures: what a run can report after every round besides accuracy. The loop does not know them."""

from silobench.measures.canaries import canaries
from silobench.measures.divergence import weight_divergence
from silobench.measures.inversion import inversion
from silobench.measures.measure import MEASURES, Course, Measure, measured, planted
from silobench.measures.membership import membership
from silobench.measures.norms import norm_divergence
from silobench.measures.parties import accuracy_loss, replicas, update_delta
from silobench.measures.subtraction import subtraction

__all__ = [
    "MEASURES",
    "Course",
    "Measure",
    "accuracy_loss",
    "canaries",
    "inversion",
    "measured",
    "membership",
    "norm_divergence",
    "planted",
    "replicas",
    "subtraction",
    "update_delta",
    "weight_divergence",
]
