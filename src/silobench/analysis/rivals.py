"""Pairs of cells that differ in one key only, such as the algorithm, found by the values that a user names."""

from collections.abc import Callable, Sequence
from fnmatch import fnmatch
from typing import Any

from silobench.analysis.cells import CellResult
from silobench.analysis.groups import grouped
from silobench.analysis.specs import arguments
from silobench.analysis.tables import shown
from silobench.errors import ConfigError, RecordError, SpecError, listed, suggest
from silobench.runs.label import LATER, distinguishing
from silobench.spec import Spec, Value, parse, parse_terms
from silobench.spec.language import canonical_name

ALGORITHM = "algorithm"
_NONE = "none"  # another name of an empty value
_OPERATORS: dict[str, Any] = {"partition": "+", "measure": "+", "metric": "+", "transforms": "|", "broadcast": "|"}
_LETTERS, _MOST = 200, 5  # of values in an error message
_FIXED = ("dataset", "seed")  # a pair of runs shares these


# --- values of a key ----------------------------------------------------------------------------------


def checked_key(key: str, cells: Sequence[CellResult]) -> None:
    """Raise an error if values of this key cannot be compared."""
    if not cells:
        raise RecordError("no run in this directory is finished: run the same experiment again, then compare.")
    known = {*(name for cell in cells for name in cell.label), *LATER}.difference(_FIXED)
    if key in _FIXED:
        raise ConfigError(
            f"--by {key} finds no pair, because both runs of a pair have the same {key}: {_varied(cells)}"
        )
    if key not in known:
        raise ConfigError(f"--by must be a key of these runs, but '{key}' was given: {suggest(key, known)}")


def _varied(cells: Sequence[CellResult]) -> str:
    keys = [key for key in _varying_keys(cells) if key not in _FIXED]
    return f"choose a key in which these runs differ ({listed(keys)})." if keys else "choose another key."


def _varying_keys(cells: Sequence[CellResult]) -> list[str]:
    keys = dict.fromkeys((*cells[0].label, *LATER))
    return [key for key in keys if len({value_of(cell, key) for cell in cells}) > 1]


def value_of(cell: CellResult, key: str) -> str:
    """Return a choice of a cell as text; the number of parties is the one that there is."""
    return str(cell.parties) if key == "parties" else cell.label.text(key)


def checked_names(a: str | None, b: str | None, cells: Sequence[CellResult], key: str) -> tuple[str, str]:
    """Return the two values to compare; an error lists those of the runs if one is missing."""
    checked_key(key, cells)
    if a is None or b is None:
        what, count = ("algorithms" if key == ALGORITHM else f"values of {key}"), "none" if a is None else "one"
        raise ConfigError(
            f"compare needs two {what}, but {count} was given: these runs have {_values(cells, key)}; write two of "
            "them, in quotation marks, after the directory."
        )
    return a, b


def value_name(key: str, value: str) -> str:
    """Return a value as sentences name it.

    >>> value_name("transforms", ""), value_name("transforms", "top-k")
    ('no transforms', 'top-k')
    """
    return value or f"no {key}"


def present(name: str, cells: Sequence[CellResult], key: str) -> str:
    """Return the text that the runs have for a value, whatever the spelling."""
    known = list(dict.fromkeys(value_of(cell, key) for cell in cells))
    if (match := _match(name, cells, key)) is not None:
        return match
    others = [other for other in _varying_keys(cells) if other not in (key, *_FIXED)]
    if hint := next((other for other in others if _match(name, cells, other) is not None), ""):
        shown_name = name or '""'
        raise RecordError(
            f"no finished run in this directory has {key} {shown_name}, which is a value of {hint}: "
            f"compare two of its values with --by {hint} ({_values(cells, hint)})."
        )
    if key == ALGORITHM:
        wanted = str(parse(name))  # raises if this is not a spec
        raise RecordError(f"no finished run in this directory has algorithm {wanted}: {suggest(wanted, known)}")
    raise RecordError(
        f"no finished run in this directory has {key} {name or _NONE}: its values are {_values(cells, key)}."
    )


def _values(cells: Sequence[CellResult], key: str) -> str:
    """Return the values that cells have of a key, in quotes; only some of them if they are long."""
    values = [f"'{value or _NONE}'" for value in sorted({value_of(cell, key) for cell in cells})]
    return listed(values, most=len(values) if sum(map(len, values)) <= _LETTERS else _MOST)


