"""Train many small parties in one native call, which draws their orders and adds up their messages.

Results have the bits of single calls. The first batch of a process checks that on this machine, and single calls are used
where they differ: another NumPy may draw other orders, and another PyTorch may round sums differently.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import pairwise

import numpy as np
import torch
from numpy.typing import NDArray

from silobench.engines.failures import located
from silobench.engines.kernel.binding import PARTY, Floats, PartyError, Passes, Rows, Rule, Shape, Walk
from silobench.engines.kernel.build import native
from silobench.method.types import Memory, Pull, Vector, at
from silobench.rng import key_words, stream
from silobench.training.party import LocalRound, reply_of_deltas, sends_only_deltas
from silobench.training.setting import Setting
from silobench.training.state import PartyMemory, Reply

WORTH_A_THREAD = 2e6  # parameters times rows visited: a fraction of a millisecond, but more than a thread takes to start
_LARGEST_PARTY = 2e7  # of the same: a few milliseconds; longer ones gain nothing
_WORK_OF_A_CALL = 5e8  # of the same: a fraction of a second, because a call cannot be interrupted
_BYTES_OF_A_CALL = 1 << 26  # for the models of its parties


def can_batch(local_round: LocalRound, memory: Mapping[int, PartyMemory], shape: Shape, longest: float) -> bool:
    """Whether one call can train these parties: they only send deltas, and differ in nothing but their rows.

    `longest` is the work of the longest party: parameters times rows visited.
    """
    setting = local_round.setting
    has_memory = any("algorithm" in each for each in memory.values())
    return (
        shape.pictures is None
        and longest <= _LARGEST_PARTY
        and not has_memory
        and _is_alike(setting)
        and is_exact()
    )


def _is_alike(setting: Setting) -> bool:
    """Whether parties without memory differ in nothing but their rows."""
    solver, starts_empty = setting.solver, not setting.algorithm_memory({})
    is_plain = sends_only_deltas(setting) and setting.starts_from_broadcast and solver.steps is None
    return is_plain and starts_empty and setting.canaries is None and not setting.federation.is_sparse


def train_batches(
    local_round: LocalRound, parties: Sequence[int], shape: Shape, rows: Rows, threads: int
) -> Iterator[Reply]:
    """Train parties and yield one reply for all of them; they are added up in their order."""
    began, setting, server = time.perf_counter(), local_round.setting, local_round.server
    algorithm, solver, nothing = setting.method.algorithm, setting.solver, setting.algorithm_memory({})
    try:
        start = algorithm.start(server, nothing).contiguous().numpy()
        pull = algorithm.pull(server, nothing)
        rule = rule_of(at(solver.lr, server), solver.momentum, solver.weight_decay, pull)
    except Exception as error:
        raise located(error, local_round, parties[:1])  # noqa: B904  # it has its cause
    table = _table(local_round, parties)
    counts = table["count"]
    passes = Passes(key_words(setting.seed, "order", server.round), solver.epochs, solver.batch or int(counts.max()))
    total: Floats | None = None
    for begin, end in pairwise(_bounds(counts * (solver.epochs * start.size), start.nbytes)):
        try:
            total = native().kernel.train_batch(shape, rows, passes, rule, start, table[begin:end], threads, total)
        except PartyError as error:
            raise located(error, local_round, [parties[begin + error.place]])  # noqa: B904  # it has its cause
    assert total is not None
    yield _reply(torch.from_numpy(total), parties, table, passes, time.perf_counter() - began, threads)


def rule_of(lr: float, momentum: float, decay: float, pull: Pull) -> Rule:
    """Return the rule of a local step: a solver's numbers and an algorithm's pull."""
    vectors = (None if v is None else v.contiguous().numpy() for v in (pull.anchor, pull.linear, pull.drift))
    return Rule(lr, momentum, decay, pull.strength, *vectors)


def _table(local_round: LocalRound, parties: Sequence[int]) -> NDArray[np.void]:
    members = [local_round.party(party) for party in parties]
    return np.array([(each.rows.data_ptr(), each.samples, each.id, 0, 0.0, 0.0) for each in members], PARTY)


def _bounds(work: NDArray[np.int64], nbytes: int) -> list[int]:
    """Return the places at which calls begin, and the end: no call has too much work or needs too much memory."""
    most = max(1, _BYTES_OF_A_CALL // nbytes)
    if len(work) <= most and work.sum() <= _WORK_OF_A_CALL:
        return [0, len(work)]
    bounds, done = [0], 0.0
    for place, cost in enumerate(work.tolist()):
        if place > bounds[-1] and (done + cost > _WORK_OF_A_CALL or place - bounds[-1] == most):
            bounds, done = [*bounds, place], 0.0
        done += cost
    return [*bounds, len(work)]


def _reply(
    delta: Vector, parties: Sequence[int], table: NDArray[np.void], passes: Passes, spent: float, threads: int
) -> Reply:
    """Return the reply of a batch that took `spent` seconds; what no party was trained in is divided among all."""
    counts, losses, seconds = (table[name].tolist() for name in ("count", "loss", "seconds"))
    weight = total = 0.0
    for count, loss in zip(counts, losses, strict=True):
        weight, total = weight + count, total + loss * count
    share = max(0.0, spent - sum(seconds) / max(1, threads)) / len(parties)
    steps = passes.epochs * sum(-(-count // passes.batch) for count in counts)
    nothing: dict[int, Memory] = {party: {} for party in parties}
    by_party = {party: each + share for party, each in zip(parties, seconds, strict=True)}
    return reply_of_deltas(delta, weight, nothing, total, steps, by_party)


# --- whether a batch has the bits of single calls -----------------------------------------------------


@cache
def is_exact() -> bool:
    """Whether a batch has the bits of single calls whose orders NumPy draws and whose deltas PyTorch adds."""
    shape, seed, round, epochs, batch = Shape((22, 7)), (1 << 40) + 5, 3, 2, 4
    rng = np.random.default_rng(0)
    rows = Rows(rng.normal(size=(90, 22)).astype(np.float32), rng.integers(0, 7, 90))
    start = rng.normal(size=161).astype(np.float32)
    parties = np.split(rng.permutation(90), (1, 12, 41, 70))
    table = np.array([(each.ctypes.data, len(each), place, 0, 0, 0) for place, each in enumerate(parties)], PARTY)
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
