"""Rounds under a secure sum: parties that are lost, rounds that are lost, keys that nobody keeps, and the clock."""

import itertools
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from laws import SOLVER, bits, models, run
from silobench.engines import ENGINES
from silobench.errors import RunError
from silobench.loop.advice import advice
from silobench.loop.rounds import rounds
from silobench.loop.schedule import Schedule
from silobench.method.algorithms import ALGORITHMS
from silobench.method.availability import AVAILABILITIES, PHASES, dropout, present
from silobench.method.method import Method
from silobench.method.selection import poisson
from silobench.method.transforms import clip, secure_sum
from silobench.method.types import Context, Memory, Phase, Transform, Update
from silobench.runs.checkpoint import pack
from silobench.runs.execute import execute
from silobench.runs.experiment import plan
from silobench.runs.prepare import prepare
from silobench.training.setting import Setting
from silobench.training.state import RoundRecord
from wire import identity

SIZES = (20, 9, 30, 50, 16)
FINE = 2.0**-16
ROUNDS = 5


def pairwise(**arguments: Any) -> Transform:
    return secure_sum(**{"protocol": "pairwise", "range": 4.0, **arguments})


# --- dropout by phase ---------------------------------------------------------------------------------


def test_who_is_lost_does_not_depend_on_the_phase() -> None:
    cohort = tuple(range(40))
    answered = dropout(0.3)(cohort, 1, 2)
    assert 0 < len(answered) < 40
    for place, phase in enumerate(PHASES):
        available = dropout(0.3, phase)
        there = [present(available, cohort, 1, 2, each) for each in PHASES]
        assert there == [cohort] * place + [answered] * (4 - place)
        assert available(cohort, 1, 2) == there[2]
    there = [present(dropout(0.3, "any"), cohort, 1, 2, each) for each in PHASES]
    assert all(set(later) < set(sooner) for sooner, later in itertools.pairwise(there))
    assert there[-1] == answered


def test_other_availabilities_concern_the_replies() -> None:
    def second(cohort: Any, seed: int, now: int) -> tuple[int, ...]:
        return cohort[1:]

    assert [present(second, (1, 4, 6), 0, 0, phase) for phase in PHASES] == [(1, 4, 6), (1, 4, 6), (4, 6), (4, 6)]


def test_the_phase_is_not_a_part_of_earlier_ids() -> None:
    assert str(AVAILABILITIES.bind("dropout(rate=0.2)").full) == "dropout(rate=0.2)"
    assert "phase=keys" in str(AVAILABILITIES.bind("dropout(rate=0.2, phase=keys)").full)


@pytest.mark.parametrize("phase", [*PHASES, "any"])
def test_the_sum_is_that_of_the_parties_that_answered(toy, phase: Any) -> None:
    """At most two of five are lost in a round of these, and three must stay."""
    options: dict[str, Any] = {"availability": dropout(0.2, phase), "rounds": ROUNDS, "seed": 3}
    plain, ours = (
        run("scaffold", toy(SIZES), **options),
        run("scaffold", toy(SIZES), SOLVER, pairwise(threshold=3), **options),
    )
    assert [record.replied for record in ours] == [record.replied for record in plain]
    assert any(record.replied for record in ours) == (phase != "unmasking")
    assert (models(ours) - models(plain)).abs().max() <= 64 * FINE
    assert [record.train_loss for record in ours] == pytest.approx([record.train_loss for record in plain], abs=1e-4)


class Lost:
    """An availability that loses some parties in one phase of round 2, by name of the phase."""

    def __init__(self, parties: Collection[int], phase: str):
        self.parties, self.phase = parties, phase

    def at(self, cohort: Sequence[int], seed: int, number: int, phase: str) -> tuple[int, ...]:
        is_lost = number == 1 and PHASES.index(phase) >= PHASES.index(self.phase)
        return tuple(party for party in cohort if not (is_lost and party in self.parties))


