"""What will leave a silo in a run: when, how many bytes, readable or masked, and what it costs of privacy.

Sizes are those of messages of zeros through the real transforms and codecs, and epsilon is that of the accountant.
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from silobench.loop.privacy import Privacy
from silobench.loop.schedule import Schedule
from silobench.method.secure.pairwise import messages_of_sharing, messages_of_unmasking
from silobench.method.types import Message
from silobench.silos.agreement import Agreement, Roster, example_roster, like
from silobench.silos.allowance import fewest_answers
from silobench.silos.consortium import Consortium
from silobench.silos.letters import Letter
from silobench.silos.messages import blank_reply
from silobench.silos.mode import throwaway_keys
from silobench.silos.secret_keys import ADVERT_BYTES
from silobench.training.party import LocalRound
from silobench.training.state import State

_ONCE, _ROUND, _TEST, _END = "once, when it joins", "in every round", "in every tested round", "after the last round"
_UNCOVERED = "not covered by epsilon"  # no noise protects it
_CLEAR, _MASKED, _ENCRYPTED = (
    "readable",
    "masked: only the sum of all silos is readable",
    "encrypted for one other silo",
)


@dataclass(frozen=True)
class Departure:
    """Something that leaves a silo."""

    when: str
    what: str
    bytes: int  # each time
    times: int
    form: str  # for the server: readable, masked or encrypted
    privacy: str = ""  # what it costs of privacy, if noise protects messages

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def leaving(consortium: Consortium, rows: int) -> list[Departure]:
    """Return everything that leaves a silo with this many training rows, in the order of a run."""
    agreement = Agreement.of(consortium)
    roster = _roster(agreement, rows)
    schedule = agreement.run(roster).schedule
    uncovered = _UNCOVERED if Privacy(schedule).is_private else ""
    return [
        *_joining(agreement, rows, uncovered),
        *_messages(agreement, schedule, uncovered),
        *_tests(agreement, schedule, uncovered),
    ]


def _roster(agreement: Agreement, rows: int) -> Roster:
    """Return a roster in which every silo is as large as this one."""
    example = example_roster(agreement.consortium, agreement.columns)
    known = like(rows) if agreement.hides else rows
    return Roster(example.names, (known,) * len(example.names), example.tests, example.summary)


def _joining(agreement: Agreement, rows: int, uncovered: str) -> Iterator[Departure]:
    columns, silos, rounds = agreement.columns, len(agreement.consortium.names), agreement.plan.cell.rounds
    summary = example_roster(agreement.consortium, columns).summary
    names = [*columns.summed_features, *([] if columns.label.classes else [columns.label.name])]
    size = len(Letter("join", {"summary": summary.as_json()}).content)
    if names:
        yield Departure(
            _ONCE, f"for {len(names)} columns of numbers: known cells, their sum, and squares about the mean", size, 1,
            _CLEAR, uncovered,
        )  # fmt: skip
    count = f"about {like(rows)}" if agreement.hides and not columns.summed_features else "exact"
    yield Departure(_ONCE, f"the numbers of training rows ({count}) and of test rows", 16, 1, _CLEAR, uncovered)
    if agreement.hides:
        yield Departure(
            _ONCE, "public keys for all rounds, and digests of secret ones, signed", ADVERT_BYTES * rounds, 1, _CLEAR
        )
        shares = messages_of_sharing(range(silos), [0], [0]).up[0] * rounds
        yield Departure(_ONCE, "shares of its keys for the other silos", shares, 1, _ENCRYPTED)


def _messages(agreement: Agreement, schedule: Schedule, uncovered: str) -> Iterator[Departure]:
    rounds, silos, form = schedule.rounds, len(agreement.consortium.names), _MASKED if agreement.hides else _CLEAR
    message, privacy = _message(agreement, schedule), "; ".join(_privacy(schedule))
    for name, part in {**message.total, **message.sums}.items():
        yield Departure(_ROUND, f"the part {name} of its message", part.nbytes, rounds, form, privacy)
    if agreement.hides:
        yield Departure(_ROUND, "the seconds of its training", 64, rounds, _CLEAR, uncovered)
        shares = messages_of_unmasking([0], [0], silos).up[0]
        yield Departure(_ROUND, "shares of keys, to unmask the sum", shares, rounds, _CLEAR)
    else:
        loss = "" if agreement.is_loss_secret(schedule.setting) else "its training loss, "
        what = f"the weight of its message, {loss}steps and seconds, and reports of transforms"
        yield Departure(_ROUND, what, 64, rounds, _CLEAR, uncovered)


def _message(agreement: Agreement, schedule: Schedule) -> Message:
    """Return a message of zeros in the first round."""
    setting = schedule.setting
    everybody = tuple(range(len(setting.federation.parties)))
    local_round = LocalRound(setting, setting.sent(setting.initial_server()), everybody)
    return blank_reply(local_round, 0, {}, throwaway_keys(agreement, everybody).get(0, {}))


def _tests(agreement: Agreement, schedule: Schedule, uncovered: str) -> Iterator[Departure]:
    classes, tests = len(agreement.columns.label.classes), -(-schedule.rounds // schedule.eval_every)
    what = "of its test rows, by class: all, and those with the right answer; the sum of losses"
    if not classes:
        what = "sums over its test rows: losses and errors"
    yield Departure(_TEST, what, 16 * max(1, classes) + 8, tests, _CLEAR, uncovered)
    if classes:
        yield Departure(
            _END, "its test rows by class and answer, and by confidence of the answer", 8 * (classes**2 + 46), 1,
            _CLEAR, uncovered,
        )  # fmt: skip


def _privacy(schedule: Schedule) -> Iterator[str]:
    """Yield the epsilon of one round and of all rounds, for each unit that noise protects."""
    privacy = Privacy(schedule)
    if not privacy.is_private:
        return
    setting = schedule.setting
    state = first = State(setting.initial_server())
    everybody, after_one = tuple(range(len(setting.federation.parties))), dict[str, Any]()
    fewest = fewest_answers(setting, everybody, 0)
    for _ in range(schedule.rounds):
        state = privacy.charged(state, first, everybody, everybody, replied=fewest)
        after_one = after_one or privacy.report(state, is_last=False)
    for unit, spent in privacy.report(state, is_last=False).items():
        whom = "a row" if unit == "example" else "the whole silo"
        doubt = f", but no guarantee: {spent['reason']}" if "reason" in spent else ""
        yield (
            f"epsilon {after_one[unit]['epsilon']:.3g} after one round and {spent['epsilon']:.3g} after all, at delta "
            f"{spent['delta']:g}, for {whom}{doubt}"
        )
