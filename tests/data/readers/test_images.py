"""Readers of images on tiny files made here, good and hostile; the real files where they are at hand."""

import builtins
import gzip
import io
import json
import os
import pickle
import struct
import tarfile
import zlib
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from scipy import io as scipy_io

from silobench.data import Dataset
from silobench.data.readers import cifar
from silobench.data.readers import image_arrays as loaders
from silobench.data.readers import image_files as pictures
from silobench.data.readers.image_arrays import CHARACTERS, Pixels, read_idx
from silobench.data.readers.image_files import images, read_picture
from silobench.data.store.catalog import Entry, File
from silobench.data.store.directory import Files
from silobench.errors import DataError
from silobench.federation import federate

RNG = np.random.default_rng(0)
zipped = partial(gzip.compress, mtime=0)  # or the name of a test would change with the clock


def files_of(root: Path, *names: str, form: str = "files", pattern: bool = False) -> Files:
    """Files of a made-up entry: the catalogue's sums would refuse them."""
    listed = {} if pattern else {name: File() for name in names}
    forms = {form: ("*",) if pattern else names}
    return Files(Entry(name="x", summary="", licence="L", citation="", files=listed, forms=forms), form, root, names)


def pixels(*shape: int) -> Pixels:
    return RNG.integers(0, 256, shape, dtype=np.uint8)


# --- idx ---------------------------------------------------------------------------------------------

IDX = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")


def idx(array: np.ndarray[Any, Any]) -> bytes:
    kind, dtype = (0x08, ">u1") if array.dtype == np.uint8 else (0x0C, ">i4")
    return struct.pack(f">HBB{array.ndim}I", 0, kind, array.ndim, *array.shape) + array.astype(dtype).tobytes()


def write_mnist(root: Path, train: int = 6, test: int = 4) -> tuple[Files, dict[str, Pixels]]:
    arrays = {}
    for side, count in (("train", train), ("t10k", test)):
        arrays[f"{side}-images-idx3-ubyte"] = pixels(count, 28, 28)
        arrays[f"{side}-labels-idx1-ubyte"] = np.arange(count, dtype=np.uint8) % 10
    for name, array in arrays.items():
        (root / name).write_bytes(idx(array))
    return files_of(root, *IDX), arrays


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
@pytest.mark.parametrize("array", [pixels(3, 2, 5), np.array([[-1, 2**31 - 1], [7, -(2**31)]], dtype=np.int32)])
def test_idx_files_give_back_their_array(
    tmp_path: Path, pack: Callable[[bytes], bytes], array: np.ndarray[Any, Any]
) -> None:
    path = tmp_path / "a"
    path.write_bytes(pack(idx(array)))
    found = read_idx(path)
    np.testing.assert_array_equal(found, array)
    assert found.dtype == array.dtype
    assert found.dtype.isnative


LIE = struct.pack(">HBB3I", 0, 8, 3, 2**32 - 1, 2**32 - 1, 2**32 - 1)  # 79 octillion bytes


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", r"begins with the bytes \(none\)"),
        (b"\0\0", "begins with the bytes 00 00:"),
        (b"\1\0\x08\1\0\0\0\1a", "begins with the bytes 01 00 08 01"),
        (b"\0\0\x0d\1\0\0\0\1abcd", "begins with the bytes 00 00 0d 01"),
        (b"\0\0\x08\x09" + bytes(40), "begins with the bytes 00 00 08 09"),
        (b"\0\0\x08\3\0\0\0\1", "ends in its header"),
        (idx(pixels(3, 4))[:-1], "has 11 bytes after a header of 3 x 4: 12 are needed"),
        (idx(pixels(3, 4)) + b"x", "more than 12 bytes"),
        (LIE + bytes(10), "has 10 bytes after a header of 4294967295 x"),
        (zipped(LIE + bytes(10)), "has 10 bytes after a header of 4294967295 x"),
        (zipped(idx(pixels(30, 40)))[:-300], "a"),
        (zipped(idx(pixels(3, 4)) + bytes(2**22)), "more than 12 bytes"),
        (b"\x1f\x8b\x08" + bytes(50), "a"),
    ],
)
def test_malformed_idx_files_are_refused(tmp_path: Path, content: bytes, words: str) -> None:
    path = tmp_path / "broken-idx"
    path.write_bytes(content)
    with pytest.raises(DataError, match=words) as caught:
        read_idx(path)
    assert "broken-idx" in str(caught.value)


def test_a_missing_idx_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="there is no file"):
        read_idx(tmp_path / "none")


