"""Secret random numbers: the key stream, and what is made of it, by hand and by their distributions."""

import hashlib
import math

import numpy as np
import pytest
import torch
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from scipy import stats

from silobench.privacy.randomness import Randomness

KEY = bytes(range(32))
LONG = (1 << 18) + 5  # bytes: more than are encrypted at a time


def key_stream(count: int) -> bytes:
    """Return the key stream of AES-256 in counter mode from zero."""
    return Cipher(algorithms.AES(KEY), modes.CTR(bytes(16))).encryptor().update(bytes(count))


def words(count: int) -> list[int]:
    """Return the numbers of 64 bits of the key stream."""
    content = key_stream(8 * count)
    return [int.from_bytes(content[at : at + 8], "little") for at in range(0, len(content), 8)]


def shares(count: int) -> list[float]:
    """Return uniform numbers: the highest 53 bits of each word."""
    return [(word >> 11) / 2**53 for word in words(count)]


def normals(content: bytes) -> list[float]:
    """Return the normal numbers of 12 bytes for each two, by Box and Muller: first all cosines, then all sines."""
    pairs = len(content) // 12
    long, short = np.frombuffer(content[: 8 * pairs], "<i8"), np.frombuffer(content[8 * pairs :], "<i4")
    lengths = [math.sqrt(-2 * math.log(((int(word) >> 11) + 2**52 + 1) / 2**53)) for word in long]
    turns = [(length, 2 * math.pi * int(number) / 2**32) for length, number in zip(lengths, short, strict=True)]
    return [length * math.cos(angle) for length, angle in turns] + [length * math.sin(angle) for length, angle in turns]


# --- the key stream -----------------------------------------------------------------------------------


@pytest.mark.parametrize("counts", [(LONG,), (1, 15, 16, 17), (0, 32, LONG, 3)])
def test_bytes_are_the_key_stream_of_aes(counts: tuple[int, ...]) -> None:
    random = Randomness(KEY)
    parts = [random.bytes(count) for count in counts]
    assert [len(part) for part in parts] == list(counts)
    assert b"".join(parts) == key_stream(sum(counts))


def test_the_key_of_a_seed_is_a_hash_of_seed_purpose_and_numbers() -> None:
    key = hashlib.sha256(b'[7, "noise", 1, -2]').digest()
    assert Randomness.seeded(7, "noise", 1, -2).bytes(20) == Randomness(key).bytes(20)


def test_a_secret_key_is_another_one_each_time() -> None:
    assert len({bytes(Randomness.secret().bytes(16)) for _ in range(5)}) == 5


@pytest.mark.parametrize("size", [0, 16, 31, 33])
def test_keys_of_another_length_are_refused(size: int) -> None:
    with pytest.raises(ValueError, match=f"a key has {size} bytes, but 32 are needed"):
        Randomness(bytes(size))


def test_integers_and_uniform_numbers_by_hand() -> None:
    assert Randomness(KEY).integers(9).tolist() == words(9)
    assert Randomness(KEY).integers(9, np.uint8).tolist() == list(key_stream(9))
    assert Randomness(KEY).uniform(500).tolist() == shares(500)
    assert Randomness(KEY).chosen(0.3, 500).tolist() == [share < 0.3 for share in shares(500)]


# --- samples ------------------------------------------------------------------------------------------


def test_a_dense_sample_is_one_choice_for_each_thing() -> None:
    chosen = [place for place, share in enumerate(shares(300)) if share < 0.11]
    assert Randomness(KEY).sample(0.11, 300).tolist() == chosen


@pytest.mark.parametrize(("rate", "count"), [(0.1, 400), (0.001, 30), (0.03, 1), (0.02, 5000)])
def test_a_sparse_sample_is_made_of_gaps(rate: float, count: int) -> None:
    """A gap is the number of failures before a success; six deviations more are drawn than are expected."""
    draws = int(rate * count + 6 * math.sqrt(rate * count)) + 8
    gaps = [int(math.log(1 - share) / math.log1p(-rate)) for share in shares(draws)]
    places = [int(place) for place in np.cumsum([gap + 1 for gap in gaps]) - 1]
    random = Randomness(KEY)
    assert random.sample(rate, count).tolist() == [place for place in places if place < count]
    assert random.integers(1)[0] == words(draws + 1)[-1]  # no more were drawn


