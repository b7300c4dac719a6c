"""Arguments of calls from Python that are no part of a spec: each is checked before anything is computed with it."""

from numbers import Integral, Real
from os import PathLike
from pathlib import Path
from typing import Any

from silobench.errors import ConfigError
from silobench.spec.contract import described


def as_python(value: Any) -> Any:
    """Return a whole number of NumPy as an int, also inside a tuple or a list; any other value as it is.

    >>> import numpy as np
    >>> as_python(np.int64(16)), as_python((np.uint8(3), "x")), as_python(True)
    (16, (3, 'x'), True)
    """
    if isinstance(value, Integral):
        return value if isinstance(value, int) else int(value)
    return type(value)(map(as_python, value)) if type(value) in (tuple, list) else value


def whole_number(value: Any, name: str, least: int, example: str) -> int:
    """Return an argument as an int; raise `ConfigError` for what is not a whole number.

    `least` is named in the message only: whoever calls knows better what is wrong with a smaller number.

    >>> whole_number(2.5, "parties", least=1, example="parties=10")
    Traceback (most recent call last):
    silobench.errors.ConfigError: parties is 2.5, but a whole number of at least 1 is needed: write, for example, \
parties=10.
    """
    if isinstance(value, Integral) and not isinstance(value, bool):
        return int(value)
    raise ConfigError(
        f"{name} is {described(value)}, but a whole number of at least {least} is needed: write, for example, "
        f"{example}."
    )


def seed_of(value: Any) -> int:
    """Return the argument `seed` of a call; a negative one is refused where streams are drawn from it."""
    return whole_number(value, "seed", least=0, example="seed=0")


def parties_of(value: Any) -> int | None:
    """Return the argument `parties` of a call, which is None if the data decide it."""
    return None if value is None else whole_number(value, "parties", least=1, example="parties=10")


def need_share(value: Any, name: str) -> None:
    """Raise `ConfigError` for an argument that is not a fraction of rows below 1."""
    if isinstance(value, bool) or not isinstance(value, Real) or not 0 <= float(value) < 1:
        raise ConfigError(
            f"{name} must be a fraction of a party's rows, 0 or more and below 1, not {described(value)}."
        )


def path_of(value: Any, what: str, example: str) -> Path:
    """Return an argument as a path; raise `ConfigError` for what is neither text nor a path."""
    if isinstance(value, str | PathLike):
        return Path(value)
    raise ConfigError(f"{what} is {described(value)}, but a path is needed: write, for example, {example}.")
