"""Compression: bytes that a fresh process reads, laws of feedback and of full size, expectations, oracles by hand."""

import math
import pickle
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable, Sequence
from functools import cache, reduce
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from laws import EVERY, SOLVER, bits, close, models, run
from precision import bound
from silobench.engines import pool
from silobench.errors import ConfigError, SpecError
from silobench.method.algorithms import bsp, fedavg
from silobench.method.chain import Sent, send
from silobench.method.codecs import CODECS, Codec, Factoring, Form, Packed, random_subset
from silobench.method.method import Method
from silobench.method.solvers import sgd
from silobench.method.transforms import TRANSFORMS, bind_chain, low_rank, quantize, rand_k, top_k
from silobench.method.types import Context, Layout, Memory, Transform, Update
from silobench.models import MODELS
from silobench.models.model import Sizes
from silobench.runs.experiment import plan
from silobench.training.setting import BUFFERS
from silobench.vectors import _bound_of_largest, largest
from wire import noted

MINIBATCH = sgd(lr=0.05, steps=1, batch=8, keep_momentum=True)
CONTEXT = Context(0, 0, 0, Layout((), (), 0), {})
SPECIAL = [np.nan, np.inf, -np.inf, 1e-45, -1e-45, 6e-8, 6e4, 0.0, -0.0]  # as float16 some of them are 0
LOSSY = [
    "rand_k(fraction=0.3)",
    "rand_k(fraction=0.3, scale=false, feedback=true)",
    "low_rank(rank=1)",
    "low_rank(rank=1, warm_start=false, feedback=false)",
    "quantize(bits=4)",
    "error_feedback | sign",
]
CHAINS = [
    *LOSSY,
    "sign",
    "quantize(bits=2, bucket=7)",
    "quantize(bits=16)",
    "top_k(fraction=0.3) | quantize(bits=8)",
    "top_k(fraction=0.3, index=int64) | sign",
    "rand_k(fraction=0.5) | quantize(bits=4, bucket=5)",
    "low_rank(rank=1) | quantize",
    "error_feedback(decay=0.5) | top_k(fraction=0.2, feedback=false, index=bitmap) | quantize(bits=2)",
]


SEVERAL = [text for text in CHAINS if " | " in text]


def chain(text: str) -> tuple[Transform, ...]:
    return tuple(term.build() for term in bind_chain(text))


def sent(update: Update, text: str, memories: Sequence[Memory] | None = None, context: Context = CONTEXT) -> Sent:
    transforms = chain(text)
    return send(update, transforms, memories or [{} for _ in transforms], context)


def arrived(part: Any, codec: Codec) -> Any:
    return Packed.of(torch.from_numpy(np.asarray(part)), codec).unpack().numpy()


def layout(*shapes: tuple[int, ...]) -> Layout:
    sizes = tuple(map(torch.Size, shapes))
    return Layout(tuple(f"w{place}" for place in range(len(sizes))), sizes, sum(size.numel() for size in sizes))


# --- there and back, in another process ---------------------------------------------------------------

CODEC_TEXTS = [
    "dense",
    *(f"sparse(index={index})" for index in ("auto", "int32", "int64", "bitmap")),
    *(f"quantized(bits={width}, bucket=16, seed=3)" for width in (2, 4, 8, 16)),
    "signs",
    "random_subset(fraction=0.3, scale=true, seed=5)",
    "factors(shapes=SHAPES, rank=1, seed=2)",
    "sparse | quantized(bits=4)",
    "sparse(index=int64) | signs",
    "sparse(index=bitmap) | random_subset(fraction=0.5)",
    "random_subset(fraction=0.6) | quantized(bits=2, bucket=3)",
    "factors(shapes=SHAPES, rank=1) | quantized(bits=8)",
]
RECEIVER = """
import pickle, sys
from functools import lru_cache
import numpy as np, torch
from silobench.method.codecs import CODECS, Form
from silobench.method.transforms import bind_chain
from silobench.method.types import Context, Layout, Update

@lru_cache(maxsize=1000)
def codec(text):
    first, *others = [CODECS.build(term) for term in text.split(" | ")]
    for other in others:
        first = first.values(other)
    return first

@lru_cache(maxsize=1)
def of_chain(text, shapes, forms):
    # The codecs of a chain, from its text and the round alone: zeros take the place of every vector.
    sizes = tuple(map(torch.Size, shapes))
    context = Context(9, 4, 2, Layout(tuple(map(str, range(len(sizes)))), sizes, sum(map(torch.Size.numel, sizes))), {})
    update = Update({name: torch.from_numpy(np.zeros(shape, kind)) for name, shape, kind in forms}, 1.0)
    for place, term in enumerate(bind_chain(text)):
        update = term.build().encode(update, {}, Context(**{**vars(context), "place": place}))[0]
    return update.codecs

jobs, parts = pickle.load(sys.stdin.buffer), []
for text, name, shapes, forms, shape, kind, content in jobs:
    codec_of_part = of_chain(text, shapes, forms).get(name, codec("dense")) if forms else codec(text)
    parts.append(codec_of_part.unpack(content, Form(shape, np.dtype(kind))).tobytes())
pickle.dump(parts, sys.stdout.buffer)
"""


