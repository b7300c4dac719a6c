"""Train many small parties in one native call, which draws their orders and adds up their messages.

Results have the bits of single calls. The first batch of a process checks that on this machine, and single calls are
used where they differ: another NumPy may draw other orders, and another PyTorch may round sums differently.
"""

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise

import numpy as np
import torch
from numpy.typing import NDArray

from silobench.engines.failures import located
from silobench.engines.kernel.binding import PARTY, Floats, PartyError, Passes, Rows, Rule, Shape, Walk, parameters
from silobench.engines.kernel.build import native
from silobench.federation import Party
from silobench.method.types import Memory, Pull, Vector, at
from silobench.rng import key_words, stream
from silobench.training.party import LocalRound, reply_of_deltas, sends_only_deltas
from silobench.training.state import PartyMemory, Reply

_LARGEST_PARTY = 2e7  # parameters times rows visited: a few milliseconds; a longer party gains nothing
_WORK_OF_A_CALL = 5e8  # of the same: a fraction of a second, because a call cannot be interrupted
_BYTES_OF_A_CALL = 1 << 26  # for the models of its parties
_NOTHING: Memory = {}


@dataclass(frozen=True)
class Source:
    """The rows of a federation as the kernel reads them, and a table of its parties (`PARTY`)."""

    rows: Rows
    table: NDArray[np.void]

    @classmethod
    def of(cls, rows: Rows, parties: Sequence[Party]) -> "Source":
        places = [(each.rows.data_ptr(), each.samples, each.id) for each in parties]
        table = np.zeros(len(parties), PARTY)
        for name, values in zip(("rows", "count", "number"), zip(*places, strict=True), strict=True):
            table[name] = values
        return cls(rows, table)


def can_batch(local_round: LocalRound, memory: Mapping[int, PartyMemory], shape: Shape) -> bool:
    """Whether one call can train these parties: they only send deltas, and differ in nothing but their rows."""
    setting = local_round.setting
    if shape.pictures is not None or setting.federation.is_sparse or setting.solver.steps is not None:
        return False
    is_plain = sends_only_deltas(setting) and setting.starts_from_broadcast and setting.canaries is None
    if not is_plain or setting.algorithm_memory({}) or any("algorithm" in each for each in memory.values()):
        return False
    return is_exact()


@dataclass(frozen=True)
class Batch:
    """Small parties of a round that are trained together."""

    local_round: LocalRound
    shape: Shape
    rows: Rows
    table: NDArray[np.void]  # of the parties, those with most rows first

    @classmethod
    def of(cls, local_round: LocalRound, parties: Iterable[int], shape: Shape, source: Source) -> "Batch | None":
        """Return the batch of these parties, or None if one of them is so long that it needs a call of its own."""
        table = source.table[list(parties)]
        batch = cls(local_round, shape, source.rows, table[np.lexsort((table["number"], -table["count"]))])
        return batch if batch._work_of(int(batch.table["count"][0])) <= _LARGEST_PARTY else None

    @property
    def work(self) -> float:
        """Parameters times rows visited."""
        return self._work_of(int(self.table["count"].sum()))

    def _work_of(self, rows: int) -> float:
        return float(rows * self.local_round.setting.solver.epochs * parameters(self.shape))

    def train(self, threads: int) -> Iterator[Reply]:
        """Train the parties and yield one reply for all of them; they are added up in their order."""
        began, table = time.perf_counter(), self.table
        start, rule, passes = self._call()
        total: Floats | None = None
        for begin, end in pairwise(_bounds(table["count"], self._work_of(1), start.nbytes)):
            part = table[begin:end]
            try:
                total = native().kernel.train_batch(self.shape, self.rows, passes, rule, start, part, threads, total)
            except Exception as error:
                places = [error.place] if isinstance(error, PartyError) else range(end - begin)
                raise self._located(error, part[list(places)])  # noqa: B904  # it has its cause
        assert total is not None
        yield _reply(torch.from_numpy(total), table, time.perf_counter() - began, threads)

    def _call(self) -> tuple[Floats, Rule, Passes]:
        """Return what all parties of the round have in common: the model at the start, the step and the passes."""
        setting, server = self.local_round.setting, self.local_round.server
        algorithm, solver, nothing = setting.method.algorithm, setting.solver, setting.algorithm_memory({})
        try:
            start, pull = algorithm.start(server, nothing), algorithm.pull(server, nothing)
            rule = rule_of(at(solver.lr, server), solver.momentum, solver.weight_decay, pull)
        except Exception as error:
            raise self._located(error, self.table[:1])  # noqa: B904  # it has its cause
        batch = solver.batch or int(self.table["count"][0])
        passes = Passes(key_words(setting.seed, "order", server.round), solver.epochs, batch)
        return start.contiguous().numpy(), rule, passes

    def _located(self, error: Exception, parties: NDArray[np.void]) -> Exception:
        return located(error, self.local_round, parties["number"].tolist())


