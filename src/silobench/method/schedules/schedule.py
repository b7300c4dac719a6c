"""The registry of schedules, the value of a schedule in the first round, and a check of validation rows."""

from collections.abc import Sequence
from typing import Annotated, Any, TypeAlias

import torch
from annotated_types import Ge

from silobench.errors import ConfigError
from silobench.method.checks import finite_number
from silobench.method.types import Knob, Server, at
from silobench.spec import Registry
from silobench.spec.contract import Contract, Form

Round: TypeAlias = Annotated[int, Ge(0)]  # counted from 0


def _is_rate(value: Any, arguments: Sequence[Any]) -> str | None:
    return finite_number(value, "the learning rate of a round")


SCHEDULES: Registry[Knob] = Registry(
    "schedule",
    Contract(None, "a number, or a function (server)", {"schedule": Form("server", _is_rate)}, others=(int, float)),
)
SCHEDULES.nested = SCHEDULES  # a schedule may lead to another one

FIRST = Server(torch.zeros(0), {}, {}, 0, 1, {})  # the server in the first round, as far as a schedule reads it


def first_value(knob: Knob) -> float:
    """Return the value of a knob in the first round, as it would be without a warm-up."""
    while (then := getattr(knob, "then", None)) is not None:
        knob = then
    return at(knob, FIRST)


def check_validation(knob: Knob, has_validation: bool) -> None:
    """Refuse a schedule that follows the validation loss where no party has validation rows."""
    if getattr(knob, "needs_validation", False) and not has_validation:
        raise ConfigError(
            "the schedule plateau follows the loss on validation rows, but no party has such rows: hold some out, as "
            "with validation = 0.1, or use another schedule."
        )