def run_with_losses(
    toy: Any, monkeypatch: pytest.MonkeyPatch, lost: Lost, secure: Transform, records: list[RoundRecord] | None = None
) -> list[RoundRecord]:
    """Return the records of a run, which are appended to `records` one by one."""

    def available(cohort: Any, seed: int, number: int) -> tuple[int, ...]:
        return lost.at(cohort, seed, number, "replies")

    monkeypatch.setattr("silobench.loop.turns.present", lambda available, *rest: lost.at(*rest))
    method, records = Method(ALGORITHMS.build("fedavg"), SOLVER, (secure,)), [] if records is None else records
    for record in rounds(method, *toy(SIZES), rounds=3, availability=available):
        records.append(record)  # so that they are there after an error
    return records


@pytest.mark.parametrize("phase", PHASES)
def test_one_more_than_the_threshold_allows_ends_the_run(toy, monkeypatch: pytest.MonkeyPatch, phase: str) -> None:
    """Any one party of five may be lost with a threshold of 4, and no two."""
    for party in (0, 3):
        records = run_with_losses(toy, monkeypatch, Lost([party], phase), pairwise(threshold=4))
        assert records[1].replied == (None if phase == "unmasking" else tuple(p for p in range(5) if p != party))
    seen: list[RoundRecord] = []
    with pytest.raises(RunError, match=r"^round 2: 3 of 5 parties .* but the secure sum needs 4: "):
        run_with_losses(toy, monkeypatch, Lost([2, 4], phase), pairwise(threshold=4), seen)
    assert len(seen) == 1
    assert torch.equal(seen[0].state.server.params, records[0].state.server.params)


@pytest.mark.parametrize("phase", PHASES)
def test_a_lost_round_leaves_everything_as_it_was(toy, monkeypatch: pytest.MonkeyPatch, phase: str) -> None:
    records = run_with_losses(toy, monkeypatch, Lost([0, 3], phase), pairwise(threshold=4, too_few="skip"))
    assert [record.reports for record in records] == [{}, {"lost rounds": 1.0}, {}]
    first, second, third = (record.state.server.params for record in records)
    assert torch.equal(first, second)
    assert not torch.equal(second, third)
    assert np.isnan(records[1].train_loss)


def test_splits_need_every_party(toy, monkeypatch: pytest.MonkeyPatch) -> None:
    for phase in ("keys", "replies"):
        with pytest.raises(RunError, match=r"4 of 5 parties .* needs 5"):
            run_with_losses(toy, monkeypatch, Lost([2], phase), secure_sum(splits=2, range=4.0))
        records = run_with_losses(toy, monkeypatch, Lost([2], phase), secure_sum(range=4.0, too_few="skip"))
        assert records[1].reports == {"lost rounds": 1.0}
    assert not run_with_losses(toy, monkeypatch, Lost([2], "unmasking"), secure_sum(range=4.0))[1].reports


def test_a_round_in_which_nobody_answers_is_too_few(toy, monkeypatch: pytest.MonkeyPatch) -> None:
    for phase in PHASES:
        with pytest.raises(RunError, match="round 2: 0 of 5 parties"):
            run_with_losses(toy, monkeypatch, Lost(range(5), phase), pairwise())


def notes(toy: Any, secure: Transform | None, **options: Any) -> str:
    federation, task = toy(SIZES)
    method = Method(ALGORITHMS.build("fedavg"), SOLVER, (secure,) if secure else ())
    return " ".join(advice(Schedule(Setting(method, federation, task, 3), rounds=ROUNDS, **options)))


