"""Aggregates: how the server combines the messages of a round, one file each.

A new aggregate is a file here with a function decorated with `AGGREGATES.register`, and a line below.
"""

from silobench.method.aggregates.krum import krum as krum
from silobench.method.aggregates.mean import MEAN as MEAN
from silobench.method.aggregates.mean import mean as mean
from silobench.method.aggregates.median import median as median
from silobench.method.aggregates.trimmed_mean import trimmed_mean as trimmed_mean
from silobench.method.types import AGGREGATES as AGGREGATES
from silobench.method.types import Aggregate as Aggregate
