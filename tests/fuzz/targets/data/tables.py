"""Tables as files: CSV text and Parquet, read as datasets, as new rows of a trained model, and as linked parties."""

import io
import json
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
from pyarrow import parquet

from silobench.data.readers.libsvm import libsvm
from silobench.data.readers.user_linked import linked
from silobench.data.readers.user_tables import csv
from silobench.data.readers.user_tables import parquet as parquet_dataset

_NUMBERS = (
    "1", "-3.5", "1e999", "-1e999", "1e308", "1e-320", "nan", "inf", "0x10", "1_000", "1,5", "1.234,5", "1 234", "+-1",
    "9" * 400, "٣", "1e", ".", "-", "00012", "1\u202f234", "9007199254740993", "18446744073709551616", "true",
)  # fmt: skip
_DATES = (
    "2024-04-03", "03/04/2024", "25/04/2024", "0000-00-00", "9999-12-31", "2024-04-03T25:61:61", "31 April 2024",
    "Apr 3, 2024", "2024-04-03 10:00+99:99", "٢٠٢٤-٠٤-٠٣", "2024-02-30", "1.1.1", "01.01.0001",
)  # fmt: skip
_TEXTS = (
    "yes", "no", "", "?", "NA", " a ", "é", "e\u0301", "\u200b", "\u202e", "🙂", "a,b", 'say "hi"', "a\nb", "a\rb",
    "\ufeff", "\x1a", "\x1b[31m", "'", "=1+1", "x" * 500, "x" * 140_000, "ß", "ı", "\u2028", "\x85", "</script>",
)  # fmt: skip
_NAMES = ("y", "x", "id", "", " ", "é", "x", "patient", "__index_level_0__", "y=1", "a.b", "(missing)", "\u202e", "a,b")
_PLAIN = (("1", "2", "3.5", ""), ("a", "b"), ("1", "2", "3"), ("2024-04-03", "2023-12-24"), ("1,5", "2,25"))
_ENCODINGS = ("utf-8-sig", "utf-16", "latin-1", "cp1252", "utf-32", "shift-jis")
_ODDNESS = (0.0, 0.0, 0.01, 0.2)  # the share of strange choices in a file, so that many files are almost sound
_MARKS = (",", ",", ",", ";", "\t", "|")


def csv_text(rng: Random) -> bytes:
    """Return a CSV file: a column y of classes or numbers, and others with more or fewer strange cells."""
    odd, mark = rng.choice(_ODDNESS), rng.choice(_MARKS)
    width = rng.choice((1, 2, 3, 6)) if rng.random() < odd else rng.choice((2, 3, 4))
    rows = rng.choice((0, 1, 2, 8)) if rng.random() < odd else rng.choice((25, 40))
    names = ["y", *(rng.choice(_NAMES) if rng.random() < odd else f"x{place}" for place in range(1, width))]
    kinds = [rng.choice((*_PLAIN, _NUMBERS, _DATES, _TEXTS)) if odd else rng.choice(_PLAIN) for _ in names]
    kinds[0] = rng.choice((("a", "b"), ("0", "1"), ("0.5", "1.25", "7"), *(kinds[:1] if odd else ())))
    lines = [mark.join(_quoted(name, mark, rng, odd) for name in names)]
    for _ in range(rows):
        cells = [rng.choice(kind) for kind in kinds]
        cells = cells[: rng.randrange(1, width + 1)] if rng.random() < odd / 10 else cells
        lines.append(mark.join(_quoted(cell, mark, rng, odd) for cell in cells))
    text = rng.choice(("\n", "\n", "\n", "\r\n", "\r")).join(lines)
    return text.encode(rng.choice(_ENCODINGS) if rng.random() < odd else "utf-8", errors="replace")


def _quoted(cell: str, mark: str, rng: Random, odd: float) -> str:
    if rng.random() < odd / 10:
        return f'"{cell}'
    needs_marks = any(sign in cell for sign in (mark, '"', "\n", "\r")) and rng.random() >= odd / 10
    return '"' + cell.replace('"', '""') + '"' if needs_marks or rng.random() < 0.1 else cell


def wide_csv(rng: Random) -> bytes:
    """Return a CSV file with up to 100,000 columns, or with one very long cell."""
    if rng.random() < 0.5:
        width = rng.choice((1_000, 1_000, 5_000, 20_000, 100_000))
        names = ["y", *(f"x{place}" for place in range(width))]
        rows = [[rng.choice("ab"), *("1" for _ in range(width))] for _ in range(rng.choice((0, 6)))]
        return "\n".join(",".join(row) for row in [names, *rows]).encode()
    cell = rng.choice(("x", '"', "\n", "9", ",", "é")) * rng.choice((131_072, 1_000_000, 5_000_000))
    return f"y,x\na,{cell}\nb,1\na,2\n".encode()


