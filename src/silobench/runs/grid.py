"""Experiments as text: a TOML file of choices, its scales, and the grid of cells that it spans."""

import bisect
import itertools
import logging
import math
import os
import re
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, overload

from silobench.errors import ConfigError, suggest, value_shown

_log = logging.getLogger(__name__)
MOST_RUNS = 100_000  # of an experiment; $SILOBENCH_MAX_RUNS is another limit
ABOUT = ("title", "paper", "table", "numbers", "scale", "tune")  # keys of a file that are not choices of its runs


def read_experiment(path: Path) -> dict[str, Any]:
    """Read the choices of a TOML file."""
    text = _text(path)
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path} cannot be read as TOML: {_problem(str(error), text)}") from error
    except (ValueError, RecursionError) as error:
        raise ConfigError(
            f"{path} cannot be read as TOML: it has a number that is too long or lists that are nested too deeply; "
            "write them shorter."
        ) from error


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except FileNotFoundError as error:
        raise ConfigError(f"there is no experiment file {path}: check the path.") from error
    except IsADirectoryError as error:
        raise ConfigError(f"{path} is a folder, not an experiment file: give the path of a .toml file.") from error
    except UnicodeDecodeError as error:
        raise ConfigError(
            f"{path} cannot be read as TOML: byte {error.start + 1} is not UTF-8 text; save the file as UTF-8."
        ) from error
    except OSError as error:
        raise ConfigError(f"the experiment file {path} cannot be read ({error.strerror}): check the path.") from error


def _problem(message: str, text: str) -> str:
    """Return the end of the message about text that is not TOML: the line, and what to do about it."""
    place = re.search(r" \(at line (\d+), column \d+\)", message)
    lines = text.rstrip().split("\n")
    line = int(place[1]) if place else len(lines)
    content = text.split("\n")[line - 1].strip()
    shown = content if len(content) <= 80 else f"{content[:77]}..."
    where = f"line {line} is `{shown if shown.isprintable() else shown.encode('unicode_escape').decode()}`"
    key, equals, value = map(str.strip, content.partition("="))
    if message.startswith("Invalid value") and equals and re.fullmatch(r"[^\W\d][^\"'\[\]{}]*", value):
        text_value = value.partition(" #")[0].strip()
        return f'{where}, but text needs quotation marks: write {key} = "{text_value}".'
    if message.startswith("Invalid value") and equals and not value:
        return f'{where}, but a value is missing: write, for example, {key or "key"} = "text" or {key or "key"} = 10.'
    if message.startswith("Cannot overwrite"):
        return f"{where}, but its key was given before: give each key once."
    if place is None:
        return f"{where} ({_reason(message)}), and the file ends; close all quotation marks and brackets."
    return f"{where} ({_reason(message)}); write lines as key = value, with text in quotation marks."


def _reason(message: str) -> str:
    reason = message.partition(" (at ")[0]
    return reason[:1].lower() + reason[1:]


class GridCells(Sequence[dict[str, Any]]):
    """The cells of some grids in their order. Each is made when it is asked for, so that many take no memory."""

    def __init__(self, grids: Sequence[Mapping[str, Sequence[Any]]]) -> None:
        self._grids = grids
        self._ends = list(itertools.accumulate(math.prod(map(_size, axes.values())) for axes in grids))

    def __len__(self) -> int:
        return self._ends[-1]

    @overload
    def __getitem__(self, place: int) -> dict[str, Any]: ...

    @overload
    def __getitem__(self, place: slice) -> list[dict[str, Any]]: ...

    def __getitem__(self, place: int | slice) -> dict[str, Any] | list[dict[str, Any]]:
        if isinstance(place, slice):
            return [self[each] for each in range(*place.indices(len(self)))]
        place = range(len(self))[place]
        grid = bisect.bisect_right(self._ends, place)
        axes, rest = self._grids[grid], place - (self._ends[grid - 1] if grid else 0)
        values = {}
        for key in reversed(list(axes)):  # the last axis changes fastest
            rest, at = divmod(rest, _size(axes[key]))
            values[key] = axes[key][at]
        return {key: values[key] for key in axes}

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for axes in self._grids:
            for values in itertools.product(*axes.values()):
                yield dict(zip(axes, values, strict=True))


def expand(choices: Mapping[str, Any]) -> GridCells:
    """Return the cells of an experiment.

    Every list is an axis, `trials` is a number of consecutive seeds, and [[grid]] tables override the other choices.

    >>> [cell["seed"] for cell in expand({"dataset": "digits", "trials": 2, "seed": 5})]
    [5, 6]
    """
    shared = {key: value for key, value in choices.items() if key not in ("grid", *ABOUT)}
    grids = [_axes({**shared, **grid}) for grid in _grids(choices) or [{}]]
    _check_count(grids)
    return GridCells(grids)


