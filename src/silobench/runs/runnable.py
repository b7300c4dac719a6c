"""`Runnable`: anything that yields a record per round, and can so be planned, stored, resumed and shown."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from silobench.data import Dataset
from silobench.engines import Engine
from silobench.runs.plan import Cell, Plan
from silobench.tasks.metrics import Metric
from silobench.training.state import RoundRecord, State


class Runnable(Protocol):
    """A plan with its objects built and everything checked, before its first round."""

    @property
    def plan(self) -> Plan: ...

    @property
    def seconds(self) -> float:
        """Wall-clock time spent on preparing."""

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences to show before the first round."""

    @property
    def metric(self) -> Metric:
        """The metric that the run is judged by."""

    def facts(self) -> dict[str, Any]:
        """Return the content of run.json, without versions and status: at least the keys that `stored` needs.

        `encoder`, where there is one, is stored as encoder.json: how columns or arrays become the network's input.
        """

    def settled(self, engine: Engine, previous: str | None) -> Engine:
        """Return the engine with one mode: `previous` is that of an interrupted run, which continues as it started."""

    def records(self, engine: Engine, out: Path, state: State | None) -> Iterator[RoundRecord]:
        """Yield a record for every round after `state`; None starts at round 0. `out` has runs to start from."""


Settle = Callable[[Runnable], Engine]  # raises an error if no engine can run it


@dataclass(frozen=True)
class Kind:
    """A kind of learning: which cells it is for, and how it prepares their runs.

    `check` raises every error that would stop one of several runs before its first round; without it, each run is
    prepared and settled. It gets runs in the order of `order`, so that those that share work follow each other.
    """

    name: str
    claims: Callable[[Cell], bool]
    prepare: Callable[[Plan, Dataset | None], Runnable]
    check: Callable[[Sequence[Plan], Settle], None] | None = None
    order: Callable[[Plan], Any] = lambda plan: 0
