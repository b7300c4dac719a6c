"""Pickling for other processes: closures by value, large arrays as mapped files."""

import gc
import mmap
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy import sparse

from silobench.engines.shipping import Shelf, packed, unpacked
from silobench.models import Network


def trip(value: Any, shelf: Shelf | None = None) -> Any:
    return unpacked(packed(value, shelf))


def test_closures_travel_by_value() -> None:
    factor = torch.tensor(3.0)
    assert trip(lambda x: factor * x)(2) == 6


def test_closures_may_speak_of_silobench() -> None:
    """As a plugin does that has ``import silobench as sb``."""
    import silobench as sb

    assert trip(lambda x: sb.Update.of(2.0, delta=x))(torch.ones(1)).mean()["delta"] == 1


@pytest.mark.parametrize("large", [False, True])
@pytest.mark.parametrize(
    "tensor",
    [
        torch.tensor(2.5),
        torch.arange(6),
        torch.zeros(0, 3),
        torch.arange(40_000.0).view(200, 200),
        torch.arange(40_000.0).view(200, 200).T,
        torch.arange(40_000.0)[::2],
        torch.arange(90_000, dtype=torch.uint8),
        torch.ones(70_000, dtype=torch.bool),
        torch.ones(40_000, requires_grad=True),
        torch.arange(40_000, dtype=torch.bfloat16),
        torch.full((3,), 1j).conj(),
    ],
    ids=[
        "number",
        "integers",
        "empty",
        "square",
        "turned",
        "every second",
        "bytes",
        "booleans",
        "trained",
        "brief",
        "conjugate",
    ],
)
def test_tensors_arrive_as_they_were_and_can_be_written_to(tensor: torch.Tensor, large: bool) -> None:
    shelf = Shelf() if large else None
    found = trip({"tensor": tensor}, shelf)["tensor"]
    assert (found.dtype, found.shape) == (tensor.dtype, tensor.shape)
    assert torch.equal(found, tensor)
    found.fill_(0)
    assert bool(tensor.any()) or not tensor.numel()  # what is written there stays there


@pytest.mark.parametrize("density", [0.0, 0.01, 0.5])
def test_sparse_matrices_arrive_as_they_were(density: float) -> None:
    matrix = sparse.random(1000, 300, density, format="csr", dtype=np.float32, random_state=0)
    shelf = Shelf()
    found = trip(matrix, shelf)
    assert (found.format, found.dtype, found.shape, found.nnz) == ("csr", np.float32, (1000, 300), matrix.nnz)
    assert (found != matrix).nnz == 0
    assert (found[[5, 3, 5]] != matrix[[5, 3, 5]]).nnz == 0


@pytest.mark.parametrize("width", [3, 300])  # sent by value, and mapped
def test_a_network_is_one_vector_again_after_the_trip(width: int) -> None:
    module = torch.nn.Sequential(torch.nn.Linear(width, 100), torch.nn.BatchNorm1d(100), torch.nn.Linear(100, 2))
    network = Network(module)
    network.params.uniform_(-1, 1)
    network.buffers.uniform_(1, 2)
    shelf = Shelf()
    found = trip(network, shelf)
    x = torch.ones(4, width)
    module.eval(), found.module.eval()
    assert found.layout == network.layout
    assert torch.equal(found.params, network.params)
    assert torch.equal(found.buffers, network.buffers)
    assert torch.equal(found.module(x), module(x))
    found.params.zero_()
    assert not found.module(x).any()
    assert module(x).all()
    found.params.fill_(0.1)
    found.module(x).sum().backward()
    assert found.grad.any()
    assert not network.grad.any()


def is_map(array: Any) -> bool:
    """Whether an array is a view of a file in memory."""
    while isinstance(array, np.ndarray):
        array = array.base
    return isinstance(array.obj if isinstance(array, memoryview) else array, mmap.mmap)


def test_small_arrays_travel_by_value_and_large_ones_as_maps_of_one_file() -> None:
    shelf, small, large = Shelf(), np.arange(10.0), np.arange(100_000.0)
    assert len(packed([small, large], shelf)) < 2_000
    assert len(packed([small, large])) > 800_000
    found = trip([small, large, large, large[50_000:]], shelf)
    assert [is_map(array) for array in found] == [False, True, True, True]
    for array, original in zip(found, [small, large, large, large[50_000:]], strict=True):
        np.testing.assert_array_equal(array, original)