@pytest.mark.parametrize("phase", [*PHASES, "any"])
def test_too_few_answers_are_foreseen(toy, phase: Any) -> None:
    options: dict[str, Any] = {"availability": dropout(0.2, phase), "rounds": ROUNDS, "seed": 3}
    lost = [record.reports for record in run("fedavg", toy(SIZES), SOLVER, pairwise(too_few="skip"), **options)]
    few = [number for number, reports in enumerate(lost, 1) if reports]
    assert 0 < len(few) < ROUNDS
    note = notes(toy, pairwise(), availability=dropout(0.2, phase))
    assert f"in {len(few)} of 5 rounds, first in round {few[0]}, fewer than 4 of 5 parties answer" in note
    assert "so the run stops there: lower the threshold to 3, let fewer parties drop out, or write too_few=skip" in note
    note = notes(toy, pairwise(too_few="skip"), availability=dropout(0.2, phase))
    assert "so these rounds are lost and leave the model as it is: lower the threshold to 3, let fewer" in note
    assert "too_few" not in note
    assert "parties answer" not in notes(toy, pairwise(), availability=dropout(0.0, phase))


def test_small_cohorts_of_a_secure_sum_are_foreseen(toy) -> None:
    note = notes(toy, secure_sum(range=4.0), selection=poisson(reproducible=True), participation=2)
    assert "fewer parties take part or answer than the transform secure-sum needs, so the run stops there: let" in note
    assert "drop" not in note
    assert not notes(toy, secure_sum(range=4.0), participation=2)


@pytest.mark.parametrize(
    ("secure", "phase", "expected"),
    [
        (None, "unmasking", "no such phase without a secure sum, so every party answers: write phase=replies"),
        (None, "keys", "no such phase without a secure sum, so parties are lost before they answer"),
        (secure_sum(range=4.0), "unmasking", "no such phase without protocol=pairwise, so every party answers"),
        (secure_sum(range=4.0, protocol="pairwise"), "unmasking", ""),
        (None, "replies", ""),
        (None, "any", ""),
    ],
)
def test_a_phase_that_rounds_do_not_have_is_noted(toy, secure: Any, phase: Any, expected: str) -> None:
    note = notes(toy, secure, availability=dropout(0.01, phase))
    assert expected in note
    assert ("no such phase" in note) == bool(expected)


# --- keys ---------------------------------------------------------------------------------------------


def noting_secrets(secure: Transform, secrets: list[bytes]) -> Transform:
    """Return the transform, with the memories of all parties written to a list."""

    def agree(memories: Mapping[int, Memory], context: Context) -> tuple[Mapping[int, Memory], Sequence[Phase]]:
        assert secure.agree is not None
        after, phases = secure.agree(memories, context)
        for memory in after.values():
            secrets.extend(
                each.numpy().tobytes() for name, each in memory.items() if name not in ("numbers", "publics")
            )
        return after, phases

    return replace(secure, agree=agree)


@pytest.mark.parametrize("secure", [secure_sum(splits=3), secure_sum(protocol="pairwise")], ids=["splits", "pairwise"])
@pytest.mark.parametrize("spec", ["scaffold", "fedavg(iter_local=2)"])
def test_no_secret_is_in_a_checkpoint(toy, secure: Transform, spec: str) -> None:
    secrets: list[bytes] = []
    solver = replace(SOLVER, steps=1, keep_momentum=True) if "iter" in spec else SOLVER
    records = run(spec, toy(SIZES), solver, clip(1.0), noting_secrets(secure, secrets))
    pieces = [secret[begin : begin + 16] for secret in secrets for begin in range(0, len(secret) - 15, 16)]
    assert len(pieces) >= 3 * 5 * 4
    for record in records:
        content = pack(record.state, {})
        assert record.state.server.params.numpy().tobytes() in content  # so that a secret would be seen
        assert not [piece for piece in pieces if piece in content]
        assert all("transform-1" not in memory for memory in record.state.memory.values())
    assert len(set(secrets)) == len(secrets) or "arrived" in str(secure)  # a part that left a party arrives at another


# --- kill and resume ----------------------------------------------------------------------------------


def test_a_run_resumes_with_the_same_bits(toy) -> None:
    options: dict[str, Any] = {"availability": dropout(0.2, "any"), "rounds": ROUNDS, "seed": 3}
    whole = run("scaffold", toy(SIZES), SOLVER, pairwise(threshold=3), **options)
    for done in (1, 4):
        rest = run("scaffold", toy(SIZES), SOLVER, pairwise(threshold=3), **options, state=whole[done - 1].state)
        assert list(map(bits, rest)) == list(map(bits, whole[done:]))


