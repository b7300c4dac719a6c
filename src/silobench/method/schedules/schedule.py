"""What all schedules share: their registry, and the value of the first round."""

from typing import Annotated, TypeAlias

import torch
from annotated_types import Ge

from silobench.method.types import Knob, Server, at
from silobench.spec import Registry

Round: TypeAlias = Annotated[int, Ge(0)]  # counted from 0
SCHEDULES: Registry[Knob] = Registry("schedule")
SCHEDULES.nested = SCHEDULES  # a schedule may lead to another one

FIRST = Server(torch.zeros(0), {}, {}, 0, 1, {})  # the server in the first round, as far as a schedule reads it


def first_value(knob: Knob) -> float:
    """Return the value of a knob in the first round."""
    return at(knob, FIRST)
