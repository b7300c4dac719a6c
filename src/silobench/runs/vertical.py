"""Vertical learning: parties hold different columns of the same rows. Columns dealt, networks and method built."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from silobench.data import Dataset, load
from silobench.data.splits import pooled_split
from silobench.engines import Engine
from silobench.errors import ConfigError, listed
from silobench.loop.clocks import CLOCKS
from silobench.loop.network import NETWORKS
from silobench.method.solvers import SOLVERS
from silobench.method.transforms import bind_chain
from silobench.method.types import Transform
from silobench.partitions.columns import notes_for_columns
from silobench.runs.description import dataset_facts, need_same_data, with_metrics
from silobench.runs.keys import keys_of
from silobench.runs.plan import Cell, Plan
from silobench.runs.runnable import Kind
from silobench.tasks.metrics import Metric
from silobench.tasks.objectives import OBJECTIVES
from silobench.tasks.row_format import RowFormat
from silobench.training.state import RoundRecord, State
from silobench.training.stopwatch import Stopwatch
from silobench.vertical.federation import ALIGNED, VerticalFederation, federate_columns
from silobench.vertical.leaks import VERTICAL_MEASURES, LeakMeasure
from silobench.vertical.mask import mask_check
from silobench.vertical.methods import VERTICAL_ALGORITHMS, VerticalMethod, VerticalProblem
from silobench.vertical.networks import VERTICAL_MODELS
from silobench.vertical.rounds import check_rounds, run_vertical

# Keys that say how parties with rows work together.
_FOR_ROWS = (
    "participation", "selection", "server", "buffers", "start", "controller", "exchange", "aggregate", "availability",
    "pace", "adversary", "device",
)  # fmt: skip


@dataclass(frozen=True)
class VerticalRun:
    """A run of vertical learning with its objects built, before its first round: a `Runnable`."""

    plan: Plan
    dataset: Dataset
    federation: VerticalFederation  # with all parties, also for a baseline
    method: VerticalMethod
    problem: VerticalProblem
    seconds: float  # spent on preparing

    @property
    def metric(self) -> Metric:
        return self.problem.objective.main

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences to show before the first round."""
        of_run = (*self._mask_note, *self._measure_note, *self.method.notes(self.problem))
        return (*notes_for_columns(self.dataset), *self.federation.deal.notes, *of_run)

    @cached_property
    def mask(self) -> dict[str, Any]:
        """The score of a model that sees only which party has a row; empty if every party has every row."""
        return mask_check(self.federation, self.problem.objective)

    @property
    def _mask_note(self) -> tuple[str, ...]:
        if not self.mask:
            return ()
        score, constant = (self.metric.text(self.mask[name]) for name in ("score", "constant"))
        return (
            f"the {self.metric.title} of a model that sees only which party has a row is {score}, and that of one "
            f"answer to all rows is {constant}: a large difference means that absence tells about the label",
        )

    @property
    def _measure_note(self) -> tuple[str, ...]:
        if not self.problem.measures or self.method.has_cut(self.problem):
            return ()
        names, algorithm = listed(list(self.problem.measures)), self.plan.label.get("algorithm", "split")
        return (f"{names} cannot be measured with {algorithm}: no activations cross between parties",)

    def facts(self) -> dict[str, Any]:
        """Return the content of run.json, without versions and status, and that of encoder.json."""
        federation = self.federation
        judged = replace(self.dataset, test=self.dataset.test.take(federation.test_sets[ALIGNED].numpy()))
        described = replace(self.dataset, notes=notes_for_columns(self.dataset))
        return {
            "id": self.plan.id,
            "config": self.plan.config,
            "label": self.plan.label,
            "created": self.plan.created,
            "dataset": dataset_facts(self.plan, described),
            "encoder": RowFormat.of(self.dataset).encoder_json(),
            "partition": {
                "fingerprint": federation.deal.fingerprint,
                "parties": list(federation.names),
                **({"notes": list(federation.deal.notes)} if federation.deal.notes else {}),
            },
            "vertical": {
                **federation.facts(),
                **({"mask": self.mask} if self.mask else {}),
                **self.method.facts(self.problem),
            },
            # Metrics are those of rows that every party has, and so are those of a constant answer.
            "objective": self.problem.objective.as_json(str(self.plan.label.get("objective", "auto")), judged),
            "parameters": self.method.trainer(self.problem).size,
        }

    def on_whole_rows(self, state: State) -> nn.Module:
        """Return the trained model as a function of the features of rows that every party has."""
        parties = len(self.problem.federation.deal)
        return _OnWholeRows(self.method.trainer(self.problem).module(state), parties)

    def settled(self, engine: Engine, previous: str | None) -> Engine:
        return Engine(("inline",), is_debug=engine.is_debug)

    def records(self, engine: Engine, out: Path, state: State | None) -> Iterator[RoundRecord]:
        return run_vertical(self.problem, self.method, state)


