"""What a run can measure of itself after every round, beside the accuracy. The loop knows nothing of it."""

from silobench.measures.divergence import weight_divergence
from silobench.measures.measure import MEASURES, Course, Measure, measured

__all__ = ["MEASURES", "Course", "Measure", "measured", "weight_divergence"]
