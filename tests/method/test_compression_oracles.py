"""Compression by hand: codecs and transforms against slow versions of them."""

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


@given(st.integers(1, 60), st.integers(0, 99))
@settings(max_examples=40, deadline=None)
def test_signs_by_hand(size: int, seed: int) -> None:
    part = np.random.default_rng(seed).normal(size=size).astype(np.float32)
    mean = np.float32(math.fsum(abs(float(value)) for value in part) / size)
    back = arrived(part, CODECS.build("signs"))
    assert [value > 0 for value in back] == [value >= 0 for value in part]
    assert np.allclose(np.abs(back), mean, rtol=bound(1), atol=0)


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
    update = Update.of(1.0, delta=torch.randn(7)).with_sums(control=torch.randn(600))
    message = sent(update, "low_rank(rank=2)", context=Context(0, 0, 0, layout((30, 20)), {})).message
    assert message.nbytes == 4 * 7 + 4 * 2 * 50


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