def test_a_flipped_byte_in_gzip_is_refused(tmp_path: Path) -> None:
    made = bytearray(zipped(idx(pixels(30, 40))))
    made[len(made) // 2] ^= 0xFF
    (tmp_path / "a").write_bytes(made)
    with pytest.raises(DataError):
        read_idx(tmp_path / "a")


def test_mnist_and_fashion(tmp_path: Path) -> None:
    files, arrays = write_mnist(tmp_path)
    made, clothes = loaders._read_mnist(files), loaders._read_fmnist(files)
    np.testing.assert_array_equal(made.train.x[:, 0], arrays["train-images-idx3-ubyte"])
    assert (made.train.x.shape, made.test.x.shape, made.train.x.dtype) == ((6, 1, 28, 28), (4, 1, 28, 28), np.uint8)
    assert (made.test.y.tolist(), made.test.y.dtype, made.licence) == ([0, 1, 2, 3], np.int64, "L")
    assert (made.classes[3], clothes.classes[0], clothes.classes[9]) == ("3", "T-shirt/top", "Ankle boot")


@pytest.mark.parametrize(
    ("name", "array", "words"),
    [
        (IDX[0], pixels(6, 28, 27), "n x 28 x 28"),
        (IDX[1], pixels(5), "for the 6 images"),
        (IDX[1], np.array([0, 1, 2, 3, 4, 10], dtype=np.uint8), "label 10 in row 5"),
        (IDX[1], np.arange(6, dtype=np.int32), "int32"),
    ],
)
def test_mnist_files_that_do_not_fit_are_refused(tmp_path: Path, name: str, array: Pixels, words: str) -> None:
    files, _ = write_mnist(tmp_path)
    (tmp_path / name).write_bytes(idx(array))
    with pytest.raises(DataError, match=words):
        loaders._read_mnist(files)


# --- writers -----------------------------------------------------------------------------------------

WRITERS = ("qmnist-train-labels-idx2-int.gz", "qmnist-test-labels-idx2-int.gz")


def write_writers(root: Path, train: int = 6, test: int = 9) -> Files:
    for name, count, first in ((WRITERS[0], train, 100), (WRITERS[1], test, 2100)):
        table = np.zeros((count, 8), dtype=np.int32)
        table[:, 0], table[:, 2] = np.arange(count) % 10, first + np.arange(count) // 2
        (root / name).write_bytes(zipped(idx(table)))
    return files_of(root, *WRITERS)


def test_writers_are_those_of_the_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mnist, _ = write_mnist(tmp_path)
    files = write_writers(tmp_path)  # more test rows than MNIST: QMNIST has 60,000
    monkeypatch.setattr(loaders, "require", lambda name: mnist if name == "mnist" else None)
    made = loaders._read_mnist_writers(files)
    assert made.train.groups["writer"].tolist() == [100, 100, 101, 101, 102, 102]
    assert made.test.groups["writer"].tolist() == [2100, 2100, 2101, 2101]
    assert made.defaults == {"partition": "by-group"}
    np.testing.assert_array_equal(made.train.x, loaders._read_mnist(mnist).train.x)

    write_writers(tmp_path, test=3)
    with pytest.raises(DataError, match="at least 4 rows"):
        loaders._read_mnist_writers(files)
    (tmp_path / WRITERS[1]).write_bytes(idx(np.full((4, 8), 2, dtype=np.int32)))
    with pytest.raises(DataError, match=r"the digit 2 in row 0 .* where MNIST has 0"):
        loaders._read_mnist_writers(files)


# --- CIFAR-10 ----------------------------------------------------------------------------------------

BATCHES = (*(f"data_batch_{number}" for number in range(1, 6)), "test_batch")
BINARY = tuple(f"{name}.bin" for name in BATCHES)


def batch(rows: int = 2) -> tuple[Pixels, list[int]]:
    return pixels(rows, 3072), [int(label) for label in RNG.integers(0, 10, rows)]


def python_2(x: Pixels, labels: list[int]) -> bytes:
    """A batch as Python 2 pickled it, by hand: old names, byte strings, protocol 2."""

    def text(value: bytes) -> bytes:
        return b"T" + struct.pack("<I", len(value)) + value  # BINSTRING

    dtype = (
        b"cnumpy\ndtype\n"
        + text(b"u1")
        + b"K\0K\1\x87R(K\3"
        + text(b"|")
        + b"NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\0tb"
    )
    start = b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\0\x85" + text(b"b") + b"\x87R"
    shape = b"M" + struct.pack("<H", len(x)) + b"M\0\x0c\x86"
    array = start + b"(K\1" + shape + dtype + b"\x89" + text(x.tobytes()) + b"tb"
    numbers = b"](" + b"".join(b"K" + bytes([label]) for label in labels) + b"e"
    return (
        b"\x80\2}(" + text(b"data") + array + text(b"labels") + numbers + text(b"batch_label") + text(b"1 of 5") + b"u."
    )


def python_3(x: Pixels, labels: list[int]) -> bytes:
    return pickle.dumps(
        {b"data": x, b"labels": labels, b"filenames": [b"%d.png" % row for row in range(2000)]}, protocol=2
    )


def test_all_forms_of_cifar_give_the_same_arrays(tmp_path: Path) -> None:
    batches = [batch() for _ in BATCHES]
    made = []
    for number, pack in enumerate(
        (python_2, python_3, lambda x, y: pickle.dumps({"data": x, "labels": y}, protocol=4))
    ):
        (root := tmp_path / str(number)).mkdir()
        for name, (x, labels) in zip(BATCHES, batches, strict=True):
            (root / name).write_bytes(pack(x, labels))
        made.append(cifar._read_cifar(files_of(root, *BATCHES, form="python")))
    for name, (x, labels) in zip(BINARY, batches, strict=True):
        (tmp_path / name).write_bytes(np.c_[np.array(labels, dtype=np.uint8), x].tobytes())
    binary = cifar._read_cifar(files_of(tmp_path, *BINARY, form="binary"))
    np.testing.assert_array_equal(binary.train.x[:2].reshape(2, -1), batches[0][0])
    assert binary.test.y.tolist() == batches[5][1]
    assert (binary.train.x.shape, binary.train.x.dtype, binary.augment) == ((10, 3, 32, 32), np.uint8, "crop-flip")
    assert {one.checksum for one in made} == {binary.checksum}


def test_augment_is_set_beside_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in BINARY:
        (tmp_path / name).write_bytes(bytes(3073))
    kept = cifar._read_cifar(files_of(tmp_path, *BINARY, form="binary"))
    asked = []
    monkeypatch.setattr(cifar, "stored", lambda name, read, form: asked.append((name, form)) or kept)
    assert cifar.cifar_10() is kept
    assert cifar.cifar_10(augment=False, form="python").augment == "none"
    assert asked == [("cifar-10", ""), ("cifar-10", "python")]


@pytest.mark.parametrize("content", [b"", bytes(3072), bytes(3074), b"\x0a" + bytes(3072)])
def test_malformed_binary_batches_are_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "data_batch_1.bin"
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"data_batch_1\.bin has"):
        cifar._cifar_rows(path)


