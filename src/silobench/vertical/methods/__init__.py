"""Methods of vertical learning, one file each.

A new one is a function decorated with `VERTICAL_ALGORITHMS.register`, and a line below.
"""

from silobench.vertical.methods.baselines import combined as combined
from silobench.vertical.methods.baselines import solo as solo
from silobench.vertical.methods.boosted_trees import boosted_trees as boosted_trees
from silobench.vertical.methods.boosted_trees import joined_trees as joined_trees
from silobench.vertical.methods.method import VERTICAL_ALGORITHMS as VERTICAL_ALGORITHMS
from silobench.vertical.methods.method import Trained as Trained
from silobench.vertical.methods.method import Trainer as Trainer
from silobench.vertical.methods.method import VerticalMethod as VerticalMethod
from silobench.vertical.methods.method import VerticalProblem as VerticalProblem
from silobench.vertical.methods.split import split as split
