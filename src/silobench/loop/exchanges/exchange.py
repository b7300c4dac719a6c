"""`Exchange`: what happens between the parties' replies and the next state of the server."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from silobench.method import checks
from silobench.method.selection import Cohort
from silobench.method.types import Context, Phase, Server, Update, Vector
from silobench.spec import Registry
from silobench.spec.contract import Contract, Form, expects
from silobench.training.party import transform_key
from silobench.training.setting import Setting
from silobench.training.state import PartyMemory, Reply, Tally
from silobench.training.stopwatch import Stopwatch


@dataclass(frozen=True)
class Meeting:
    """The input of an exchange: one round, after the parties were asked to train."""

    setting: Setting
    server: Server  # at the start of the round, with its knobs
    memory: Mapping[int, PartyMemory]  # at the start of the round; only parties that have any
    replies: Iterator[Reply]  # each party's, or sums of several if the exchange needs only their sum
    cohort: Cohort  # the parties that were asked
    replied: Cohort  # those of them that answer
    watch: Stopwatch  # `lap("parties")` when the last reply has come
    sent: Server | None = None  # as parties have it; None if they have the server's own values

    def model(self, party: int) -> Vector:
        """Return the parameters of a party's model at the start of the round."""
        return self.setting.params_at(self.server.params, self.memory.get(party, {}))


@dataclass(frozen=True)
class Outcome:
    """The result of an exchange."""

    server: Server  # for the next round
    tally: Tally  # of all replies
    memory: Mapping[int, PartyMemory]  # of the parties that took part, after the round
    answer: int = 0  # bytes that tell a party what changed, where the algorithm sends only that
    phases: Sequence[Phase] = ()  # messages besides the broadcast and the replies


def at_server(meeting: Meeting) -> Outcome:
    """Combine the messages, let the algorithm absorb the result, and take the server optimizer's step."""
    tally = Tally()
    update = _aggregated(meeting, tally)
    meeting.watch.lap("parties")
    if update is None:  # too few messages: the round is lost, and parties forget it
        return Outcome(replace(meeting.server, round=meeting.server.round + 1), tally, {})
    if update.is_empty:
        return Outcome(replace(meeting.server, round=meeting.server.round + 1), tally, tally.memory)
    answer, method = 0, meeting.setting.method
    if method.algorithm.lockstep:  # parties know the last model, and are sent the sum only
        lossless = {name: codec for name, codec in update.codecs.items() if codec.lossless}
        message = replace(update, codecs=lossless).pack()
        update, answer = message.unpack(), message.nbytes
    update, phases = _decoded(meeting, update, tally)
    update, buffers = meeting.setting.without_buffers(update, meeting.server, meeting.sent or meeting.server)
    server = meeting.server
    direction, extras = method.algorithm.absorb(server, meeting.setting.with_personal(update, tally.model_parts))
    params, optimizer = method.server.apply(server.params, direction, server.optimizer)
    after = replace(server, params=params, buffers=buffers, extras=extras, optimizer=optimizer, round=server.round + 1)
    return Outcome(after, tally, tally.memory, answer, phases)


def _aggregated(meeting: Meeting, tally: Tally) -> Update | None:
    """Return the aggregate of all messages; None if there are too few."""
    aggregate, updates = meeting.setting.method.aggregate, tally.updates(meeting.replies)
    if meeting.setting.needs_only_sum:
        return aggregate.combine(updates) if meeting.replied else None
    each = list(updates)
    return aggregate.combine(each) if len(each) >= aggregate.least else None


def _decoded(meeting: Meeting, update: Update, tally: Tally) -> tuple[Update, list[Phase]]:
    """Run the decoders of the transforms on the aggregate, the last one first; return also their messages."""
    setting, server, phases = meeting.setting, meeting.server, list[Phase]()
    if setting.method.algorithm.silent:
        return update, phases
    context = Context(setting.seed, server.round, -1, setting.shared, server.knobs, meeting.cohort, meeting.replied)
    for place, transform in reversed(list(enumerate(setting.method.transforms))):
        seen = replace(context, place=place)
        if transform.reveal is not None:
            memories = {party: tally.memory.get(party, {}).get(transform_key(place), {}) for party in meeting.replied}
            revealed, messages = transform.reveal(memories, seen)
            phases += messages
            seen = replace(seen, revealed=revealed)
        update = transform.decode(update, seen)
    return update, phases


def via_server(setting: Setting, cohort: Cohort, answer: int, sizes: Mapping[int, int]) -> Sequence[Phase]:
    """Return the messages of a star: the server sends each party `answer` bytes, and each party replies."""
    return Phase("broadcast", down=dict.fromkeys(cohort, answer)), Phase("replies", up=sizes)


@dataclass(frozen=True)
class Exchange:
    """How parties exchange what they learnt. The defaults are those of a server in the middle."""

    combine: Callable[[Meeting], Outcome] = at_server
    """(one round with its replies) -> the next state."""
    phases: Callable[[Setting, Cohort, int, Mapping[int, int]], Sequence[Phase]] = via_server
    """(setting, cohort, bytes of a server's message to each party, bytes of each party's message) -> all messages."""
    needs_each: bool = False
    """Whether it needs the message of each party; otherwise engines may add messages while they train."""
    mixes: bool = False
    """Whether every party has a model of its own. `combine` puts it into the memory: ``{"exchange": {"model": w}}``."""
    content: str = ""
    """The content of the files that it reads, such as a list of edges. It is part of a run's id."""
    has_server: bool = True
    """Whether messages go to a server, which may step before all have come and whose link parties share. An exchange
    that `mixes` has none."""
    refuses: Callable[[Setting], str | None] = field(default=lambda setting: None)
    """(setting) -> why it cannot be combined with the method or the federation, or None."""


def _phases(value: Any, arguments: Sequence[Any]) -> str | None:
    return checks.phases(value)


EXCHANGES: Registry[Exchange] = Registry(
    "exchange",
    Contract(
        Exchange,
        "an sb.Exchange(...) or sb.mixing(...)",
        {
            "combine": Form("meeting", expects(Outcome, "an sb.Outcome")),
            "phases": Form("setting, cohort, answer, sizes", _phases),
            "refuses": Form("setting", checks.sentence),
        },
    ),
)