def _match(name: str, cells: Sequence[CellResult], key: str) -> str | None:
    """Return the value of a key that a text means; None if no cell has it."""
    values = [value_of(cell, key) for cell in cells]
    if name in values:
        return name
    if name in ("", _NONE):
        return "" if "" in values else None
    try:
        wanted = _terms(name, key)
    except SpecError:
        return None
    return next((value for cell, value in zip(cells, values, strict=True) if _same(wanted, cell, key)), None)


def _terms(text: str, key: str) -> tuple[Spec, ...]:
    return parse_terms(text, _OPERATORS[key]) if key in _OPERATORS else (parse(text),)


def _same(wanted: Sequence[Spec], cell: CellResult, key: str) -> bool:
    """Whether specs name a cell's value of a key, term by term."""
    if not isinstance(cell.label.get(key, LATER.get(key)), str):
        return False
    full, stated = (_terms(text, key) if (text := label.text(key)) else () for label in (cell.config, cell.label))
    each = zip(wanted, full, stated, strict=False)
    return len(wanted) == len(full) == len(stated) and all(_same_term(*terms) for terms in each)


def _same_term(wanted: Spec, full: Spec, stated: Spec) -> bool:
    """Whether a spec names another; arguments that it leaves out must be at their defaults, which `stated` omits."""
    every = arguments(full)
    values, others = (dict(zip(every, spec.args, strict=False)) | arguments(spec) for spec in (wanted, stated))
    equal = all(_same_value(value, every.get(name), others.get(name)) for name, value in values.items())
    return wanted.name == stated.name and equal and others.keys() <= values.keys()


def _same_value(wanted: Value, full: Value, stated: Value) -> bool:
    """Whether values of an argument are the same; specs in arguments may leave out what is at its default."""
    if isinstance(full, Spec):
        wanted, stated = _spec(wanted), _spec(stated) or Spec(full.name)
        return wanted is not None and _same_term(wanted, full, stated)
    if isinstance(full, str) and isinstance(wanted, str | Spec):
        return canonical_name(str(wanted)) == canonical_name(full)
    return wanted == full


def _spec(value: Value) -> Spec | None:
    """Return a spec that may be written as a bare name; None for another value."""
    return Spec(canonical_name(value)) if isinstance(value, str) else value if isinstance(value, Spec) else None


# --- settings -----------------------------------------------------------------------------------------


def matching(cells: Sequence[CellResult], only: str, by: str = ALGORITHM) -> list[CellResult]:
    """Return the cells of settings that match a glob; cells of a setting differ in the key `by` only."""
    name_of = _setting_names(cells, by)
    return [cell for cell in cells if _matches(cell, name_of(cell), only)]


def _matches(cell: CellResult, name: str, only: str) -> bool:
    """Whether a setting matches a glob, by its name or by that name with the whole spec of the dataset."""
    _, *others = name.split(" / ", 1)
    return fnmatch(name, only) or fnmatch(" / ".join([cell.label.text("dataset"), *others]), only)


def _setting_names(cells: Sequence[CellResult], by: str) -> Callable[[CellResult], str]:
    """Return a function from a cell to the name of its setting: the choices in which the cells differ.

    A dataset has the name that it has in tables.
    """
    others = distinguishing([cell.label for cell in cells], but=("dataset", "partition", by))
    names = [*(["partition"] if by != "partition" else []), *others]

    def name_of(cell: CellResult) -> str:
        choices = (cell.label.text(key) for key in names if key in cell.label or key in LATER)
        return " / ".join([shown(cell, "dataset", cells), *choices])

    return name_of


def rivals_of(
    cells: Sequence[CellResult], a: str, b: str, only: str, by: str
) -> dict[str, tuple[CellResult, CellResult]]:
    """Return the settings, by name, in which both values of a key were run on the same data."""
    name_of, pairs = _setting_names(cells, by), {}
    for setting in grouped(cells, lambda cell: cell.label.without(by)):
        one, other = ([cell for cell in setting if value_of(cell, by) == value] for value in (a, b))
        if one and other and one[0].dataset.checksum == other[0].dataset.checksum:
            pairs[name_of(one[0])] = (one[0], other[0])
    if not pairs:
        names = f"{value_name(by, a)} and {value_name(by, b)}"
        raise RecordError(f"no setting has finished runs of both {names}: run them in one experiment.")
    chosen = {name: pair for name, pair in pairs.items() if _matches(pair[0], name, only)}
    if not chosen:
        raise ConfigError(f"--only '{only}' matches none of {len(pairs)} settings, such as '{next(iter(pairs))}'.")
    return chosen