def random_arrays(count: int) -> list[Any]:
    """Return arrays of all densities and of up to four dimensions, some of them empty, with special values."""
    rng, found = np.random.default_rng(11), []
    for _ in range(count):
        shape = tuple(rng.choice([0, 1, 1, 2, 3, 5, 8, 13], rng.integers(0, 5), p=[0.02, *[0.14] * 7]))
        values = rng.normal(size=shape) * 10.0 ** rng.integers(-3, 3) * (rng.random(shape) < rng.random())
        specials = rng.choice(SPECIAL, shape)
        values = np.where(rng.random(shape) < rng.choice([0.0, 0.0, 0.02, 0.3]), specials, values)
        found.append(values.astype(rng.choice([np.float32, np.float32, np.float64, np.float16])))
    return found


@cache
def composed(text: str) -> Codec:
    first, *others = [CODECS.build(term) for term in text.split(" | ")]
    return reduce(around, others, first)


def received(jobs: list[Any]) -> list[bytes]:
    """Return parts as a fresh process unpacks them. It gets texts, forms and bytes only."""
    process = subprocess.run(
        [sys.executable, "-c", RECEIVER], input=pickle.dumps(jobs), capture_output=True, check=True
    )
    parts: list[bytes] = pickle.loads(process.stdout)
    return parts


def test_a_fresh_process_reads_the_bytes_of_every_codec_and_chain() -> None:
    arrays, jobs, expected = random_arrays(1000), [], []
    for text in CODEC_TEXTS:
        for part in arrays:
            filled = text.replace("SHAPES", str([list(part.shape)]))
            packed = Packed.of(torch.from_numpy(part), composed(filled))
            back = packed.unpack().numpy()
            assert not packed.codec.lossless or np.array_equal(back, part, equal_nan=True)
            jobs.append((filled, "", (), (), part.shape, part.dtype.str, bytes(packed.content)))
            expected.append(back.tobytes())
    shapes = ((6, 5), (7,), (4, 3, 2))
    for text in SEVERAL:
        # One of the vectors is as long as the model, so that `low_rank` sends it as factors.
        parts = {f"p{place}": torch.from_numpy(each) for place, each in enumerate([arrays[0], *arrays])}
        parts["p0"] = torch.randn(61, generator=torch.Generator().manual_seed(1))
        context = Context(9, 4, 2, layout(*shapes), {})
        message = sent(Update(parts, 1.0), text, context=context).message
        forms = tuple((name, tuple(each.shape), each.numpy().dtype.str) for name, each in parts.items())
        for name, packed in message.total.items():
            form = packed.form
            jobs.append((text, name, shapes, forms, form.shape, form.dtype.str, bytes(packed.content)))
            expected.append(packed.unpack().numpy().tobytes())
    assert received(jobs) == expected


