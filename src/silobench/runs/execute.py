"""One plan into its run directory: load, cut and build, then round by round."""

from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from silobench.data import Dataset, load
from silobench.engines import ENGINES, Engine
from silobench.errors import ConfigError, DataError
from silobench.federation import federate
from silobench.loop.network import NETWORKS, Network
from silobench.loop.rounds import beginning, check_cohort, rounds, steering
from silobench.measures import MEASURES, Course, Measure, measured
from silobench.method.algorithms import ALGORITHMS
from silobench.method.control import Controller
from silobench.method.controllers import CONTROLLERS
from silobench.method.method import Method
from silobench.method.selection import SELECTIONS, Selection, cohort_size
from silobench.method.servers import SERVERS
from silobench.method.solvers import SOLVERS
from silobench.method.transforms import bind_chain
from silobench.partitions import Sharing, measure, sharing
from silobench.partitions.measures import count, emd_weighted
from silobench.runs.experiment import Plan
from silobench.runs.starts import STARTS, digest_of, started, warmed_up
from silobench.runs.stored import interrupted_versions, read_run
from silobench.runs.writer import open_run, versions
from silobench.tasks.task import task
from silobench.training.setting import Setting
from silobench.training.state import RoundRecord, State
from silobench.training.stopwatch import Stopwatch

_SKEWED = 0.5  # weighted earth mover's distance of labels above which averaged statistics describe no party


@dataclass(frozen=True)
class Ready:
    """A plan with its objects built, before its first round."""

    plan: Plan
    dataset: Dataset
    setting: Setting
    controller: Controller
    network: Network
    selection: Selection
    measures: dict[str, Measure]
    sharing: Sharing | None
    seconds: float  # that this took

    def facts(self) -> dict[str, Any]:
        """What run.json says of a run besides its origin and status."""
        train, federation = self.dataset.train, self.setting.federation
        partition = federation.partition
        return {
            "id": self.plan.id,
            "config": self.plan.config,
            "label": self.plan.label,
            "created": self.plan.created,
            "dataset": {
                "name": self.dataset.name,
                "task": self.dataset.task,
                "checksum": self.dataset.checksum,
                "train": len(train),
                "test": len(self.dataset.test),
                "classes": list(self.dataset.classes),
                "licence": self.dataset.licence,
                "notes": list(self.dataset.notes),
            },
            "partition": {
                "fingerprint": partition.fingerprint,
                "parties": [party.name for party in federation.parties],
                **measure(partition, self.dataset).as_json(),
                **({"notes": list(partition.notes)} if partition.notes else {}),
                **({"shared": self.sharing.as_json()} if self.sharing else {}),
            },
            "parameters": self.setting.task.network.layout.size,
            **({"warnings": list(self.warnings)} if self.warnings else {}),
        }

    @property
    def notes(self) -> tuple[str, ...]:
        """What a person should know of this run before its first round."""
        return (*self.dataset.notes, *self.setting.federation.partition.notes, *self.warnings)

    @cached_property
    def warnings(self) -> tuple[str, ...]:
        """Choices that are known not to go together."""
        setting, train = self.setting, self.dataset.train
        if setting.buffers != "average" or not setting.task.buffers.numel() or setting.method.algorithm.pooled:
            return ()
        distance = emd_weighted(count(setting.federation.partition, train.y, len(self.dataset.classes)))
        if distance <= _SKEWED:
            return ()
        return (
            f"{self.plan.cell.model} averages BatchNorm statistics over parties whose labels differ (weighted EMD "
            f"{distance:.2f}), and the mean fits none of them (NIID-Bench, finding 11): use norm=group, buffers=local "
            "or fedbn.",
        )


def prepare(made: Plan, dataset: Dataset | None = None) -> Ready:
    """Load, cut and build; every error a configuration can cause comes before round 0."""
    watch = Stopwatch()
    cell, dataset = made.cell, dataset or load(made.cell.dataset)
    if dataset.checksum != made.config["checksum"]:
        raise DataError(
            f"{cell.dataset} has changed since this experiment was planned: run it again to use it as it is."
        )
    federation = federate(dataset, cell.partition, cell.parties, cell.seed, cell.validation)
    cohort = cohort_size(len(federation.parties), cell.participation)
    method = Method(
        ALGORITHMS.build(cell.algorithm),
        SOLVERS.build(cell.solver),
        tuple(transform.build() for transform in bind_chain(cell.transforms)),
        SERVERS.build(cell.server),
        buffers=cell.buffers,
    )
    setting = Setting(method, federation, task(cell.model, dataset, cell.seed), cell.seed)
    setting = started(setting, STARTS.build(cell.start).path)
    controller, network = CONTROLLERS.build(cell.controller), NETWORKS.build(cell.network)
    check_cohort(method, cohort, len(federation.parties))
    steering(controller, method)  # refuses a method that it cannot steer
    watch.lap("data")
    selection, shared = SELECTIONS.build(cell.selection), sharing(federation.partition, dataset)
    measures = _measures(cell.measure, setting, cohort)
    return Ready(made, dataset, setting, controller, network, selection, measures, shared, watch.laps["data"])


