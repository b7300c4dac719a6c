"""Solvers of the local problem, one file per kind, each a subclass of `silobench.method.solvers.solver.Solver`.

A new solver is a file here with a subclass and a function decorated with `SOLVERS.register`, and a line below.
"""

from silobench.method.schedules import SCHEDULES as SCHEDULES
from silobench.method.solvers.adam import adam as adam
from silobench.method.solvers.dp_sgd import dp_sgd as dp_sgd
from silobench.method.solvers.problem import Problem as Problem
from silobench.method.solvers.sgd import has_sgd_steps as has_sgd_steps
from silobench.method.solvers.sgd import reach as reach
from silobench.method.solvers.sgd import sgd as sgd
from silobench.method.solvers.solver import SOLVERS as SOLVERS
from silobench.method.solvers.solver import Correct as Correct
from silobench.method.solvers.solver import Solver as Solver
from silobench.method.solvers.solver import keep_argument as keep_argument
