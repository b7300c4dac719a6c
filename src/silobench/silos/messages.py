"""Replies of silos as letters and back: only the bytes that a codec packs cross the network.

The server knows forms and codecs from a message of zeros, which it runs through the same chain of transforms.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from silobench.loop.exchanges.exchange import LOST
from silobench.method.chain import send
from silobench.method.codecs import Packed
from silobench.method.types import Memory, Message, Server, Update
from silobench.silos.letters import Arrays, Letter, LetterError
from silobench.training.blank import blank_message
from silobench.training.party import LocalRound, server_key
from silobench.training.state import PartyMemory, Reply, Work

SILO = "silo"  # the owner of what the server remembers of a silo: the last round whose answer counted
_ROUND = "round"
_EXTRA, _MEMORY = "extra/", "memory/"
_TOTAL, _SUMS = "total/", "sums/"
_MOST = 2**53  # steps or bytes of one message


def last_round(memory: PartyMemory) -> int:
    """Return the last round in which the answer of a silo counted; -1 if there is none."""
    return int(memory[SILO][_ROUND]) if SILO in memory else -1


# --- the server's letter -----------------------------------------------------------------------------


def broadcast_arrays(server: Server, memory: PartyMemory) -> Arrays:
    """Return what a silo is sent to train from: the model, and the memories of transforms at the server."""
    sent = {"params": server.params, "buffers": server.buffers}
    sent |= {f"{_EXTRA}{name}": each for name, each in server.extras.items()}
    for owner, values in memory.items():
        if owner != SILO:
            sent |= {f"{_MEMORY}{owner}/{name}": each for name, each in values.items()}
    return {name: each.numpy() for name, each in sent.items()}


def server_of(letter: Letter, parties: int) -> Server:
    """Return the server as a silo sees it."""
    arrays = {name: torch.from_numpy(array) for name, array in letter.arrays.items()}
    extras = {name.removeprefix(_EXTRA): each for name, each in arrays.items() if name.startswith(_EXTRA)}
    knobs = {str(name): float(value) for name, value in letter.facts["knobs"].items()}
    return Server(arrays["params"], extras, {}, letter.round, parties, knobs, arrays["buffers"])


def informed(letter: Letter, transforms: int) -> dict[str, Memory]:
    """Return what a silo is sent of the memories of transforms at the server."""
    owners = {server_key(place) for place in range(transforms)}
    memories: dict[str, dict[str, Any]] = {}
    for name, array in letter.arrays.items():
        if name.startswith(_MEMORY):
            owner, _, key = name.removeprefix(_MEMORY).partition("/")
            if owner in owners:
                memories.setdefault(owner, {})[key] = torch.from_numpy(array)
    return dict(memories)


# --- the silo's answer -------------------------------------------------------------------------------


def reply_arrays(reply: Reply) -> Arrays:
    """Return the bytes of a message, part by part."""
    message = reply.message or reply.update.pack()
    parts = {_TOTAL: message.total, _SUMS: message.sums}
    return {
        f"{kind}{name}": np.frombuffer(part.content, np.uint8)
        for kind, named in parts.items()
        for name, part in named.items()
    }


def reply_facts(reply: Reply, party: int, hidden: bool, is_loss_secret: bool) -> dict[str, Any]:
    """Return the numbers of a reply: its weight and loss, unless they are hidden, its steps, and measured seconds."""
    weight = reply.message.weight if reply.message else reply.update.weight
    return {
        "weight": weight,
        "loss": None if is_loss_secret else _or_none(reply.loss),
        "steps": 0 if hidden else reply.steps,  # they tell the number of rows
        "seconds": dict(reply.seconds),
        "slowest": reply.slowest,
        "reports": {name: [_or_none(total), count] for name, (total, count) in reply.reports.items()},
        "work": list(reply.work[party]),
    }


def blank_reply(local_round: LocalRound, party: int, memory: PartyMemory, secret: Mapping[int, Memory]) -> Message:
    """Return a message of zeros as this party would send it: its parts, forms and codecs.

    `secret` are memories of transforms that hide messages, by their place; any will do, because nothing is hidden.
    """
    setting, server = local_round.setting, local_round.server
    places = range(len(setting.method.transforms))
    update, _ = blank_message(setting, server)
    servers = [memory.get(server_key(place), {}) for place in places]
    context = setting.context(server, party, local_round.cohort)
    return send(
        update, setting.method.transforms, [secret.get(place, {}) for place in places], context, servers, 0.0
    ).message


def reply_of(letter: Letter, blank: Message, party: int) -> Reply:
    """Return the reply in a silo's letter; a `LetterError` if it has other parts than a message of zeros."""
    facts = letter.facts
    try:
        message = Message(
            _parts(letter.arrays, _TOTAL, blank.total),
            _number(facts["weight"]),
            _parts(letter.arrays, _SUMS, blank.sums),
        )
        if len(letter.arrays) != len(blank.total) + len(blank.sums):
            raise LetterError("it has further parts")
        update = message.unpack()
        _check(update, blank.unpack())
        seconds = {str(name): _number(spent) for name, spent in facts["seconds"].items()}
        dense, *spent = facts["work"]
        return Reply(
            update,
            {party: {SILO: {_ROUND: torch.tensor(letter.round)}}},
            {party: message.nbytes},
            _or_nan(facts["loss"]),
            _count(facts["steps"]),
            seconds,
            _number(facts["slowest"]),
            _reports(facts["reports"]),
            frozenset(),
            {party: Work(_count(dense), *map(_number, spent))},
        )
    except Exception as error:
        raise LetterError(
            f"the message of silo {letter.silo} in round {letter.round + 1} cannot be read ({error}), so it does not "
            "count."
        ) from error


def _parts(arrays: Arrays, kind: str, blank: Mapping[str, Packed]) -> dict[str, Packed]:
    return {name: Packed(arrays[kind + name].tobytes(), part.form, part.codec) for name, part in blank.items()}


def _check(update: Update, blank: Update) -> None:
    for parts, others in ((update.total, blank.total), (update.sums, blank.sums)):
        for name, part in parts.items():
            if part.shape != others[name].shape or part.dtype != others[name].dtype:
                raise LetterError(f"its part {name} has another form")


def _reports(stated: Mapping[str, Any]) -> dict[str, tuple[float, int]]:
    """Return what transforms of one silo report; not that the round is lost, which the server decides."""
    if LOST in stated or any(count != 1 for _, count in stated.values()):
        raise LetterError("a report in it is not that of one silo")
    return {name: (_or_nan(total), 1) for name, (total, _) in stated.items()}


def _count(value: Any) -> int:
    if type(value) is not int or not 0 <= value < _MOST:
        raise LetterError("a count in it is not a number that a silo can have")
    return value


def _number(value: Any) -> float:
    if type(value) not in (int, float) or not 0 <= value < math.inf:
        raise LetterError("a number in it is negative or not finite")
    return float(value)


def _or_none(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _or_nan(value: Any) -> float:
    if value is not None and (type(value) not in (int, float) or not math.isfinite(value)):
        raise LetterError("a number in it is not finite")
    return math.nan if value is None else float(value)


def roster_of(facts: Sequence[Any]) -> tuple[str, ...]:
    """Return names from a letter."""
    if not all(isinstance(name, str) for name in facts):
        raise LetterError("a list of silos has something else than names.")
    return tuple(facts)