def test_a_stopped_run_resumes_from_its_checkpoint(tmp_path: Path) -> None:
    cell = {
        "dataset": "digits", "model": "linear", "parties": 3, "rounds": 2,
        "transforms": "clip(norm=1) | secure_sum(protocol=pairwise)",
    }  # fmt: skip
    (planned,) = plan(cell)
    whole = list(execute(prepare(planned), tmp_path / "whole"))
    started = execute(prepare(planned), tmp_path / "parts")
    next(started)
    started.close()
    rest = list(execute(prepare(planned), tmp_path / "parts"))
    assert len(rest) == 1
    assert bits(rest[-1].state) == bits(whole[-1].state)


# --- costs --------------------------------------------------------------------------------------------


def test_every_phase_counts(toy) -> None:
    from silobench.loop.network import link

    plain, ours = (
        run("fedavg", toy(SIZES), SOLVER, *chain, network=link("1Mbps", latency=0.25), rounds=2)
        for chain in ((), (pairwise(),))
    )
    message, shares = 4 * 15 + 8 * 2, 2  # numbers: weight and loss
    for now, (one, other) in enumerate(zip(plain, ours, strict=True)):
        up = other.bytes_up - 5 * message
        assert up > 5 * (64 + 4 * 2 * shares * 32)  # keys, shares for four others of two secrets, and the unmasking
        assert other.bytes_down > one.bytes_down + 5 * 4 * 64
        # Two ways each of keys, shares and unmasking: six times the latency more than broadcast and replies.
        assert other.clock - one.clock >= (now + 1) * 6 * 0.25
        assert other.clock - one.clock < (now + 1) * 6 * 0.30


def phase_counts(record: RoundRecord) -> dict[str, tuple[float, ...]]:
    """Return bytes up, bytes down and messages by phase."""
    return {name: (each["up"], each["down"], each["messages"]) for name, each in record.phases.items()}


PAIRWISE_OF_FIVE = {"keys": (320, 1700, 10), "shares": (1960, 1960, 20)}


def test_a_record_counts_by_phase(toy) -> None:
    message = 4 * 15 + 8 * 2
    (record,) = run("fedavg", toy(SIZES), SOLVER, pairwise(), rounds=1)
    replies = {"replies": (5 * message, 0, 5)}
    assert phase_counts(record) == {**PAIRWISE_OF_FIVE, **replies, "unmasking": (925, 100, 10)}
    assert all(each["seconds"] > 0 for each in record.phases.values())
    assert list(record.phases) == ["keys", "shares", "replies", "unmasking"]
    assert record.as_json()["phases"] == record.phases
    assert sum(each["up"] for each in record.phases.values()) == record.bytes_up
    (split,) = run("fedavg", toy(SIZES), SOLVER, secure_sum(splits=3, range=4.0), rounds=1)
    ways = 5 * 2 * (message + 28)
    assert phase_counts(split) == {"shares": (ways, ways, 10), **replies}
    (plain,) = run("fedavg", toy(SIZES), SOLVER, rounds=1)
    assert not plain.phases
    assert "phases" not in plain.as_json()


def test_decoding_counts_as_unmasking(toy) -> None:
    secure = pairwise()

    def slowly(update: Update, context: Context) -> Update:
        time.sleep(0.2)
        return secure.decode(update, context)

    (record,) = run("fedavg", toy(SIZES), SOLVER, replace(secure, decode=slowly), rounds=1)
    assert record.phases["unmasking"]["seconds"] >= 0.2
    assert set(record.phases) == {"keys", "shares", "replies", "unmasking"}


