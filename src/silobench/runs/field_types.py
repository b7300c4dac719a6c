"""Whether the typed content of a record has the types that its fields declare: one that was written by hand may not."""

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import is_dataclass
from functools import cache, reduce
from operator import attrgetter, or_
from types import NoneType, UnionType
from typing import Any, TypeAlias, get_args, get_origin, get_type_hints, is_typeddict

_Check: TypeAlias = Callable[[Any], bool]
_MOST = 2**63  # of a whole number: a counter of bytes or rows stays far below it
_DEEPEST = 20  # lists and objects in each other
_LARGEST = sys.float_info.max  # also excludes what is not finite


def wrong_field(record: object) -> str | None:
    """Return the first field of a dataclass that has a value of another type, or in which there is one; None if none.

    >>> from silobench.runs.vertical_facts import RowSet
    >>> wrong_field(RowSet(3, 0.5)), wrong_field(RowSet(3, "half"))
    (None, 'score')
    """
    kind: Any = type(record)
    values_of, checks, is_optional, names = _checks(kind)
    for value, check, optional, name in zip(values_of(record), checks, is_optional, names, strict=True):
        if not (optional if value is None else check(value)):
            return name
    return None


def fits(value: Any, annotation: Any) -> bool:
    """Whether a value of JSON has a declared type."""
    return _check_of(annotation)(value)


def is_plain(value: Any, depth: int = _DEEPEST) -> bool:
    """Whether a value of JSON has only texts and numbers that fit into floats, and is not nested too deeply."""
    if isinstance(value, list | tuple | dict):
        inner = value.values() if isinstance(value, dict) else value
        return depth > 0 and all(is_plain(each, depth - 1) for each in inner)
    return value is None or isinstance(value, bool | str) or _is_number(value)


@cache
def _checks(kind: type[Any]) -> tuple[Callable[[Any], tuple[Any, ...]], list[_Check], list[bool], list[str]]:
    """Return a function from a record to its fields; their checks, which of them may be None, and their names."""
    types = {name: type for name, type in get_type_hints(kind).items() if _check_of(type) is not _anything}
    names, each = list(types), types.values()
    get: Any = attrgetter(*names) if len(names) > 1 else lambda record: tuple(getattr(record, name) for name in names)
    return get, [_check_of(_without_none(one)) for one in each], [_check_of(one)(None) for one in each], names


def _without_none(annotation: Any) -> Any:
    """Return the type of the values of an optional field; another type as it is."""
    if get_origin(annotation) is not UnionType:
        return annotation
    return reduce(or_, (one for one in get_args(annotation) if one is not NoneType))


@cache
def _check_of(annotation: Any) -> _Check:
    """Return the check of one type; JSON has few, and the fields of records use no others."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if annotation in _SCALARS:
        return _SCALARS[annotation]
    if origin is UnionType:
        return _any_of(tuple(_check_of(each) for each in arguments))
    if origin in (tuple, Sequence):
        return _sequence(_check_of(arguments[0]))
    if origin is Mapping:
        return _mapping(_check_of(arguments[1]))
    if is_typeddict(annotation):
        return _object(annotation)
    if is_dataclass(annotation):
        return lambda value: isinstance(value, annotation) and wrong_field(value) is None  # type: ignore[arg-type]
    return lambda value: isinstance(value, annotation)


def _any_of(inner: Sequence[_Check]) -> _Check:
    return lambda value: any(check(value) for check in inner)


def _object(kind: Any) -> _Check:
    """Return the check of an object with declared keys. An empty one states nothing, and fits."""
    required, checks = kind.__required_keys__, {key: _check_of(each) for key, each in get_type_hints(kind).items()}

    def check(value: Any) -> bool:
        if not isinstance(value, dict) or (value and not required <= value.keys()):
            return False
        return all(checks[key](each) for key, each in value.items() if key in checks)

    return check


def _sequence(inner: _Check) -> _Check:
    return lambda value: isinstance(value, list | tuple) and (inner is _anything or all(map(inner, value)))


def _mapping(inner: _Check) -> _Check:
    return lambda value: isinstance(value, dict) and (inner is _anything or all(map(inner, value.values())))


def _anything(value: Any) -> bool:
    return True


def _is_whole(value: Any) -> bool:
    return type(value) is int and -_MOST < value < _MOST


def _is_number(value: Any) -> bool:
    return (type(value) is float or type(value) is int) and -_LARGEST <= value <= _LARGEST


_SCALARS: Mapping[Any, _Check] = {
    Any: _anything,
    int: _is_whole,
    float: _is_number,
    str: lambda value: isinstance(value, str),
    bool: lambda value: isinstance(value, bool),
    NoneType: lambda value: value is None,
    Mapping: lambda value: isinstance(value, dict),
}