class _OnWholeRows(nn.Module):
    """A model of the joint input, for rows that every party has."""

    def __init__(self, module: nn.Module, parties: int):
        super().__init__()
        self.module, self.parties = module, parties

    def forward(self, x: Tensor) -> Tensor:
        features = (x.to_dense() if x.is_sparse_csr else x).flatten(1)
        flags = torch.ones_like(features[:, :1]).expand(-1, self.parties)
        return self.module(torch.cat([features, flags], dim=1))  # type: ignore[no-any-return]


def prepare(plan: Plan, dataset: Dataset | None = None) -> VerticalRun:
    """Load the data and deal the columns, build the networks and the method; every error comes before round 0."""
    watch, cell, dataset = Stopwatch(), plan.cell, dataset or load(plan.cell.dataset)
    _need_default_keys(plan)
    need_same_data(plan, dataset)
    dataset = pooled_split(dataset, cell.split, cell.seed)
    federation = federate_columns(dataset, cell.partition, cell.parties, cell.seed, cell.validation)
    method = VERTICAL_ALGORITHMS.build(cell.algorithm)
    problem = VerticalProblem(
        method.restricted(federation),
        VERTICAL_MODELS.build(cell.model),
        SOLVERS.build(cell.solver),
        with_metrics(OBJECTIVES.build(cell.objective)(dataset), cell, dataset),
        NETWORKS.build(cell.network),
        CLOCKS.build(cell.clock),
        cell.seed,
        cell.rounds,
        _chain(cell.transforms),
        _chain(cell.broadcast),
        cell.eval_every,
        cell.eval_on,
        _measures(cell),
    )
    method.check(problem)
    check_rounds(problem, len(federation.deal))
    watch.lap("data")
    return VerticalRun(plan, dataset, federation, method, problem, watch.laps["data"])


def _chain(text: str) -> tuple[Transform, ...]:
    return tuple(transform.build() for transform in bind_chain(text))


def _measures(cell: Cell) -> dict[str, LeakMeasure]:
    measures: dict[str, LeakMeasure] = {}
    for spec in cell.measure:
        name = VERTICAL_MEASURES.bind(spec).full.name
        if name in measures:
            raise ConfigError(f"measure has {name} twice: ask for it once.")
        measures[name] = VERTICAL_MEASURES.build(spec)
    return measures


def _need_default_keys(plan: Plan) -> None:
    """Refuse choices that have no meaning where parties hold columns."""
    for key in _FOR_ROWS:
        default = Cell.model_fields[key].default
        choice = plan.label.get(key, default)  # without arguments that have their default
        if choice != default:
            raise ConfigError(
                f"{key} = {choice!r} is for parties that hold rows, but {plan.label['partition']} deals columns: leave "
                f"{key} out."
            )


def _claims(cell: Cell) -> bool:
    return keys_of(cell.partition).is_vertical


VERTICAL = Kind("vertical", _claims, prepare)
