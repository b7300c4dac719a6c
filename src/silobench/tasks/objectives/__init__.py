"""Objectives: what a network is trained for and how it is judged, one file each.

A new one is a file with a subclass of `Objective` and a function decorated with `OBJECTIVES.register`, and a line here.
"""

import silobench.tasks.objectives.checks  # noqa: F401  # it states what objectives of plugins must return
from silobench.tasks.objectives.auto import auto as auto
from silobench.tasks.objectives.auto import is_uneven as is_uneven
from silobench.tasks.objectives.auto import largest_share as largest_share
from silobench.tasks.objectives.auto import uneven_metrics as uneven_metrics
from silobench.tasks.objectives.binary import binary as binary
from silobench.tasks.objectives.cross_entropy import cross_entropy as cross_entropy
from silobench.tasks.objectives.cross_entropy import plain as plain
from silobench.tasks.objectives.hinge import hinge as hinge
from silobench.tasks.objectives.objective import OBJECTIVES as OBJECTIVES
from silobench.tasks.objectives.objective import Fit as Fit
from silobench.tasks.objectives.objective import Objective as Objective
from silobench.tasks.objectives.objective import Values as Values
from silobench.tasks.objectives.objective import need_task as need_task
from silobench.tasks.objectives.regression import regression as regression
from silobench.tasks.objectives.verification import verification as verification
