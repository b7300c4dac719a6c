"""Compression by hand: codecs and transforms against slow versions of them."""

import hashlib
import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from chains import arrived, chain, layout, sent
from laws import SOLVER, run
from precision import bound
from silobench.method.chain import send
from silobench.method.codecs import CODECS, Factoring, Form
from silobench.method.transforms import low_rank
from silobench.method.types import Context, Memory, Update
from silobench.vectors import _bound_of_largest, largest
from wire import noted


@given(st.integers(1, 60), st.sampled_from([2, 4, 8, 16]), st.integers(1, 20), st.integers(0, 99))
@settings(max_examples=60, deadline=None)
def test_quantized_by_hand(size: int, width: int, bucket: int, seed: int) -> None:
    """Bucket by bucket and entry by entry in whole numbers, with bytes read one by one."""
    part = np.random.default_rng(seed).normal(size=size).astype(np.float32)
    codec = CODECS.build(f"quantized(bits={width}, bucket={bucket}, seed={seed})")
    content, most = bytes(codec.pack(part)), 2 ** (width - 1) - 1
    bucket = min(bucket, size)
    count = -(-size // bucket)
    scales = [max(abs(v) for v in part[start : start + bucket]) for start in range(0, size, bucket)]
    assert np.frombuffer(content[: 4 * count], np.float32).tolist() == scales
    bits_sent = int.from_bytes(content[4 * count :], "little")
    noise, digits = np.random.SFC64(seed).random_raw(-(-count * bucket // 4)).view(np.uint16), 16 if width < 16 else 15
    back = codec.unpack(content, Form((size,), part.dtype))
    for place, value in enumerate(part):
        code = bits_sent >> (place * width) & (2**width - 1)
        level = code - most if width < 8 else code - (code >> (width - 1) << width)
        share = np.float32(value / scales[place // bucket])
        exact = round(float(np.float32(share * np.float32(most << digits))))
        assert level == exact + (int(noise[place]) >> (16 - digits)) >> digits
        assert abs(level - float(share) * most) < 1 + 2.0**-8
        expected = np.float32(np.float32(level) / np.float32(most)) * scales[place // bucket]
        assert back[place] == expected
        assert abs(back[place] - value) <= scales[place // bucket] / most * (1 + 2.0**-8)


@pytest.mark.parametrize(
    ("width", "bucket", "size"), [(4, 3, 98_289), (2, 3, 98_286), (2, 5001, 126_024), (8, 700, 98_001)]
)
def test_quantized_parts_of_several_blocks(width: int, bucket: int, size: int) -> None:
    """Parts are packed in blocks of about 2^15 entries. Where two of them meet, no entry, bucket or byte is shifted."""
    part = np.random.default_rng(5).normal(size=size).astype(np.float32)
    codec, most = CODECS.build(f"quantized(bits={width}, bucket={bucket})"), 2 ** (width - 1) - 1
    scales = np.maximum.reduceat(np.abs(part), np.arange(0, size, bucket))
    content = codec.pack(part)
    assert len(content) == scales.nbytes + -(-size * width // 8)
    assert np.frombuffer(content, np.float32, len(scales)).tolist() == scales.tolist()
    error = np.abs(codec.unpack(content, Form((size,), part.dtype)) - part)
    assert (error <= scales[np.arange(size) // bucket] / most * (1 + 2.0**-8)).all()


@pytest.mark.parametrize(("width", "digest"), [(2, "5f07ca62ccb4"), (4, "7e5719ee4c1a"), (8, "7de889519ab9")])
def test_a_seed_rounds_parts_of_several_blocks_as_in_earlier_versions(width: int, digest: str) -> None:
    part = ((np.arange(98_311) % 1009 - 504) / np.float32(504)).astype(np.float32)
    content = CODECS.build(f"quantized(bits={width}, seed=9)").pack(part)
    assert hashlib.sha256(content).hexdigest()[:12] == digest


def test_a_seed_rounds_16_bits_as_in_earlier_versions() -> None:
    """Most entries are small, because only these have a fraction that is as fine as the random numbers."""
    part = ((np.arange(98_311) % 1009 - 504) / np.float32(504)).astype(np.float32) / np.float32(4096)
    part[::512] = 1  # the scale of each bucket
    content = CODECS.build("quantized(bits=16, seed=1)").pack(part)
    assert hashlib.sha256(content).hexdigest()[:12] == "a9bb12c16fd2"


def test_buckets_of_zeros_and_of_what_is_not_finite_are_sent_as_zeros() -> None:
    """No entry of a bucket tells how it was divided by a scale that is zero or not a number."""
    part = np.array([0, 0, np.nan, 1, 3, -3, np.inf, 2], np.float32)
    content = CODECS.build("quantized(bits=8, bucket=2)").pack(part)
    scales, levels = np.array([0, np.nan, 3, np.nan], np.float32), np.array([0, 0, 0, 0, 127, -127, 0, 0], np.int8)
    assert content == scales.tobytes() + levels.tobytes()


@given(st.integers(1, 60), st.integers(0, 99))
@settings(max_examples=40, deadline=None)
def test_signs_by_hand(size: int, seed: int) -> None:
    part = np.random.default_rng(seed).normal(size=size).astype(np.float32)
    mean = np.float32(math.fsum(abs(float(value)) for value in part) / size)
    back = arrived(part, CODECS.build("signs"))
    assert [value > 0 for value in back] == [value >= 0 for value in part]
    assert np.allclose(np.abs(back), mean, rtol=bound(1), atol=0)


def test_a_zero_counts_as_positive() -> None:
    assert arrived(np.array([0, -2, 2, -0.0], np.float32), CODECS.build("signs")).tolist() == [1, -1, 1, 1]


@given(st.integers(1, 60), st.floats(0.0, 1.0, exclude_min=True), st.booleans(), st.integers(0, 99))
@settings(max_examples=60, deadline=None)
def test_random_subsets_by_hand(size: int, fraction: float, scale: bool, seed: int) -> None:
    part = 1 + np.random.default_rng(seed).random(size).astype(np.float32)
    codec = CODECS.build(f"random_subset(fraction={fraction!r}, scale={str(scale).lower()}, seed={seed})")
    count = max(1, round(fraction * size))
    assert len(codec.pack(part)) == 4 * count
    back = arrived(part, codec)
    assert np.count_nonzero(back) == count
    factor = np.float32(size / count) if scale else np.float32(1)
    assert all(value in (0.0, entry * factor) for value, entry in zip(back, part, strict=True))


@pytest.mark.parametrize(
    ("short", "whole"),
    [
        ("random_subset", "random_subset(fraction=0.01, scale=false, seed=0)"),
        ("quantized", "quantized(bits=8, bucket=512, seed=0)"),
        ("sparse", "sparse(index=auto)"),
    ],
)
def test_choices_that_are_left_out_are_these(short: str, whole: str) -> None:
    """Stored runs that leave them out mean these."""
    part = np.random.default_rng(8).normal(size=5000).astype(np.float32)
    one, other = CODECS.build(short), CODECS.build(whole)
    assert bytes(one.pack(part)) == bytes(other.pack(part))
    assert arrived(part, one).tolist() == arrived(part, other).tolist()


@pytest.mark.parametrize(
    ("text", "codec", "purpose", "shared"),
    [
        ("rand_k(fraction=0.3)", "random-subset(fraction=0.3, scale=true, seed={})", "places", True),
        ("quantize(bits=4, bucket=16)", "quantized(bits=4, bucket=16, seed={})", "rounding", False),
    ],
)
def test_the_seed_of_each_part_follows_from_its_name(text: str, codec: str, purpose: str, shared: bool) -> None:
    """So a run draws the same places and roundings as in earlier versions."""
    context = Context(7, 3, 1, layout((10, 4)), {})
    update = Update.of(1.0, delta=torch.randn(40, generator=torch.Generator().manual_seed(1)))
    update = update.with_sums(control=update.total["delta"].flip(0))
    done = sent(update, text, [{}], context).arrived
    for name, part, got in (("delta", update.total, done.total), ("control", update.sums, done.sums)):
        drawn = int(context.stream(f"{purpose} {name}", shared=shared).integers(2**62))
        built, array = CODECS.build(codec.format(drawn)), part[name].numpy()
        assert got[name].tolist() == built.unpack(built.pack(array), Form((40,), array.dtype)).tolist()
        assert not torch.equal(got[name], part[name])


def by_gram_schmidt(matrix: Any, sketch: Any) -> tuple[Any, Any]:
    """Return the two factors of one power iteration, in double precision, column by column."""
    columns: list[Any] = []
    for column in (matrix @ sketch).T:
        for other in columns:
            column = column - (column @ other) * other
        columns.append(column / math.sqrt(column @ column))
    basis = np.array(columns).T
    return basis, matrix.T @ basis


@pytest.mark.parametrize("warm_start", [True, False])
@pytest.mark.parametrize("decay", [0.0, 0.5])
def test_low_rank_by_hand(warm_start: bool, decay: float) -> None:
    """Three rounds of two matrices and a bias; only the random numbers of the first sketch are silobench's."""
    rng, shapes, weight = np.random.default_rng(4), layout((8, 9), (5,), (6, 3, 4)), 3.0
    text = f"low_rank(rank=2, warm_start={warm_start}, feedback=true, decay={decay})".lower()
    memories: Sequence[Memory] = [{}]
    error, sketches = np.zeros(149), list[Any]()
    for number in range(3):
        delta, context = rng.normal(size=149), Context(7, number, 1, shapes, {})
        done = sent(Update.of(weight, delta=torch.from_numpy(delta)), text, memories, context)
        memories = done.memories
        whole = delta + (1 - decay) * error
        if not (warm_start and number):
            drawn = int(context.stream("sketch delta").integers(1 << 62))
            sketches = [each.double().numpy() for each in Factoring.of(shapes.shapes, 2).sketches(drawn)]
        expected, rights = whole.copy(), []
        for place, (start, stop, rows) in enumerate([(0, 72, 8), (77, 149, 6)]):
            left, right = by_gram_schmidt(whole[start:stop].reshape(rows, -1), sketches[place])
            expected[start:stop] = (left @ right.T).reshape(-1)
            rights.append(right)
        sketches, error = rights, whole - expected
        got = done.arrived.mean()["delta"].numpy()
        assert np.allclose(got, expected, rtol=0, atol=bound(200, torch.float64) * 10)
        assert np.allclose(memories[0]["delta"].numpy(), error, rtol=0, atol=bound(400, torch.float64) * 10)
        assert 0.1 < np.linalg.norm(error) / np.linalg.norm(whole) < 0.9
        assert done.message.nbytes == 8 * (2 * (8 + 9) + 5 + 2 * (6 + 12))


@given(st.integers(2, 12), st.integers(2, 12), st.integers(1, 3), st.integers(0, 99))
@settings(max_examples=50, deadline=None)
def test_a_matrix_of_low_rank_arrives_as_it_is(rows: int, columns: int, rank: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    matrix = rng.normal(size=(rows, rank)) @ rng.normal(size=(rank, columns))
    back = arrived(matrix, CODECS.build(f"factors(shapes=[[{rows}, {columns}]], rank={rank}, seed={seed})"))
    assert np.allclose(back, matrix, rtol=0, atol=1e-9 * np.abs(matrix).max())


@pytest.mark.parametrize("magnitude", [1e-12, 0.003, 0.7, 1.0, 30.0, 5e9])
def test_both_factors_are_sent_in_about_the_same_magnitude(magnitude: float) -> None:
    """A codec that rounds their values has one scale for both. Powers of two leave a ratio from 1/2 to 2."""
    rng = np.random.default_rng(3)
    matrix = magnitude * rng.normal(size=(12, 2)) @ rng.normal(size=(2, 9))
    content = CODECS.build("factors(shapes=[[12, 9]], rank=2)").pack(matrix)
    left, right = np.split(np.abs(np.frombuffer(content, matrix.dtype)), [12 * 2])
    assert 0.5 <= right.max() / left.max() < 2


def test_tensors_without_two_dimensions_are_sent_as_they_are() -> None:
    """A scalar, a vector and a matrix that factors would not shorten, among matrices that they do."""
    shapes = [(), (12, 9), (5,), (2, 2), (9, 3, 3), ()]
    parts = [np.random.default_rng(place).normal(size=shape).reshape(-1) for place, shape in enumerate(shapes)]
    plan, flat = Factoring.of(shapes, rank=1), np.concatenate(parts)
    assert [(each.start, each.rows, each.columns) for each in plan.matrices] == [(1, 12, 9), (118, 9, 9)]
    codec = plan.codec()
    content = codec.pack(flat)
    assert len(content) == 8 * (12 + 9 + 9 + 9 + 1 + 5 + 4 + 1)
    back = codec.unpack(content, Form(flat.shape, flat.dtype))
    whole = np.r_[0, 109:118, 199]
    assert back[whole].tolist() == flat[whole].tolist()
    assert not np.isclose(back, flat)[1:109].all()


def test_a_warm_start_gets_nearer_to_a_matrix_that_stays() -> None:
    """Each round is one more power iteration, and the projection comes to that on the largest singular vectors."""
    rng, shapes = np.random.default_rng(2), layout((30, 20))
    delta = torch.from_numpy(rng.normal(size=600))
    update, memories, errors = Update.of(1.0, delta=delta), [{}], list[float]()
    transform = low_rank(rank=2, feedback=False)
    for number in range(60):
        done = send(update, (transform,), memories, Context(0, number, 0, shapes, {}))
        memories = list(done.memories)
        errors.append(float((done.arrived.total["delta"] - delta).norm()))
    least = float(torch.linalg.svdvals(delta.view(30, 20))[2:].norm())
    assert all(after <= before * (1 + 1e-9) for before, after in pairwise(errors))
    assert errors[0] > 1.02 * least
    assert errors[-1] == pytest.approx(least, rel=1e-3)
    memory = {"sketch of delta": torch.zeros(40, dtype=torch.float64)}  # after a round with nothing to send
    done = send(update, (transform,), [memory], Context(0, 0, 0, shapes, {}))
    assert float((done.arrived.total["delta"] - delta).norm()) < 0.99 * float(delta.norm())


def test_low_rank_of_a_message_of_another_length_is_the_whole() -> None:
    update = Update.of(1.0, delta=torch.randn(7)).with_sums(control=torch.randn(600), longer=torch.randn(601))
    message = sent(update, "low_rank(rank=2)", context=Context(0, 0, 0, layout((30, 20)), {})).message
    assert message.nbytes == 4 * 7 + 4 * 2 * 50 + 4 * 601


@pytest.mark.parametrize("decay", [0.0, 0.25, 1.0])
def test_error_feedback_by_hand(toy, decay: float) -> None:
    """Entry by entry, in plain Python: only the largest entry of each message is sent."""
    given_log: list[tuple[int, list[float]]] = []
    sent_log: list[tuple[int, list[float]]] = []

    def note(update: Update, context: Context) -> tuple[int, list[float]]:
        return context.party, update.total["delta"].tolist()

    transforms = (noted(given_log, note), *chain(f"error_feedback(decay={decay}) | top_k(0.01, feedback=false)"))
    run("fedavg", toy((8, 4, 16)), SOLVER, *transforms, noted(sent_log, note), rounds=6, participation=2)
    kept = {party: [0.0] * 15 for party in range(3)}
    weights = {0: 8, 1: 4, 2: 16}  # powers of two: nothing is rounded
    for (party, total), (sender, message) in zip(given_log, sent_log, strict=True):
        assert party == sender
        fed_back = [weights[party] * (1 - decay) * error for error in kept[party]]
        whole = [float(np.float32(x + error)) for x, error in zip(total, fed_back, strict=True)]
        place = max(range(15), key=lambda entry: abs(whole[entry]))
        assert [entry for entry, value in enumerate(message) if value] == [place]
        assert message[place] == whole[place]
        kept[party] = [0.0 if entry == place else value / weights[party] for entry, value in enumerate(whole)]
    assert len(sent_log) == 12


# --- the largest entries ------------------------------------------------------------------------------


@pytest.mark.parametrize("share", [0.001, 0.01, 0.2, 0.7, 0.9999])
@pytest.mark.parametrize("kind", ["normal", "heavy", "layers", "equal", "few", "sorted", "bad", "one bad"])
def test_the_largest_entries_of_a_long_vector_are_those_of_topk(kind: str, share: float) -> None:
    rng, size = np.random.default_rng(0), 150_000
    values = {
        "normal": lambda: rng.normal(size=size),
        "heavy": lambda: rng.standard_cauchy(size),
        "layers": lambda: rng.normal(size=size) * np.repeat([1.0, 1e-3, 30.0], size // 3),
        "equal": lambda: np.ones(size),
        "few": lambda: rng.integers(-9, 9, size),
        "sorted": lambda: np.sort(rng.normal(size=size)),
        "bad": lambda: np.where(rng.random(size) < 0.1, np.nan, rng.normal(size=size)),
        "one bad": lambda: np.where(np.arange(size) == 1, np.nan, rng.normal(size=size)),  # the sample has even places
    }[kind]()
    vector = torch.from_numpy(values.astype(np.float32))
    count = round(share * size)
    expected = torch.zeros(size, dtype=torch.bool)
    expected[vector.abs().topk(count, sorted=False).indices] = True
    assert torch.equal(largest(vector, share), expected)
    if "bad" not in kind:  # without a sample's help the answer is the same, but it takes long
        assert _bound_of_largest(vector.abs(), count) == vector.abs()[expected].min()