class Runs:
    """Unpickled in the ordinary way, it calls a function."""

    def __init__(self, call: Callable[..., Any], *arguments: Any):
        self.call, self.arguments = call, arguments

    def __reduce__(self) -> Any:
        return self.call, self.arguments


class SubArray(np.ndarray[Any, Any]):
    """A subclass of an array, by a name of ours."""


def hostile(mark: Path) -> dict[str, bytes]:
    """Pickles that would leave the file `mark` if any of them were run, or take memory or stack."""
    touch, (x, labels) = f"touch {mark}", batch()
    evil = {
        "system": Runs(os.system, touch),
        "eval": Runs(eval, f"open({str(mark)!r}, 'w')"),
        "exec": Runs(exec, f"open({str(mark)!r}, 'w')"),
        "open": Runs(io.open, str(mark), "w"),
        "import": Runs(builtins.__import__, "os"),
        "fromfile": Runs(np.fromfile, "/etc/passwd"),
        "subclass": x.view(SubArray),
        "scalar": np.float64(1),
        "objects": np.array([Runs(os.system, touch)], dtype=object),
    }
    made = {name: pickle.dumps(value, protocol=2) for name, value in evil.items()}
    made |= {f"{name} inside": pickle.dumps({b"data": x, b"labels": [value]}, 2) for name, value in evil.items()}
    made |= {f"{name} as a key": pickle.dumps([({"a": [value]},)], 4) for name, value in evil.items()}
    good = python_2(x, labels)
    made["dotted name"] = b"\x80\4\x8c\5numpy\x8c\x0endarray.tofile\x93."
    made["old style instance"] = b"(S'" + touch.encode() + b"'\nios\nsystem\n."
    made["extension"] = b"\x80\2\x82\1."
    made["persistent id"] = b"Pos.system\n."
    made["state on a stand-in"] = b"\x80\2cnumpy\ndtype\nN}S'__new__'\nK\1s\x86b."
    made["far memo"] = b"\x80\2Nr\xff\xff\xff\x7f."
    made["tower"] = b"\x80\2N" + b"\x85" * 200_000 + b"}" + b"."
    made["hash of a tower"] = b"\x80\2}(N" + b"\x85" * 200_000 + b"K\1u."
    made["huge string"] = b"\x80\4\x8e" + struct.pack("<Q", 2**40) + b"x."
    made["huge byte array"] = b"\x80\5\x96" + struct.pack("<Q", 2**40) + b"x."
    made["huge shape"] = good.replace(b"M" + struct.pack("<H", 2) + b"M\0\x0c", b"J\xff\xff\xff\x7fM\0\x0c")
    made["negative shape"] = good.replace(b"M" + struct.pack("<H", 2) + b"M\0\x0c", b"J\xff\xff\xff\xffM\0\x0c")
    made["truncated"] = good[:-4000]
    made["no pickle"] = b"\x89PNG"
    made["empty"] = b""
    return made


HOSTILE = sorted(hostile(Path("mark")))


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_pickles_are_refused_and_not_run(tmp_path: Path, name: str) -> None:
    path, mark = tmp_path / "data_batch_1", tmp_path / "mark"
    path.write_bytes(hostile(mark)[name])
    with pytest.raises(DataError, match="data_batch_1") as caught:
        cifar._pickled_rows(path)
    assert "\n" not in str(caught.value)
    assert not mark.exists()
    assert cifar._Dtype.__new__ is object.__new__


def test_a_pickle_for_running_would_have_run(tmp_path: Path) -> None:
    """Otherwise the test above shows nothing."""
    mark = tmp_path / "mark"
    pickle.loads(hostile(mark)["system"])
    assert mark.exists()


def test_the_name_that_a_pickle_asks_for_is_said(tmp_path: Path) -> None:
    path = tmp_path / "data_batch_1"
    path.write_bytes(hostile(tmp_path / "mark")["system inside"])
    with pytest.raises(DataError, match=r"it refers to (posix|nt)\.system.*none of its code was run"):
        cifar._pickled_rows(path)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ([1, 2], "no array as 'data'"),
        ({b"labels": [1]}, "no array as 'data'"),
        ({b"data": b"abc", b"labels": [1]}, "no array as 'data'"),
        ({b"data": pixels(1, 3072).astype(np.uint16), b"labels": [1]}, "not of bytes"),
        ({b"data": np.asfortranarray(pixels(2, 3072)), b"labels": [1, 1]}, "C order"),
        ({b"data": pixels(1, 3071), b"labels": [1]}, "whose shape is not"),
        ({b"data": pixels(3072), b"labels": [1]}, "whose shape is not"),
        ({b"data": pixels(0, 3072), b"labels": []}, "refers to __builtin__.bytes"),
        ({b"data": pixels(2, 3072), b"labels": [1]}, "no list of 2 whole numbers"),
        ({b"data": pixels(1, 3072), b"labels": (1,)}, "no list of 1"),
        ({b"data": pixels(1, 3072), b"labels": [1.0]}, "no list of 1"),
        ({b"data": pixels(1, 3072), b"labels": [True]}, "no list of 1"),
        ({b"data": pixels(1, 3072), b"labels": [10**30]}, "outside 0 to 9"),
    ],
)
def test_pickles_of_something_else_are_refused(tmp_path: Path, content: Any, words: str) -> None:
    path = tmp_path / "test_batch"
    path.write_bytes(pickle.dumps(content, protocol=2))
    with pytest.raises(DataError, match=words):
        cifar._pickled_rows(path)


