"""CIFAR-10: both forms give the same rows, and no pickle runs code."""

import builtins
import io
import os
import pickle
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from image_rows import RNG, files_of, pixels

from silobench.data.readers import cifar
from silobench.data.readers.image_arrays import Pixels
from silobench.errors import DataError

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
