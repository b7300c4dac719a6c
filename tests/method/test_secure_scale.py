"""The scale of a secure sum by hand: how fine its steps are, what fits, and what it tells of rounds that are lost.

With four parties a value is at most (2^31 - 1) // 4 < 2^29 steps of a ring of 32 bits. The largest value of a message
is range (1 + 2^-20) weight, so for powers of two range · weight · 2^exponent is at most 2^28.
"""

from dataclasses import replace
from typing import Any

import pytest
import torch

from silobench.errors import ConfigError, RunError
from silobench.method.secure import Ring
from silobench.method.transforms import TRANSFORMS
from silobench.method.transforms.secure_sum import protocol_of, with_protocol
from silobench.method.types import LARGEST_SCALAR, Context, Layout, LostRoundError, Transform, Update

SLACK = 1 + 2.0**-20


def context_of(parties: int = 4, rows: float = 1.0, least: float = 1.0, **facts: Any) -> Context:
    every = tuple(range(parties))
    return Context(0, 2, 1, Layout((), (), 0), {}, every, weight_bound=rows, least_weight=least, **facts)


def message(secure: Transform, update: Update, context: Context) -> Update:
    assert secure.agree
    memories, _ = secure.agree({}, replace(context, cohort=context.cohort if len(context.cohort) > 1 else (0, 1)))
    sent: Update = secure.encode(update, memories[context.party], context)[0]
    return sent


def ring_of(text: str, context: Context, part: str = "total", entry: float = 0.0, weight: float = 1.0) -> Ring:
    parts = {"delta": torch.tensor([entry], dtype=torch.float64)}
    update = Update.of(weight, **parts) if part == "total" else Update.of(weight).with_sums(**parts)
    ring: Ring = message(TRANSFORMS.build(text), update, context).codecs[f"secure {part} delta"].note.ring
    return ring


# --- steps --------------------------------------------------------------------------------------------


def test_32_bits_are_taken_while_half_a_step_is_fine() -> None:
    for reach, rows, least, bits, exponent in (
        (1.0, 2**13, 1, 32, 15),  # half a step is 2^-16
        (1.0, 2**14, 1, 64, 60 - 14),
        (1.0, 2**15, 4, 32, 13),  # of a mean over messages of weight 4 it is a quarter
        (1.0, 2**16, 4, 64, 60 - 16),
        (0.25, 2**13, 1, 32, 17),  # 2^-16 of the range
        (0.25, 2**14, 1, 64, 62 - 14),
        (0.75, 2**13, 1, 32, 16),  # half a step is 2^-17
        (0.75, 2**14, 1, 64, 61 - 14),  # it would be 2^-16, and is a little more than is fine
        (4.0, 2**11, 1, 32, 15),
        (4.0, 2**12, 1, 64, 58 - 12),
    ):
        ring = ring_of(f"secure_sum(range={reach})", context_of(rows=rows, least=least))
        assert (ring.bits, ring.exponent, ring.limit) == (bits, exponent, reach * SLACK * rows)


def test_a_ring_has_room_for_two_parties_at_least() -> None:
    exponents = [ring_of("secure_sum(range=1)", context_of(parties)).exponent for parties in (1, 2, 3, 4, 8, 9)]
    assert exponents == [29, 29, 29, 28, 27, 27]
    exponents = [ring_of("secure_sum(range=1.5)", context_of(parties)).exponent for parties in (1, 2, 3, 4)]
    assert exponents == [29, 29, 28, 28]


def test_sums_have_no_weight() -> None:
    context = context_of(rows=2**14)
    assert ring_of("secure_sum(range=1)", context, "sums").exponent == 28
    assert ring_of("secure_sum(range=1, bits=32)", context).exponent == 14


def test_the_ring_is_as_fine_as_the_noise_before_it() -> None:
    assert ring_of("secure_sum(range=1)", context_of(exponent=28)).bits == 32
    assert ring_of("secure_sum(range=1)", context_of(exponent=27)).bits == 32  # it is finer then
    assert ring_of("secure_sum(range=1)", context_of(exponent=29)).bits == 64
    assert ring_of("secure_sum(range=1, bits=32)", context_of(exponent=28)).bits == 32
    with pytest.raises(ConfigError, match=r"steps of 2\^-29, but 32 bits have room for steps of 2\^-28: write bits=64"):
        ring_of("secure_sum(range=1, bits=32)", context_of(exponent=29))


def test_a_step_that_is_too_coarse_is_refused() -> None:
    """Half a step is 2^-8, or 2^-8 of a range below 1; of twice the rows it is more."""
    for reach, rows in ((1.0, 2**21), (0.25, 2**21), (4.0, 2**19)):
        text = f"secure_sum(range={reach}, bits=32)"
        assert ring_of(text, context_of(rows=rows)).step / 2 == min(1.0, reach) * 2.0**-8
        assert ring_of(text, context_of(rows=4 * rows, least=4.0)).step / 8 == min(1.0, reach) * 2.0**-8
        with pytest.raises(ConfigError, match=rf"up to {reach:g}, so with 32 bits the mean may be wrong by"):
            ring_of(text, context_of(rows=2 * rows))


def test_a_step_that_is_a_little_too_coarse_is_refused() -> None:
    """Half a step is 2^-9 for 2^21 rows, and 2^-8 for twice as many. The limit is between them: 0.75 of 2^-8."""
    text = "secure_sum(range=0.75, bits=32)"
    assert ring_of(text, context_of(rows=2.0**21)).step / 2 == 2.0**-9
    with pytest.raises(ConfigError, match=r"the mean may be wrong by 0\.0039: write bits=64, or give a smaller range"):
        ring_of(text, context_of(rows=2.0**22))


