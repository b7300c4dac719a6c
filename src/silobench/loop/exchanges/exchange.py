"""`Exchange`: what happens between the parties' replies and the next state of the server."""

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from silobench.errors import RunError
from silobench.method import checks
from silobench.method.chain import without_report
from silobench.method.selection import Cohort
from silobench.method.types import LostRoundError, Memory, Phase, Server, Update, Vector, placed
from silobench.spec import Registry
from silobench.spec.contract import Contract, Form, expects
from silobench.training.blank import blank_message, encoded_blank
from silobench.training.party import server_memories, transform_key
from silobench.training.setting import Setting
from silobench.training.state import PartyMemory, Reply, Tally
from silobench.training.stopwatch import Stopwatch

LOST = "lost rounds"  # a report of a round that was given up
_UNMASKING = "unmasking"  # the phase of a secure sum to which the server's decoding belongs


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
    extra: Mapping[str, Memory] = field(default_factory=dict)  # `State.extra` at the start of the round
    present: Callable[[str], Collection[int]] | None = None  # (phase) -> parties that are still there in it

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
    extra: Mapping[str, Memory] = field(default_factory=dict)  # what changes in `State.extra`


def at_server(meeting: Meeting) -> Outcome:
    """Combine the messages, let the algorithm absorb the result, and take the server optimizer's step."""
    tally, server, method = Tally(), meeting.server, meeting.setting.method
    update = _aggregated(meeting, tally)
    meeting.watch.lap("parties")
    if update is not None and update.is_empty:
        return Outcome(replace(server, round=server.round + 1), tally, _remembered(meeting, tally))
    answer, packs_before = 0, method.algorithm.lockstep and not (method.hides or method.has_noise)
    if update is not None and packs_before:
        update, answer = _answered(update)
    sent: Sequence[Phase] = ()
    try:
        decoded = _decoded(meeting, update, tally)
    except LostRoundError as error:
        tally.reports[LOST] = (1.0, 1)
        decoded, sent = None, error.phases
    if decoded is None:  # too few messages: the round is lost, and parties forget it
        return Outcome(replace(server, round=server.round + 1), tally, {}, phases=sent)
    update, phases, extra = decoded
    if method.algorithm.lockstep and not packs_before:
        update, answer = _answered(update)
    update, buffers = meeting.setting.without_buffers(update, server, meeting.sent or server)
    direction, extras = method.algorithm.absorb(server, meeting.setting.with_personal(update, tally.model_parts))
    params, optimizer = method.server.apply(server.params, direction, server.optimizer)
    after = replace(server, params=params, buffers=buffers, extras=extras, optimizer=optimizer, round=server.round + 1)
    return Outcome(after, tally, _remembered(meeting, tally), answer, phases, extra)


def _answered(update: Update) -> tuple[Update, int]:
    """Return the sum as parties are sent it in lockstep, because they know the last model, and its bytes."""
    lossless = {name: codec for name, codec in update.codecs.items() if codec.lossless}
    message = replace(update, codecs=lossless).pack()
    return message.unpack(), message.nbytes


def _remembered(meeting: Meeting, tally: Tally) -> Mapping[int, PartyMemory]:
    """Return what parties remember of a round: not the keys of a transform that hides messages."""
    secret = {transform_key(place) for place, each in enumerate(meeting.setting.method.transforms) if each.hides}
    if not secret:
        return tally.memory
    return {
        party: {owner: memory for owner, memory in owners.items() if owner not in secret}
        for party, owners in tally.memory.items()
    }


def _aggregated(meeting: Meeting, tally: Tally) -> Update | None:
    """Return the aggregate of all messages; None if there are too few."""
    aggregate, updates = meeting.setting.method.aggregate, tally.updates(meeting.replies)
    if meeting.setting.needs_only_sum:
        return aggregate.combine(updates) if meeting.replied else None
    each = list(updates)
    return aggregate.combine(each) if len(each) >= aggregate.least else None


def _decoded(
    meeting: Meeting, update: Update | None, tally: Tally
) -> tuple[Update, list[Phase], dict[str, Memory]] | None:
    """Run the decoders of the transforms on the aggregate, the last one first; None if there are too few messages.

    Return also their messages and their new memories at the server. A transform that hides messages may raise an error
    if too few parties answered, so it is asked even if none did.
    """
    setting, phases, extra, transforms = (
        meeting.setting,
        list[Phase](),
        dict[str, Memory](),
        meeting.setting.method.transforms,
    )
    if setting.method.algorithm.silent or not transforms:
        return None if update is None else (update, phases, extra)
    context = setting.context(meeting.server, cohort=meeting.cohort, replied=meeting.replied)
    context = replace(context, present=meeting.present, nbytes=max(tally.sizes.values(), default=0))
    contexts = placed(transforms, context, server_memories(meeting.extra, setting))
    for transform, at_place in reversed(list(zip(transforms, contexts, strict=True))):
        key = transform_key(at_place.place)
        if transform.reveal is not None and (update is not None or (transform.hides and meeting.cohort)):
            memories = {party: tally.memory.get(party, {}).get(key, {}) for party in meeting.replied}
            if transform.hides and len(set(tally.sizes.values())) > 1:
                raise RunError("parties sent messages of different lengths, but only their sum may be known.", "")
            try:
                revealed, messages = transform.reveal(memories, at_place)
            except LostRoundError as error:
                raise LostRoundError(str(error), (*phases, *error.phases)) from error
            phases += messages
            at_place = replace(at_place, revealed=revealed)
        if update is None and transform.decodes_nothing and not meeting.replied:
            update, tally.model_parts = blank_message(setting, meeting.server)
            update = encoded_blank(update, setting, contexts[: at_place.place])
        if update is None:
            continue
        began = time.perf_counter()
        update = transform.decode(update, at_place)
        if transform.hides:
            phases = _with_decoding(phases, time.perf_counter() - began)
            update, loss, reports = without_report(update)
            tally.decoded(loss, update.weight, reports)
        if transform.adapt is not None:
            update, extra[key] = transform.adapt(update, at_place.server, at_place)
    return None if update is None else (update, phases, extra)


def _with_decoding(phases: Sequence[Phase], seconds: float) -> list[Phase]:
    """Return the phases, with the seconds in which the server took masks out of the sum."""
    return [replace(each, seconds=each.seconds + seconds) if each.name == _UNMASKING else each for each in phases]


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
