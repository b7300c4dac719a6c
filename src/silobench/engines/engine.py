"""The engines by name, and what they share: how parties are trained (natively, stacked, one by one), and where."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

from silobench.engines import kernel as kernels
from silobench.engines.kernel import parties as compiled
from silobench.engines.stacks.stack import can_stack, train_stack
from silobench.engines.workers import Job, workers_of_this_command
from silobench.errors import ConfigError
from silobench.federation import Part
from silobench.method.types import Count, Server
from silobench.processes import cores
from silobench.spec import Registry
from silobench.tasks.score import Score
from silobench.tasks.task import Weights
from silobench.training.party import LocalRound
from silobench.training.setting import Setting
from silobench.training.state import PartyMemory, Reply

_STACK_BYTES = 1 << 28  # of the vectors of one stack
_IN_A_STACK = 16  # parties: more hardly make a step cheaper for each
_WORTH_SPLITTING = 1e8  # parameters times rows: about 10 ms of stacked work
_WORTH_SENDING = 2e7  # the same, below which messages to workers cost more than they bring
_OF_TRAINING = 0.2  # what it takes to test on a row, by what it takes to learn from it


@dataclass(frozen=True)
class Engine:
    """How and where the parties' rounds run. Only how bears on the bits, and only by rounding."""

    ways: tuple[str, ...]  # "native", "stacked" or "inline", the one to prefer first
    workers: int = 0  # threads of a native step, processes else; 0 for none besides this one
    least: float = 0.0  # work of a round below which it stays in this process

    def settled(self, setting: Setting, begun: str | None = None) -> "Engine":
        """The engine with one way, for a run: by model, method and what this machine has; the one it was `begun` in.

        Where nothing was begun it is the first that can be.
        """
        if begun in self.ways and (refusal := _REFUSALS[begun](setting)):
            raise ConfigError(
                f"this run was begun by the engine {begun}, which cannot go on here ({refusal}): "
                "mend that, or delete the run to do it anew."
            )
        refusals = []
        for way in (begun,) if begun in self.ways else self.ways:
            refusal = _REFUSALS[way](setting)
            if refusal is None:
                if "native" in self.ways and compiled.can_run(setting):
                    kernels.say_why_not()
                return replace(self, ways=(way,))
            refusals.append(f"the engine {way} cannot run this: {refusal}")
        raise ConfigError("; ".join(refusals) + "; use auto.")

    @property
    def way(self) -> str:
        """What the bits depend on: parties trained one by one give the same ones in any process, on any thread."""
        return self.ways[0]

    @property
    def made_by(self) -> dict[str, str]:
        """What a record says of it."""
        return {"engine": self.way, **(kernels.native().made_by if self.way == "native" else {})}

    def __str__(self) -> str:
        return "pool" if self.way == "inline" and self.workers else self.way

    def train(self, here: LocalRound, memory: Mapping[int, PartyMemory]) -> "tuple[Engine, Iterator[Reply]]":
        """The replies of all parties that `memory` names, in a fixed order, and the engine as it is used for this."""
        if self.way == "native":
            used = self if self._is_worth(len(memory), sum(_work(here, memory).values())) else replace(self, workers=0)
            return used, compiled.train(here, memory, used.workers)
        jobs = _training(here, memory, self.way == "stacked")
        used = self if self._sends(jobs) else replace(self, workers=0)
        return used, chain.from_iterable(self._results(jobs))

    def score(self, setting: Setting, models: Sequence[Weights], parts: Sequence[Part]) -> list[Score]:
        """The score of every model on all parts. Parts are added in their order, whoever scored them."""
        size = setting.task.network.layout.size
        if self.way == "native":
            worth = self._is_worth(len(models) * len(parts), len(models) * _rows(parts) * size * _OF_TRAINING)
            return compiled.score(setting, models, parts, self.workers if worth else 0)
        share = -(-len(parts) // max(1, self.workers // len(models)))
        groups = [parts[begin : begin + share] for begin in range(0, len(parts), share)]
        jobs = [
            Job(_score_parts, (setting, model), (group,), _rows(group) * size * _OF_TRAINING)
            for model in models
            for group in groups
        ]
        scores = list(self._results(jobs))
        of_models = (scores[begin : begin + len(groups)] for begin in range(0, len(scores), len(groups)))
        return [sum(chain(*of_groups), Score()).judged() for of_groups in of_models]

    def _is_worth(self, jobs: int, work: float) -> bool:
        return self.workers > 0 and jobs > 1 and work >= self.least

    def _sends(self, jobs: Sequence[Job]) -> bool:
        """Whether it is worth while to let the workers do it."""
        return self._is_worth(len(jobs), sum(job.cost for job in jobs))

    def _results(self, jobs: Sequence[Job]) -> Iterator[Any]:
        return workers_of_this_command(self.workers).results(jobs) if self._sends(jobs) else (job() for job in jobs)


def _native_refusal(setting: Setting) -> str | None:
    if not compiled.can_run(setting):
        return "it needs the model cnn, mlp or linear, an algorithm whose correction is a pull and rows to classify"
    return kernels.why_not()


def _stacked_refusal(setting: Setting) -> str | None:
    if can_stack(setting):
        return None
    return "it needs the model linear or mlp and an algorithm whose correction is a pull (a drift, on sparse rows)"


# Why an engine cannot run something; None if it can. What comes last in a list of ways can run anything.
_REFUSALS: Mapping[str, Callable[[Setting], str | None]] = {
    "native": _native_refusal,
    "stacked": _stacked_refusal,
    "inline": lambda setting: None,
}


def _work(here: LocalRound, parties: Iterable[int]) -> dict[int, float]:
    """Parameters times rows visited: what training takes, up to a factor of the network."""
    rows, size = here.setting.solver.rows, here.setting.task.network.layout.size
    return {party: float(size * rows(here.party(party).samples)) for party in parties}


def _training(here: LocalRound, memory: Mapping[int, PartyMemory], stacked: bool) -> list[Job]:
    solver, size = here.setting.solver, here.setting.task.network.layout.size
    work = _work(here, memory)
    train, stacks = _train_one_by_one, [[party] for party in memory]
    if stacked:
        longest_first = sorted(memory, key=lambda party: -solver.count(here.party(party).samples))
        train, stacks = _train_stack, _dealt(longest_first, sum(work.values()), size)
    return [
        Job(
            train,
            (here.setting, here.server),
            ({party: memory[party] for party in stack},),
            sum(work[party] for party in stack),
        )
        for stack in stacks
    ]


def _dealt(parties: Sequence[int], work: float, size: int) -> list[list[int]]:
    """Parties that are trained together: the same for any machine, because the bits may depend on it.

    A long round is two stacks at least, so that two processors have work, each with long and short parties.
    """
    most = min(_IN_A_STACK, max(1, _STACK_BYTES // (16 * size)))  # parameters, gradient, velocity, drift: 4 bytes each
    count = max(-(-len(parties) // most), 2 if work > _WORTH_SPLITTING else 1)
    return [list(parties[place::count]) for place in range(min(count, len(parties)))]


def _rows(parts: Iterable[Part]) -> int:
    return sum(len(part.rows) for part in parts)


# What workers call.


def _train_one_by_one(setting: Setting, server: Server, memory: Mapping[int, PartyMemory]) -> list[Reply]:
    here = LocalRound(setting, server)
    return [here(party, kept) for party, kept in memory.items()]


def _train_stack(setting: Setting, server: Server, memory: Mapping[int, PartyMemory]) -> list[Reply]:
    return train_stack(LocalRound(setting, server), memory)


def _score_parts(setting: Setting, model: Weights, parts: Sequence[Part]) -> list[Score]:
    return setting.task.scores(*model, map(setting.federation.part, parts))


ENGINES: Registry[Engine] = Registry("engine")


@ENGINES.register
def auto(workers: Count | None = None, native: bool = True) -> Engine:
    """Native (unless told not to) where that can be, else stacked, else one by one; on all cores if it is worth it."""
    return Engine((*["native"] * native, "stacked", "inline"), workers=_processes(workers), least=_WORTH_SENDING)


@ENGINES.register
def inline() -> Engine:
    """One party after the other in this process, on one thread."""
    return Engine(("inline",))


@ENGINES.register
def native(workers: Count | None = None) -> Engine:
    """Each party's round as one call of compiled code (models cnn, mlp and linear), on threads of this process."""
    return Engine(("native",), workers=_processes(workers), least=_WORTH_SENDING)


@ENGINES.register
def stacked(workers: Count | None = None) -> Engine:
    """Parties together as one batched computation (models linear and mlp), stacks of them in worker processes."""
    return Engine(("stacked",), workers=_processes(workers), least=_WORTH_SENDING)


@ENGINES.register
def pool(workers: Count | None = None) -> Engine:
    """One party at a time in each of several worker processes, as many as cores; the same bits as inline."""
    return Engine(("inline",), workers=workers or cores())


def _processes(workers: int | None) -> int:
    count = workers or cores()
    return count if count > 1 else 0
