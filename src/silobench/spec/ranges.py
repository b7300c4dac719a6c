"""Types for the numbers an argument may take; a `Registry` checks them.

They live outside `method.types`, which imports torch, because datasets use them and load without torch.
"""

from typing import Annotated, TypeAlias

from annotated_types import Ge, Gt, Le, Lt
from pydantic import AllowInfNan

Count: TypeAlias = Annotated[int, Ge(1)]
CountOrZero: TypeAlias = Annotated[int, Ge(0)]
Positive: TypeAlias = Annotated[float, Gt(0), AllowInfNan(False)]
NonNegative: TypeAlias = Annotated[float, Ge(0), AllowInfNan(False)]
Fraction: TypeAlias = Annotated[float, Ge(0), Le(1)]
Share: TypeAlias = Annotated[float, Gt(0), Le(1)]
BelowOne: TypeAlias = Annotated[float, Ge(0), Lt(1)]
Spread: TypeAlias = Annotated[float, Ge(0), Le(5)]  # standard deviation of a logarithm: 5 is a factor of 148
Latency: TypeAlias = Annotated[float, Ge(0), Le(1e6)]  # seconds
