"""The downlink: what the server sends to parties in a round, the whole model or a compressed change of it.

With transforms for the broadcast, all parties hold the same replica of the model, and the server knows it. In each
round it sends C(model - replica), where C are the transforms, and everybody adds that to the replica. What C left out
is a part of the next difference, so no transform needs a memory of it: each is called with an empty one.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import torch

from silobench.loop.schedule import Schedule
from silobench.method.selection import Cohort
from silobench.method.types import Context, Memory, Server, Update, Vector
from silobench.training.party import server_memories
from silobench.training.setting import BUFFERS
from silobench.training.state import State

Parts: TypeAlias = Mapping[str, Vector]

_OWNER = "broadcast"  # of the replica in `State.extra`
_MODEL, _EXTRA, _PART = "delta", "extra/", "part/"  # parameters have the name that FedAvg's messages give to changes
_FACTOR_BYTES = 4
_TOO_FAR = 0.75  # the best factor of a message by which the replica's distance still shrinks to at most a third


@dataclass(frozen=True)
class Downlink:
    """The server's messages of a round."""

    server: Server  # as parties have it afterwards: they train from it
    whole: int  # bytes of the whole model
    memory: Memory = field(default_factory=dict)  # of the replica; empty where the model is always sent whole
    report: Mapping[str, float] = field(default_factory=dict)  # for the record

    def sizes(self, cohort: Cohort) -> dict[int, int]:
        """Return the bytes for each party: all messages that it missed, or the whole model if that is shorter.

        The first message of a run is the whole model, so that is also what a new party is sent.
        """
        if not self.memory:
            return dict.fromkeys(cohort, self.whole)
        missed = (self.memory["sent"] - self.memory["seen"])[list(cohort)].tolist()
        return {party: min(size, self.whole) for party, size in zip(cohort, missed, strict=True)}

    def extra(self, before: Mapping[str, Memory], cohort: Cohort) -> Mapping[str, Memory]:
        """Return the memories of the loop's parts, with the replica that the cohort now has."""
        if not self.memory:
            return before
        seen = self.memory["seen"].clone()  # by party: the bytes of all messages until it was sent the last one
        seen[list(cohort)] = self.memory["sent"]
        return {**before, _OWNER: {**self.memory, "seen": seen}}


@dataclass(frozen=True)
class _Message:
    """One message from the server to all parties."""

    replica: Parts  # that parties have afterwards, by part
    nbytes: int


def downlink(schedule: Schedule, state: State, server: Server) -> Downlink:
    """Return what the server sends in this round; `server` has the knobs of the round."""
    whole, memories = schedule.setting.sent(server), server_memories(state.extra, schedule.setting)
    besides = sum(each.nbytes for memory in memories for each in memory.values())  # parties are sent these too
    if not schedule.broadcast:
        return Downlink(whole, whole.nbytes + besides)
    memory, parts = state.extra.get(_OWNER, {}), _parts(whole)
    replica = {name.removeprefix(_PART): part for name, part in memory.items() if name.startswith(_PART)}
    if _shapes(replica) == _shapes(parts):
        message = _compressed(schedule, parts, replica, server.round)
        sent, seen = int(memory["sent"]), memory["seen"]
    else:  # the first round
        message = _Message(parts, whole.nbytes)
        sent, seen = 0, torch.zeros(server.parties, dtype=torch.int64)
    if message.nbytes >= whole.nbytes:
        message = _Message(parts, whole.nbytes)
    message = replace(message, nbytes=message.nbytes + besides)
    after = {f"{_PART}{name}": part for name, part in message.replica.items()}
    after |= {"sent": torch.tensor(sent + message.nbytes), "seen": seen}
    gap = _length(parts[_MODEL] - message.replica[_MODEL]) / max(_length(parts[_MODEL]), 1e-300)
    return Downlink(_received(whole, message.replica), whole.nbytes + besides, after, {"broadcast gap": gap})


def message_size(schedule: Schedule, server: Server) -> int:
    """Return the bytes of a message in which all that parties are sent has changed from zero."""
    parts = _parts(schedule.setting.sent(server))
    return _compressed(schedule, parts, {name: torch.zeros_like(part) for name, part in parts.items()}, 0).nbytes


def _compressed(schedule: Schedule, parts: Parts, replica: Parts, round: int) -> _Message:
    """Run the difference between the server's parts and the replica through the transforms, and add what arrives.

    Scalars and vectors of integers are sent as they are.
    """
    change = {name: part - replica[name] for name, part in parts.items() if part.dim() and part.is_floating_point()}
    arrived, nbytes = _transferred(schedule, change, round)
    after = {name: part for name, part in parts.items() if name not in change}
    nbytes += sum(part.nbytes for part in after.values())
    for name, part in change.items():
        factor = _factor(part, arrived[name])
        after[name] = replica[name] + (arrived[name] if factor == 1.0 else factor * arrived[name])
        nbytes += 0 if factor == 1.0 else _FACTOR_BYTES
    return _Message(after, nbytes)


def _transferred(schedule: Schedule, change: Parts, round: int) -> tuple[Parts, int]:
    """Return the parts of a message as they arrive, and its bytes."""
    setting, update = schedule.setting, Update(change, 1.0)
    context = Context(setting.seed, round, -1, setting.shared, {})  # a controller's knobs are for the parties' messages
    # Negative places give other random numbers than those of the transforms of the parties' messages.
    chain = [(transform, replace(context, place=~place)) for place, transform in enumerate(schedule.broadcast)]
    for transform, at_place in chain:
        update, *_ = transform.encode(update, {}, at_place)
    message = update.pack()
    arrived = message.unpack()
    for transform, at_place in reversed(chain):
        arrived = transform.decode(arrived, at_place)
    return {**arrived.mean(), **arrived.sums}, message.nbytes


def _factor(change: Vector, arrived: Vector) -> float:
    """Return the number by which parties multiply what arrives: 1, unless the replica would move too far.

    Transforms that are right on average, such as a random choice of entries that are scaled up, may be far off in each
    round, and the replica would diverge. The factor then makes its distance from the model as small as it can be.
    """
    sent = arrived.flatten()
    square = float(sent @ sent)
    best = float(change.flatten() @ sent) / square if square else 1.0
    return max(0.0, best) if best < _TOO_FAR else 1.0  # what is not a number stays


def _parts(server: Server) -> dict[str, Vector]:
    """Return all that parties are sent, by name."""
    buffers = {BUFFERS: server.buffers} if server.buffers.numel() else {}
    return {_MODEL: server.params, **buffers, **{f"{_EXTRA}{name}": each for name, each in server.extras.items()}}


def _received(whole: Server, parts: Parts) -> Server:
    """Return the server as parties see it, from its parts."""
    extras = {name: parts[f"{_EXTRA}{name}"] for name in whole.extras}
    return replace(whole, params=parts[_MODEL], buffers=parts.get(BUFFERS, whole.buffers), extras=extras)


def _shapes(parts: Parts) -> dict[str, torch.Size]:
    return {name: part.shape for name, part in parts.items()}


def _length(vector: Vector) -> float:
    return float(torch.linalg.vector_norm(vector))
