"""Horizontal learning: parties hold different rows with the same columns. Data cut, network and method built."""

import functools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias

from silobench.data import Dataset, load
from silobench.data.splits import pooled_split, split_rule
from silobench.engines import Engine
from silobench.errors import ConfigError
from silobench.federation import Federation, federate
from silobench.loop.advice import advice
from silobench.loop.clocks import CLOCKS
from silobench.loop.exchanges import EXCHANGES
from silobench.loop.loop import run_rounds
from silobench.loop.network import NETWORKS
from silobench.loop.paces import PACES
from silobench.loop.prelude import with_prelude
from silobench.loop.privacy import Privacy
from silobench.loop.privacy_warnings import privacy_warnings
from silobench.loop.schedule import Schedule
from silobench.measures import MEASURES, Measure, measured, planted
from silobench.method.adversaries import ADVERSARIES
from silobench.method.aggregates import AGGREGATES
from silobench.method.algorithms import ALGORITHMS
from silobench.method.availability import AVAILABILITIES
from silobench.method.controllers import CONTROLLERS
from silobench.method.method import Method
from silobench.method.selection import SELECTIONS
from silobench.method.servers import SERVERS
from silobench.method.solvers import SOLVERS
from silobench.method.transforms import bind_chain
from silobench.method.types import Transform
from silobench.models.devices import type_of
from silobench.partitions import Sharing, measure, sharing
from silobench.partitions.measures import count, emd_weighted
from silobench.runs.description import dataset_facts, need_same_data, with_metrics
from silobench.runs.notices import reported
from silobench.runs.plan import Cell, Plan
from silobench.runs.runnable import Kind, Runnable
from silobench.runs.starts import STARTS, Start, digest_of, started
from silobench.spec import Registry
from silobench.tasks.metrics import Metric
from silobench.tasks.objectives import is_uneven, largest_share, uneven_metrics
from silobench.tasks.row_format import RowFormat
from silobench.tasks.task import Task, task
from silobench.training.setting import Setting
from silobench.training.state import RoundRecord, State
from silobench.training.stopwatch import Stopwatch

_SKEWED = 0.5  # weighted earth mover's distance of labels above which averaged statistics fit no party
_Build: TypeAlias = Callable[[Registry[Any], str], Any]


