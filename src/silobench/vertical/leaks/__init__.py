"""Measures of what the cut leaks, one file each.

A new one is a function decorated with `VERTICAL_MEASURES.register`, and a line below.
"""

from silobench.vertical.leaks.measure import VERTICAL_MEASURES as VERTICAL_MEASURES
from silobench.vertical.leaks.measure import LeakMeasure as LeakMeasure
from silobench.vertical.leaks.view import CutView as CutView
