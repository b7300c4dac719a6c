"""Images published as arrays: readers of idx, MATLAB and JSON files on small files, good and hostile."""

import gzip
import json
import os
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from image_rows import files_of, pixels, zipped
from scipy import io as scipy_io

from silobench.data import Dataset
from silobench.data.readers import image_arrays as loaders
from silobench.data.readers.image_arrays import Pixels, read_idx
from silobench.data.store.directory import Files
from silobench.errors import DataError

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