@pytest.mark.parametrize(
    ("phase", "expected"),
    [
        ("keys", {"keys": (192, 0, 3)}),
        ("shares", {"keys": (320, 1700, 10), "shares": (1176, 0, 12)}),
        ("replies", {**PAIRWISE_OF_FIVE, "replies": (3 * 76, 0, 3)}),
        ("unmasking", {**PAIRWISE_OF_FIVE, "replies": (5 * 76, 0, 5), "unmasking": (555, 100, 8)}),
    ],
)
def test_a_lost_round_counts_what_was_sent(
    toy, monkeypatch: pytest.MonkeyPatch, phase: str, expected: dict[str, tuple[int, ...]]
) -> None:
    records = run_with_losses(toy, monkeypatch, Lost([0, 3], phase), pairwise(threshold=4, too_few="skip"))
    lost = records[1]
    assert lost.reports == {"lost rounds": 1.0}
    assert phase_counts(lost) == expected
    assert lost.bytes_up == sum(up for up, _, _ in expected.values())
    assert phase_counts(records[2]) == phase_counts(records[0])


def test_a_dropout_shows_in_the_counts(toy, monkeypatch: pytest.MonkeyPatch) -> None:
    records = run_with_losses(toy, monkeypatch, Lost([2], "replies"), pairwise(threshold=4))
    assert phase_counts(records[1]) == {**PAIRWISE_OF_FIVE, "replies": (4 * 76, 0, 4), "unmasking": (740, 64, 8)}


def test_encryption_is_measured(toy) -> None:
    (record,) = run("fedavg", toy(SIZES), SOLVER, pairwise(), rounds=1)
    (plain,) = run("fedavg", toy(SIZES), SOLVER, rounds=1)

    def encrypting(each: RoundRecord) -> float:
        return float(each.time["parties"]["encrypt"])

    assert encrypting(record) > 0 == encrypting(plain)


# --- memories of transforms at the server -------------------------------------------------------------


def counting(log: list[Any] | None = None) -> Transform:
    """Return a transform with a memory at the server: the number of messages that arrived in all rounds."""

    def encode(update: Update, memory: Memory, context: Context) -> tuple[Update, Memory]:
        if log is not None:
            log.append((context.round, context.party, int(context.server.get("count", torch.tensor(0)))))
        return update.with_sums(one=torch.tensor(1.0)), memory

    def adapt(update: Update, memory: Memory, context: Context) -> tuple[Update, Memory]:
        sums = dict(update.sums)
        count = memory.get("count", torch.tensor(0)) + int(sums.pop("one"))
        return replace(update, sums=sums), {"count": count}

    return Transform(encode, adapt=adapt)


@pytest.mark.parametrize("chain", [(), (clip(1.0), secure_sum())], ids=["plain", "secure"])
def test_parties_are_sent_the_memory_of_a_transform(toy, chain: tuple[Transform, ...]) -> None:
    log: list[Any] = []
    options: dict[str, Any] = {"participation": 3, "seed": 1}
    records = run("fedavg", toy(SIZES), SOLVER, identity(), counting(log), *chain, **options)
    assert [count for _, _, count in log] == [0] * 3 + [3] * 3 + [6] * 3
    assert [int(record.state.extra["transform-1"]["count"]) for record in records] == [3, 6, 9]
    plain = run("fedavg", toy(SIZES), SOLVER, identity(), identity(), *chain, **options)
    assert torch.equal(models(records), models(plain))
    more = [one.bytes_down - other.bytes_down for one, other in zip(records, plain, strict=True)]
    assert [each - more[0] for each in more] == [0, 3 * 8, 3 * 8]  # a share has one more number in every round
    rest = run("fedavg", toy(SIZES), SOLVER, identity(), counting(), *chain, **options, state=records[0].state)
    assert list(map(bits, rest)) == list(map(bits, records[1:]))
    pool = run(
        "fedavg", toy(SIZES), SOLVER, identity(), counting(), *chain, **options, engine=ENGINES.build("pool(workers=2)")
    )
    assert torch.equal(models(pool), models(records))
    assert bits(pool[-1].state) == bits(records[-1].state)