def read_csv_dataset(content: bytes) -> None:
    """Read the content as a CSV dataset with the label y. A hash of it chooses the arguments."""
    path = _written("table.csv", content)
    number = sum(content[:64])
    extra: dict[str, Any] = [
        {}, {"task": "regression"}, {"group": "x1", "scale": "group"}, {"dates": "x1"}, {"many": "hash"},
        {"encoding": "utf-16"}, {"encoding": "latin-1"}, {"decimal": ","}, {"thousands": " "}, {"text": "x1"},
        {"scale": "private", "epsilon": 5.0}, {"drop": "x1"}, {"sep": ";"}, {"task": "classification"},
    ][number % 14 if number % 3 else 0]  # fmt: skip
    csv(str(path), "y", **extra)


# --- Parquet -----------------------------------------------------------------------------------------


def _columns(rng: Random, rows: int) -> dict[str, Any]:
    """Return Arrow arrays of common and of strange types."""
    numbers = [rng.choice((None, 0, 1, 2, 7)) for _ in range(rows)]
    texts = [rng.choice((None, "a", "b", "", "é", "2024-04-03", "1,5")) for _ in range(rows)]
    floats = [rng.choice((None, 0.5, float("nan"), float("inf"), 1e300, -0.0)) for _ in range(rows)]
    days = [rng.choice((None, 0, 19_000, -800_000, 2**31 - 1)) for _ in range(rows)]
    ticks = [rng.choice((None, 0, 10**9, 2**62, -(2**62))) for _ in range(rows)]
    kinds: list[Callable[[], Any]] = [
        lambda: pa.array(numbers, pa.int64()), lambda: pa.array(numbers, pa.uint8()),
        lambda: pa.array(floats, pa.float64()), lambda: pa.array(floats, pa.float16()),
        lambda: pa.array(texts), lambda: pa.array(texts, pa.large_string()),
        lambda: pa.array(texts).dictionary_encode(), lambda: pa.array(numbers, pa.int32()).dictionary_encode(),
        lambda: pa.array([0.5 if f is None else f for f in floats]).dictionary_encode(),
        lambda: pa.array(days, pa.date32()),
        lambda: pa.array(ticks, pa.timestamp("ns", "Europe/Berlin")), lambda: pa.array(ticks, pa.timestamp("us")),
        lambda: pa.array(ticks, pa.duration("ns")), lambda: pa.array(numbers, pa.decimal128(38, 30)),
        lambda: pa.array(numbers, pa.decimal256(76, 2)), lambda: pa.array([None] * rows),
        lambda: pa.array([None if n is None else bool(n % 2) for n in numbers]),
        lambda: pa.array([None if t is None else t.encode() for t in texts], pa.binary()),
        lambda: pa.array([b"ab"] * rows, pa.binary(2)),
        lambda: pa.array([[1, 2]] * rows), lambda: pa.array([{"a": 1, "b": "x"}] * rows),
        lambda: pa.array([[("k", 1)]] * rows, pa.map_(pa.string(), pa.int32())),
        lambda: pa.array([1] * rows, pa.time64("ns")),
        lambda: pa.array([2**63] * rows, pa.uint64()), lambda: pa.array(["x" * 3000] * rows),
    ]  # fmt: skip
    names = ("x2", "x3", "__index_level_0__", "", "é")
    first = kinds if rng.random() < 0.5 else kinds[:5]
    return {
        "x1": rng.choice(first)(),
        **{rng.choice(names): rng.choice(kinds)() for _ in range(rng.choice((0, 0, 1, 2)))},
    }


def parquet_file(rng: Random) -> bytes:
    """Return a Parquet file with a column y, columns of strange types, and sometimes metadata that contradict them."""
    rows = rng.choice((0, 1, 6, 25, 25, 40, 40, 60))
    columns = {"y": pa.array([rng.choice("ab") for _ in range(rows)]), **_columns(rng, rows)}
    if rng.random() < 0.15:
        columns["y"] = next(iter(_columns(rng, rows).values()), columns["y"])
    table = pa.table(list(columns.values()), names=list(columns))
    if rng.random() < 0.05:
        table = table.append_column("y", columns["y"])
    if rng.random() < 0.2:
        table = table.replace_schema_metadata({b"pandas": rng.choice(_PANDAS)})
    target = io.BytesIO()
    compression = rng.choice(("NONE", "SNAPPY", "ZSTD", "GZIP", "BROTLI", "LZ4"))
    try:
        parquet.write_table(table, target, compression=compression, row_group_size=rng.choice((2, 100)))
    except pa.ArrowNotImplementedError:  # Arrow reads more types than it writes
        return b""
    return target.getvalue()


