"""Secure sums: rings, shares, keys, and the two protocols with dropouts, curious servers and changed messages.

Statistical checks have thresholds with a false-alarm rate of 1e-9 each; fewer than 200 are done, so that the whole file
fails by chance less than once in a million runs.
"""

import hashlib
import hmac
import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from silobench.errors import ConfigError, RunError
from silobench.method.secure import Pairwise, Ring, Splits, SumProtocol, TooFewError, keys, shamir
from silobench.method.secure.pairwise import Member, Newcomer, masks_left
from silobench.method.secure.protocol import ID_BYTES, with_streams
from silobench.method.types import Phase

FALSE_ALARM = 1e-9
PHASES = ("keys", "shares", "replies", "unmasking")
FIVE = (4, 1, 7, 2, 0)  # in an order that is not that of the numbers
Leaving = Mapping[int, str]  # the phase in which a party is lost


def presence(cohort: Sequence[int], leaving: Leaving) -> Callable[[str], list[int]]:
    def present(phase: str) -> list[int]:
        at = PHASES.index(phase)
        return [party for party in cohort if party not in leaving or PHASES.index(leaving[party]) > at]

    return present


def secret_values(cohort: Iterable[int], count: int = 40) -> dict[int, list[Any]]:
    """Return a short vector of 64 bits and a longer one of 32 bits for each party."""
    rng = np.random.default_rng(0)
    return {party: [rng.integers(0, 2**64, 3, np.uint64), rng.integers(0, 2**32, count, np.uint32)] for party in cohort}


def added(messages: Iterable[Sequence[Any]]) -> list[Any]:
    return [np.sum(parts, axis=0, dtype=parts[0].dtype) for parts in zip(*messages, strict=True)]


def summed(protocol: SumProtocol, values: Mapping[int, list[Any]], leaving: Leaving) -> tuple[list[Any], list[int]]:
    """Run a whole round; return the sum that the server learns, and the parties of which it is the sum."""
    cohort = tuple(values)
    present = presence(cohort, leaving)
    memories, _ = protocol.agree(cohort, present)
    survivors = [party for party in memories if party in present("replies")]
    messages = [protocol.mask(values[party], memories[party], party) for party in survivors]
    revealed, _ = protocol.reveal({party: memories[party] for party in survivors}, cohort, present, 0)
    return protocol.unmask(added(messages), revealed), survivors


def assert_survivors_sum(protocol: SumProtocol, values: Mapping[int, list[Any]], leaving: Leaving) -> None:
    total, survivors = summed(protocol, values, leaving)
    assert set(survivors) == {party for party in values if leaving.get(party, "unmasking") == "unmasking"}
    for part, expected in zip(total, added(values[party] for party in survivors), strict=True):
        assert part.dtype == expected.dtype
        assert part.tolist() == expected.tolist()


# --- rings --------------------------------------------------------------------------------------------


limits = st.floats(1e-30, 1e30) | st.integers(-60, 60).map(lambda power: 2.0**power)


@given(limits, st.integers(1, 2000), st.sampled_from([32, 64]), st.integers(0, 2**32 - 1))
@settings(max_examples=150, deadline=None)
def test_sums_in_a_ring_are_exact_and_cannot_overflow(limit: float, count: int, bits: int, seed: int) -> None:
    ring = Ring.of(limit, count, bits)
    scale = Fraction(2) ** ring.exponent
    rng = np.random.default_rng(seed)
    columns = [np.full(count, limit), np.full(count, -limit), rng.uniform(-limit, limit, count)]
    values = np.clip(np.stack(columns, axis=1), -limit, limit)
    total = ring.encode(values).sum(axis=0, dtype=ring.dtype)
    for column, integer in zip(values.T, total.view(f"int{bits}").tolist(), strict=True):
        assert integer == sum(round(Fraction(value) * scale) for value in column.tolist())
    assert round(Fraction(limit) * scale) * count < 2 ** (bits - 1) <= round(Fraction(limit) * scale * 2) * count
    exact = [Fraction(int(integer)) / scale for integer in total.view(f"int{bits}")]
    assert ring.decode(total).tolist() == [float(value) for value in exact]


@pytest.mark.parametrize(("limit", "count", "exponent"), [(2.0**31 - 1, 1, 0), (2.0**31, 1, -1), (7, 306_783_378, 0)])
def test_the_last_integer_of_a_ring_is_used(limit: float, count: int, exponent: int) -> None:
    ring = Ring.of(limit, count, 32)
    assert ring.exponent == exponent
    assert ring.decode(np.array([2**31 - 1], np.uint32)).tolist() == [(2**31 - 1) * 2.0**-exponent]