def _measures(asked: Sequence[str], setting: Setting, cohort: int) -> dict[str, Measure]:
    """By name; refused are one that cannot be had of this run, and the same one twice."""
    found: dict[str, Measure] = {}
    for spec in map(MEASURES.bind, asked):
        if spec.full.name in found:
            raise ConfigError(f"measure has {spec.full.name} twice: ask for it once.")
        found[spec.full.name] = spec.build()
        found[spec.full.name].check(setting, cohort)
    return found


def engine_of(ready: Ready, out: Path, engine: str | Engine) -> Engine:
    """The engine for a plan, settled; a run that is under way goes on as it was begun."""
    chosen = ENGINES.build(engine) if isinstance(engine, str) else engine
    return chosen.settled(ready.setting, interrupted_versions(out / ready.plan.id).get("engine"))


def execute(ready: Ready, out: Path, engine: str | Engine = "auto") -> Generator[RoundRecord]:
    """Run a plan into ``out/<id>``, going on where it stopped; yields the rounds that were still missing.

    Close it to stop: what is not yet on disk is then committed, and a disk that refuses is heard.
    """
    watch, chosen = Stopwatch(), engine_of(ready, out, engine)
    with open_run(out / ready.plan.id, {**versions(), **chosen.made_by}, ready.facts) as run:
        if run.complete:
            return
        setting, told = warmed_up(_at_its_start(ready, out), chosen)
        watch.lap("data")
        between = {"data": ready.seconds + watch.laps["data"], "record": 0.0}
        for record in _records(ready, setting, chosen, run.state, told):
            watch.lap("round")
            timed = replace(record, seconds={**between, **record.seconds})
            run.append(timed)
            yield timed
            watch.lap("record")  # of this round, told with the next
            between = {"data": 0.0, "record": watch.laps["record"]}
        run.finish()


def _at_its_start(ready: Ready, out: Path) -> Setting:
    """With the model of the run that was made first, where there is such."""
    origin = ready.plan.origin
    if origin is None:
        return ready.setting
    digest_of(out / origin.id)  # refuses one that is not finished
    return started(ready.setting, out / origin.id)


def _records(
    ready: Ready, setting: Setting, engine: Engine, state: State | None, told: Mapping[str, Any]
) -> Iterator[RoundRecord]:
    """The rounds still missing, measured; the first tells what came before it: the warm-up, bytes of shared rows."""
    cell, method, federation = ready.plan.cell, setting.method, setting.federation
    shared = None if method.algorithm.pooled else ready.sharing
    took = ready.network.seconds(shared.largest, 0) if shared else 0.0
    records = rounds(
        method,
        federation,
        setting.task,
        seed=cell.seed,
        rounds=cell.rounds,
        participation=cell.participation,
        selection=ready.selection,
        eval_every=cell.eval_every,
        eval_on=cell.eval_on,
        engine=engine,
        controller=ready.controller,
        network=ready.network,
        state=state or (beginning(method, federation, setting.task, took) if shared else None),
    )
    if ready.measures:
        course = Course(setting, cell.rounds, cell.participation, cell.eval_every, cell.eval_on, engine)
        records = measured(records, ready.measures, course, state)
    for record in records:
        before = shared.bytes if shared and record.round == 1 else 0
        said = told if record.round == 1 else {}
        yield replace(record, bytes_down=record.bytes_down + before, measures={**said, **record.measures})


def check_origin(made: Plan, out: Path) -> None:
    """Refuse a run that begins at the model of another which was made, but whose model is gone."""
    if made.origin and is_complete(made.origin, out):
        digest_of(out / made.origin.id)


def is_complete(made: Plan, out: Path) -> bool:
    """Whether a plan's directory is there and finished; a damaged one is refused."""
    path = out / made.id
    return (path / "run.json").exists() and read_run(path).complete
