"""`Pace`: when the server takes its step, and how much a late message counts."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from silobench.method.checks import finite_number
from silobench.method.types import Memory, Update, Vector
from silobench.spec import Registry
from silobench.spec.contract import Contract, Form, described
from silobench.training.setting import BUFFERS
from silobench.training.state import Reply, Work


@dataclass(frozen=True)
class Pace:
    """When the server takes its step.

    By default it waits for all parties of the cohort. With `takes`, parties that are free start with the current model,
    messages arrive when the virtual clock says so, and the server takes its step when enough of them have come; the
    others stay in flight, and are stale when they arrive.
    """

    takes: Callable[[Sequence[float]], int] | None = None
    """(times of arrival of all messages in flight, ascending) -> how many of them the server waits for, at least 1."""
    discount: Callable[[int], float] = lambda staleness: 1.0
    """(server steps since the party was sent the model) -> factor of its message."""
    size: int | None = None
    """The number of messages that `takes` waits for, if it is the same in all rounds."""


def _takes(value: Any, arguments: Sequence[Any]) -> str | None:
    count = len(arguments[0])
    is_count = type(value) is int and 1 <= value <= count
    return None if is_count else f"{described(value)}, but a number of messages from 1 to {count} is expected"


def _discount(value: Any, arguments: Sequence[Any]) -> str | None:
    return finite_number(value, "the factor of a message")


PACES: Registry[Pace] = Registry(
    "pace",
    Contract(
        Pace, "an sb.Pace(takes, ...)", {"takes": Form("arrivals", _takes), "discount": Form("staleness", _discount)}
    ),
)


@dataclass(frozen=True)
class Flight:
    """A message on its way to the server. The party has trained already; its memory is not part of this."""

    party: int
    version: int  # the round of the model that it was trained from
    arrival: float  # on the virtual clock
    reply: Reply

    def discounted(self, now: int, discount: Callable[[int], float], buffers: Vector) -> Reply:
        """Return the reply as it counts in round `now`; `buffers` are the server's normalisation statistics.

        Its weight stays, so a stale message moves the model less. Scalars, such as FedNova's reach, stay: they are not
        a change of the model. Unweighted sums stay too: they are changes of variables that the party has already made.
        Statistics are sent as they are, so the rest of their weight goes to those of the server.
        """
        factor = discount(now - self.version)
        if factor == 1.0:
            return self.reply
        update = self.reply.update
        total = {name: part * factor if part.dim() > 0 else part for name, part in update.total.items()}
        if BUFFERS in total:
            total[BUFFERS] = total[BUFFERS] + (1 - factor) * update.weight * buffers
        return replace(self.reply, update=replace(update, total=total))


def packed(flights: Sequence[Flight]) -> Memory:
    """Return flights as named tensors, for the checkpoint."""
    memory: dict[str, Vector] = {}
    for flight in flights:
        reply, update, key = flight.reply, flight.reply.update, str(flight.party)
        facts = (flight.version, flight.arrival, update.weight, reply.sizes[flight.party], reply.loss, reply.steps)
        memory[f"{key}/facts"] = torch.tensor(facts, dtype=torch.float64)
        memory |= {f"{key}/total/{name}": part for name, part in update.total.items()}
        memory |= {f"{key}/sums/{name}": part for name, part in update.sums.items()}
        memory |= {f"{key}/model/{name}": torch.zeros(0) for name in reply.model_parts}
        for name, (value, _) in reply.reports.items():
            memory[f"{key}/report/{name}"] = torch.tensor(value, dtype=torch.float64)
    return memory


def unpacked(memory: Memory) -> list[Flight]:
    """Return the flights of a checkpoint, by party."""
    by_party: dict[int, dict[str, Vector]] = {}
    for name, value in sorted(memory.items()):  # as in a checkpoint, so that a run that resumes has the same bits
        party, _, rest = name.partition("/")
        by_party.setdefault(int(party), {})[rest] = value
    return [_flight(party, by_party[party]) for party in sorted(by_party)]


def _flight(party: int, tensors: Memory) -> Flight:
    version, arrival, weight, size, loss, steps = tensors["facts"].tolist()

    def parts(kind: str) -> dict[str, Vector]:
        begin = f"{kind}/"
        return {name.removeprefix(begin): value for name, value in tensors.items() if name.startswith(begin)}

    reports = {name: (float(value), 1) for name, value in parts("report").items()}
    update = Update(parts("total"), weight, parts("sums"))
    # Its seconds are not stored: they are measured, and a checkpoint must be the same in every run.
    work = {party: Work(update.dense_nbytes)}
    reply = Reply(update, {}, {party: int(size)}, loss, int(steps), {}, 0.0, reports, frozenset(parts("model")), work)
    return Flight(party, int(version), arrival, reply)
