"""Notes about choices that have no effect or a bad one together: a run does them, and its user may not know."""

import math

import torch

from silobench.errors import ConfigError
from silobench.loop.downlink import message_size
from silobench.loop.loop import initial_state
from silobench.loop.schedule import Schedule
from silobench.method.availability import always, present
from silobench.method.chain import send
from silobench.method.types import Context, Transform, Update
from silobench.spec.registry import part_name

_MOST_ROUNDS = 200  # in which it is counted how many parties answer
_TRIED = 4096  # entries of a vector of normal random numbers, to see how much of it arrives


def advice(schedule: Schedule) -> tuple[str, ...]:
    """Return a sentence about each choice of a run that has no effect, or a bad one."""
    if schedule.setting.method.algorithm.silent:
        return ()
    notes = (
        _of_pace, _of_aggregate, _of_answers, _of_hidden_sum, _of_phase, _of_hidden_zeros, _of_rate, _of_feedback,
        _of_broadcast, _of_broadcast_feedback,
    )  # fmt: skip
    return tuple(filter(None, (note(schedule) for note in notes)))


def _of_pace(schedule: Schedule) -> str | None:
    size, cohort = schedule.pace.size, schedule.cohort
    if size is None or size <= cohort:
        return None
    return (
        f"{part_name(schedule.pace, 'pace')} waits for {size} messages, but {cohort} parties take part at a time, so "
        f"the server waits for all of them: a size of less than {cohort} makes a difference"
    )


def _of_aggregate(schedule: Schedule) -> str | None:
    size = min(schedule.cohort, schedule.pace.size or schedule.cohort)
    return schedule.setting.method.aggregate.advice(size)


def _of_answers(schedule: Schedule) -> str | None:
    """Return a note about rounds in which too few parties answer for the aggregate."""
    aggregate = schedule.setting.method.aggregate
    if aggregate.least == 1 or schedule.availability is always() or schedule.pace.takes is not None:
        return None
    answers = _answers(schedule)
    lost, rounds = sum(count < aggregate.least for _, count in answers), len(answers)
    if lost <= rounds // 2:
        return None
    return (
        f"in {lost} of {rounds} rounds fewer than {aggregate.least} parties answer, which "
        f"{part_name(aggregate, 'aggregate')} needs, so these rounds leave the model as it is: let more parties take "
        "part, or lower the rate of the availability"
    )


def _answers(schedule: Schedule, phase: str = "replies") -> list[tuple[int, int]]:
    """Return for each round how many parties it has, and how many of them are still there in a phase."""
    setting, rounds = schedule.setting, range(min(schedule.rounds, _MOST_ROUNDS))
    cohorts = [schedule.selection(setting.federation, schedule.cohort, setting.seed, at) for at in rounds]
    there = [present(schedule.availability, cohort, setting.seed, at, phase) for at, cohort in enumerate(cohorts)]
    return [(len(cohort), len(rest)) for cohort, rest in zip(cohorts, there, strict=True)]


def _of_hidden_sum(schedule: Schedule) -> str | None:
    """Return a note about rounds in which too few parties answer for a sum that hides their messages."""
    method = schedule.setting.method
    if not method.hides:
        return None
    hiding = next(transform for transform in method.transforms if transform.hides)
    answers = _answers(schedule, hiding.phases[-1])
    few = {at: pair for at, pair in enumerate(answers, 1) if pair[0] and pair[1] < _least(hiding, pair[0])}
    if not few:
        return None
    name, needed = part_name(hiding, "transform"), hiding.least(schedule.cohort)
    lack = f"fewer than {needed} of {schedule.cohort} parties answer, which {name} needs"
    if any(cohort != schedule.cohort for cohort, _ in few.values()):
        lack = f"fewer parties take part or answer than {name} needs"
    cohort, most = max(few.values(), key=lambda pair: pair[1])
    return (
        f"in {len(few)} of {len(answers)} rounds, first in round {min(few)}, {lack}, so {hiding.shortage(most, cohort)}"
    )


def _least(hiding: Transform, cohort: int) -> float:
    """Return how many parties must answer; infinity for a round with so few parties that it is refused."""
    try:
        return hiding.least(cohort)
    except ConfigError:
        return math.inf


