"""Fields of public values that have a better name now: the old name keeps working."""

import functools
from collections.abc import Callable
from operator import attrgetter
from typing import Any, TypeVar

T = TypeVar("T")


def renamed(**names: str) -> Callable[[type[T]], type[T]]:
    """Return a decorator that accepts the old names of a dataclass's fields, as ``old="new"``, to write and to read.

    >>> from dataclasses import dataclass
    >>> @renamed(told="report")
    ... @dataclass(frozen=True)
    ... class Orders:
    ...     report: str = ""
    >>> Orders(told="faster")
    Orders(report='faster')
    >>> Orders("slower").told
    'slower'
    """

    def decorate(cls: type[T]) -> type[T]:
        create = cls.__init__

        @functools.wraps(create)
        def init(self: T, *args: Any, **kwargs: Any) -> None:
            for old, new in names.items():
                if old in kwargs and new in kwargs:
                    raise TypeError(f"{cls.__name__} got {new} and {old}, which is its earlier name: give one of them")
            create(self, *args, **{names.get(name, name): value for name, value in kwargs.items()})

        setattr(cls, "__init__", init)  # noqa: B010  # mypy allows no other way
        for old, new in names.items():
            setattr(cls, old, property(attrgetter(new)))
        return cls

    return decorate