@pytest.mark.parametrize("step", [b"2\x86", b"q\x00h\x00h\x00\x86"])
def test_a_tower_of_tuples_is_refused_at_once(step: bytes, tmp_path: Path) -> None:
    """Forty tuples, each of the one before twice: their hash would take longer than anyone waits."""
    path = tmp_path / "data_batch_1"
    path.write_bytes(b"\x80\x02}K\x01" + step * 40 + b"K\x01s.")
    with pytest.raises(DataError, match="uses one of its parts twice"):
        cifar._pickled_rows(path)


# --- SVHN --------------------------------------------------------------------------------------------

MAT = ("train_32x32.mat", "test_32x32.mat")


def test_svhn_images_and_labels(tmp_path: Path) -> None:
    x, y = pixels(32, 32, 3, 4), np.array([[10], [1], [9], [10]], dtype=np.uint8)
    for name, packed in zip(MAT, (True, False), strict=True):
        scipy_io.savemat(tmp_path / name, {"X": x, "y": y}, do_compression=packed)
    made = loaders._read_svhn(files_of(tmp_path, *MAT))
    assert (made.train.x.shape, made.train.x.dtype, made.train.y.tolist()) == ((4, 3, 32, 32), np.uint8, [0, 1, 9, 0])
    np.testing.assert_array_equal(made.train.x[2, 1], x[:, :, 1, 2])
    np.testing.assert_array_equal(made.test.x, made.train.x)


ONE = np.ones((2, 1), dtype=np.uint8)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ({"X": pixels(32, 32, 3, 2)}, "and nothing else"),
        ({"X": pixels(32, 32, 3, 2), "y": ONE, "z": ONE}, "and nothing else"),
        ({"X": pixels(32, 31, 3, 2), "y": ONE}, "X 32 x 31 x 3 x 2"),
        ({"X": pixels(32, 32, 3), "y": ONE}, "X 32 x 32 x 3 "),
        ({"X": pixels(32, 32, 3, 2).astype(float), "y": ONE}, "double"),
        ({"X": pixels(32, 32, 3, 2), "y": np.ones((3, 1))}, "y 3 x 1"),
        ({"X": pixels(32, 32, 3, 2), "y": np.array([["a"], ["b"]])}, "y 2"),
        ({"X": pixels(32, 32, 3, 2), "y": ONE * 11}, "label 11 in row 0"),
        ({"X": pixels(32, 32, 3, 2), "y": np.array([[1], [0.5]])}, "label 0.5 in row 1"),
        ({"X": pixels(32, 32, 3, 2), "y": np.array([[1], [np.nan]])}, "label nan in row 1"),
    ],
)
def test_other_matlab_files_are_refused(tmp_path: Path, content: dict[str, Any], words: str) -> None:
    scipy_io.savemat(tmp_path / MAT[0], content)
    with pytest.raises(DataError, match=words):
        loaders._svhn_split(tmp_path / MAT[0])