def _of_phase(schedule: Schedule) -> str | None:
    """Return a note about a phase of the availability that a round does not have."""
    phase = getattr(schedule.availability, "phase", None)
    hiding = [transform for transform in schedule.setting.method.transforms if transform.hides]
    phases = hiding[0].phases if hiding else ("replies",)
    if phase is None or phase in (*phases, "any"):
        return None
    effect = "every party answers" if phase == "unmasking" else "parties are lost before they answer"
    return (
        f"the availability has phase={phase}, but rounds have no such phase without "
        f"{'protocol=pairwise' if hiding else 'a secure sum'}, so {effect}: write phase=replies, or leave phase out"
    )


def _of_hidden_zeros(schedule: Schedule) -> str | None:
    """Return a note about messages that would be short because most of their entries are zero, but must hide which."""
    method = schedule.setting.method
    if not method.hides or not method.algorithm.mostly_zeros:
        return None
    hiding = next(transform for transform in method.transforms if transform.hides)
    return (
        f"{part_name(method.algorithm, 'algorithm')} sends few entries, but with {part_name(hiding, 'transform')} all "
        "are sent, because the places of the others would tell the server about a party's rows: expect longer messages"
    )


def _of_rate(schedule: Schedule) -> str | None:
    """Return a note about a learning rate that would follow the validation loss, but sees too few of them to drop."""
    rate = schedule.setting.method.solver.lr
    while (then := getattr(rate, "then", None)) is not None:
        rate = then
    patience = getattr(rate, "patience", None)
    tests = len({*range(schedule.eval_every, schedule.rounds + 1, schedule.eval_every), schedule.rounds})
    if patience is None or tests > patience + 1:
        return None
    return (
        f"the schedule plateau sees the validation loss of {tests} tests in {schedule.rounds} rounds, and drops the "
        f"learning rate after {patience + 2} tests at the earliest, so it never does: lower patience or eval_every"
    )


def _of_broadcast(schedule: Schedule) -> str | None:
    """Return a note about messages of the server that are as long as the whole model."""
    if not schedule.broadcast:
        return None
    server, setting = initial_state(schedule.setting).server, schedule.setting
    size, whole = message_size(schedule, server), setting.sent(server).nbytes
    if size >= whole:
        return (
            f"the transforms of broadcast send {size} bytes, and the whole model has {whole}, so the server sends that "
            "instead: use transforms that compress more, or leave broadcast out"
        )
    rounds = len(setting.federation.parties) / schedule.cohort  # from one message to a party to the next, on average
    if rounds * size < whole:
        return None
    return (
        f"a party takes part in one of about {rounds:.0f} rounds, and the messages of the server that it misses are as "
        "long as the whole model, so broadcast saves almost nothing: let more parties take part, or compress more"
    )


def _of_feedback(schedule: Schedule) -> str | None:
    """Return a note about errors that grow because they are fed back, as those of a quantisation to two bits do."""
    setting = schedule.setting
    chain = [each for each in setting.method.transforms if each.packs or each.settle]  # without those of unknown effect
    while chain and chain[0].settle is None:
        del chain[0]
    if not any(each.packs == "values" for each in chain[1:]):
        return None
    update = Update.of(1.0, delta=torch.randn(_TRIED, generator=torch.Generator().manual_seed(0)))
    arrived = send(update, chain, [{}] * len(chain), Context(0, 0, 0, setting.shared, {})).arrived
    error = float(
        torch.linalg.vector_norm(update.lost(arrived)["delta"]) / torch.linalg.vector_norm(update.total["delta"])
    )
    if error <= 1:
        return None
    first, last = (part_name(each, "transform") for each in (chain[0], chain[-1]))
    return (
        f"{first} adds errors to the next update, but the errors of {last} are about {error:.1f} times as long as the "
        "update, so they grow from round to round: use more bits or smaller buckets, or do not feed errors back"
    )


def _of_broadcast_feedback(schedule: Schedule) -> str | None:
    """Return a note about a transform of the broadcast that only feeds errors back."""
    idle = [each for each in schedule.broadcast if each.settle is not None and not each.packs]
    if not idle:
        return None
    return (
        f"{part_name(idle[0], 'transform')} has no effect in broadcast, because what a message of the server loses is "
        "a part of its next one anyway: leave it out"
    )
