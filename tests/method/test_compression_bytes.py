"""Compression: the bytes of messages, which a fresh process reads, and special values."""

import pickle
from itertools import cycle, product
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from chains import CHAINS, arrived, chain, composed, layout, sent
from commands import run_code
from silobench.method.codecs import CODECS, Packed
from silobench.method.types import Context, Layout, Update
from silobench.models import MODELS
from silobench.models.model import Sizes

SPECIAL = [np.nan, np.inf, -np.inf, 1e-45, -1e-45, 6e-8, 6e4, 0.0, -0.0]  # as float16 some of them are 0
SEVERAL = [text for text in CHAINS if " | " in text]

# --- there and back, in another process ---------------------------------------------------------------

CODECS_TO_READ = [  # 1,000 arrays each, which the forms of a codec take by turns
    ["dense"],
    [f"sparse(index={index})" for index in ("auto", "int32", "int64", "bitmap")],
    [f"quantized(bits={width}, bucket=16, seed=3)" for width in (2, 4, 8, 16)],
    ["signs"],
    ["random_subset(fraction=0.3, scale=true, seed=5)"],
    ["factors(shapes=SHAPES, rank=1, seed=2)"],
    [
        "sparse | quantized(bits=4)",
        "sparse(index=int64) | signs",
        "sparse(index=bitmap) | random_subset(fraction=0.5)",
        "random_subset(fraction=0.6) | quantized(bits=2, bucket=3)",
        "factors(shapes=SHAPES, rank=1) | quantized(bits=8)",
    ],
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


def received(jobs: list[Any]) -> list[bytes]:
    """Return parts as a fresh process unpacks them. It gets texts, forms and bytes only."""
    parts: list[bytes] = pickle.loads(run_code(RECEIVER, stdin=pickle.dumps(jobs)))
    return parts


def test_a_fresh_process_reads_the_bytes_of_every_codec_and_chain() -> None:
    arrays, jobs, expected = random_arrays(1000), [], []
    for forms_of_codec in CODECS_TO_READ:
        for part, text in zip(arrays, cycle(forms_of_codec), strict=False):
            filled = text.replace("SHAPES", str([list(part.shape)]))
            packed = Packed.of(torch.from_numpy(part), composed(filled))
            back = packed.unpack().numpy()
            assert not packed.codec.lossless or np.array_equal(back, part, equal_nan=True)
            jobs.append((filled, "", (), (), part.shape, part.dtype.str, bytes(packed.content)))
            expected.append(back.tobytes())
    shapes = ((6, 5), (7,), (4, 3, 2))
    for text, first in product(SEVERAL, range(0, len(arrays), 50)):  # messages of 51 vectors
        parts = {f"p{place}": torch.from_numpy(each) for place, each in enumerate(arrays[first : first + 50], 1)}
        # One of the vectors is as long as the model, so that `low_rank` sends it as factors.
        parts["p0"] = torch.randn(61, generator=torch.Generator().manual_seed(first))
        context = Context(9, 4, 2, layout(*shapes), {})
        done = sent(Update(parts, 1.0), text, context=context)
        forms = tuple((name, tuple(each.shape), each.numpy().dtype.str) for name, each in parts.items())
        for name, packed in done.message.total.items():
            form = packed.form
            jobs.append((text, name, shapes, forms, form.shape, form.dtype.str, bytes(packed.content)))
            expected.append(done.arrived.total[name].numpy().tobytes())
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


@pytest.mark.parametrize("text", [text for forms_of_codec in CODECS_TO_READ for text in forms_of_codec])
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
def resnet() -> tuple[Layout, Update]:
    """Return the layout and an update of ResNet-18 for CIFAR-10: 11,173,962 parameters."""
    network = MODELS.build("resnet(depth=18, norm=batch-stats)").build(Sizes((3, 32, 32), 10), 0)
    shapes = [tuple(parameter.shape) for parameter in network.parameters()]
    return layout(*shapes), Update({"delta": torch.rand(layout(*shapes).size)}, 1.0)


@pytest.mark.parametrize(
    ("text", "ratio", "within"),
    [
        ("top_k(fraction=0.01, index=int64, feedback=false)", 33.3, 0.1),
        ("top_k(fraction=0.01, feedback=false)", 50.0, 0.1),
        ("top_k(fraction=0.003, index=int64, feedback=false)", 111.1, 0.4),
        ("rand_k(fraction=0.01)", 100.0, 0.5),
        ("low_rank(rank=3, warm_start=false, decay=0.5)", 94.2, 0.5),
        ("quantize(bits=8)", 4 / (1 + 4 / 512), 0.001),
        ("sign", 32.0, 0.001),
    ],
)
def test_compression_ratios_on_resnet_18(text: str, ratio: float, within: float, resnet: tuple[Layout, Update]) -> None:
    shapes, update = resnet
    assert shapes.size == 11_173_962
    (transform,) = chain(text)
    message = transform.encode(update, {}, Context(0, 0, 0, shapes, {}))[0].pack()
    assert update.total["delta"].nbytes / message.nbytes == pytest.approx(ratio, abs=within)