# --- special values -----------------------------------------------------------------------------------


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
@pytest.mark.parametrize("width", [2, 4, 8, 16])
def test_a_bucket_with_an_entry_that_is_not_finite_arrives_as_not_a_number(width: int, dtype: type, bad: float) -> None:
    part = np.linspace(-1, 1, 10).astype(dtype)
    part[5] = bad
    back = arrived(part, CODECS.build(f"quantized(bits={width}, bucket=4)"))
    assert np.isnan(back).tolist() == [False] * 4 + [True] * 4 + [False] * 2


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_signs_and_factors_of_a_part_that_is_not_finite_are_not_numbers(bad: float) -> None:
    part = np.ones(61, np.float32)
    part[7] = bad  # in the first matrix, of 6 by 5
    assert np.isnan(arrived(part, CODECS.build("signs"))).all()
    back = arrived(part, CODECS.build("factors(shapes=[[6, 5], [7], [4, 3, 2]], rank=1)"))
    assert np.isnan(back[:30]).all()
    assert np.allclose(back[30:], 1)
    back = arrived(part, composed("factors(shapes=[[6, 5], [7], [4, 3, 2]], rank=1) | quantized(bits=8, bucket=11)"))
    assert np.isnan(back[:30]).all()


def test_a_product_that_overflows_is_not_a_number() -> None:
    part = np.full(30, 3e38, np.float32)
    assert not np.isfinite(arrived(part, CODECS.build("factors(shapes=[[6, 5]], rank=1)"))).any()
    assert np.array_equal(arrived(part, CODECS.build("quantized(bits=8)")), part)
    assert np.array_equal(arrived(part, CODECS.build("signs")), part)


@pytest.mark.parametrize("text", ["quantized(bits=8)", "quantized(bits=2, bucket=3)", "signs", "random_subset(1.0)"])
def test_the_smallest_numbers_arrive(text: str) -> None:
    part = np.array([1e-45, -1e-45, 1e-45, -1e-45], np.float32)
    assert np.array_equal(arrived(part, CODECS.build(text)), part)


def test_a_matrix_of_the_smallest_numbers_or_zeros_arrives_as_it_is() -> None:
    codec = CODECS.build("factors(shapes=[[6, 5]], rank=1)")
    assert not arrived(np.zeros(30, np.float32), codec).any()
    part = np.full(30, 1e-40, np.float32)
    assert np.allclose(arrived(part, codec), part, rtol=1e-3, atol=0)


@pytest.mark.parametrize("text", CODEC_TEXTS)
def test_an_empty_part_takes_no_bytes_or_those_of_a_count(text: str) -> None:
    codec = composed(text.replace("SHAPES", "[[0]]"))
    packed = Packed.of(torch.zeros(0), codec)
    assert packed.nbytes == (4 if text.startswith("sparse") and "|" in text else 0)
    assert packed.unpack().shape == (0,)


@pytest.mark.parametrize("text", CHAINS)
def test_scalars_and_whole_numbers_pass_unchanged(text: str) -> None:
    update = Update.of(2.0, delta=torch.randn(9), reach=torch.tensor(0.7)).with_sums(count=torch.tensor(3))
    back = sent(update, text).arrived
    assert back.total["reach"].item() == update.total["reach"].item()
    assert back.sums["count"].item() == 3
    numbers = Update({}, 1.0, {"counts": torch.arange(5)})
    if "top_k" not in text:
        assert torch.equal(sent(numbers, text).arrived.sums["counts"], torch.arange(5))


# --- bytes --------------------------------------------------------------------------------------------