def test_torn_matlab_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / MAT[0]
    scipy_io.savemat(path, {"X": pixels(32, 32, 3, 20), "y": np.ones((20, 1), dtype=np.uint8)})
    whole = path.read_bytes()
    for cut in (0, 60, 200, len(whole) // 2):
        path.write_bytes(whole[:cut])
        with pytest.raises(DataError, match=r"train_32x32\.mat"):
            loaders._svhn_split(path)


# --- FEMNIST -----------------------------------------------------------------------------------------


def leaf(root: Path, name: str, people: dict[str, tuple[Pixels, list[int]]], **changed: Any) -> None:
    content = {
        "users": [*people],
        "num_samples": [len(y) for _, y in people.values()],
        "user_data": {user: {"x": (x / 255).tolist(), "y": y} for user, (x, y) in people.items()},
    }
    (root / name).parent.mkdir(exist_ok=True)
    (root / name).write_text(json.dumps({**content, **changed}), encoding="utf-8")


def femnist(root: Path, digits: bool = True) -> Dataset:
    names = sorted(path.relative_to(root).as_posix() for path in root.glob("*/*.json"))
    return loaders._read_femnist(files_of(root, *names, pattern=True), digits)


def test_femnist_by_writer(tmp_path: Path) -> None:
    a, b = pixels(3, 784), np.arange(784, dtype=np.int64).reshape(1, 784).astype(np.uint8)
    leaf(tmp_path, "train/all_data_0.json", {"f2": (a, [3, 61, 4]), "f0": (pixels(1, 784), [36])})
    leaf(tmp_path, "train/all_data_1.json", {"f1": (b, [9]), "f9": (pixels(0, 784), [])})
    leaf(tmp_path, "test/all_data_0.json", {"f2": (a[:1], [3])})
    made, whole = femnist(tmp_path), femnist(tmp_path, digits=False)
    assert made.train.groups["writer"].tolist() == ["f1", "f2", "f2"]
    assert (made.train.y.tolist(), made.classes) == ([9, 3, 4], tuple("0123456789"))
    np.testing.assert_array_equal(made.train.x.reshape(3, 784), np.stack([b[0], a[0], a[2]]))  # exact: every k/255
    assert whole.train.groups["writer"].tolist() == ["f0", "f1", "f2", "f2", "f2"]
    assert (len(whole.classes), whole.classes[36], whole.classes[61]) == (62, "a", "z")
    assert made.train.x.shape[1:] == (1, 28, 28)

    one, two = (tmp_path / "train" / f"all_data_{number}.json" for number in (0, 1))
    first, second = one.read_bytes(), two.read_bytes()
    one.write_bytes(second)
    two.write_bytes(first)
    assert femnist(tmp_path).checksum == made.checksum


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"users": ["a", "b"]}, "not a file of LEAF"),
        ({"users": "a"}, "not a file of LEAF"),
        ({"num_samples": [2]}, "has 1 rows but a num_samples of 2"),
        ({"user_data": {"a": [1]}}, "user 'a' of .* not have rows of 784"),
        ({"user_data": {"a": {"x": [[0.0] * 783], "y": [1]}}}, "not have rows of 784"),
        ({"user_data": {"a": {"x": [[0.0] * 784, [1.0]], "y": [1]}}}, "not have rows of 784"),
        ({"user_data": {"a": {"x": [["ink"] * 784], "y": [1]}}}, "not have rows of 784"),
        ({"user_data": {"a": {"x": [[0.0] * 784], "y": [1, 2]}}}, "not have rows of 784"),
        ({"user_data": {"a": {"x": [[0.0] * 784], "y": [62]}}}, "whole numbers from 0 to 61"),
        ({"user_data": {"a": {"x": [[0.0] * 784], "y": [1.5]}}}, "whole numbers from 0 to 61"),
        ({"user_data": {"a": {"x": [[0.5] * 784], "y": [1]}}}, "not k/255"),
        ({"user_data": {"a": {"x": [[255] * 784], "y": [1]}}}, "not k/255"),
        ({"user_data": {"a": {"x": [[float("nan")] * 784], "y": [1]}}}, "not k/255"),
        ({"user_data": {"a": {"x": [[1e38] * 784], "y": [1]}}}, "not k/255"),
    ],
)
def test_other_json_is_refused(tmp_path: Path, changed: dict[str, Any], words: str) -> None:
    leaf(tmp_path, "train/a.json", {"a": (pixels(1, 784), [1])}, **changed)
    leaf(tmp_path, "test/a.json", {"a": (pixels(1, 784), [1])})
    with pytest.raises(DataError, match=words):
        femnist(tmp_path)


@pytest.mark.parametrize("content", [b"", b"{", b"[1]", b"\xff\xfe\0", b"[" * 100_000])
def test_broken_json_is_refused(tmp_path: Path, content: bytes) -> None:
    leaf(tmp_path, "test/a.json", {"a": (pixels(1, 784), [1])})
    (tmp_path / "train").mkdir()
    (tmp_path / "train" / "b.json").write_bytes(content)
    with pytest.raises(DataError, match=r"b\.json"):
        femnist(tmp_path)


def test_a_user_in_two_files_and_no_rows_are_refused(tmp_path: Path) -> None:
    leaf(tmp_path, "train/a.json", {"a": (pixels(1, 784), [30])})
    leaf(tmp_path, "test/a.json", {"a": (pixels(1, 784), [1])})
    with pytest.raises(DataError, match="train folder have no rows"):
        femnist(tmp_path)
    leaf(tmp_path, "train/b.json", {"a": (pixels(1, 784), [1])})
    with pytest.raises(DataError, match=r"user 'a', who is also in .*a\.json"):
        femnist(tmp_path)


# --- one picture -------------------------------------------------------------------------------------


def packed(image: Image.Image, kind: str = "PNG", **options: Any) -> bytes:
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


@pytest.mark.parametrize("kind", ["PNG", "BMP", "TIFF", "PPM", "GIF", "WEBP", "JPEG"])
def test_every_known_format_is_read(kind: str) -> None:
    image = Image.new("RGB", (8, 8), (255, 0, 0))
    found = read_picture(packed(image, kind), "a", 8, "rgb")
    assert found.shape == (3, 8, 8)
    assert np.abs(found.astype(int) - np.array([255, 0, 0])[:, None, None]).max() <= 3


def test_pixels_are_exact_where_nothing_is_scaled() -> None:
    x = pixels(9, 9, 3)
    np.testing.assert_array_equal(read_picture(packed(Image.fromarray(x)), "a", 9, "rgb"), x.transpose(2, 0, 1))
    np.testing.assert_array_equal(read_picture(packed(Image.fromarray(x[..., 0])), "a", 9, "grey")[0], x[..., 0])


def test_the_middle_square_is_taken() -> None:
    x = np.zeros((10, 30), dtype=np.uint8)
    x[:, 8:22] = 200  # a pixel more on each side: that is how far a bilinear filter sees
    assert (read_picture(packed(Image.fromarray(x)), "a", 5, "grey") == 200).all()
    assert (read_picture(packed(Image.fromarray(x.T.copy())), "a", 5, "grey") == 200).all()


def test_exif_orientation_is_applied() -> None:
    x = np.zeros((16, 16), dtype=np.uint8)
    x[:8] = 255  # light above
    exif = Image.Exif()
    exif[0x0112] = 6  # to be turned clockwise
    turned = read_picture(packed(Image.fromarray(x), "JPEG", exif=exif, quality=95), "a", 16, "grey")[0]
    assert turned[:, :6].max() < 50  # above has become right
    assert turned[:, 10:].min() > 200


