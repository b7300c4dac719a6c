"""What to try next. A suggestion is a function of the definition and of the trials before it: nothing is remembered."""

import itertools
import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from silobench.errors import ConfigError
from silobench.rng import stream
from silobench.tuning.ranges import Choices, Interval, Range, Space, Value, rounded
from silobench.tuning.space import applied, is_active
from silobench.tuning.study import Definition

SAMPLERS = ("tpe", "random", "grid")
_RANDOM_TRIALS = 8  # before the model of TPE is used
_UNPRUNED = 4  # trials that must have finished before any is pruned
_WORST = 1e300  # in place of an infinite score, of which Optuna's models make no density


@dataclass(frozen=True)
class Observation:
    """An earlier trial as a sampler sees it: its score, or None while it runs beside the new one."""

    values: Mapping[str, Value]
    score: float | None = None
    by_rung: Mapping[int, float] = field(default_factory=dict)  # scores after each rung, counted from 1
    is_pruned: bool = False


def need_optuna() -> Any:
    """Return the module optuna; without it, say how to install it."""
    try:
        import optuna
    except ImportError as error:
        raise ConfigError(
            "tuning needs the package optuna, which is not installed: run pip install 'silobench[tune]'."
        ) from error
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    return optuna


def grid_size(space: Space) -> int:
    """Return the number of points of a grid; a range without steps has none, and is refused."""
    for key, each in space.items():
        if not each.values:
            raise ConfigError(
                f"the sampler grid needs a list of values for {key}, but its range is {each.text()}: give a list, or "
                "a range with a step, or use --sampler tpe."
            )
    return math.prod(len(each.values) for each in space.values())


def suggestion(
    definition: Definition, cell: Mapping[str, Any], number: int, earlier: Sequence[Observation], is_higher_better: bool
) -> dict[str, Value] | None:
    """Return the values of a trial above 0; None if a grid has no further point.

    `cell` has all choices of the experiment, and `earlier` are the trials before this one, the defaults first.
    """
    if definition.sampler == "grid":
        return _grid_point(definition, cell, number, earlier[0].values)
    with _quiet():
        trial = _study(definition, number, earlier, is_higher_better).ask()
        values: dict[str, Value] = {}
        for key, each in definition.space.items():
            if is_active(applied(cell, values), key):
                values[key] = _drawn(trial, key, each)
        return values


def _grid_point(
    definition: Definition, cell: Mapping[str, Any], number: int, defaults: Mapping[str, Value]
) -> dict[str, Value] | None:
    """Return a point of the grid, in the order of its lists; the defaults, which are trial 0, are not tried twice."""
    grid_size(definition.space)
    keys, points = list(definition.space), []
    for values in itertools.product(*(each.values for each in definition.space.values())):
        point = dict(zip(keys, values, strict=True))
        active = {key: value for key, value in point.items() if is_active(applied(cell, _whole(point)), key)}
        if active not in points and active != dict(defaults):
            points.append(active)
    return points[number - 1] if number <= len(points) else None


def _whole(values: Mapping[str, Value]) -> dict[str, Value]:
    return {key: value for key, value in values.items() if "." not in key}


def is_hopeless(
    definition: Definition, number: int, by_rung: Mapping[int, float], finished: Sequence[Observation], higher: bool
) -> bool:
    """Whether a trial is to be given up: at its last rung, its best score is below the median of finished trials."""
    with _quiet():
        trial = _study(definition, number, finished, higher).ask()
        for rung, score in by_rung.items():
            trial.report(_finite(score), rung)
        return bool(trial.should_prune())


def _study(definition: Definition, number: int, earlier: Sequence[Observation], is_higher_better: bool) -> Any:
    """Return an Optuna study in memory with the earlier trials, whose sampler is seeded for this one."""
    optuna = need_optuna()
    seed = int(stream(definition.seed, "tuning", round=number).integers(2**31))
    samplers = {
        "tpe": lambda: optuna.samplers.TPESampler(n_startup_trials=_RANDOM_TRIALS, constant_liar=True, seed=seed),
        "random": lambda: optuna.samplers.RandomSampler(seed=seed),
    }
    study = optuna.create_study(
        direction="maximize" if is_higher_better else "minimize",
        sampler=samplers.get(definition.sampler, samplers["random"])(),
        pruner=optuna.pruners.MedianPruner(n_startup_trials=_UNPRUNED),
    )
    study.add_trials([_frozen(each, definition.space) for each in earlier])
    return study


def _frozen(seen: Observation, space: Space) -> Any:
    """Return an earlier trial as Optuna stores it; values outside the space, which defaults may have, are left out."""
    optuna = need_optuna()
    states = optuna.trial.TrialState
    state = states.RUNNING if seen.score is None else states.PRUNED if seen.is_pruned else states.COMPLETE
    values = {key: value for key, value in seen.values.items() if key in space and value in space[key]}
    return optuna.trial.create_trial(
        state=state,
        value=None if seen.score is None or seen.is_pruned else _finite(seen.score),
        params=values,
        distributions={key: _distribution(space[key]) for key in values},
        intermediate_values={rung: _finite(score) for rung, score in seen.by_rung.items()},
    )


def _distribution(each: Range) -> Any:
    distributions = need_optuna().distributions
    if isinstance(each, Choices):
        return distributions.CategoricalDistribution(each.values)
    if each.is_whole:
        return distributions.IntDistribution(each.low, each.high, log=each.is_log, step=each.step or 1)
    return distributions.FloatDistribution(each.low, each.high, log=each.is_log, step=each.step)


def _drawn(trial: Any, key: str, each: Range) -> Value:
    if isinstance(each, Choices):
        return trial.suggest_categorical(key, each.values)  # type: ignore[no-any-return]
    if each.is_whole:
        return int(trial.suggest_int(key, each.low, each.high, step=each.step or 1, log=each.is_log))
    number = float(trial.suggest_float(key, each.low, each.high, step=each.step, log=each.is_log))
    return each.near(number) if each.step else _within(each, rounded(number))


def _within(each: Interval, number: float) -> float:
    """Return a number that rounding may have moved out of its range."""
    return float(min(max(number, each.low), each.high))


def _finite(score: float) -> float:
    return max(-_WORST, min(_WORST, score))


@contextmanager
def _quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # experimental arguments of Optuna
        yield