@dataclass(frozen=True)
class HorizontalRun:
    """A run of horizontal learning with its objects built, before its first round: a `Runnable`."""

    plan: Plan
    dataset: Dataset
    schedule: Schedule  # without its engine
    measures: dict[str, Measure]
    seconds: float  # spent on preparing

    @property
    def setting(self) -> Setting:
        return self.schedule.setting

    @property
    def metric(self) -> Metric:
        return self.setting.task.objective.main

    def settled(self, engine: Engine, previous: str | None) -> Engine:
        return engine.settled(self.setting, previous)

    def records(self, engine: Engine, out: Path, state: State | None) -> Iterator[RoundRecord]:
        """Yield the rounds that remain after `state`, with what the measures find."""
        schedule = self.ready(engine, out)
        records = run_rounds(schedule, state)
        return measured(records, self.measures, schedule, state) if self.measures else records

    def ready(self, engine: Engine, out: Path) -> Schedule:
        """Return the schedule of the rounds: with its engine, its initial model, and after what precedes round 1."""
        return with_prelude(replace(self.schedule, setting=self._with_start_model(out), engine=engine))

    def _with_start_model(self, out: Path) -> Setting:
        """Return the setting with the model of the run that was made first, if there is one."""
        origin = self.plan.origin
        if origin is None:
            return self.setting
        digest_of(out / origin.id)  # refuses a run that is not finished
        return started(self.setting, out / origin.id)

    def facts(self) -> dict[str, Any]:
        """Return the content of run.json, without versions and status, and that of encoder.json."""
        return {
            "id": self.plan.id,
            "config": self.plan.config,
            "label": self.plan.label,
            "created": self.plan.created,
            "dataset": dataset_facts(self.plan, self.dataset),
            "encoder": RowFormat.of(self.dataset).encoder_json(),
            "partition": self.partition_facts(),
            "objective": self.setting.task.objective.as_json(
                str(self.plan.label.get("objective", "auto")), self.dataset
            ),
            **({"malicious": sorted(self.setting.malicious)} if self.setting.malicious else {}),
            "parameters": self.setting.task.network.layout.size,
            **({"warnings": list(self.warnings)} if self.warnings else {}),
        }

    def partition_facts(self) -> dict[str, Any]:
        """Return the field `partition` of run.json: who has which rows, in numbers."""
        federation = self.setting.federation
        partition = federation.partition
        return {
            "fingerprint": partition.fingerprint,
            "parties": [party.name for party in federation.parties],
            **measure(partition, self.dataset).as_json(),
            **({"notes": list(partition.notes)} if partition.notes else {}),
            **({"shared": self.sharing.as_json()} if self.sharing else {}),
        }

    @cached_property
    def sharing(self) -> Sharing | None:
        """The rows that parties share; None where they share none."""
        return sharing(self.setting.federation.partition, self.dataset)

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences to show before the first round."""
        partition = self.setting.federation.partition
        task = self.setting.task
        return (
            *self.dataset.notes,
            *task.notes,
            *self._advice,
            *self._penalty,
            *partition.notes,
            *self._no_effect,
            *self.warnings,
        )

    @property
    def _penalty(self) -> tuple[str, ...]:
        """A note about the penalty of an estimator, if the solver's weight decay is another one."""
        decay, solver = self.setting.task.weight_decay, self.setting.solver
        if decay is None or math.isclose(decay, solver.weight_decay, rel_tol=1e-3, abs_tol=1e-12):
            return ()
        return (
            f"the penalty of {self.plan.cell.model} is a weight decay of {decay:.6g}, but that of the solver is "
            f"{solver.weight_decay:g}: write weight_decay={decay:.6g} in solver to have it",
        )

    @property
    def _no_effect(self) -> tuple[str, ...]:
        """Notes about choices that have no effect."""
        cell = self.plan.cell
        is_star = "exchange" in cell.model_fields_set and cell.exchange == "star"
        if not is_star or not self.schedule.network.mesh or self.setting.method.algorithm.silent:
            return advice(self.schedule)
        note = "network = mesh lets parties send to each other, so exchange = star has no effect: leave one of them out"
        return (note, *advice(self.schedule))

    @property
    def _advice(self) -> tuple[str, ...]:
        """A note about metrics for uneven classes, if the objective was left to silobench."""
        objective, dataset = self.setting.task.objective, self.dataset
        if self.plan.cell.objective != "auto" or not is_uneven(dataset):
            return ()
        constant = objective.constants(dataset)[objective.main.name]
        names = [each.metric.title for each in uneven_metrics(dataset)]
        return (
            f"{largest_share(dataset):.0%} of the training rows of {dataset.name} are of one class, and always "
            f"answering '{objective.constant_answer(dataset)}' has an accuracy of {objective.main.text(constant)}: the "
            f"last round also reports {', '.join(names[:-1])} and {names[-1]}",
        )

    @cached_property
    def warnings(self) -> tuple[str, ...]:
        """Sentences about choices that are known not to work well together, or that weaken privacy."""
        return (*self._averaged_statistics, *privacy_warnings(self.schedule), *self._repeated_use)

    @property
    def _repeated_use(self) -> tuple[str, ...]:
        """Warnings about runs that use the same rows, of which an epsilon counts only one."""
        runs = self.plan.private_runs
        if runs <= 1:
            return ()
        return (
            f"{runs} private runs of this experiment use the same rows, and each states its own epsilon: whoever "
            "publishes several of them, or chooses the best, spends more than that",
        )

    @property
    def _averaged_statistics(self) -> tuple[str, ...]:
        setting = self.setting
        if setting.buffers != "average" or not setting.task.buffers.numel() or setting.method.algorithm.pooled:
            return ()
        distance = emd_weighted(count(setting.federation.partition, self.dataset.codes, len(self.dataset.label_names)))
        if distance <= _SKEWED:
            return ()
        return (
            f"{self.plan.cell.model} averages BatchNorm statistics over parties whose labels differ (weighted EMD "
            f"{distance:.2f}), and the mean fits none of them (NIID-Bench, finding 11): use norm=group, buffers=local "
            "or fedbn.",
        )


def prepare(plan: Plan, dataset: Dataset | None = None) -> HorizontalRun:
    """Load and cut the data, build the network and the method; every error of a configuration comes before round 0."""
    watch, cell, dataset = Stopwatch(), plan.cell, dataset or load(plan.cell.dataset)
    need_same_data(plan, dataset)
    dataset = pooled_split(dataset, cell.split, cell.seed)
    return of_federation(plan, federate(dataset, cell.partition, cell.parties, cell.seed, cell.validation), watch)


def of_federation(plan: Plan, federation: Federation, watch: Stopwatch | None = None) -> HorizontalRun:
    """Build the network and the method for a federation, and put the run together."""
    cell, dataset = plan.cell, federation.dataset
    network = _with_metrics(task(cell.model, dataset, cell.seed, cell.objective), cell, dataset).to(cell.device)
    setting = Setting(_method(cell, _build), federation.to(type_of(cell.device)), network, cell.seed)
    return _assembled(plan, dataset, setting, _build, watch or Stopwatch())