@pytest.mark.parametrize("size", [8, 64])
def test_16_bits_keep_the_upper_8(size: int) -> None:
    x = np.full((8, 8), 0x80FF, dtype=np.uint16)
    assert (read_picture(packed(Image.fromarray(x)), "a", size, "grey") == 0x80).all()
    assert (read_picture(packed(Image.fromarray(x), "TIFF"), "a", size, "rgb") == 0x80).all()


def test_transparent_parts_are_white() -> None:
    clear = Image.new("RGBA", (8, 8), (200, 0, 0, 0))
    assert (read_picture(packed(clear), "a", 8, "rgb") == 255).all()
    palette = Image.new("P", (8, 8), 0)
    palette.putpalette([10, 20, 30] * 256)
    assert (read_picture(packed(palette, transparency=0), "a", 8, "grey") == 255).all()
    assert read_picture(packed(palette), "a", 8, "rgb")[:, 0, 0].tolist() == [10, 20, 30]


def test_of_an_animation_the_first_frame_is_read() -> None:
    frames = [Image.new("L", (8, 8), shade) for shade in (30, 200)]
    found = read_picture(packed(frames[0], "GIF", save_all=True, append_images=frames[1:]), "a", 8, "grey")
    assert (found == 30).all()


def bomb(width: int, height: int) -> bytes:
    """A PNG whose header announces a huge picture."""
    whole = bytearray(packed(Image.new("L", (8, 8))))
    whole[16:24] = struct.pack(">II", width, height)
    whole[29:33] = struct.pack(">I", zlib.crc32(whole[12:29]))
    return bytes(whole)


@pytest.mark.parametrize("sides", [(9_500, 9_500), (14_000, 14_000), (60_000, 60_000)])
def test_bombs_are_refused(tmp_path: Path, sides: tuple[int, int]) -> None:
    with pytest.raises(DataError, match="a has more than 89,478,485 pixels"):
        read_picture(bomb(*sides), "a", 8, "rgb")
    write_pictures(tmp_path, {"x/1.png": 1, "y/1.png": 2})
    (tmp_path / "y" / "2.png").write_bytes(bomb(*sides))
    with pytest.raises(DataError, match=r"2\.png has more than"):
        images(str(tmp_path))


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"not a picture",
        packed(Image.fromarray(pixels(40, 40)))[:-200],
        packed(Image.fromarray(pixels(40, 40)), "JPEG")[:300],
        packed(Image.new("F", (8, 8)), "TIFF"),
        packed(Image.fromarray(np.full((8, 8), 2**20, dtype=np.int32)), "TIFF"),
        b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 8 8\n",
    ],
)
def test_what_is_no_picture_is_refused(content: bytes) -> None:
    with pytest.raises(DataError, match=r"^scan 7 cannot be read as a picture"):
        read_picture(content, "scan 7", 8, "rgb")


# --- any folder of pictures --------------------------------------------------------------------------


def write_pictures(root: Path, shades: dict[str, int]) -> None:
    for name, shade in shades.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        Image.new("L", (6, 6), shade).save(root / name)


def shades(made: Dataset) -> list[int]:
    return sorted(int(x[0, 0, 0]) for split in (made.train, made.test) for x in split.x)


def rows(made: Dataset, level: str) -> set[tuple[int, Any, Any]]:
    """Shade, label and group of every row."""
    return {
        (int(x[0, 0, 0]), y, g)
        for split in (made.train, made.test)
        for x, y, g in zip(split.x, split.y.tolist(), split.groups[level].tolist(), strict=True)
    }


def test_folders_are_classes(tmp_path: Path) -> None:
    write_pictures(tmp_path, {f"{c}/{n}.png": 10 * i + n for i, c in enumerate(("cat", "dog")) for n in range(5)})
    write_pictures(tmp_path, {"cat/.hidden.png": 99, ".git/cat/1.png": 99, "cat/deep/1.png": 99})
    (tmp_path / "cat" / "notes.txt").write_text("no picture")
    made = images(str(tmp_path), size=4)
    assert (made.classes, made.shape, made.train.x.dtype, made.task) == (
        ("cat", "dog"),
        (3, 4, 4),
        np.uint8,
        "classification",
    )
    assert (len(made.train), len(made.test), made.name) == (8, 2, tmp_path.name)
    assert shades(made) == [0, 1, 2, 3, 4, 10, 11, 12, 13, 14]
    assert "1 pictures left out: they do not match {label}/*" in made.notes


def test_fields_of_the_pattern(tmp_path: Path) -> None:
    write_pictures(
        tmp_path, {f"h{g}/{c}_{n}_x.PNG": 100 * g + 10 * c + n for g in (0, 1) for c in (3, 4) for n in range(3)}
    )
    made = images(str(tmp_path), label="age", group="source", pattern="{source}/{age}_*", colour="grey")
    assert (made.classes, made.shape) == (("3", "4"), (1, 32, 32))
    assert (131, 0, "h1") in rows(made, "source")
    assert (42, 1, "h0") in rows(made, "source")
    two = images(str(tmp_path), label="age", group=("source", "n"), pattern="{source}/{age}_{n}_x.PNG")
    assert set(two.train.groups) == {"source", "n"}
    assert (142, 1, "2") in rows(two, "n")


