"""Leaks: what parties can infer from what crosses the cut of a split network, one file per attack or measure.

A new measure is a file here with a function decorated with `VERTICAL_MEASURES.register`, and a line below.
"""

from silobench.vertical.leaks.distance_correlation import distance_correlation as distance_correlation
from silobench.vertical.leaks.label_leakage import label_leakage as label_leakage
from silobench.vertical.leaks.measure import VERTICAL_MEASURES as VERTICAL_MEASURES
from silobench.vertical.leaks.measure import LeakMeasure as LeakMeasure
from silobench.vertical.leaks.reconstruction import reconstruction as reconstruction
from silobench.vertical.leaks.view import CutView as CutView