def check(plans: Sequence[Plan], settle: Callable[[Runnable], Engine]) -> None:
    """Raise every error that would stop one of these runs before its first round; `settle` chooses an engine for it.

    Runs that share a partition or a network have it made once, and nothing is kept: each run is prepared where it
    runs. A network's seed does not matter here.
    """
    build = functools.cache(_build)
    data = functools.lru_cache(maxsize=1)(load)
    rows = functools.lru_cache(maxsize=1)(lambda dataset, split, seed: pooled_split(data(dataset), split, seed))
    cut = functools.lru_cache(maxsize=1)(lambda rows_of, *how: federate(rows(*rows_of), *how))
    network = functools.lru_cache(maxsize=1)(
        lambda rows_of, model, objective: task(model, rows(*rows_of), 0, objective)
    )
    for plan in reported(plans, "checking"):
        cell, rows_of = plan.cell, _rows_of(plan.cell)
        need_same_data(plan, data(cell.dataset))
        federation = cut(rows_of, cell.partition, cell.parties, cell.seed, cell.validation).to(type_of(cell.device))
        task_of_run = _with_metrics(network(rows_of, cell.model, cell.objective), cell, rows(*rows_of)).to(cell.device)
        setting = Setting(_method(cell, build), federation, task_of_run, cell.seed)
        settle(_assembled(plan, rows(*rows_of), setting, build, Stopwatch()))


def _with_metrics(task: Task, cell: Cell, dataset: Dataset) -> Task:
    """Return the task with the metrics that the cell adds."""
    return replace(task, objective=with_metrics(task.objective, cell, dataset))


def _rows_of(cell: Cell) -> tuple[str, str, int]:
    """Return what decides the rows of a run: dataset, split and, only if the split is drawn, the seed."""
    return cell.dataset, cell.split, cell.seed if split_rule(cell.split).is_drawn else 0


def _shared_work(plan: Plan) -> tuple[str, ...]:
    """A sort key that brings plans together whose data, network and partition are the same."""
    cell = plan.cell
    cut = (cell.partition, cell.parties, cell.seed, cell.validation)
    return tuple(map(repr, (*_rows_of(cell), cell.model, cell.objective, *cut)))


def _build(registry: Registry[Any], text: str) -> Any:
    return registry.build(text)


def _method(cell: Cell, build: _Build) -> Method:
    return Method(
        build(ALGORITHMS, cell.algorithm),
        build(SOLVERS, cell.solver),
        _chain(cell.transforms),
        build(SERVERS, cell.server),
        build(AGGREGATES, cell.aggregate),
        cell.buffers,
    )


def _chain(text: str) -> tuple[Transform, ...]:
    return tuple(transform.build() for transform in bind_chain(text))


def _assembled(plan: Plan, dataset: Dataset, setting: Setting, build: _Build, watch: Stopwatch) -> HorizontalRun:
    """Put a run together from its parts, and check that they go together."""
    cell = plan.cell
    start: Start = build(STARTS, cell.start)
    schedule = Schedule(
        started(setting, start.path),
        rounds=cell.rounds,
        participation=cell.participation,
        eval_every=cell.eval_every,
        eval_on=cell.eval_on,
        selection=build(SELECTIONS, cell.selection),
        controller=build(CONTROLLERS, cell.controller),
        network=build(NETWORKS, cell.network),
        exchange=build(EXCHANGES, cell.exchange),
        availability=build(AVAILABILITIES, cell.availability),
        pace=build(PACES, cell.pace),
        clock=build(CLOCKS, cell.clock),
        broadcast=_chain(cell.broadcast),
        adversary=build(ADVERSARIES, cell.adversary),
        is_pretrained=not start.is_random,
    )
    schedule.check()
    Privacy(schedule).check()
    measures = _measures(cell.measure, schedule, build)
    watch.lap("data")
    return HorizontalRun(plan, dataset, planted(schedule, measures), measures, watch.laps["data"])


def _measures(specs: Sequence[str], schedule: Schedule, build: _Build) -> dict[str, Measure]:
    """Return measures by name; refused are a measure that this run does not allow, and the same measure twice."""
    measures: dict[str, Measure] = {}
    for spec in specs:
        name = MEASURES.bind(spec).full.name
        if name in measures:
            raise ConfigError(f"measure has {name} twice: ask for it once.")
        measures[name] = build(MEASURES, spec)
        measures[name].check(schedule.setting, schedule.cohort)
        if reason := measures[name].refuses(schedule):
            raise ConfigError(reason)
    return measures


HORIZONTAL = Kind("horizontal", lambda cell: True, prepare, check, _shared_work)
