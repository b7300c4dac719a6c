"""Schedules: a learning rate as a function of the round, or of what happened before it.

A new schedule is a file here with a function decorated with `SCHEDULES.register`, and a line below.
"""

from silobench.method.schedules.by_round import constant as constant
from silobench.method.schedules.by_round import exponential as exponential
from silobench.method.schedules.by_round import polynomial as polynomial
from silobench.method.schedules.by_round import step as step
from silobench.method.schedules.plateau import plateau as plateau
from silobench.method.schedules.schedule import FIRST as FIRST
from silobench.method.schedules.schedule import SCHEDULES as SCHEDULES
from silobench.method.schedules.schedule import check_validation as check_validation
from silobench.method.schedules.schedule import first_value as first_value
from silobench.method.schedules.warmup import warmup as warmup