@given(st.integers(0, 70), st.floats(0.0, 1.0), st.sampled_from(["int32", "int64", "bitmap"]), st.integers(0, 99))
@settings(max_examples=100, deadline=None)
def test_the_bytes_of_positions(size: int, density: float, index: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    part = np.where(rng.random(size) < density, 1 + rng.random(size), 0).astype(np.float32)
    count = np.count_nonzero(part)
    places = {"int32": 4 * count, "int64": 8 * count, "bitmap": -(-size // 8)}[index]
    codec = CODECS.build(f"sparse(index={index})")
    packed = Packed.of(torch.from_numpy(part), codec)
    assert packed.nbytes == places + 4 * count
    assert packed.unpack().numpy().tobytes() == part.tobytes()
    if index != "bitmap":
        kind = {"int32": "<i4", "int64": "<i8"}[index]
        assert np.frombuffer(packed.content, kind, count).tolist() == np.flatnonzero(part).tolist()


@given(st.integers(1, 100), st.sampled_from([2, 4, 8, 16]), st.integers(1, 40))
@settings(max_examples=60, deadline=None)
def test_the_bytes_of_levels(size: int, width: int, bucket: int) -> None:
    packed = Packed.of(torch.randn(size), CODECS.build(f"quantized(bits={width}, bucket={bucket})"))
    assert packed.nbytes == 4 * -(-size // bucket) + -(-size * width // 8)


@pytest.fixture(scope="module")
def resnet() -> Layout:
    """Return the layout of ResNet-18 for CIFAR-10: 11,173,962 parameters."""
    network = MODELS.build("resnet(depth=18, norm=batch)").build(Sizes((3, 32, 32), 10), 0)
    shapes = [parameter.shape for parameter in network.parameters()]
    return Layout(tuple(map(str, range(len(shapes)))), tuple(shapes), sum(map(torch.Size.numel, shapes)))


@pytest.mark.parametrize(
    ("text", "ratio", "within"),
    [
        ("top_k(fraction=0.01, index=int64, feedback=false)", 33.3, 0.1),
        ("top_k(fraction=0.01, index=int32, feedback=false)", 50.0, 0.1),
        ("top_k(fraction=0.01, feedback=false)", 50.0, 0.1),
        ("top_k(fraction=0.003, index=int64, feedback=false)", 111.1, 0.4),
        ("rand_k(fraction=0.01)", 100.0, 0.5),
        ("low_rank(rank=3, warm_start=false, decay=0.5)", 94.2, 0.5),
        ("quantize(bits=8)", 4 / (1 + 4 / 512), 0.001),
        ("sign", 32.0, 0.001),
    ],
)
def test_compression_ratios_on_resnet_18(text: str, ratio: float, within: float, resnet: Layout) -> None:
    assert resnet.size == 11_173_962
    update = Update({"delta": torch.rand(resnet.size)}, 1.0)
    message = sent(update, text, context=Context(0, 0, 0, resnet, {})).message
    assert update.total["delta"].nbytes / message.nbytes == pytest.approx(ratio, abs=within)


# --- full size is no compression ----------------------------------------------------------------------

FULL = [
    "quantize(bits=32)",
    "rand_k(fraction=1.0)",
    "rand_k(fraction=1.0, scale=false, feedback=true)",
    "low_rank(rank=99)",
    "low_rank(rank=99, warm_start=false, decay=0.5)",
    "error_feedback | quantize(bits=32)",
    "error_feedback(decay=0.3) | rand_k(fraction=1.0, scale=false) | quantize(bits=32)",
]


@pytest.mark.parametrize("text", FULL)
@pytest.mark.parametrize("algorithm", ["fedavg", "scaffold", "fednova"])
def test_full_density_rank_and_bits_are_no_compression(toy, algorithm: str, text: str) -> None:
    plain, ours = (run(algorithm, toy((20, 9, 30), "mlp(6)"), SOLVER, *chain(each)) for each in ("", text))
    assert torch.equal(models(plain), models(ours))
    assert [record.bytes_up for record in plain] == [record.bytes_up for record in ours]


def test_top_k_of_everything_is_no_compression(toy) -> None:
    """With whole weights of one row per party nothing is rounded; other weights are divided by and multiplied with."""
    plain, ours = (run(bsp(), toy(), MINIBATCH, *chain(each)) for each in ("", "top_k(fraction=1.0)"))
    assert torch.equal(models(plain), models(ours))
    for index in ("int32", "int64", "bitmap"):
        ours = run(bsp(), toy(), MINIBATCH, top_k(1.0, index=index))
        assert torch.equal(models(plain), models(ours))


# --- sent + kept = produced ---------------------------------------------------------------------------

FEEDBACK = [
    "rand_k(fraction=0.3, scale=false, feedback=true)",
    "error_feedback | rand_k(fraction=0.3, scale=false)",
    "error_feedback | top_k(fraction=0.3, feedback=false, index=int64)",
    "error_feedback | sign",
    "error_feedback | quantize(bits=2)",
    "error_feedback | quantize(bits=8)",
    "low_rank(rank=1)",
    "low_rank(rank=1) | quantize(bits=8)",
    "error_feedback | low_rank(rank=1, feedback=false)",
    "error_feedback | top_k(fraction=0.3, feedback=false) | quantize(bits=4)",
]


@pytest.mark.parametrize("text", FEEDBACK)
@pytest.mark.parametrize("weight", [1.0, 8.0, 7.0])
def test_sent_and_kept_make_up_what_was_produced(text: str, weight: float) -> None:
    """Round by round, and so over all rounds: nothing is lost, and nothing is sent twice."""
    generator = torch.Generator().manual_seed(3)
    shapes, exact = layout((6, 5), (7,)), "_k" in text and "quantize" not in text and weight != 7
    memories: Sequence[Memory] = [{} for _ in chain(text)]
    all_sent, all_deltas = torch.zeros(37), torch.zeros(37)
    for number in range(5):
        delta, control = torch.randn(37, generator=generator), torch.randn(37, generator=generator)
        before = memories[0].get("delta", torch.zeros(37)), memories[0].get("control", torch.zeros(37))
        update = Update.of(weight, delta=delta).with_sums(control=control)
        done = sent(update, text, memories, Context(0, number, 0, shapes, {}))
        memories = done.memories
        for got, whole, kept in (
            (done.arrived.mean()["delta"], delta + before[0], memories[0]["delta"]),
            (done.arrived.sums["control"], control + before[1], memories[0]["control"]),
        ):
            longest = float(max(got.abs().max(), whole.abs().max()))
            assert torch.allclose(got + kept, whole, rtol=0, atol=0 if exact else bound(4) * longest)
            assert kept.abs().max() > 0.01
        all_sent, all_deltas = all_sent + done.arrived.mean()["delta"], all_deltas + delta
    assert torch.allclose(all_sent + memories[0]["delta"], all_deltas, rtol=0, atol=bound(40) * 20)


@pytest.mark.parametrize("text", FEEDBACK)
def test_what_is_unsent_is_the_memory_of_delta(text: str) -> None:
    done = sent(Update.of(2.0, delta=torch.randn(37)), text, context=Context(0, 0, 0, layout((6, 5), (7,)), {}))
    first = chain(text)[0]
    unsent = first.unsent(done.memories[0])
    assert unsent is not None
    assert torch.equal(unsent, done.memories[0]["delta"])
    assert not any("delta" in memory for memory in done.memories[1:])


@pytest.mark.parametrize("inner", ["low_rank(rank=1, feedback=false)", "low_rank(rank=1, feedback=false) | quantize"])
@pytest.mark.parametrize("decay", [0.0, 0.5])
def test_feedback_of_low_rank_is_error_feedback_before_it(toy, inner: str, decay: float) -> None:
    """Random numbers depend on the place in the chain: an idle transform takes the place of error_feedback."""
    around = f"error_feedback(decay={decay}) | {inner}"
    within = inner.replace("feedback=false", f"feedback=true, decay={decay}")
    first, second = (
        run("fedavg", toy((20, 9, 30), "mlp(6)"), SOLVER, *chain(text))
        for text in (around, f"clip(norm=1e9) | {within}")
    )
    assert torch.equal(models(first), models(second))


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


def test_feedback_is_not_applied_to_statistics(normed) -> None:
    for text in ("error_feedback | sign", "low_rank(rank=1)", "rand_k(scale=false, feedback=true)"):
        records = run("fedavg", normed(), SOLVER, *chain(text))
        memories = [memory["transform-0"] for memory in records[-1].state.memory.values()]
        assert {name for memory in memories for name in memory} - {"sketch of delta"} == {"delta"}


# --- expectations -------------------------------------------------------------------------------------


VALUES = np.array([1.0, -0.98, 0.5, 0.13, -0.26, 0.03, -0.06, 0.33, -0.71, 0.0, 0.119], np.float32)
REPEATS = 3000
ALLOWED = 6.0  # standard errors: chance exceeds them in one of 10^8 tests


def deviations(several: Any, values: Any = VALUES) -> float:
    """Return how many standard errors the mean of what arrived is away from the values, at most over all of them."""
    spread = several.std(axis=0, dtype=np.float64) / math.sqrt(len(several))
    differences = np.abs(several.mean(axis=0, dtype=np.float64) - values)
    rounding = bound(4) * np.abs(values).max()
    return float(np.max(np.maximum(differences - rounding, 0) / np.maximum(spread, rounding)))


def in_buckets(codec: Codec, values: Any = VALUES) -> Any:
    """Return the values as they arrive in each of many buckets."""
    return arrived(np.tile(values, REPEATS), codec).reshape(REPEATS, -1)


def subsets(scale: bool, values: Codec | None = None) -> Any:
    """Return the values as they arrive from many random subsets."""
    codecs = (random_subset(0.3, scale, seed) for seed in range(REPEATS))
    return np.array([arrived(VALUES, around(each, values) if values else each) for each in codecs])


def around(outer: Codec, inner: Codec) -> Codec:
    assert outer.values is not None
    return outer.values(inner)


@pytest.mark.parametrize("width", [2, 4, 8, 16])
@pytest.mark.parametrize("sign", [1, -1])
def test_quantized_entries_have_the_right_expectation(width: int, sign: int) -> None:
    codec = CODECS.build(f"quantized(bits={width}, bucket=11)")
    assert deviations(in_buckets(codec, sign * VALUES), sign * VALUES) < ALLOWED


def test_random_subsets_have_the_right_expectation() -> None:
    assert deviations(subsets(scale=True)) < ALLOWED


def levels(rounded: Callable[[Any, Any], Any]) -> Any:
    """Return the values in seven levels, rounded in some way with random numbers in [0, 1)."""
    random = np.random.default_rng(0).random((REPEATS, VALUES.size))
    return rounded(np.tile(VALUES, (REPEATS, 1)) * 7, random) / 7


def test_a_biased_codec_does_not_pass() -> None:
    """The check lets the right rounding pass, and nothing else."""
    assert deviations(levels(lambda part, random: np.floor(part + random))) < ALLOWED
    for wrong in (
        levels(lambda part, random: np.round(part)),
        levels(lambda part, random: np.floor(part + 0.1 + 0.9 * random)),
        levels(lambda part, random: np.trunc(part + random)),
        levels(lambda part, random: -np.floor(part + random)),
        in_buckets(CODECS.build("signs")),
        subsets(scale=False),
    ):
        assert deviations(wrong) > 2 * ALLOWED


@pytest.mark.parametrize("text", ["quantize(bits=4)", "rand_k(fraction=0.3)"])
def test_transforms_draw_anew_in_every_round_and_party_and_for_every_part(text: str) -> None:
    delta = torch.randn(400, generator=torch.Generator().manual_seed(0))
    update = Update({"delta": delta}, 1.0, {"control": delta})

    def at(number: int, party: int, seed: int = 0) -> Update:
        return sent(update, text, context=Context(seed, number, party, CONTEXT.layout, {})).arrived

    first = at(0, 0)
    assert torch.equal(first.total["delta"], at(0, 0).total["delta"])
    assert not torch.equal(first.total["delta"], first.sums["control"])
    assert not torch.equal(first.total["delta"], at(1, 0).total["delta"])
    assert not torch.equal(first.total["delta"], at(0, 0, seed=1).total["delta"])
    places = first.total["delta"] != 0, at(0, 1).total["delta"] != 0, at(0, -1).total["delta"] != 0
    same = text.startswith("rand_k")  # all parties send the same places
    assert torch.equal(places[0], places[1]) == torch.equal(places[0], places[2]) == same


# --- by hand ------------------------------------------------------------------------------------------


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


# --- every algorithm, engines and statistics ----------------------------------------------------------


@pytest.mark.parametrize("algorithm", EVERY)
def test_every_algorithm_runs_with_compression(toy, algorithm: str) -> None:
    federated = toy((20, 9, 30), "mlp(6)")
    plain = run(algorithm, federated, SOLVER, rounds=2)
    for text in ("rand_k(fraction=0.5)", "low_rank(rank=1) | quantize(bits=4)", "error_feedback | sign"):
        ours = run(algorithm, federated, SOLVER, *chain(text), rounds=2)
        assert models(ours).isfinite().all()
        if algorithm in ("solo", "combined"):  # nothing is sent
            assert torch.equal(models(plain), models(ours))
        else:
            assert not torch.equal(models(plain), models(ours))
            assert ours[0].bytes_up < plain[0].bytes_up


@pytest.mark.parametrize("algorithm", ["bsp", "gaia(threshold=0.1)", "dgc(warmup=1)"])
@pytest.mark.parametrize("text", ["quantize(bits=8)", "rand_k(fraction=0.5)", "sign"])
def test_values_of_algorithms_in_lockstep_are_packed(toy, algorithm: str, text: str) -> None:
    records = run(algorithm, toy((24, 24, 24)), MINIBATCH, *chain(text))
    assert models(records).isfinite().all()
    assert records[0].bytes_up < run(algorithm, toy((24, 24, 24)), MINIBATCH)[0].bytes_up


@pytest.mark.parametrize("text", LOSSY)
def test_workers_give_the_same_bits(toy, text: str) -> None:
    def all_bits(**options: Any) -> list[Any]:
        records = run("scaffold", toy((20, 9, 30), "mlp(6)"), SOLVER, *chain(text), **options)
        return [{**bits(record), "engine": None, "workers": None} for record in records]

    assert all_bits() == all_bits(engine=pool(workers=2))


@pytest.mark.parametrize("text", [*LOSSY, "sign", "quantize(bits=2)"])
def test_statistics_are_sent_whole(normed, text: str) -> None:
    """A variance that is rounded or scaled could become negative; the change of a statistic is sent as it is."""
    (plain,) = run("fedavg", normed(), SOLVER, rounds=1)
    records = run("fedavg", normed(), SOLVER, *chain(text), rounds=6)
    assert close(records[0].state.server.buffers, plain.state.server.buffers, rel=bound(100))
    variances = normed()[1].network.layout.slices["1.running_var"]
    start = normed()[1].network.layout.trainable
    every = torch.stack([record.state.server.buffers for record in records])
    assert (every[:, variances.start - start : variances.stop - start] >= 0).all()
    update = Update({BUFFERS: torch.ones(10), "delta": torch.ones(53)}, 1.0)
    assert sent(update, text).message.total[BUFFERS].nbytes == plain.state.server.buffers.nbytes == 40


# --- what cannot be combined --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("top_k | error_feedback", "error_feedback is the last transform, so nothing is lost after it: put it before"),
        (
            "error_feedback | top_k",
            "error-feedback keeps what later transforms leave out, and the transform top-k keeps",
        ),
        ("error_feedback | low_rank", "write feedback=false in one of them, or leave one out"),
        ("low_rank | top_k", "the transform low-rank and the transform top-k cannot both choose what is sent"),
        ("rand_k | low_rank(feedback=false)", "because low_rank needs whole matrices: leave one of them out"),
        ("low_rank(feedback=false) | low_rank(feedback=false)", "cannot both choose what is sent"),
        ("quantize | top_k", "the transform quantize rounds the values that are sent, so the transform top-k cannot"),
        ("sign | rand_k", "let it come last, and once"),
        ("quantize | clip | sign", "the transform sign cannot come after it"),
        ("error_feedback | error_feedback | sign", "so it would be sent twice"),
        ("rand_k(feedback=true)", "rand_k has scale=true and feedback=true, but scaled values make up for the rest"),
        ("error_feedback | rand_k", "the transform rand-k scales the values .*: write scale=false in it, or leave one"),
        ("rand_k(scale=false, feedback=true) | rand_k", "write scale=false in it"),
        ("error_feedback | clip | rand_k", "the transform error-feedback sends later what later transforms leave out"),
        ("quantize(bits=3)", "quantize: bits must be 2, 4, 8, 16 or 32, but 3 was given"),
    ],
)
def test_chains_that_make_no_sense_are_refused(text: str, problem: str) -> None:
    with pytest.raises((ConfigError, SpecError), match=problem):
        Method(fedavg(), SOLVER, chain(text))


def test_a_transform_that_states_nothing_may_come_anywhere() -> None:
    halves = Transform(lambda update, memory, context: (update.map(lambda part: part / 2), memory))
    for before, after in (("", "error_feedback | rand_k(scale=false)"), ("error_feedback", "sign"), ("rand_k", "")):
        Method(fedavg(), SOLVER, (*chain(before), halves, *chain(after)))


def test_error_feedback_needs_to_see_what_arrives() -> None:
    masks = Transform(lambda update, memory, context: (update, memory), decode=lambda update, context: update)
    with pytest.raises(
        ConfigError, match="needs to know what arrives, but this transform hides it until the server has"
    ):
        Method(fedavg(), SOLVER, (*chain("error_feedback"), masks))


@pytest.mark.parametrize("text", ["quantize | top_k", "sign | rand_k", "quantize | quantize", "quantize | sign"])
def test_the_one_that_rounds_comes_last(text: str) -> None:
    with pytest.raises(ConfigError, match=r"two transforms pack the values of delta, .* \(quantize, sign\) come last"):
        sent(Update.of(1.0, delta=torch.ones(3)), text)


@pytest.mark.parametrize("before", ["top_k(feedback=false)", "rand_k"])
def test_low_rank_comes_before_what_picks_entries(before: str) -> None:
    with pytest.raises(ConfigError, match="low_rank needs the whole of delta, but something before it sends only some"):
        sent(
            Update.of(1.0, delta=torch.ones(600)),
            f"{before} | low_rank",
            context=Context(0, 0, 0, layout((30, 20)), {}),
        )


# --- knobs --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("transform", "knobs"),
    [
        (rand_k(), {"fraction": 0.5}),
        (low_rank(), {"rank": 1.0}),
        (quantize(), {"bits": 4.0}),
        (quantize(), {"bits": 32.0}),
    ],
)
def test_controllers_set_what_an_argument_sets(transform: Transform, knobs: dict[str, float]) -> None:
    assert {dial.name for dial in transform.dials} == set(knobs)
    ((name, value),) = knobs.items()
    update, context = Update.of(1.0, delta=torch.randn(600)), Context(0, 0, 0, layout((30, 20)), knobs)
    factories: dict[str, Any] = {"fraction": rand_k, "rank": low_rank, "bits": quantize}
    fixed = factories[name](**{name: value if name == "fraction" else int(value)})
    ours = send(update, (transform,), [{}], context)
    theirs = send(update, (fixed,), [{}], Context(0, 0, 0, layout((30, 20)), {}))
    assert (
        ours.message.nbytes == theirs.message.nbytes != send(update, (factories[name](),), [{}], CONTEXT).message.nbytes
    )
    assert torch.equal(ours.arrived.total["delta"], theirs.arrived.total["delta"])


def test_more_traffic_comes_first_on_every_dial() -> None:
    update, shapes = Update.of(1.0, delta=torch.randn(12_000)), layout((120, 100))
    for transform in (top_k(), rand_k(), low_rank(), quantize()):
        (dial,) = transform.dials
        lengths = [
            send(update, (transform,), [{}], Context(0, 0, 0, shapes, {dial.name: value})).message.nbytes
            for value in dial.grid
        ]
        assert lengths == sorted(lengths, reverse=True)
        assert len(set(lengths)) == len(lengths)


def test_a_lossy_codec_is_not_taken_for_the_sum() -> None:
    for text in CHAINS:
        done = sent(Update.of(1.0, delta=torch.randn(20)), text).arrived
        assert not any(codec.lossless for codec in done.codecs.values())
        assert (done + done).codecs == {}


# --- the page -----------------------------------------------------------------------------------------

PAGE = (Path(__file__).parents[2] / "docs" / "transforms.md").read_text(encoding="utf-8")


def test_the_page_has_every_transform_with_its_defaults() -> None:
    for row in TRANSFORMS.describe():
        arguments = row["signature"].removeprefix(row["name"]).replace("True", "true").replace("False", "false")
        text = row["name"].replace("-", "_") + arguments.removesuffix("()")
        assert f"| `{text}` |" in PAGE


def test_the_chains_of_the_page_can_be_run() -> None:
    cells = re.findall(r"^\| [^|]+ \| (`.+`) \|$", PAGE.partition("| as in |")[2].partition("\n\n")[0], re.MULTILINE)
    texts = [text.replace("\\|", "|") for cell in cells for text in re.findall("`([^`]+)`", cell)]
    assert len(texts) == 8
    for text in texts:
        Method(fedavg(), SOLVER, chain(text))
    (experiment,) = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    assert len(plan(tomllib.loads(experiment))) == 5


@pytest.mark.parametrize(("text", "knob", "settings_of_knob"), [("quantize", "bits", 5), ("low_rank", "rank", 6)])
def test_an_oracle_tries_the_settings_of_a_knob(text: str, knob: str, settings_of_knob: int) -> None:
    cell = {"dataset": "digits", "algorithm": "fedavg", "transforms": text, "controller": f"oracle(knob={knob})"}
    assert len(plan(cell)) == 1 + settings_of_knob
    assert len(plan({**cell, "controller": f"oracle(knob={knob}, grid=[8, 4])"})) == 3
