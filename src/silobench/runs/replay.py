"""Repetition of stored runs: each is planned from its record, trained again, and compared round by round.

An edit of a metric, a round, a configuration or a seed is found here even if all digests were computed anew: the
repetition starts from the configuration, and the numbers that follow from it are not in anybody's hands.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal, TypeAlias

from silobench.engines import ENGINES, Engine
from silobench.errors import AbsentError, ConfigError, SilobenchError
from silobench.models.devices import facts_of
from silobench.models.module_file import code_file
from silobench.runs.agreement import of_configuration, same_bits, shift, within_band
from silobench.runs.archive import is_archive, records_of
from silobench.runs.execute import execute
from silobench.runs.experiment import load_plugin
from silobench.runs.label import Label
from silobench.runs.plan import Binder, Plan
from silobench.runs.prepare import prepare
from silobench.runs.reproduction import experiment_choices
from silobench.runs.runnable import Runnable
from silobench.runs.stored import StoredRun, read_json, sha256
from silobench.runs.versions import gives_same_bits, versions
from silobench.training.state import RoundRecord

Way: TypeAlias = Literal["bits", "band", "configuration"]
_STATIC = ("dataset", "partition", "objective", "parameters", "malicious", "vertical")  # facts that a plan decides
# Errors of choices that were written by hand: silobench writes none that cannot be planned.
_UNRUNNABLE = (SilobenchError, TypeError, ValueError, AttributeError, KeyError)
_NOISY = ("solver", "transforms", "selection", "algorithm")  # keys whose parts may draw secret numbers


@dataclass(frozen=True)
class Repetition:
    """The repetition of a stored run, as far as it went."""

    run: StoredRun
    problem: str  # the first difference, as a sentence; empty if there is none
    way: Way  # how numbers were compared: to the bit, within a band, or only what follows from the configuration
    rounds: int  # that were repeated
    differs_in: tuple[str, ...] = ()  # facts of the environment
    shift: float | None = None  # of the last score within bands: stored minus repeated

    @property
    def is_whole(self) -> bool:
        """Whether every round was repeated."""
        return self.rounds == len(self.run.rounds)


def repeat(
    run: StoredRun,
    rounds: int | None = None,
    plugins: Sequence[Path] = (),
    report: Callable[[int], object] = lambda number: None,
    trusted: Sequence[Path] = (),
) -> Repetition:
    """Repeat a stored run and compare it, up to some round or to its end; `report` gets each round's number.

    Files that a run names as code are executed only if they are among the trusted ones.
    """
    facts, rows = stored_json(run)
    try:
        plan, problem = _planned(run, plugins, trusted)
        if plan is None:
            return Repetition(run, problem, "bits", 0)
        runnable = prepare(plan)
    except AbsentError:
        raise  # the data can be fetched
    except _UNRUNNABLE as error:
        return Repetition(run, f"its choices cannot be run: {error}", "bits", 0)
    engine = _engine(runnable, run)
    environment = {**versions(), **engine.environment, **facts_of(runnable.plan.cell.device)}
    differs = _differences(environment, run.facts.environment)
    way: Way = "configuration" if has_secret_noise(run.config) else "band" if differs else "bits"
    done = Repetition(run, _static_problem(facts, runnable), way, 0, differs)
    if done.problem:
        return done
    with TemporaryDirectory(prefix="silobench-") as folder:
        return _compared(done, rows[:rounds], _records(runnable, engine, Path(folder)), facts, report)


def stored_json(run: StoredRun) -> tuple[Mapping[str, Any], list[dict[str, Any]]]:
    """Return run.json and the rows of rounds.jsonl, as they are stored in a directory or an archive."""
    if not is_archive(run.path.parent):
        return read_json(run.path)
    record = next(record for record in records_of(run.path.parent) if record.id == run.facts.id)
    return record.facts, [json.loads(line) for line in record.lines.splitlines()]


def has_secret_noise(config: Label) -> bool:
    """Whether a run drew random numbers that nobody can draw again: noise or samples of differential privacy.

    >>> has_secret_noise(Label({"solver": "dp-sgd(noise=1.0, reproducible=False)"}))
    True
    >>> has_secret_noise(Label({"solver": "sgd(lr=0.1)", "selection": "poisson"}))
    True
    """
    specs = [spec for key in _NOISY if config.text(key) for spec in _terms(config, key)]
    stated = [(spec.name, dict(spec.kwargs).get("reproducible")) for spec in specs]
    return any(value is False or (name == "poisson" and value is None) for name, value in stated)


def _terms(config: Label, key: str) -> tuple[Any, ...]:
    parsed = getattr(config, key)
    return parsed if isinstance(parsed, tuple) else (parsed,)


# --- from a record to a plan --------------------------------------------------------------------------


def _planned(run: StoredRun, plugins: Sequence[Path], trusted: Sequence[Path]) -> tuple[Plan | None, str]:
    """Plan a run from its label; return a sentence instead if that is not the run of its configuration."""
    used = run.config.get("plugins", ())
    extra = {"plugins": [load_plugin(path) for path in plugins]} if plugins and used else {}
    if missing := sorted(set(used) - set(extra.get("plugins", ()))):
        raise AbsentError(f"{run.path.name} used the plugin {missing[0]}, which is not here: add --plugin FILE for it.")
    choices = experiment_choices(run.label)
    _need_trust(run, str(choices.get("model", "")), trusted)
    plan = Binder(extra).bind(choices)
    if plan.config["checksum"] != run.config.get("checksum"):
        return None, "its data are not those on this machine, by their checksum"
    if plan.id != run.facts.id:
        names = [key for key in (*plan.config, *run.config) if plan.config.get(key) != run.config.get(key)]
        return None, f"its label and its configuration are of different runs ({', '.join(dict.fromkeys(names))})"
    return plan, ""


def _need_trust(run: StoredRun, model: str, trusted: Sequence[Path]) -> None:
    """Refuse a model that is a file of code, unless whoever checks trusts the file. No other spec runs a file."""
    file = code_file(model) if model else ""
    if file and Path(file).resolve() not in {path.resolve() for path in trusted}:
        raise AbsentError(
            f"{run.path.name} takes its model from {file}, and a check would execute that file: read it, then add "
            f"--trust {file} if it does no harm."
        )


def _static_problem(facts: Mapping[str, Any], runnable: Runnable) -> str:
    """Return which fact of run.json is not what the plan gives; keys that an earlier version lacks are not compared."""
    planned = json.loads(json.dumps(runnable.facts()))
    for name in _STATIC:
        stored = facts.get(name)
        if stored is not None and not _agrees(stored, planned.get(name)):
            return f"its {name} is not the one that its configuration gives"
    return ""


def _agrees(stored: Any, planned: Any) -> bool:
    if isinstance(stored, dict) and isinstance(planned, dict):
        return all(key in planned and _agrees(value, planned[key]) for key, value in stored.items())
    if isinstance(stored, float) and isinstance(planned, float):
        return abs(stored - planned) <= 1e-6 * max(1.0, abs(planned))  # sums of floats on another processor
    if isinstance(stored, list) and isinstance(planned, list):
        return len(stored) == len(planned) and all(map(_agrees, stored, planned))
    return bool(stored == planned)


def _engine(runnable: Runnable, run: StoredRun) -> Engine:
    """Return the engine that the run was trained with; if this machine does not have it, the first possible one."""
    try:
        return runnable.settled(ENGINES.build("auto(workers=1)"), run.facts.environment.get("engine"))
    except ConfigError:
        return runnable.settled(ENGINES.build("auto(workers=1)"), None)


def _differences(here: Mapping[str, str], there: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(name for name, value in here.items() if not gives_same_bits(name, value, there.get(name)))


# --- rounds -------------------------------------------------------------------------------------------


def _records(runnable: Runnable, engine: Engine, folder: Path) -> Iterator[RoundRecord]:
    """Yield the rounds of a run; the run that it starts from is made first."""
    if runnable.plan.origin:
        for _ in execute(prepare(runnable.plan.origin), folder, engine):
            pass
    yield from runnable.records(engine, folder, None)


def _compared(
    done: Repetition,
    rows: Sequence[Mapping[str, Any]],
    records: Iterator[RoundRecord],
    facts: Mapping[str, Any],
    report: Callable[[int], object],
) -> Repetition:
    last, gain = None, None
    for number, row in enumerate(rows, 1):
        last = next(records, None)
        if last is None:
            return _with(done, f"it has {len(rows)} rounds, and {number - 1} if it is repeated", number - 1)
        report(number)
        repeated = json.loads(json.dumps(last.as_json()))
        try:
            problem = _problem(row, repeated, done)
            gain = gain if (latest := shift(row, repeated, done.run.metric)) is None else latest
        except (TypeError, ValueError, AttributeError):
            problem = "it has values of another type than silobench writes"
        if problem:
            return _with(done, f"round {number}: {problem}", number)
    is_whole = len(rows) == len(done.run.rounds)
    if is_whole and next(records, None) is not None:
        return _with(done, f"it has {len(rows)} rounds, and more if it is repeated", len(rows))
    if is_whole and last is not None and done.way == "bits" and _model_differs(facts, last):
        return _with(done, "its model_sha256 is not that of the repeated run", len(rows))
    return replace(_with(done, "", len(rows)), shift=gain if done.way == "band" else None)


def _problem(row: Mapping[str, Any], repeated: Mapping[str, Any], done: Repetition) -> str:
    if done.way == "bits":
        return same_bits(row, repeated)
    if done.way == "band":
        return within_band(row, repeated, done.run.metric)
    return of_configuration(row, repeated, done.run.metric)


def _model_differs(facts: Mapping[str, Any], last: RoundRecord) -> bool:
    digest = sha256(last.state.server.params.numpy().tobytes())
    return bool(facts.get("model_sha256", digest) != digest)


def _with(done: Repetition, problem: str, rounds: int) -> Repetition:
    return replace(done, problem=problem, rounds=rounds)
