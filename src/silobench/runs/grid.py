"""Experiments as text: a TOML file of choices, its scales, and the grid of cells that it spans."""

import itertools
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from silobench.errors import ConfigError, suggest

ABOUT = ("title", "paper", "table", "numbers", "scale")  # keys that describe a suite, besides its choices


def read_experiment(path: Path) -> dict[str, Any]:
    """Read the choices of a TOML file."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise ConfigError(f"there is no experiment file {path}: check the path.") from error
    except (tomllib.TOMLDecodeError, OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} cannot be read as TOML: {error}.") from error


def expand(choices: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the cells of an experiment.

    Every list is an axis, `trials` is a number of consecutive seeds, and [[grid]] tables override the other choices.

    >>> [cell["seed"] for cell in expand({"dataset": "digits", "trials": 2, "seed": 5})]
    [5, 6]
    """
    shared = {key: value for key, value in choices.items() if key not in ("grid", *ABOUT)}
    return [cell for grid in _grids(choices) or [{}] for cell in _product({**shared, **grid})]


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


def _product(choices: dict[str, Any]) -> Iterator[dict[str, Any]]:
    trials, seed = choices.pop("trials", 1), choices.get("seed", 0)
    if not isinstance(trials, int) or trials < 1:
        raise ConfigError(f"trials must be a whole number of at least 1, but {trials!r} was given.")
    if isinstance(seed, list) and trials > 1:
        raise ConfigError(f"seed is a list and trials is {trials}: give a list of seeds, or one seed and trials.")
    if isinstance(seed, int):
        choices["seed"] = list(range(seed, seed + trials))
    axes = {key: value if _is_axis(key, value) else [value] for key, value in choices.items()}
    for key, values in axes.items():
        if not values:
            raise ConfigError(f"{key} is an empty list: give at least one value.")
    for values in itertools.product(*axes.values()):
        yield dict(zip(axes, values, strict=True))


def _is_axis(key: str, value: Any) -> bool:
    return isinstance(value, list) and key not in ("measure", "metric")  # a run can have several