def test_regression_on_numbers(tmp_path: Path) -> None:
    write_pictures(tmp_path, {f"{n / 4}_.png": n for n in range(20)})
    made = images(str(tmp_path), label="age", pattern="{age}_*", task="regression")
    assert (made.task, made.classes, made.train.y.dtype, len(made.test)) == ("regression", (), np.float32, 4)
    assert all(x[0, 0, 0] == 4 * y for x, y in zip(made.train.x, made.train.y, strict=True))
    write_pictures(tmp_path, {"old_.png": 1})
    with pytest.raises(DataError, match=r"old_\.png has the label 'old'"):
        images(str(tmp_path), label="age", pattern="{age}_*", task="regression")


def table(root: Path, *lines: str) -> str:
    path = root.parent / f"{root.name}.csv"
    path.write_text("\n".join(lines), encoding="utf-8")
    return str(path)


def test_a_table_says_what_the_paths_do_not(tmp_path: Path) -> None:
    write_pictures(tmp_path, {f"p{n}/scan.png": n for n in range(8)})
    lines = [f"./p{n}\\scan.png,{'ill' if n % 2 else 'well'},ward{n % 3}" for n in reversed(range(6))]
    file = table(tmp_path, "file,state,ward", *lines)
    made = images(str(tmp_path), label="state", group="ward", table=file)
    assert (made.classes, shades(made)) == (("ill", "well"), [0, 1, 2, 3, 4, 5])
    assert rows(made, "ward") == {(n, 1 - n % 2, f"ward{n % 3}") for n in range(6)}
    assert "2 pictures left out: they are not in the table" in made.notes
    mixed = images(str(tmp_path), label="state", group="patient", table=file, pattern="{patient}/*")
    assert rows(mixed, "patient") == {(n, 1 - n % 2, f"p{n}") for n in range(6)}


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        (["path,label", "a/1.png,x"], "no column 'file'"),
        (["file,label", "a/1.png,x", "a/9.png,y"], r"lists 'a/9\.png' in line 3"),
        (["file,label", "a/1.png,x", "../a/1.png,y"], r"lists '\.\./a/1\.png' in line 3"),
        (["file,label", "a/1.png,x", "/etc/passwd,y"], "line 3"),
        (["file,label", "a/1.png,x", "./a/1.png,y"], "in lines 2 and 3"),
        (["file,label", "a/1.png,x", "b/1.png,"], "no value for 'label' in line 3"),
        (["file,state", "c.png,x", "b/1.png,y"], "'c.png', which does not match"),
        (["file,label"], "1 lines"),
    ],
)
def test_tables_that_do_not_fit_are_refused(tmp_path: Path, lines: list[str], words: str) -> None:
    write_pictures(tmp_path, {"a/1.png": 1, "b/1.png": 2, "c.png": 3})
    with pytest.raises(DataError, match=words):
        images(str(tmp_path), table=table(tmp_path, *lines))


def test_names_that_are_neither_field_nor_column_are_refused(tmp_path: Path) -> None:
    write_pictures(tmp_path, {"a/1.png": 1, "b/1.png": 2})
    with pytest.raises(DataError, match="no field 'labels': did you mean label"):
        images(str(tmp_path), label="labels")
    with pytest.raises(DataError, match=r"write \{label\}"):
        images(str(tmp_path), pattern="*/*")
    file = table(tmp_path, "file,state", "a/1.png,x", "b/1.png,y")
    with pytest.raises(DataError, match="has the field 'stat': did you mean state"):
        images(str(tmp_path), label="stat", table=file)


@pytest.mark.parametrize("pattern", ["{label}/{label}/*", "{label/*", "label}/*", "{}/*", "{a/b}{label}"])
def test_malformed_patterns_are_refused(tmp_path: Path, pattern: str) -> None:
    write_pictures(tmp_path, {"a/1.png": 1, "b/1.png": 2})
    with pytest.raises(DataError, match="unmatched brace or a repeated field"):
        images(str(tmp_path), pattern=pattern)


def test_folders_without_what_is_needed_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="there is no folder"):
        images(str(tmp_path / "none"))
    with pytest.raises(DataError, match="has no pictures"):
        images(str(tmp_path))
    write_pictures(tmp_path, {"a/1.png": 1, "a/2.png": 1})
    with pytest.raises(DataError, match="none of the 2 pictures"):
        images(str(tmp_path), pattern="{label}.png")
    with pytest.raises(DataError, match="only the label"):
        images(str(tmp_path))
    write_pictures(tmp_path, {"b/1.png": 1, "b/2.png": 1})
    (tmp_path / "b" / "3.jpg").write_bytes(b"\xff\xd8\xff torn")
    with pytest.raises(DataError, match=r"3\.jpg cannot be read as a picture"):
        images(str(tmp_path))


# --- Chars74K, faces, mammals ------------------------------------------------------------------------


def archive(path: Path, members: Iterable[tuple[str, bytes]]) -> None:
    with tarfile.open(path, "w:gz") as tar:
        for name, content in members:
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))


def shade(value: int) -> bytes:
    return packed(Image.new("L", (12, 16), value))


