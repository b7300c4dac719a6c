"""Codecs: parts of messages as bytes and back, and updates that the server sums as it unpacked them."""

import hashlib
from functools import reduce
from operator import add
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from commands import run_code
from laws import SOLVER, bits, close, run
from precision import bound
from silobench.engines import pool
from silobench.errors import ConfigError, HookError
from silobench.method.algorithms import bsp
from silobench.method.codecs import CODECS, DENSE, SPARSE, Codec, Form, Index, Packed, sparse
from silobench.method.solvers import sgd
from silobench.method.transforms import top_k
from silobench.method.types import Context, Layout, Update
from wire import eight_bits, noted, quantised

CONTEXT = Context(0, 0, 0, Layout((), (), 0), {})
SPECIAL = [np.nan, np.inf, -np.inf, 1e-45, -1e-45, 3e38]
MINIBATCH = sgd(lr=0.05, steps=1, batch=8, keep_momentum=True)


@st.composite
def vectors(draw: Any, most: int = 300) -> Any:
    """An array of any density, with ordinary and special numbers, but without -0.0."""
    dtype = draw(st.sampled_from([np.float32, np.float64]))
    size = draw(st.integers(0, most))
    count, rng = draw(st.integers(0, size)), np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    values = np.where(rng.random(count) < 0.2, rng.choice(SPECIAL, count), rng.normal(size=count))
    vector = np.zeros(size, dtype)
    vector[rng.permutation(size)[:count]] = values
    return vector


def sent(vector: Any, codec: Codec) -> Packed:
    return Packed.of(torch.from_numpy(vector), codec)


# --- there and back -----------------------------------------------------------------------------------