def test_the_norm_of_a_clip_is_the_range() -> None:
    slack = 1 + 2.0**-6  # for the rounding of the norm
    assert ring_of("secure_sum", context_of(bound=2.0)).limit == 2 * slack * SLACK
    assert ring_of("secure_sum(range=3)", context_of(bound=2.0)).limit == 3 * SLACK


def test_numbers_have_64_bits_and_room_for_the_largest_scalar() -> None:
    update = Update.of(5.0, loss=torch.tensor(2.0), delta=torch.zeros(2))
    for parties in (1, 3, 9):
        sent = message(TRANSFORMS.build("secure_sum(range=1)"), update, context_of(parties, rows=12.0))
        note = sent.codecs["secure numbers"].note
        assert note.ring == Ring.of(LARGEST_SCALAR * SLACK * 12, max(2, parties), 64)
        assert [known.name for known in note.parts] == ["loss"]
        assert sent.sums["secure numbers"].shape == (2,)  # the weight and the loss


# --- what fits ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("weight", "part"), [(1.0, "total"), (8.0, "total"), (8.0, "sums")])
def test_an_entry_may_exceed_the_range_by_rounding(weight: float, part: str) -> None:
    def ring(entry: float) -> Ring:
        return ring_of("secure_sum(range=2)", context_of(rows=8.0), part, entry, weight)

    for fits in (2.0, -2.0, 2 * SLACK, -2 * SLACK):
        ring(fits)
    for beyond in (2 * SLACK + 1e-9, -2 * SLACK - 1e-9):
        with pytest.raises(RunError, match="round 3, party 1: an entry of delta is 2, but secure_sum has room for"):
            ring(beyond)


def test_the_bound_of_a_clip_may_be_exceeded_by_a_little() -> None:
    slack = 1 + 2.0**-6
    ring_of("secure_sum", context_of(bound=2.0), entry=2 * slack)
    with pytest.raises(RunError, match=r"is 2\.04, but"):
        ring_of("secure_sum", context_of(bound=2.0), entry=2.04)


# --- rounds that are lost -----------------------------------------------------------------------------


def test_the_shortage_is_told_with_its_remedy() -> None:
    stop, skip = (TRANSFORMS.build(f"secure_sum(range=1, protocol=pairwise{end})") for end in ("", ", too_few=skip"))
    protocol = protocol_of(stop)
    assert protocol
    remedy = protocol.remedy(2, 6)
    assert stop.shortage(2, 6) == (
        f"the run stops there: {remedy}, or write too_few=skip, which gives up such rounds only"
    )
    assert skip.shortage(2, 6) == f"these rounds are lost and leave the model as it is: {remedy}"
    assert [stop.least(6), TRANSFORMS.build("secure_sum(range=1)").least(6)] == [5, 6]


def test_a_round_with_too_few_parties_is_an_error_or_lost() -> None:
    context = context_of(5, present=lambda phase: (0, 1))
    stop, skip = (TRANSFORMS.build(f"secure_sum(range=1, protocol=pairwise{end})") for end in ("", ", too_few=skip"))
    assert stop.agree
    assert skip.agree
    with pytest.raises(RunError, match="round 3: "):
        stop.agree({}, context)
    with pytest.raises(LostRoundError):
        skip.agree({}, context)


def test_a_secure_sum_knows_its_protocol() -> None:
    pairwise, splits = (TRANSFORMS.build(f"secure_sum(range=1, protocol={name})") for name in ("pairwise", "splits"))
    assert protocol_of(TRANSFORMS.build("clip")) is None
    protocol = protocol_of(pairwise)
    assert protocol
    assert protocol_of(with_protocol(splits, protocol)) is protocol
    assert with_protocol(splits, protocol).hides
    assert with_protocol(splits, protocol).phases == pairwise.phases != splits.phases


def test_default_splits_are_two() -> None:
    texts = ("secure_sum(range=1)", "secure_sum(splits=2, range=1)", "secure_sum(splits=3, range=1)")
    two, same, three = (protocol_of(TRANSFORMS.build(text)) for text in texts)
    assert two == same != three


def test_messages_of_different_lengths_are_an_error() -> None:
    secure = TRANSFORMS.build("secure_sum(range=1)")
    sent = message(secure, Update.of(1.0, delta=torch.zeros(3)), context_of())
    for nbytes in (sent.dense_nbytes - 1, sent.dense_nbytes + 1):
        with pytest.raises(RunError, match="messages with different parts"):
            secure.decode(sent, context_of(nbytes=nbytes))


def test_parts_come_back_with_their_shapes_and_types() -> None:
    secure, context = TRANSFORMS.build("secure_sum(range=2)"), context_of(2, rows=8.0)
    values = {"delta": torch.tensor([[0.5, -1.25], [0.0, 2.0]]), "reach": torch.tensor(3.5, dtype=torch.float64)}
    update = Update.of(5.0, **values).with_sums(count=torch.tensor([1.0, -2.0], dtype=torch.float64))
    assert secure.agree
    assert secure.reveal
    memories, _ = secure.agree({}, context)
    total = sum(
        (secure.encode(update, memories[party], replace(context, party=party))[0] for party in (0, 1)),
        start=Update.of(0.0),
    )
    at_server = replace(context, replied=context.cohort, nbytes=total.dense_nbytes)
    revealed, _ = secure.reveal(memories, at_server)
    decoded = secure.decode(total, replace(at_server, revealed=revealed))
    assert decoded.weight == 10
    assert torch.equal(decoded.total["delta"], 10 * values["delta"])
    assert decoded.total["reach"].item() == 35
    assert (decoded.total["reach"].dtype, decoded.total["delta"].dtype) == (torch.float64, torch.float32)
    assert torch.equal(decoded.sums["count"], torch.tensor([2.0, -4.0], dtype=torch.float64))