def test_chars74k_from_its_archives(tmp_path: Path) -> None:
    fnt = [(f"English/Fnt/Sample{c:03}/img{c:03}-{n:05}.png", shade(c)) for c in (62, 1, 11) for n in range(5)]
    hnd = [(f"English/Hnd/Img/Sample{c:03}/img{c:03}-{n:03}.png", shade(100 + c)) for c in (1, 62) for n in range(5)]
    archive(tmp_path / "EnglishFnt.tgz", [("English/Fnt/readme.txt", b"x"), *fnt])
    archive(tmp_path / "EnglishHnd.tgz", [("English/Hnd/Trj/Sample001/a.m", b"x"), *hnd])
    made = pictures._read_chars74k(files_of(tmp_path, "EnglishFnt.tgz", "EnglishHnd.tgz"), size=8)
    assert (made.classes, made.shape, len(made.train), len(made.test)) == (CHARACTERS, (1, 8, 8), 20, 5)
    assert rows(made, "source") == {(1, 0, "fnt"), (11, 10, "fnt"), (62, 61, "fnt"), (101, 0, "hnd"), (162, 61, "hnd")}
    archive(tmp_path / "EnglishFnt.tgz", reversed(fnt))
    again = pictures._read_chars74k(files_of(tmp_path, "EnglishFnt.tgz", "EnglishHnd.tgz"), size=8)
    assert again.checksum == made.checksum

    archive(tmp_path / "EnglishHnd.tgz", [("English/Hnd/Img/Sample063/a.png", shade(1))])
    with pytest.raises(DataError, match=r"Sample063/a\.png in .* has an unknown class"):
        pictures._characters(tmp_path / "EnglishHnd.tgz", 8)
    archive(tmp_path / "EnglishHnd.tgz", [("English/Hnd/Img/Sample001/a.png", b"torn")])
    with pytest.raises(DataError, match=r"Sample001/a\.png in .*EnglishHnd\.tgz cannot be read"):
        pictures._characters(tmp_path / "EnglishHnd.tgz", 8)
    archive(tmp_path / "EnglishHnd.tgz", [("readme", b"x")])
    with pytest.raises(DataError, match="has no pictures like"):
        pictures._characters(tmp_path / "EnglishHnd.tgz", 8)


def test_age_faces_by_source(tmp_path: Path) -> None:
    names = [f"{source}/{age}_0_{n}.jpg" for source in ("UTKFace", "APPA") for age in (7, 25, 101) for n in range(3)]
    write_pictures(tmp_path, dict.fromkeys(names, 50))
    made = pictures._read_age_faces(files_of(tmp_path, *names, pattern=True), size=8)
    assert (made.task, made.classes, made.shape, len(made.train), len(made.test)) == (
        "regression",
        (),
        (3, 8, 8),
        14,
        4,
    )
    assert set(made.train.y.tolist()) == {7.0, 25.0, 101.0}
    assert set(made.train.groups["source"].tolist()) == {"APPA", "UTKFace"}
    for name in ("UTKFace/old_1.jpg", "UTKFace/999_1.jpg", "UTKFace/25.jpg"):
        write_pictures(tmp_path, {name: 1})
        with pytest.raises(DataError, match="does not start with an age"):
            pictures._read_age_faces(files_of(tmp_path, *names, name, pattern=True), size=8)


def test_mammals_as_the_authors_scripts_leave_them(tmp_path: Path) -> None:
    write_pictures(tmp_path, {f"images/{animal}/{n}.jpg": 10 * n for animal in ("bear", "lion") for n in range(5)})
    (tmp_path / "metadata").mkdir()
    for animal, regions in (("bear", ("3", "155")), ("lion", ("202", "34"))):
        header = "img_id,lat,lon,lic,acc,url,country,region1,region2"
        lines = [f"{n},1,2,4,16,https://x/{n}.jpg,XX,{regions[n % 2] if n else ''},9" for n in range(8)]
        (tmp_path / "metadata" / f"{animal}.csv").write_text("\n".join([header, *lines]))
    names = [path.relative_to(tmp_path).as_posix() for path in tmp_path.glob("*/**/*.*")]
    made = pictures._read_flickr_mammal(files_of(tmp_path, *names, pattern=True), size=8)
    assert (made.classes, made.shape, len(made.train) + len(made.test)) == (("bear", "lion"), (3, 8, 8), 8)
    places = {(0, "Americas"), (0, "Europe"), (1, "Africa"), (1, "Asia")}
    assert {(label, place) for _, label, place in rows(made, "continent")} == places
    assert {place for _, label, place in rows(made, "subcontinent") if label} == {"Sub-Saharan Africa", "Southern Asia"}
    for level in ("continent", "subcontinent"):
        known = sorted(set(made.train.groups[level].tolist()))
        assert [party.name for party in federate(made, f"by-group(level={level})").parties] == known
    assert "8 of 16 photographs" in made.notes[1]  # three of each are gone from Flickr, one has no region
    with pytest.raises(DataError, match="none of the 8 photographs"):
        pictures._read_flickr_mammal(files_of(tmp_path, "metadata/bear.csv", pattern=True), size=8)
    (tmp_path / "metadata" / "bear.csv").write_text("id,region\n1,3\n")
    with pytest.raises(DataError, match="no column 'img_id'"):
        pictures._read_flickr_mammal(files_of(tmp_path, *names, pattern=True), size=8)


# --- real files --------------------------------------------------------------------------------------


@pytest.mark.skipif("SILOBENCH_TEST_DATA" not in os.environ, reason="needs real files")
def test_the_real_writer_ids() -> None:
    root = Path(os.environ["SILOBENCH_TEST_DATA"]) / "qmnist_writer_ids"
    if not (root / WRITERS[0]).is_file():
        pytest.skip("the files are not there")
    train, test = (read_idx(root / name) for name in WRITERS)
    writers, counts = np.unique(train[:, 2], return_counts=True)
    others = np.unique(test[:10_000, 2])
    assert (len(writers), counts.min(), counts.max(), len(others)) == (539, 19, 131, 297)
    assert not set(writers.tolist()) & set(others.tolist())