@given(vectors(), st.sampled_from(["dense", "sparse"]))
@settings(max_examples=300, deadline=None)
def test_every_array_comes_back_bit_for_bit(vector: Any, name: str) -> None:
    packed = sent(vector, CODECS.build(name))
    back = packed.unpack().numpy()
    assert (back.dtype, back.shape, back.tobytes()) == (vector.dtype, vector.shape, vector.tobytes())
    dense = vector.nbytes
    count, item = np.count_nonzero(vector), vector.itemsize
    shortest = min(dense, -(-len(vector) // 8) + item * count, (4 + item) * count)
    assert packed.nbytes == len(bytes(packed.content)) == (dense if name == "dense" else shortest)


@pytest.mark.parametrize("codec", [DENSE, SPARSE], ids=["dense", "sparse"])
@pytest.mark.parametrize("shape", [(), (0,), (1,), (3, 5), (2, 0, 4)])
def test_every_shape_comes_back(codec: Codec, shape: tuple[int, ...]) -> None:
    part = torch.arange(int(np.prod(shape, dtype=int)), dtype=torch.float32).reshape(shape) - 1
    back = Packed.of(part, codec).unpack()
    assert back.shape == part.shape
    assert torch.equal(back, part)


@pytest.mark.parametrize("codec", [DENSE, SPARSE], ids=["dense", "sparse"])
def test_an_array_with_gaps_in_memory_comes_back(codec: Codec) -> None:
    part = torch.arange(24.0).reshape(4, 6).T[::2]
    assert torch.equal(Packed.of(part, codec).unpack(), part)


def test_dense_keeps_the_sign_of_zero_and_sparse_does_not() -> None:
    vector = np.array([0.0, -0.0, 1.0, 0.0], np.float32)
    assert np.signbit(sent(vector, DENSE).unpack().numpy()).tolist() == [False, True, False, False]
    back = sent(vector, SPARSE).unpack().numpy()
    assert back.tolist() == vector.tolist()  # the same number
    assert not np.signbit(back).any()


def test_sparse_sends_a_full_array_as_it_is() -> None:
    vector = np.array([-0.0, 2.0, 3.0], np.float32)  # 12 bytes; with a bitmap 9, with indices 16
    full = np.array([1.0, 2.0, 3.0], np.float32)
    assert sent(full, SPARSE).nbytes == 12
    assert sent(vector, SPARSE).nbytes == 9


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_length_of_a_sparse_part_determines_its_form(dtype: type) -> None:
    """All sizes up to 140, in which each form is the shortest for some number of entries, and every number of them."""
    item = np.dtype(dtype).itemsize
    for size in range(141):
        forms: dict[int, set[str]] = {}
        for count in range(size + 1):
            lengths = {"all": size * item, "bitmap": -(-size // 8) + count * item, "indices": count * (4 + item)}
            shortest = min(lengths.values())
            # Where two are as long, all entries come before the others, and indices before a bitmap.
            form = next(name for name in ("all", "indices", "bitmap") if lengths[name] == shortest)
            forms.setdefault(shortest, set()).add(form)
            vector = np.zeros(size, dtype)
            vector[size - count :] = np.arange(1, count + 1)
            packed = sent(vector, SPARSE)
            assert packed.nbytes == shortest
            assert packed.unpack().numpy().tobytes() == vector.tobytes()
        assert all(len(each) == 1 for each in forms.values())
    assert {"all", "bitmap", "indices"} == {name for each in forms.values() for name in each}


def test_what_arrives_can_be_changed_in_place() -> None:
    for codec in (DENSE, SPARSE, eight_bits()):
        Packed.of(torch.tensor([0.0, 0.0, 0.0, 2.0]), codec).unpack().add_(1)


def test_the_bytes_are_those_of_a_file_that_a_fresh_process_reads(tmp_path: Path) -> None:
    rng, jobs, expected = np.random.default_rng(0), [], []
    for name in ("dense", "sparse"):
        for density in (0.0, 0.001, 0.2, 1.0):
            vector = np.where(rng.random(4321) < density, rng.normal(size=4321), 0.0).astype(np.float32)
            file, packed = tmp_path / f"{name}-{density}", sent(vector, CODECS.build(name))
            file.write_bytes(packed.content)
            assert file.stat().st_size == packed.nbytes
            jobs.append(f"{name} {file}")
            expected.append(hashlib.sha256(vector.tobytes()).hexdigest())
    program = (
        "import hashlib, sys, numpy as np\n"
        "from pathlib import Path\n"
        "from silobench.method.codecs import CODECS, Form\n"
        "for line in sys.stdin:\n"
        "    name, file = line.split()\n"
        "    part = CODECS.build(name).unpack(Path(file).read_bytes(), Form((4321,), np.dtype(np.float32)))\n"
        "    print(hashlib.sha256(part.tobytes()).hexdigest())\n"
    )
    assert run_code(program, stdin="\n".join(jobs).encode()).decode().split() == expected


# --- lossy codecs and combinations --------------------------------------------------------------------


@given(vectors())
@settings(max_examples=100, deadline=None)
def test_sparse_around_another_codec(vector: Any) -> None:
    assert SPARSE.values is not None
    around = SPARSE.values(DENSE)
    packed, count = sent(vector, around), np.count_nonzero(vector)
    assert around.lossless
    assert packed.unpack().numpy().tobytes() == vector.tobytes()
    assert packed.nbytes == 4 + min(-(-len(vector) // 8), 4 * count) + count * vector.itemsize


@given(st.integers(1, 200), st.floats(0.01, 1.0), st.integers(0, 99))
@settings(max_examples=60, deadline=None)
def test_top_k_and_then_eight_bits_per_value(size: int, fraction: float, seed: int) -> None:
    delta = torch.from_numpy(np.random.default_rng(seed).normal(size=size).astype(np.float32))
    update, _ = top_k(fraction=fraction).encode(Update.of(3.0, delta=delta), {}, CONTEXT)
    exact = update.total["delta"]
    message = update.coded(eight_bits()).pack()
    count = max(1, round(fraction * size))
    assert message.nbytes == 4 + min(-(-size // 8), 4 * count) + 8 + count
    back = message.unpack().total["delta"]
    assert torch.equal(back[exact == 0], exact[exact == 0])
    step = float(exact.abs().max()) / 127
    assert (back - exact).abs().max() <= step / 2 + bound(4) * 127 * step  # half a step, and rounding
    assert not message.unpack().codecs["delta"].lossless


def test_only_one_codec_can_pack_the_values() -> None:
    update = Update.of(1.0, delta=torch.ones(3)).coded(eight_bits())
    with pytest.raises(ConfigError, match="two transforms pack the values of delta, but only one can: leave one"):
        update.coded(eight_bits())


def test_a_lossless_codec_is_applied_once() -> None:
    update = Update.of(1.0, delta=torch.tensor([0.0, 0.0, 7.0])).coded(SPARSE)
    assert update.coded(SPARSE).codecs == update.codecs
    assert update.coded(SPARSE).nbytes == update.nbytes == 5


@pytest.mark.parametrize("first", ["auto", "int32", "int64", "bitmap"])
@pytest.mark.parametrize("last", ["int32", "int64", "bitmap"])
def test_positions_are_sent_once_whatever_their_form(first: Index, last: Index) -> None:
    """The last form counts, as in gaia with top_k(index=int32), and a codec may still pack the values."""
    update = Update.of(1.0, delta=torch.tensor([0.0, 0.0, 7.0])).coded(sparse(first)).coded(sparse(last))
    where = {"int32": 4, "int64": 8, "bitmap": 1}[last]
    assert update.nbytes == where + 4
    assert torch.equal(update.pack().unpack().total["delta"], update.total["delta"])
    assert update.coded(eight_bits()).nbytes == 4 + where + 8 + 1  # the number of values, where they are, scale, value


def test_scalars_are_sent_as_they_are() -> None:
    update = Update.of(2.0, delta=torch.tensor([0.0, 3.0]), reach=torch.tensor(5.0)).coded(eight_bits())
    back = update.pack().unpack()
    assert set(update.codecs) == set(back.codecs) == {"delta"}
    assert back.mean()["reach"].shape == ()
    assert back.mean()["reach"].item() == 5


def test_a_sum_of_lossy_parts_is_sent_dense() -> None:
    lossy, sparse, plain = (
        Update({"delta": torch.tensor([0.0, 0.0, 0.0, 4.0])}, 1.0, codecs=codecs)
        for codecs in ({"delta": eight_bits()}, {"delta": SPARSE}, {})
    )
    assert (lossy + lossy).codecs == (plain + lossy).codecs == (lossy + plain).codecs == {}
    assert (sparse + sparse).codecs == {"delta": SPARSE}
    assert torch.equal((lossy + lossy).pack().unpack().total["delta"], torch.tensor([0.0, 0.0, 0.0, 8.0]))
    assert (sparse + sparse).nbytes == 5


@pytest.mark.usefixtures("in_double")
@pytest.mark.parametrize("first", [(), (top_k(fraction=0.4),)], ids=["all", "top_k"])
def test_the_server_sums_what_it_unpacked(toy, first: tuple[Any, ...]) -> None:
    federated, log = toy((20, 9, 30)), []
    chain = (*first, quantised(), noted(log, lambda update, context: update))
    (record,) = run("fedavg", federated, SOLVER, *chain, rounds=1)
    start = federated[1].initial
    exact, unpacked = (
        start + reduce(add, updates).mean()["delta"] for updates in (log, [update.pack().unpack() for update in log])
    )
    assert close(record.state.server.params, unpacked)
    assert not close(record.state.server.params, exact, rel=1e-6)
    assert record.bytes_up == sum(update.nbytes for update in log)
    entries = 15 if not first else 6
    positions = 0 if not first else 4 + 2
    assert record.bytes_up == 3 * (positions + 8 + entries)


def test_in_lockstep_parties_are_sent_the_sum_of_lossy_messages_in_full(toy) -> None:
    federated = toy((24, 24, 24))
    (record,) = run(bsp(), federated, MINIBATCH, quantised(), rounds=1)
    assert (record.bytes_up, record.bytes_down) == (3 * (8 + 15), 3 * 4 * 15)


@pytest.mark.parametrize("spec", ["fedavg top_k", "gaia(threshold=0.5)", "dgc(warmup=1)", "fedavg lossy", "bsp both"])
def test_codecs_in_workers_give_the_same_bits(toy, spec: str) -> None:
    name, _, chain = spec.partition(" ")
    transforms = {"top_k": (top_k(0.3),), "lossy": (quantised(),), "both": (top_k(0.3), quantised()), "": ()}[chain]
    solver = SOLVER if name == "fedavg" else MINIBATCH

    def all_bits(**options: Any) -> list[Any]:
        records = run(name, toy((20, 9, 30)), solver, *transforms, **options)
        return [{**bits(record), "engine": None, "workers": None} for record in records]

    assert all_bits() == all_bits(engine=pool(workers=2))


# --- sums of updates ----------------------------------------------------------------------------------


def small(names: str) -> Any:
    """Some of the parts of these names, with whole numbers: their sums are exact."""
    part = st.lists(st.integers(-1000, 1000), min_size=3, max_size=3).map(lambda each: torch.tensor(each).float())
    return st.dictionaries(st.sampled_from(names), part)


UPDATES = st.builds(
    lambda total, sums, weight: Update(total, weight, sums), small("ab"), small("cd"), st.integers(0, 9).map(float)
)


def plain(update: Update) -> tuple[Any, ...]:
    total, sums = ({name: part.tolist() for name, part in parts.items()} for parts in (update.total, update.sums))
    return total, update.weight, sums


@given(UPDATES, UPDATES, UPDATES)
@settings(max_examples=80, deadline=None)
def test_sums_of_updates_are_over_the_union_of_their_parts(a: Update, b: Update, c: Update) -> None:
    assert plain(a + b) == plain(b + a)
    assert plain((a + b) + c) == plain(a + (b + c))
    assert plain(a + Update({}, 0.0)) == plain(a)
    both = a + b
    for mine, others, sums in ((a.total, b.total, both.total), (a.sums, b.sums, both.sums)):
        assert sums.keys() == mine.keys() | others.keys()
        for name, part in sums.items():
            expected = np.zeros(3) + (mine[name].numpy() if name in mine else 0)
            assert part.tolist() == (expected + (others[name].numpy() if name in others else 0)).tolist()


def test_an_empty_update_has_no_parts() -> None:
    assert (Update({}, 1.0) + Update({}, 1.0)).is_empty
    assert not (Update({}, 1.0) + Update({}, 1.0, {"control": torch.ones(1)})).is_empty
    assert Update({}, 1.0).nbytes == 0


def test_a_codec_of_four_lines_can_be_used() -> None:
    whole = Codec(lambda part: part.tobytes(), lambda content, form: np.frombuffer(content, form.dtype))
    assert sent(np.array([1.0, 2.0]), whole).unpack().tolist() == [1.0, 2.0]
    assert Form((3, 4), np.dtype(np.float32)).size == 12


@pytest.mark.parametrize("wrong", [np.zeros(3), np.zeros(1), np.zeros((2, 1)), np.zeros(2, np.complex128)])
def test_a_codec_that_returns_another_form_is_named(wrong: Any) -> None:
    """Longer, shorter, of another shape, and of a type that has room for more."""
    other = Codec(lambda part: part.tobytes(), lambda content, form: wrong)
    with pytest.raises(HookError, match=r"`unpack` of the codec .* of shape \(2,\) and type float64 is expected"):
        sent(np.array([1.0, 2.0]), other).unpack()


def test_the_layout_of_a_sparse_part_on_the_wire() -> None:
    """Positions come before values; with as many bytes for either, indices are sent rather than a bitmap."""
    one = np.zeros(32, np.float32)
    one[9] = 2.0
    assert bytes(sent(one, SPARSE).content) == bytes([9, 0, 0, 0]) + np.float32(2.0).tobytes()
    one[31] = 3.0
    assert bytes(sent(one, SPARSE).content) == bytes([0, 0x40, 0, 0x01]) + np.array([2, 3], np.float32).tobytes()