def rule_of(lr: float, momentum: float, decay: float, pull: Pull) -> Rule:
    """Return the rule of a local step: a solver's numbers and an algorithm's pull."""
    vectors = (None if v is None else v.contiguous().numpy() for v in (pull.anchor, pull.linear, pull.drift))
    return Rule(lr, momentum, decay, pull.strength, *vectors)


def _bounds(counts: NDArray[np.int64], row_work: float, nbytes: int) -> list[int]:
    """Return the places at which calls begin, and the end: no call has too much work or needs too much memory."""
    most = max(1, _BYTES_OF_A_CALL // nbytes)
    if len(counts) <= most and float(counts[0]) * len(counts) * row_work <= _WORK_OF_A_CALL:  # the first has most rows
        return [0, len(counts)]
    bounds, work = [0], 0.0
    for place, cost in enumerate((counts * row_work).tolist()):
        if place > bounds[-1] and (work + cost > _WORK_OF_A_CALL or place - bounds[-1] == most):
            bounds, work = [*bounds, place], 0.0
        work += cost
    return [*bounds, len(counts)]


def _reply(delta: Vector, table: NDArray[np.void], spent: float, threads: int) -> Reply:
    """Return the reply of a batch that took `spent` seconds; those in which no party was trained are divided."""
    columns = (table[name].tolist() for name in ("number", "count", "steps", "loss", "seconds"))
    parties, counts, steps, losses, seconds = columns
    weight = total = 0.0
    for count, loss in zip(counts, losses, strict=True):
        weight, total = weight + count, total + loss * count
    share = max(0.0, spent - sum(seconds) / max(1, threads)) / len(parties)
    by_party = {party: each + share for party, each in zip(parties, seconds, strict=True)}
    return reply_of_deltas(delta, weight, dict.fromkeys(parties, _NOTHING), total, sum(steps), by_party)


# --- whether a batch has the bits of single calls -----------------------------------------------------


@cache
def is_exact() -> bool:
    """Whether a batch has the bits of single calls whose orders NumPy draws and whose deltas PyTorch adds."""
    shape, seed, round, epochs, batch = Shape((22, 7)), (1 << 40) + 5, 3, 2, 4
    rng = np.random.default_rng(0)
    rows = Rows(rng.normal(size=(90, 22)).astype(np.float32), rng.integers(0, 7, 90))
    start = rng.normal(size=161).astype(np.float32)
    parties = np.split(rng.permutation(90), (1, 12, 41, 70))
    table = np.array([(each.ctypes.data, len(each), place, 0, 0, 0, 0) for place, each in enumerate(parties)], PARTY)
    passes, rule = Passes(key_words(seed, "order", round), epochs, batch), Rule(0.1, 0.9, 0.01)
    total = native().kernel.train_batch(shape, rows, passes, rule, start, table, 2)
    delta = torch.zeros(161)
    for party, members in enumerate(parties):
        generator = stream(seed, "order", round, party)
        order = np.concatenate([generator.permutation(members) for _ in range(epochs)])
        sizes = [len(part) for part in np.split(members, range(batch, len(members), batch))] * epochs
        end = start.copy()
        native().kernel.train(shape, rows, Walk(order, sizes), rule, end)
        moved = torch.from_numpy(end).sub_(torch.from_numpy(start))
        delta = delta.add_(moved, alpha=float(len(members))) if party else moved.mul_(float(len(members)))
    return total.tobytes() == delta.numpy().tobytes()
