"""`Mode`: how parties are trained and models are scored. Engines choose one and say where its jobs run."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from silobench.engines.executor import Dispatch, Job
from silobench.federation import Part
from silobench.method.solvers import has_sgd_steps
from silobench.tasks.score import Score
from silobench.tasks.task import Weights
from silobench.training.party import LocalRound
from silobench.training.setting import Setting
from silobench.training.state import PartyMemory, Reply

TESTING_COST = 0.2  # cost of testing on a row, relative to training on it

Train: TypeAlias = Callable[[LocalRound, Mapping[int, PartyMemory], Dispatch], tuple[int, Iterator[Reply]]]
ScoreModels: TypeAlias = Callable[[Setting, Sequence[Weights], Sequence[Part], Dispatch], list[Score]]


@dataclass(frozen=True)
class Mode:
    """A way to train parties. Two modes give the same results up to rounding, whatever the dispatch.

    `refusal` returns why a mode cannot run a setting, or None if it can. `train` trains the parties in a mapping of
    memories and returns the number of workers that it uses, 0 for this process only, and the replies in a fixed order.
    `score` returns the score of every model on all parts.
    """

    name: str
    refusal: Callable[[Setting], str | None]
    train: Train
    score: ScoreModels
    facts: Callable[[], Mapping[str, str]] = field(default=dict)  # for the run record, besides the name
    warn: Callable[[Setting], None] = lambda setting: None  # logs why a mode that would suit a setting is missing
    pays_off: Callable[[Setting], bool] = lambda setting: True  # else it is used only by an engine without other modes
    may_miss: bool = False  # whether parties may fail to answer, so that replies tell who did
    final: Callable[[Setting, Sequence[Weights]], dict[str, Any]] | None = None
    """The final test, where the outputs for single rows are not known: see `final_test`."""


def device_refusal(setting: Setting) -> str | None:
    """Return why a mode that computes on the CPU cannot run a setting, or None if it can."""
    device = setting.task.device
    return None if device == "cpu" else f"it computes on the cpu, and the device of this run is {device}"


def solver_refusal(setting: Setting) -> str | None:
    """Return why a mode with steps of its own cannot run a setting, or None if it can."""
    if has_sgd_steps(setting.solver):
        return None
    return f"it has the steps of the solver sgd, but the solver is {setting.solver.kind}"


def work_by_party(local_round: LocalRound, parties: Iterable[int]) -> dict[int, float]:
    """Estimate the cost of training each party: parameters times rows visited."""
    rows, size = local_round.setting.rows, local_round.setting.task.network.layout.size
    return {party: float(size * rows(local_round.party(party).samples)) for party in parties}


def stack_jobs(
    train: Callable[..., list[Reply]],
    local_round: LocalRound,
    memory: Mapping[int, PartyMemory],
    work: Mapping[int, float],
    stacks: Iterable[Sequence[int]],
) -> list[Job]:
    """Return a job for each stack of parties that are trained together: `train` gets their memories by party."""
    shared = local_round.setting, local_round.server
    return [
        Job(
            train,
            shared,
            (local_round.cohort, {party: memory[party] for party in stack}),
            sum(work[party] for party in stack),
        )
        for stack in stacks
    ]


def longest_first(local_round: LocalRound, parties: Iterable[int]) -> list[int]:
    """Return parties by their number of steps, those with most of them first."""
    count = local_round.setting.solver.count
    return sorted(parties, key=lambda party: -count(local_round.party(party).samples))


def row_count(parts: Iterable[Part]) -> int:
    return sum(len(part.rows) for part in parts)