@given(st.floats(2**-20, 2**20), st.integers(1, 100), st.sampled_from([32, 64]), st.data())
@settings(max_examples=50, deadline=None)
def test_a_coarser_grid_fits_exactly(limit: float, count: int, bits: int, data: Any) -> None:
    ring = Ring.of(limit, count, bits)
    step = 2.0 ** -(ring.exponent - data.draw(st.integers(0, 8)))
    most = min(int(limit / step), 2**52)
    values = np.array(data.draw(st.lists(st.integers(-most, most), max_size=20)), float) * step
    assert ring.decode(ring.encode(values)).tolist() == values.tolist()


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf, np.nextafter(1.5, 2), -1e300])
@pytest.mark.parametrize("bits", [32, 64])
def test_a_value_beyond_the_limit_is_an_error(wrong: float, bits: int) -> None:
    ring = Ring.of(1.5, 3, bits)
    assert ring.encode(np.array([1.5, -1.5, 0.0])).size == 3
    assert ring.encode(np.zeros(0)).size == 0
    with pytest.raises(RunError, match=r"but the secure sum is set up for magnitudes up to 1\.5: clip"):
        ring.encode(np.array([0.0, wrong]))


@pytest.mark.parametrize(
    ("limit", "count", "bits", "message"),
    [
        (0.0, 1, 32, "positive, finite range"),
        (np.inf, 1, 32, "positive, finite range"),
        (np.nan, 1, 32, "positive, finite range"),
        (1.0, 0, 32, "at least one value"),
        (1.0, 2**31, 32, "choose 64 bits"),
        (1.0, 2, 16, "32 or 64"),
    ],
)
def test_impossible_rings_are_refused(limit: float, count: int, bits: int, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Ring.of(limit, count, bits)


# --- Shamir's shares ----------------------------------------------------------------------------------


def test_the_field_is_a_prime_field_that_holds_every_secret() -> None:
    assert shamir.PRIME > 2**256
    assert all(pow(base, shamir.PRIME - 1, shamir.PRIME) == 1 for base in (2, 3, 5, 7, 11, 13, 17))


@pytest.mark.parametrize("secret", [bytes(32), b"\xff" * 32, bytes(range(32))], ids=["zeros", "ones", "counting"])
@pytest.mark.parametrize("threshold", [1, 2, 3, 5])
def test_every_set_of_enough_shares_restores_the_secret(secret: bytes, threshold: int) -> None:
    places = [1, 2, 5, 8, 1000]
    shares = dict(zip(places, shamir.split(secret, threshold, places), strict=True))
    for some in itertools.combinations(places, threshold):
        assert shamir.combine({place: shares[place] for place in some}, threshold) == secret


def test_shares_are_values_of_a_polynomial(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = iter([5, 7])
    monkeypatch.setattr("secrets.randbelow", lambda below: next(drawn))
    shares = shamir.split((9).to_bytes(32), 3, [1, 2, 10])
    assert [int.from_bytes(share) for share in shares] == [5 * x * x + 7 * x + 9 for x in (1, 2, 10)]


@pytest.mark.parametrize("places", list(itertools.combinations((1, 2, 3, 4), 2)))
def test_fewer_shares_reveal_nothing(places: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    """In a field of 7 numbers, all coefficients are tried: two of three shares are equally likely for all secrets."""
    monkeypatch.setattr(shamir, "PRIME", 7)
    monkeypatch.setattr(shamir, "SECRET_BYTES", 1)
    views = []
    for secret in range(7):
        view: Counter[tuple[bytes, ...]] = Counter()
        for drawn in itertools.product(range(7), repeat=2):
            numbers = iter(drawn)
            monkeypatch.setattr("secrets.randbelow", lambda below, numbers=numbers: next(numbers))
            view[tuple(shamir.split(bytes([secret]), 3, (*places, 5))[:2])] += 1
        views.append(view)
    assert len(views[0]) == 49
    assert all(view == views[0] for view in views)


def test_a_wrong_number_of_shares_is_an_error() -> None:
    shares = dict(enumerate(shamir.split(bytes(32), 3, [1, 2, 3, 4]), start=1))
    for some in (1, 2, 4):
        with pytest.raises(RunError, match=f"there are {some} shares of a secret, but exactly 3 restore it"):
            shamir.combine(dict(itertools.islice(shares.items(), some)), 3)
    with pytest.raises(ValueError, match="positive and distinct"):
        shamir.split(bytes(32), 2, [0, 1, 2])
    with pytest.raises(ValueError, match="positive and distinct"):
        shamir.split(bytes(32), 2, [1, 1, 2])
    with pytest.raises(ValueError, match="4 of 3 shares"):
        shamir.split(bytes(32), 4, [1, 2, 3])


# --- keys and encrypted messages ----------------------------------------------------------------------

# RFC 7748, section 6.1
ALICE = bytes.fromhex("77076d0a7318a57d3c16c17251b26645df4c2f87ebc0992ab177fba51db92c2a")
ALICE_PUBLIC = bytes.fromhex("8520f0098930a754748b7ddcb43ef75a0dbf3a0d26381af4eba4a98eaa9b4e6a")
BOB = bytes.fromhex("5dab087e624a8a4b79e17f8b83800ee66f3bb1292618b6fd1c2f8b27ff88e0eb")
BOB_PUBLIC = bytes.fromhex("de9edb7d7b7dc1b4d35b61c2ece435373f8343c85b78674dadfc7e146f882b4f")
SHARED = bytes.fromhex("4a5d9d5ba4ce2de1728e3bf480350f25e07e21c947d19e3376f09b3c1e161742")


def test_shared_keys_are_those_of_the_standards() -> None:
    """X25519 of RFC 7748, then HKDF-SHA256 of RFC 5869, which is written out with HMAC."""
    assert keys.public_key(ALICE) == ALICE_PUBLIC
    assert keys.public_key(BOB) == BOB_PUBLIC
    info = b"silobench mask\0" + bytes([0, 0, 0, 2, 0, 0, 1, 1])  # parties 2 and 257
    extracted = hmac.digest(bytes(32), SHARED, hashlib.sha256)
    expected = hmac.digest(extracted, info + b"\1", hashlib.sha256)
    assert keys.shared_keys(ALICE, {257: BOB_PUBLIC}, 2, "mask") == {257: expected}
    assert keys.shared_keys(BOB, {2: ALICE_PUBLIC}, 257, "mask") == {2: expected}


def test_shared_keys_depend_on_parties_and_purpose() -> None:
    derived = {
        keys.shared_keys(ALICE, {other: BOB_PUBLIC}, party, purpose)[other]
        for party, other, purpose in [(0, 1, "mask"), (0, 2, "mask"), (1, 2, "mask"), (0, 1, "shares")]
    }
    assert len(derived) == 4


def test_changed_messages_are_refused() -> None:
    key, content = keys.new_key(), bytes(range(66))
    sealed = keys.seal(key, content, 3, 5)
    assert keys.unseal(key, sealed, 3, 5) == content
    assert keys.seal(key, content, 3, 5) != sealed  # another nonce
    wrong = [(sealed[:at] + bytes([sealed[at] ^ 1]) + sealed[at + 1 :], 3, 5) for at in range(len(sealed))]
    wrong += [(sealed, 5, 3), (sealed, 3, 4), (sealed, 2, 5), (sealed[:-1], 3, 5), (sealed[:20], 3, 5), (b"", 3, 5)]
    for message, sender, receiver in wrong:
        with pytest.raises(RunError, match=f"party {receiver} cannot decrypt a message from party {sender}"):
            keys.unseal(key, message, sender, receiver)
    with pytest.raises(RunError, match="cannot decrypt"):
        keys.unseal(keys.new_key(), sealed, 3, 5)


# --- sums ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("protocol", [Splits(2), Splits(3, "seeds"), Splits(5), Pairwise(), Pairwise(3), Pairwise(5)])
def test_the_server_learns_the_sum(protocol: SumProtocol) -> None:
    assert_survivors_sum(protocol, secret_values(FIVE, count=100_000), {})


@pytest.mark.parametrize("protocol", [Splits(2), Pairwise()])
def test_two_parties_are_enough(protocol: SumProtocol) -> None:
    assert_survivors_sum(protocol, secret_values((0, 1)), {})


def losses(dropouts: int, in_order: bool = False) -> list[dict[int, str]]:
    """Return the ways to lose some of five parties: every subset, each party in every phase.

    With `in_order`, an earlier party of the subset is not lost in a later phase, which leaves fewer ways.
    """
    ordered, every = itertools.combinations_with_replacement, itertools.product
    choices = list(ordered(PHASES, dropouts) if in_order else every(PHASES, repeat=dropouts))
    return [
        dict(zip(parties, phases, strict=True))
        for parties in itertools.combinations(FIVE, dropouts)
        for phases in choices
    ]


@pytest.mark.parametrize(("threshold", "most"), [(3, 2), (4, 1), (5, 0)])
def test_every_subset_of_dropouts_in_every_phase_gives_the_survivors_sum(threshold: int, most: int) -> None:
    values = secret_values(FIVE)
    for leaving in itertools.chain.from_iterable(losses(dropouts) for dropouts in range(most + 1)):
        assert_survivors_sum(Pairwise(threshold), values, leaving)


@pytest.mark.parametrize(("threshold", "dropouts"), [(3, 3), (4, 2), (5, 1)])
def test_one_more_dropout_is_an_error(threshold: int, dropouts: int) -> None:
    values = secret_values(FIVE)
    for leaving in losses(dropouts, in_order=True):
        with pytest.raises(TooFewError, match=rf"^\d of 5 parties .*, but the secure sum needs {threshold}: "):
            summed(Pairwise(threshold), values, leaving)


@pytest.mark.parametrize("phase", PHASES[:3])
@pytest.mark.parametrize("protocol", [Splits(2), Splits(5)])
def test_splits_need_every_party(protocol: SumProtocol, phase: str) -> None:
    with pytest.raises(TooFewError, match=r"^4 of 5 parties .*, but the secure sum needs 5: let every party answer"):
        summed(protocol, secret_values(FIVE), {7: phase})


@pytest.mark.parametrize(
    ("phase", "deed"),
    [
        ("keys", "sent their keys"),
        ("shares", "sent shares"),
        ("replies", "sent their masked"),
        ("unmasking", "answered"),
    ],
)
def test_the_error_says_in_which_phase_parties_are_missing(phase: str, deed: str) -> None:
    with pytest.raises(TooFewError, match=f"^3 of 5 parties {deed}"):
        summed(Pairwise(), secret_values(FIVE), {7: phase, 1: phase})


@st.composite
def rounds(draw: Any) -> tuple[int, dict[int, list[Any]], dict[int, str]]:
    cohort = draw(st.lists(st.integers(0, 10_000), min_size=2, max_size=8, unique=True))
    threshold = draw(st.integers(max(2, len(cohort) // 2 + 1), len(cohort)))
    leaving = draw(st.dictionaries(st.sampled_from(cohort), st.sampled_from(PHASES)))
    return threshold, secret_values(cohort), leaving


@given(rounds())
@settings(max_examples=60, deadline=None)
def test_any_round_gives_the_survivors_sum_or_an_error(case: tuple[int, dict[int, list[Any]], dict[int, str]]) -> None:
    threshold, values, leaving = case
    if len(values) - len(leaving) >= threshold:
        assert_survivors_sum(Pairwise(threshold), values, leaving)
    else:
        with pytest.raises(TooFewError):
            summed(Pairwise(threshold), values, leaving)


def test_values_are_not_changed_in_place() -> None:
    values = [np.arange(6, dtype=np.uint32).reshape(2, 3)[:, ::2], np.zeros((), np.uint64)]
    before = [part.copy() for part in values]
    masked = with_streams(values, [(1, bytes(32))])
    assert [part.shape for part in masked] == [(2, 2), ()]
    assert all(np.array_equal(part, old) for part, old in zip(values, before, strict=True))
    assert all(
        np.array_equal(part, old) for part, old in zip(with_streams(masked, [(-1, bytes(32))]), before, strict=True)
    )


@pytest.mark.parametrize(("size", "dtype"), [(200_000, np.uint32), (100_000, np.uint64), (65_537, np.uint32)])
def test_long_streams_are_those_of_aes(size: int, dtype: Any) -> None:
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

    head, rest = with_streams([np.zeros(3, np.uint64), np.zeros(size, dtype)], [(1, bytes(range(32)))])
    encryptor = Cipher(algorithms.AES(bytes(range(32))), modes.CTR(bytes(16))).encryptor()
    assert head.tobytes() + rest.tobytes() == encryptor.update(bytes(24 + size * np.dtype(dtype).itemsize))


# --- what is refused ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("protocol", "parties", "message"),
    [
        (Splits(1), 5, "splits=1"),
        (Splits(6), 5, "choose splits from 2 to the number of parties"),
        (Pairwise(6), 5, "choose a threshold from 2 to the number of parties"),
        (Pairwise(1), 2, "choose a threshold from 2"),
        (Pairwise(), 1, "^a round has 1 party, but a secure sum of one party hides nothing.* two parties .* three"),
        (Splits(2), 1, "^a round has 1 party, but a secure sum of one party hides nothing.* two parties .* three"),
        (Pairwise(2), 4, "more than half of the 4 parties .* read single updates: choose at least 3"),
        (Pairwise(2), 5, "choose at least 3"),
    ],
)
def test_impossible_and_unsafe_protocols_are_refused(protocol: SumProtocol, parties: int, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        protocol.check(parties)


@pytest.mark.parametrize(("parties", "threshold"), [(2, 2), (3, 3), (4, 3), (5, 4), (6, 5), (100, 67)])
def test_the_default_threshold_is_above_two_thirds(parties: int, threshold: int) -> None:
    Pairwise().check(parties)
    assert Pairwise().least(parties) == threshold


def test_an_unsafe_threshold_is_refused_in_a_round_too() -> None:
    with pytest.raises(ConfigError, match="more than half"):
        Pairwise(2).agree(FIVE, lambda phase: FIVE)


@pytest.mark.parametrize("protocol", [Splits(3), Pairwise(3)])
def test_a_small_cohort_has_too_few_parties(protocol: SumProtocol) -> None:
    """A selection may draw few parties, which is not a dropout."""
    expected = r"^2 parties take part, but the secure sum needs 3: let more parties take part in every round"
    with pytest.raises(TooFewError, match=expected) as error:
        protocol.agree((0, 1), lambda phase: (0, 1))
    assert "drop" not in str(error.value)


@pytest.mark.parametrize(
    ("protocol", "lost", "remedy"),
    [
        (Pairwise(), 2, "lower the threshold to 3, let fewer parties drop out, or write too_few=skip"),
        (Pairwise(5), 1, "lower the threshold to at most 4 and at least 3, let fewer"),
        (Pairwise(), 3, r"let fewer parties drop out \(a threshold must be more than half of .*, so at least 3\), or"),
        (Splits(2), 1, "let every party answer, as protocol=splits requires, or write protocol=pairwise"),
    ],
)
def test_the_error_says_what_the_protocol_allows(protocol: SumProtocol, lost: int, remedy: str) -> None:
    with pytest.raises(TooFewError, match=f"^{5 - lost} of 5 parties .*: {remedy}"):
        protocol.agree(FIVE, lambda phase: FIVE[lost:])


def members(protocol: SumProtocol, cohort: Sequence[int] = FIVE) -> dict[int, Member]:
    memories, _ = protocol.agree(cohort, lambda phase: cohort)
    return {party: Member.of(memory, party) for party, memory in memories.items()}


def test_a_party_never_gives_both_shares_of_another() -> None:
    """A server that first states that party 7 was lost, and then that it answered, gets no second share."""
    member = members(Pairwise())[1]
    without, everybody = [4, 1, 2, 0], list(FIVE)
    first = member.shares_for(without)
    assert first[7] == member.shares[7][: shamir.SHARE_BYTES]
    assert first[4] == member.shares[4][shamir.SHARE_BYTES :]
    with pytest.raises(RunError, match="party 1 was sent a second list"):
        member.shares_for(everybody)
    assert member.shares_for(without) == first  # the same list again reveals nothing new


@pytest.mark.parametrize(
    "survivors", [[4, 1, 7], [4, 1, 7, 9], [4, 7, 2, 0], []], ids=["few", "stranger", "not me", "-"]
)
def test_a_party_refuses_impossible_survivors(survivors: list[int]) -> None:
    with pytest.raises(RunError, match="needs at least 4 parties of its round, itself included: it gives no shares"):
        members(Pairwise())[1].shares_for(survivors)


def newcomers(threshold: int = 2, parties: int = 3) -> tuple[dict[int, Newcomer], dict[int, bytes]]:
    people = {party: Newcomer(party, threshold) for party in range(parties)}
    return people, {party: newcomer.advert() for party, newcomer in people.items()}


def test_a_party_refuses_too_few_or_equal_keys() -> None:
    people, adverts = newcomers()
    with pytest.raises(RunError, match="the keys of 1 parties, but it needs those of at least 2"):
        people[0].share({0: adverts[0]})
    with pytest.raises(RunError, match="all different"):
        people[0].share({**adverts, 2: adverts[1]})


def test_shares_for_another_party_or_round_are_refused() -> None:
    people, adverts = newcomers()
    boxes = {party: newcomer.share(adverts) for party, newcomer in people.items()}
    arriving = {other: boxes[other][0] for other in (1, 2)}
    assert people[0].finish(arriving).shares.keys() == {0, 1, 2}
    strangers, other_adverts = newcomers()
    old = {party: newcomer.share(other_adverts) for party, newcomer in strangers.items()}[1][0]
    changed = arriving[1][:40] + bytes([arriving[1][40] ^ 128]) + arriving[1][41:]
    for box in (boxes[1][2], arriving[2], old, changed):
        with pytest.raises(RunError, match="party 0 cannot decrypt a message from party 1"):
            people[0].finish({**arriving, 1: box})


def test_wrong_shares_are_noticed_where_there_is_a_public_key() -> None:
    people = members(Pairwise())
    survivors = [4, 1, 2, 0]
    answers = {party: people[party].shares_for(survivors) for party in survivors}
    assert masks_left(answers, survivors, people[4].publics, 4)
    answers[1] = {**answers[1], 7: answers[2][7]}
    with pytest.raises(RunError, match="the shares do not restore the key of party 7"):
        masks_left(answers, survivors, people[4].publics, 4)


# --- messages and memories ----------------------------------------------------------------------------


def test_bytes_are_those_of_the_messages() -> None:
    """Party 7 is lost before it sends shares, and party 2 before it sends masked values."""
    cohort, leaving = tuple(range(8)), {7: "shares", 2: "replies"}
    present = presence(cohort, leaving)
    memories, (advertising, sharing) = Pairwise().agree(cohort, present)
    people, adverts = newcomers(6, 8)
    boxes = people[0].share(adverts)
    assert advertising.up == dict.fromkeys(cohort, len(adverts[0]))
    assert advertising.down == dict.fromkeys(cohort, sum(ID_BYTES + len(advert) for advert in adverts.values()))
    assert sharing.up == dict.fromkeys(range(7), sum(ID_BYTES + len(box) for box in boxes.values()))
    assert sharing.down == dict.fromkeys(range(7), sum(ID_BYTES + len(boxes[other]) for other in range(1, 7)))
    survivors = [0, 1, 3, 4, 5, 6]
    _, (unmasking,) = Pairwise().reveal({party: memories[party] for party in survivors}, cohort, present, 1000)
    shares = Member.of(memories[0], 0).shares_for(survivors)
    assert unmasking.up == dict.fromkeys(survivors, sum(ID_BYTES + len(share) for share in shares.values()))
    assert unmasking.down == dict.fromkeys(survivors, ID_BYTES * len(survivors))
    assert [phase.name for phase in (advertising, sharing, unmasking)] == ["keys", "shares", "unmasking"]


@pytest.mark.parametrize(("send", "before", "after"), [("shares", 0, 2 * (1000 + 28)), ("seeds", 2 * (32 + 28), 0)])
def test_splits_send_whole_parts_or_seeds(send: Any, before: int, after: int) -> None:
    protocol = Splits(3, send)
    memories, agreeing = protocol.agree(FIVE, lambda phase: FIVE)
    _, revealing = protocol.reveal(memories, FIVE, lambda phase: FIVE, 1000)
    for phases, size in ((agreeing, before), (revealing, after)):
        messages = [("shares", dict.fromkeys(FIVE, size), dict.fromkeys(FIVE, size))] if size else []
        assert [(phase.name, phase.up, phase.down) for phase in phases if phase.up] == messages


def messages_of_a_round(
    protocol: SumProtocol, cohort: Sequence[int], leaving: Leaving, size: int = 1000
) -> list[Phase]:
    """Run the phases of a round besides the replies, which have `size` bytes."""
    present = presence(cohort, leaving)
    memories, agreeing = protocol.agree(cohort, present)
    assert all(phase.seconds > 0 for phase in agreeing)
    survivors = {party: memory for party, memory in memories.items() if party in present("replies")}
    _, revealing = protocol.reveal(survivors, cohort, present, size)
    assert all(phase.seconds > 0 for phase in revealing if phase.name == "unmasking")
    return [*agreeing, *revealing]


def counts(phases: Iterable[Phase]) -> list[tuple[str, int, int, int]]:
    """Return the name, bytes up, bytes down and messages of each phase that has messages."""
    each = [(phase.name, sum(phase.up.values()), sum(phase.down.values()), phase.messages) for phase in phases]
    return [one for one in each if one[-1]]


@pytest.mark.parametrize(
    ("parties", "leaving", "expected"),
    [
        # 64 bytes of keys; 4 of a party's number; 94 of two shares of 33 bytes, sealed with 28.
        (3, {}, [("keys", 192, 612, 6), ("shares", 588, 588, 6), ("unmasking", 333, 36, 6)]),
        (5, {}, [("keys", 320, 1700, 10), ("shares", 1960, 1960, 20), ("unmasking", 925, 100, 10)]),
        (5, {2: "keys"}, [("keys", 256, 1088, 8), ("shares", 1176, 1176, 12), ("unmasking", 592, 64, 8)]),
        # Four parties send a share to each of four others, and get one from three others.
        (5, {2: "shares"}, [("keys", 320, 1700, 10), ("shares", 1568, 1176, 16), ("unmasking", 592, 64, 8)]),
        # Four parties send a share for each of five.
        (5, {2: "replies"}, [("keys", 320, 1700, 10), ("shares", 1960, 1960, 20), ("unmasking", 740, 64, 8)]),
        # Five are asked, and four answer.
        (5, {2: "unmasking"}, [("keys", 320, 1700, 10), ("shares", 1960, 1960, 20), ("unmasking", 740, 100, 9)]),
    ],
)
def test_pairwise_counts_by_hand(parties: int, leaving: Leaving, expected: list[Any]) -> None:
    assert counts(messages_of_a_round(Pairwise(), range(parties), leaving)) == expected


@pytest.mark.parametrize(
    ("phase", "expected"),
    [
        ("keys", [("keys", 192, 0, 3)]),
        ("shares", [("keys", 320, 1700, 10), ("shares", 1176, 0, 12)]),
        ("replies", []),  # what came before was counted by the agreement
        ("unmasking", [("unmasking", 555, 100, 8)]),
    ],
)
def test_messages_until_a_round_is_lost_are_counted(phase: str, expected: list[Any]) -> None:
    with pytest.raises(TooFewError, match="3 of 5 parties") as error:
        messages_of_a_round(Pairwise(), range(5), {1: phase, 3: phase})
    assert counts(error.value.phases) == expected


@pytest.mark.parametrize(
    ("parties", "splits", "send", "expected"),
    [
        (3, 2, "shares", [("shares", 3084, 3084, 3)]),  # 1000 bytes, sealed with 28
        (3, 3, "shares", [("shares", 6168, 6168, 6)]),
        (5, 3, "shares", [("shares", 10280, 10280, 10)]),
        (3, 2, "seeds", [("shares", 180, 180, 3)]),  # 32 bytes, sealed with 28
        (5, 3, "seeds", [("shares", 600, 600, 10)]),
    ],
)
def test_splits_count_by_hand(parties: int, splits: int, send: Any, expected: list[Any]) -> None:
    assert counts(messages_of_a_round(Splits(splits, send), range(parties), {})) == expected


@pytest.mark.parametrize(
    ("send", "phase", "size", "expected"),
    [
        ("shares", "keys", 1000, []),
        ("shares", "shares", 1000, []),  # the round is lost before parties train
        ("shares", "replies", 1000, [("shares", 10280, 10280, 10)]),
        ("shares", "replies", 0, []),  # nobody answered
        ("seeds", "keys", 1000, []),
        ("seeds", "shares", 1000, [("shares", 480, 0, 8)]),
        ("seeds", "replies", 1000, []),  # counted by the agreement
    ],
)
def test_splits_count_until_a_round_is_lost(send: Any, phase: str, size: int, expected: list[Any]) -> None:
    with pytest.raises(TooFewError, match="4 of 5 parties") as error:
        messages_of_a_round(Splits(3, send), range(5), {3: phase}, size)
    assert counts(error.value.phases) == expected


def test_a_phase_has_one_message_for_each_sender_and_receiver_unless_it_states_more() -> None:
    assert Phase("keys", {0: 9, 4: 9}, {1: 5}).messages == 3
    assert Phase("keys", {0: 9, 4: 9}, messages=8).messages == 8
    assert Phase("keys", {0: 9}, messages=0).messages == 0


def test_parts_go_to_the_next_parties_of_the_round() -> None:
    memories, _ = Splits(3).agree(FIVE, lambda phase: FIVE)
    for place, party in enumerate(FIVE):
        for distance in (1, 2):
            receiver = memories[FIVE[(place + distance) % 5]]
            begin = 32 * (distance - 1)
            sent, arrived = memories[party]["sent"], receiver["arrived"]
            assert torch.equal(sent[begin : begin + 32], arrived[begin : begin + 32])


@pytest.mark.parametrize("protocol", [Splits(3), Pairwise()])
def test_keys_are_never_used_again(protocol: SumProtocol) -> None:
    """A key masks at one party, or at two with opposite signs; and in one round only."""
    uses: dict[bytes, list[tuple[int, int, int]]] = {}
    for number in range(5):
        memories, _ = protocol.agree(FIVE, lambda phase: FIVE)
        for party, memory in memories.items():
            for sign, key in protocol.mask_keys(memory, party):
                uses.setdefault(key, []).append((number, sign, party))
    for each in uses.values():
        numbers, signs, parties = zip(*each, strict=True)
        assert len(set(numbers)) == 1
        assert len(set(parties)) == len(parties)
        assert sum(signs) == (1 if len(each) == 1 else 0)
    assert len(uses) == 5 * (10 if isinstance(protocol, Splits) else 5 + 10)


@pytest.mark.parametrize("protocol", [Splits(3), Pairwise()])
def test_memories_are_bytes_that_travel_to_other_processes(protocol: SumProtocol) -> None:
    memories, _ = protocol.agree(FIVE, lambda phase: FIVE)
    for memory in memories.values():
        assert all(part.dtype == torch.uint8 and part.ndim == 1 for part in memory.values())


def test_secrets_are_not_shown() -> None:
    people, adverts = newcomers()
    people[0].share(adverts)
    member = people[0].finish({})
    shown = repr(people[0]) + repr(member)
    secrets = [
        member.mask_key,
        member.seed,
        people[0].channel_key,
        *member.shares.values(),
        *people[0].channels.values(),
    ]
    assert not [secret for secret in secrets if repr(secret)[2:-1] in shown]


# --- what a curious server sees -----------------------------------------------------------------------

ROUNDS, LENGTH = 120, 512
TRIO = (0, 1, 2)
WATCHED = 2  # the last party, so that its shared masks have the sign +1


def assert_uniform(values: Any) -> None:
    """Check that each byte of the integers takes all values equally often, by chi-square."""
    places = np.ascontiguousarray(values).reshape(-1).view(np.uint8).reshape(-1, values.dtype.itemsize)
    for column in places.T:
        counts = np.bincount(column, minlength=256)
        expected = column.size / 256
        assert ((counts - expected) ** 2 / expected).sum() < stats.chi2.isf(FALSE_ALARM, 255)


def assert_independent(values: Any, inputs: Any) -> None:
    """Check that integers do not correlate with the inputs, as signed numbers and by parity."""
    bound = stats.norm.isf(FALSE_ALARM / 2) / np.sqrt(values.size)
    signed = f"int{8 * values.dtype.itemsize}"
    for view in (lambda part: part.view(signed).astype(float), lambda part: (part & 1).astype(float)):
        assert abs(np.corrcoef(view(values).reshape(-1), view(inputs).reshape(-1))[0, 1]) < bound


def assert_hidden(protocol: SumProtocol, dtype: Any = np.uint32) -> None:
    """Check what the server sees of one party over many rounds: two vectors per round, and their differences."""
    rng = np.random.default_rng(1)
    inputs = rng.integers(0, 1000, (ROUNDS, 2, LENGTH)).astype(dtype)  # small, as updates are
    messages = np.empty_like(inputs)
    for number in range(ROUNDS):
        memories, _ = protocol.agree(TRIO, lambda phase: TRIO)
        messages[number] = protocol.mask(list(inputs[number]), memories[WATCHED], WATCHED)
    views = [
        (messages, inputs),
        (messages[1:] - messages[:-1], inputs[1:] - inputs[:-1]),  # the same mask in two rounds
        (messages[:, 0] - messages[:, 1], inputs[:, 0] - inputs[:, 1]),  # the same mask for two vectors
    ]
    for seen, hidden in views:
        assert_uniform(seen)
        assert_independent(seen, hidden)


class ShortMask:
    """A leaky version: masks have one bit too few."""

    def mask(self, values: Any, memory: Any, party: int) -> list[Any]:
        zeros = [np.zeros_like(part) for part in values]
        masks = with_streams(zeros, self.mask_keys(memory, party))
        return [part + (mask >> 1) for part, mask in zip(values, masks, strict=True)]


class SameMaskInEveryRound:
    """A leaky version: keys are agreed on once."""

    def agree(self, cohort: Any, present: Any) -> Any:
        state = self.__dict__  # dataclasses of protocols are frozen
        if "agreed" not in state:
            state["agreed"] = super().agree(cohort, present)
        return state["agreed"]


class SameMaskForEveryVector:
    """A leaky version: the key stream begins again with each vector."""

    def mask(self, values: Any, memory: Any, party: int) -> list[Any]:
        return [super(SameMaskForEveryVector, self).mask([part], memory, party)[0] for part in values]

    def unmask(self, total: Any, revealed: Any) -> list[Any]:
        return [with_streams([part], revealed)[0] for part in total]


LEAKS = [ShortMask, SameMaskInEveryRound, SameMaskForEveryVector]


@pytest.mark.parametrize("protocol", [Splits(2), Splits(3), Pairwise()])
def test_a_masked_message_is_uniform_and_independent_of_the_input(protocol: SumProtocol) -> None:
    assert_hidden(protocol)


@pytest.mark.parametrize("protocol", [Splits(2), Pairwise()])
def test_a_masked_message_of_64_bits_is_uniform(protocol: SumProtocol) -> None:
    assert_hidden(protocol, np.uint64)


@pytest.mark.parametrize("kind", [Splits, Pairwise])
@pytest.mark.parametrize("leak", LEAKS)
def test_leaky_versions_are_caught(leak: type, kind: type) -> None:
    leaky = type(leak.__name__, (leak, kind), {})(2)
    total, _ = summed(leaky, secret_values(TRIO), {})
    if leak is not ShortMask:  # the sum is right: only the tests of secrecy can notice
        assert all(np.array_equal(a, b) for a, b in zip(total, added(secret_values(TRIO).values()), strict=True))
    with pytest.raises(AssertionError):
        assert_hidden(leaky)


def test_a_single_part_is_uniform() -> None:
    """What the next party sees of a vector that is split: a key stream that does not depend on the vector."""
    memories, _ = Splits(2).agree(TRIO, lambda phase: TRIO)
    (part,) = with_streams([np.zeros(ROUNDS * LENGTH, np.uint32)], [(1, memories[0]["sent"].numpy().tobytes())])
    assert_uniform(part)


class NoOwnMask(Pairwise):
    """A leaky version: parties add only the masks that they share."""

    def mask_keys(self, memory: Any, party: int) -> Any:
        return super().mask_keys(memory, party)[1:]


def late_message(protocol: Pairwise, values: Any) -> Any:
    """Return what is left of the message of a party that the server states as lost, but whose message arrives late.

    The server gets the keys that the party shares with the others, and removes these masks.
    """
    cohort = (0, 1, 2, WATCHED + 1)
    late = cohort[-1]
    memories, _ = protocol.agree(cohort, lambda phase: cohort)
    message = protocol.mask([values], memories[late], late)
    revealed, _ = protocol.reveal({party: memories[party] for party in cohort[:-1]}, cohort, lambda phase: cohort, 0)
    shared = [(-1, key) for sign, key in revealed if sign == 1]
    assert len(shared) == len(cohort) - 1
    return with_streams(message, shared)[0]


def test_the_own_mask_protects_a_late_message() -> None:
    values = np.random.default_rng(2).integers(0, 1000, ROUNDS * LENGTH).astype(np.uint32)
    seen = late_message(Pairwise(), values)
    assert_uniform(seen)
    assert_independent(seen, values)
    assert np.array_equal(late_message(NoOwnMask(), values), values)  # the attack works where there is no own mask
    with pytest.raises(AssertionError):
        assert_uniform(late_message(NoOwnMask(), values))


def test_the_message_of_a_survivor_stays_hidden_after_unmasking() -> None:
    """The server removes every mask that it learnt from one message: those shared with survivors remain."""
    cohort = (0, 1, 2, 3)
    memories, _ = Pairwise().agree(cohort, lambda phase: cohort)
    values = np.random.default_rng(3).integers(0, 1000, ROUNDS * LENGTH).astype(np.uint32)
    message = Pairwise().mask([values], memories[0], 0)
    revealed, _ = Pairwise().reveal({party: memories[party] for party in cohort[:3]}, cohort, lambda phase: cohort, 0)
    learnt = {key for _, key in revealed}
    removed = [(-sign, key) for sign, key in Pairwise().mask_keys(memories[0], 0) if key in learnt]
    assert len(removed) == 2  # its own mask, and the one that it shares with the lost party
    seen = with_streams(message, removed)[0]
    assert_uniform(seen)
    assert_independent(seen, values)