_PANDAS = tuple(
    text if isinstance(text, bytes) else json.dumps(text).encode()
    for text in (
        b"", b"{", b"\xff", b"[]", b"null", "text", {}, {"columns": None}, {"columns": [{}]}, {"columns": [1]},
        {"columns": [{"name": None, "pandas_type": "categorical"}]}, {"columns": [{"name": [], "pandas_type": "x"}]},
        {"columns": [{"name": "x1", "pandas_type": "categorical"}]}, b"[" * 3000,
    )
)  # fmt: skip


def read_parquet_dataset(content: bytes) -> None:
    """Read the content as a Parquet dataset with the label y."""
    path = _written("table.parquet", content)
    number = sum(content[-64:])
    extra: dict[str, Any] = [{}, {"drop": ("x1", "x2")}, {"group": "x1"}, {"dates": "x1"}, {"many": "hash"}][
        number % 5 if number % 3 == 0 else 0
    ]
    parquet_dataset(str(path), "y", **extra)


# --- LIBSVM ------------------------------------------------------------------------------------------

_INDICES = ("0", "1", "2", "3", "-1", "1", "4294967296", "9" * 30, "2147483647", "16777217", "1.5", "a", "", "٣", " 7")
_LABELS = ("-1", "1,2", "", "nan", "1e999", "qid:1", "#", "0.5", "9" * 30, "x")
_VALUES = ("1", "0.5", "-2", "1e400", "nan", "inf", "", "x", "1:2", "9" * 400, "0x1p3", "1e-400")


def libsvm_text(rng: Random) -> bytes:
    """Return lines of label index:value pairs, with more or fewer strange indices and values."""
    odd, lines = rng.choice(_ODDNESS) / 4, []
    for _ in range(rng.choice((0, 1, 3)) if rng.random() < odd else rng.choice((12, 30))):
        label = rng.choice(_LABELS) if rng.random() < odd else rng.choice(("0", "1"))
        pairs = [
            f"{rng.choice(_INDICES) if rng.random() < odd else place}:"
            f"{rng.choice(_VALUES) if rng.random() < odd else '1.5'}"
            for place in sorted(rng.sample(range(1, 9), 3))
        ]
        rest = rng.choice((" # note", " qid:7", "\x00", "\x85", " 3:1 2:1", " 8:1 8:2")) if rng.random() < odd else ""
        lines.append(" ".join([label, *pairs]) + rest)
    return "\n".join(lines).encode()


def read_libsvm_dataset(content: bytes) -> None:
    """Read the content as LIBSVM text, alone or with itself as the test rows."""
    path = _written("rows.svm", content)
    libsvm(str(path), test_path=str(path) if sum(content[:16]) % 4 == 0 else "")


# --- linked parties ----------------------------------------------------------------------------------

_MATCHES = ("exact", "normalised", "fuzzy", "psi", "order")
_KEYS = (
    "1", "2", "007", "7.0", "é", "e\u0301", "İ", "ß", "SS", "\u200b", "", " ", "The End", "End, The", "a (1995)",
    "a (99999)", "\u202e", "🙂", "1e400", "1e3", "nan", "!!!", "x" * 5000, "\u0645\u062d\u0645\u062f", "a\u0000",
)  # fmt: skip


def linked_files(rng: Random) -> bytes:
    """Return how to match, and two CSV files of parties, in one text with a line of = between the files."""
    how, odd = rng.choice(_MATCHES), rng.choice(_ODDNESS)
    keys = [rng.choice(_KEYS) if rng.random() < odd else f"key {row}" for row in range(rng.choice((30, 30, 40)))]
    others = [rng.choice(_KEYS) if rng.random() < odd else key for key in keys]
    if how != "order" or rng.random() < odd:
        rng.shuffle(others)
    year = _DATES if rng.random() < odd else ("1990", "2001")
    first = [f"{_quoted(key, ',', rng, odd)},{rng.choice('ab')},{row}" for row, key in enumerate(keys)]
    second = [f"{_quoted(key, ',', rng, odd)},{row % 3},{rng.choice(year)}" for row, key in enumerate(others)]
    return "\n".join([how, "key,y,x", *first, "=====", "key,z,year", *second]).encode()


def read_linked(content: bytes) -> None:
    """Read the content as two files of parties; its first line says how their rows are matched."""
    head, _, rest = content.partition(b"\n")
    first, _, second = rest.partition(b"\n=====\n")
    paths = [str(_written(name, part)) for name, part in (("bank.csv", first), ("shop.csv", second))]
    how = head.decode("latin-1")
    how = how if how in _MATCHES else "exact"
    duplicates = "first" if len(content) % 2 else "refuse"
    linked(paths, "y", key="key", match=how, duplicates=duplicates)  # type: ignore[arg-type]


def _written(name: str, content: bytes) -> Path:
    path = Path(name)
    path.write_bytes(content)
    return path