def test_the_same_array_is_stored_once() -> None:
    shelf, array = Shelf(), np.arange(100_000.0)
    contents = [packed(value, shelf) for value in (array, {"again": array}, torch.from_numpy(array))]
    for again in (unpacked(contents[0]), unpacked(contents[1])["again"], unpacked(contents[2]).numpy()):
        np.testing.assert_array_equal(again, array)
    before = len(os.listdir("/proc/self/fd"))
    packed([array, torch.from_numpy(array)], shelf)
    assert len(os.listdir("/proc/self/fd")) == before


def test_other_arrays_at_the_same_address_are_other_arrays() -> None:
    """A freed array's place is taken by the next: the shelf must not take one for the other."""
    shelf = Shelf()
    found = [trip(np.full(100_000, float(number)), shelf).mean() for number in range(10)]
    assert found == list(range(10))


@pytest.mark.parametrize("place", [slice(None), slice(30, 90), slice(400, None)])
@pytest.mark.parametrize("mode", ["r", "c", "r+"])
def test_an_array_that_is_mapped_from_a_file_is_mapped_from_it_there_too(
    tmp_path: Path, place: slice, mode: Any
) -> None:
    original = np.random.default_rng(0).normal(size=(600, 300)).astype(np.float32)
    np.save(tmp_path / "rows.npy", original)
    mapped = np.load(tmp_path / "rows.npy", mmap_mode=mode)[place]
    shelf = Shelf()
    before = len(os.listdir("/proc/self/fd"))
    content = packed(mapped, shelf)
    assert len(os.listdir("/proc/self/fd")) == before  # nothing was copied
    assert len(content) < 1_000
    found = unpacked(content)
    assert str(found.filename) == str(tmp_path / "rows.npy")
    np.testing.assert_array_equal(found, original[place])


def test_a_view_of_a_mapped_array_as_a_plain_one_or_a_tensor_is_mapped_too(tmp_path: Path) -> None:
    original = np.arange(60_000, dtype=np.int64).reshape(300, 200)
    np.save(tmp_path / "rows.npy", original)
    plain = np.asarray(np.load(tmp_path / "rows.npy", mmap_mode="c"))[100:]
    shelf = Shelf()
    for value in (plain, torch.from_numpy(plain)):
        content = packed(value, shelf)
        assert len(content) < 1_000
        np.testing.assert_array_equal(np.asarray(unpacked(content)), original[100:])
    assert isinstance(unpacked(packed(plain, shelf)), np.memmap)


def test_what_is_written_to_an_array_there_is_seen_nowhere_else(tmp_path: Path) -> None:
    np.save(tmp_path / "rows.npy", np.ones(100_000))
    for original in (np.load(tmp_path / "rows.npy", mmap_mode="c"), np.ones(100_000)):
        shelf = Shelf()
        content = packed(original, shelf)
        unpacked(content)[:] = 7
        assert original.sum() == unpacked(content).sum() == np.load(tmp_path / "rows.npy").sum() == 100_000


@pytest.mark.parametrize("change", ["written in memory", "another file", "a shorter file", "no file"])
def test_an_array_is_not_mapped_from_a_file_with_other_bytes(tmp_path: Path, change: str) -> None:
    """A copy-on-write map that was written to, as rows that were standardised in place, differs from its file."""
    file = tmp_path / "rows.npy"
    np.save(file, np.ones(400_000))
    mapped = np.load(file, mmap_mode="c")
    if change == "written in memory":
        mapped[-1] = 7
    else:
        file.unlink()
    if change == "another file":
        np.save(file, np.zeros(400_000))
    if change == "a shorter file":
        file.write_bytes(b"short")
    shelf = Shelf()
    np.testing.assert_array_equal(trip(mapped, shelf), mapped)


def test_files_vanish_with_the_shelf() -> None:
    before, shelf = len(os.listdir("/proc/self/fd")), Shelf()
    content = packed(np.arange(100_000.0), shelf)
    found = unpacked(content)
    assert len(os.listdir("/proc/self/fd")) > before
    del shelf
    gc.collect()
    with pytest.raises(FileNotFoundError):
        unpacked(content)
    assert found.sum() == 100_000 * 99_999 / 2  # what is mapped stays


def test_what_came_from_another_process_is_copied_when_it_goes_on() -> None:
    """Its file vanishes when that process goes on, and another may get its name."""
    first, second = Shelf(), Shelf()
    found = trip(np.arange(100_000.0), first)
    content = packed(found, second)
    del first, found
    gc.collect()
    others = Shelf()
    packed(np.zeros(100_000), others)
    assert unpacked(content).sum() == 100_000 * 99_999 / 2
