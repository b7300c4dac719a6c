"""The quick reader of tables gives the bits of a plain one: Python's csv module, float(), and one matrix of float64."""

import csv as plain_csv
import io
import random
import struct
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from silobench.data import Split, csv
from silobench.data.dataset import hold_out, standardise
from silobench.data.table.cells import MISSING, RawColumn, text_column
from silobench.data.table.scaling import pooled_scale


def plain_features(text: str, scale: str) -> tuple[np.ndarray, np.ndarray]:
    """Training and test features of a table with the columns ..., site, y, in the plainest way."""
    header, *rows = [row for row in plain_csv.reader(io.StringIO(text, newline="")) if row]
    blocks, numeric = [], []
    for place, _ in enumerate(header[:-2]):
        cells = ["" if row[place].strip().lower() in MISSING else row[place].strip() for row in rows]
        try:
            blocks.append(np.array([[float(cell) if cell else np.nan] for cell in cells]))
        except ValueError:
            names = sorted({cell or "(missing)" for cell in cells})
            blocks.append(np.eye(len(names))[[names.index(cell or "(missing)") for cell in cells]])
            numeric += [False] * len(names)
        else:
            numeric.append(True)
    labels = np.unique([row[-1].strip() for row in rows], return_inverse=True)[1]
    train, test = hold_out(Split(np.concatenate(blocks, axis=1), labels), 0.2)
    known = ~np.isnan(train.x)
    means = np.where(known, train.x, 0).sum(0) / np.maximum(known.sum(0), 1)
    sides = [Split(np.where(np.isnan(side.x), means, side.x), side.y) for side in (train, test)]
    if scale == "standard":
        sides = list(standardise(*sides, np.array(numeric)))
    return sides[0].x.astype(np.float32), sides[1].x.astype(np.float32)


CELLS = {
    "clean": lambda r: f"{r.gauss(5, 3):.4f}",
    "odd": lambda r: r.choice([f"{r.gauss(0, 10):.3f}", "1e-3", ".5", "+2", "1_000", " 3 ", "7.", "1E5", "1e-320"]),
    "holes": lambda r: r.choice(["", "?", "NA", "n/a", "Null", " none ", "4", "5.5", "6"]),
    "category": lambda r: r.choice(["red", "blue", " green", "Red ", 'x"y', "ünï", "nan", ""]),
    "quoted": lambda r: r.choice(['"a,b"', '"say ""hi"""', '"two\nlines"', "plain", '""']),
    "mixed": lambda r: r.choice(["1", "2", "x", ""]),
    "date": lambda r: f"2024-0{r.randint(1, 9)}-1{r.randint(0, 9)}",
}


@pytest.mark.parametrize("seed", range(24))
def test_any_table_has_the_bits_of_the_plain_reader(tmp_path: Path, seed: int) -> None:
    r = random.Random(seed)
    kinds = [r.choice(["clean", *CELLS]) for _ in range(r.choice([1, 2, 3, 9, 14]))]
    kinds[0] = "clean" if seed % 4 == 0 else kinds[0]
    rows = [
        ",".join([*(CELLS[kind](r) for kind in kinds), f" s{r.randint(1, 11)}", r.choice("ab")]) for _ in range(301)
    ]
    end = r.choice(["\n", "\r\n"])
    text = end.join([",".join([*(f"c{i}" for i in range(len(kinds))), "site", "y"]), *rows]) + end
    path = tmp_path / "t.csv"
    path.write_bytes((b"\xef\xbb\xbf" if seed % 3 == 0 else b"") + text.encode())
    for scale in ("standard", "none"):
        dataset = csv(str(path), label="y", group="site", scale=scale)
        train, test = plain_features(text, scale)
        assert dataset.train.x.tobytes() == train.tobytes(), kinds
        assert dataset.test.x.tobytes() == test.tobytes()
        assert dataset.encoder is not None
        assert dataset.encoder.read(path).shape == (301, train.shape[1])


@pytest.mark.parametrize("rows", [2, 7, 8, 9, 127, 128, 129, 1000, 9000])
@pytest.mark.parametrize("columns", [1, 2, 3, 8, 9, 33])
def test_a_column_alone_has_the_statistics_of_the_matrix(rows: int, columns: int) -> None:
    """NumPy adds the rows of a matrix one after the other, but a single column in pairs."""
    x = np.random.default_rng(rows * columns).normal(1e3, 10, (rows, columns))
    mean, deviation = x.mean(0, dtype=np.float64), x.std(0, dtype=np.float64)
    for place in range(columns):
        scale = pooled_scale(np.ascontiguousarray(x[:, place]), is_only_feature=columns == 1)
        assert (scale.shift, scale.scale) == (mean[place], deviation[place])


def test_numbers_are_those_of_python() -> None:
    r = random.Random(0)
    texts = ["1e-320", "0.1", "+1", ".5", "1.", "-0", "5e-324", "00012", "1E+5", "1.7976931348623157e308", "9" * 40]
    for _ in range(20_000):
        digits = "".join(r.choices("0123456789", k=r.randint(1, 30)))
        texts += [f"{digits}.{r.getrandbits(60)}", f"{r.getrandbits(70)}e{r.randint(-340, 280)}"]
        texts.append(repr(struct.unpack("d", struct.pack("Q", r.getrandbits(64)))[0]))
    texts = [text for text in texts if np.isfinite(float(text))]
    expected = np.array([float(text) for text in texts])
    for more in ([], ["1_000"], [" 2\t"], ["٣"], ["?"]):  # the last four are not for Arrow's own parser
        numbers = text_column([*texts, *more]).numbers()
        assert isinstance(numbers, np.ndarray)
        assert numbers[: len(texts)].tobytes() == expected.tobytes()
    assert text_column(["1", "nan(1)"]).numbers() is None  # Arrow reads this as NaN; Python does not


def test_chunks_of_a_column_are_one_column() -> None:
    chunks = pa.chunked_array([pa.array(["b", " a"]), pa.array([], pa.string()), pa.array(["a ", "?", "c"])])
    factor = RawColumn("text", chunks).factor
    assert (factor.texts, factor.codes.tolist(), factor.missing) == (["", "a", "b", "c"], [2, 1, 1, 0, 3], 1)