def test_a_sample_goes_on_where_too_few_gaps_were_drawn() -> None:
    """Of gaps that are all zero everything is chosen, whatever the rate."""
    random = Randomness(KEY)
    random.uniform = np.zeros  # type: ignore[assignment, method-assign]
    assert random.sample(0.05, 100).tolist() == list(range(100))


@pytest.mark.parametrize(("rate", "count"), [(0.004, 2000), (0.09, 100), (0.4, 60), (1.0, 7), (1e-9, 10)])
def test_samples_are_independent_choices(rate: float, count: int) -> None:
    random, draws = Randomness.seeded(2, "test"), 3000
    samples = [random.sample(rate, count) for _ in range(draws)]
    assert all((np.diff(each) > 0).all() and (each >= 0).all() and (each < count).all() for each in samples)
    sizes, places = np.array([len(each) for each in samples]), np.bincount(np.concatenate(samples), minlength=count)
    # Binomial numbers; the seed is fixed, and a fresh one would be refused once in a million times.
    assert abs(sizes.mean() - rate * count) <= 5 * math.sqrt(rate * (1 - rate) * count / draws) + 1e-9
    spread = rate * (1 - rate) * count
    assert abs(sizes.var() - spread) <= 5 * spread * math.sqrt((2 + 1 / max(spread, 1e-3)) / draws) + 1e-6
    assert abs(places - rate * draws).max() <= 6 * math.sqrt(rate * (1 - rate) * draws) + 5 * (0 < rate < 1)


# --- normal numbers -----------------------------------------------------------------------------------


def test_normal_numbers_by_hand() -> None:
    for count in (1, 2, 7, 1000):
        content = key_stream(12 * -(-count // 2))
        numbers = Randomness(KEY).normal(count)
        assert numbers.dtype == torch.float32
        assert numbers.tolist() == pytest.approx(normals(content)[:count], rel=1e-4, abs=1e-5)
        assert torch.equal(Randomness(KEY).normal(count, 2.5), 2.5 * numbers)


def test_blocks_of_normal_numbers_double_up_to_a_limit() -> None:
    """A request that the rest of a block cannot serve begins a new block; the rest is left out."""
    random, block = Randomness(KEY), Randomness(KEY)._box_muller
    first, second, third = block(3), block(6), block(12)
    assert torch.equal(random.normal(3), first)
    assert torch.equal(random.normal(2), second[:2])
    assert torch.equal(random.normal(4), second[2:])
    assert torch.equal(random.normal(5), third[:5])
    assert torch.equal(random.normal(8), block(24)[:8])
    whole = block(1 << 17)
    assert torch.equal(random.normal(1 << 17), whole)  # a long request is a block of its own
    last = block(1 << 16)
    assert torch.equal(random.normal(1), last[:1])
    assert torch.equal(random.normal((1 << 16) - 1), last[1:])


def test_normal_numbers_are_normal_and_do_not_depend_on_the_blocks() -> None:
    def source() -> Randomness:
        return Randomness.seeded(1, "test")

    numbers = source().normal(1 << 17).double().numpy()
    assert stats.kstest(numbers, "norm").pvalue > 1e-6  # the seed is fixed
    assert 4 < np.abs(numbers).max() < 6.5  # of 131,072 numbers, one in 1e-5 is beyond 6.5
    halves = numbers.reshape(2, -1)
    assert abs(np.corrcoef(*halves)[0, 1]) < 5 / math.sqrt(len(halves[0]))
    whole, random = source(), source()
    pieces = torch.cat([random.normal(count) for count in (1, 700, 3, 0, 12)])
    assert len(pieces) == 716
    assert len(pieces.unique()) == 716
    assert torch.equal(whole.normal(3, 2.0), source().normal(3) * 2)