def _check_count(grids: list[dict[str, Sequence[Any]]]) -> None:
    """Refuse more runs than anyone means, before any of them is built."""
    count = sum(math.prod(map(_size, axes.values())) for axes in grids)
    setting = os.environ.get("SILOBENCH_MAX_RUNS", str(MOST_RUNS))
    if not setting.isdecimal():
        raise ConfigError(f"SILOBENCH_MAX_RUNS must be a whole number, but '{setting}' is set: set it to {MOST_RUNS}.")
    if count <= int(setting):
        return
    largest = max(grids, key=lambda axes: math.prod(map(_size, axes.values())))
    product = " x ".join(f"{_size(values):,} ({key})" for key, values in largest.items() if _size(values) > 1)
    raise ConfigError(
        f"the experiment has {count:,} runs, most of them by a grid of {product}, and the limit is {int(setting):,}: "
        f"shorten a list, or set SILOBENCH_MAX_RUNS={count} to run them all."
    )


def _size(values: Sequence[Any]) -> int:
    """Return the length, which `len` cannot of a range with more than 2^63 values."""
    return values.stop - values.start if isinstance(values, range) else len(values)


def override(choices: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the experiment with some choices replaced, in every grid."""
    grids = [{key: value for key, value in grid.items() if key not in changes} for grid in _grids(choices)]
    return {**choices, **changes} | ({"grid": grids} if grids else {})


def at_scale(choices: Mapping[str, Any], scale: str) -> dict[str, Any]:
    """Return a suite at one of its scales: the table `[scale.NAME]` replaces the choices above it, grids included.

    >>> suite = {"dataset": "mnist", "rounds": 50, "scale": {"smoke": {"note": "tiny", "rounds": 2}}}
    >>> at_scale(suite, "smoke")
    {'dataset': 'mnist', 'rounds': 2}
    """
    scales = choices.get("scale", {})
    if not isinstance(scales, dict) or not all(isinstance(table, dict) for table in scales.values()):
        raise ConfigError("scale must be tables of choices: write [scale.smoke] above those of the scale smoke.")
    if scale not in scales:
        known = suggest(scale, scales) if scales else "leave --scale out, this experiment has no scales."
        raise ConfigError(f"there is no scale '{scale}': {known}")
    unscaled = {key: value for key, value in choices.items() if key != "scale"}
    changes = {key: value for key, value in scales[scale].items() if key != "note"}
    return {**unscaled, **changes} if "grid" in changes else override(unscaled, changes)


def _grids(choices: Mapping[str, Any]) -> list[dict[str, Any]]:
    grids = choices.get("grid", [])
    if not isinstance(grids, list) or not all(isinstance(grid, dict) for grid in grids):
        raise ConfigError("grid must be a list of tables: write [[grid]] above each.")
    return grids


def _axes(choices: dict[str, Any]) -> dict[str, Sequence[Any]]:
    """Return the values of each key; a key without a list has one."""
    trials, seed = choices.pop("trials", 1), choices.get("seed", 0)
    if not isinstance(trials, int) or isinstance(trials, bool) or trials < 1:
        raise ConfigError(f"trials must be a whole number of at least 1, but {value_shown(trials)} was given.")
    if isinstance(seed, list) and trials > 1:
        raise ConfigError(f"seed is a list and trials is {trials}: give a list of seeds, or one seed and trials.")
    axes: dict[str, Sequence[Any]] = {key: value if _is_axis(key, value) else [value] for key, value in choices.items()}
    if isinstance(seed, int) and not isinstance(seed, bool):
        axes["seed"] = range(seed, seed + trials)
    for key, values in axes.items():
        if not _size(values):
            raise ConfigError(f"{key} is an empty list: give at least one value.")
        if isinstance(values, list):
            _report_repeated(key, values)
    return axes


def _report_repeated(key: str, values: Sequence[Any]) -> None:
    """Log the first value that a list has twice; a participation of 1 is one party, and of 1.0 all of them."""
    counts = Counter(map(repr, values))
    if repeated := [value for value in values if counts[repr(value)] > 1]:
        _log.info("%s has %s more than once: equal runs are done once", key, value_shown(repeated[0]))


def _is_axis(key: str, value: Any) -> bool:
    return isinstance(value, list) and key not in ("measure", "metric")  # a run can have several
