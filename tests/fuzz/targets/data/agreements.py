"""Agreements of silos about columns, as TOML, and a silo's rows that are read by one."""

from pathlib import Path
from random import Random

from fuzz.targets.data.tables import csv_text
from silobench.data.agreed import Columns, silo_dataset, summary_of

_SOUND = """version = 1
kind = "table"
test = 0.2
scale = "standard"

[label]
name = "y"
task = "classification"
classes = ["a", "b"]

[[column]]
name = "x1"
kind = "number"

[[column]]
name = "x2"
kind = "category"
categories = ["a", "b", "(missing)"]

[[column]]
name = "x3"
kind = "date"
origin = "2020-01-01"
"""
_ODD = (
    "1", "-1", "0", "2", "1e400", "nan", "inf", "true", '""', '"x"', '" "', '"\\u202e"', "[]", "{}", '["a", "a"]',
    "[1]", "2024-01-01", "1970-01-01T00:00:00Z", "07:32:00", '["a", "b"]', '"hash"', '"text"', '"stated"', '"none"',
    '"images"', '"regression"', "100000", "0.5", '"9999999-01-01"', '"NaT"', '","', "9" * 30, "0x" + "f" * 5000,
    '"today"',
)  # fmt: skip
_KEYS = (
    "version", "kind", "test", "scale", "size", "colour", "name", "task", "classes", "unit", "decimal", "thousands",
    "categories", "width", "origin", "order", "scales", "mean", "column", "label", "other", '"é"', "a.b",
)  # fmt: skip


def columns_text(rng: Random) -> bytes:
    """Return a columns.toml in which some lines were replaced, left out, repeated or moved."""
    lines = _SOUND.splitlines()
    for _ in range(rng.choice((0, 1, 1, 2, 4))):
        place = rng.randrange(len(lines))
        choice = rng.random()
        if choice < 0.5 and "=" in lines[place]:
            lines[place] = f"{lines[place].partition(' ')[0]} = {rng.choice(_ODD)}"
        elif choice < 0.7:
            lines.insert(place, f"{rng.choice(_KEYS)} = {rng.choice(_ODD)}")
        elif choice < 0.8:
            del lines[place]
        elif choice < 0.9:
            lines.insert(place, rng.choice(lines))
        else:
            lines.insert(
                place,
                rng.choice(("[scales]", "[[column]]", "[label.x]", "x = " + "[" * 2_000, "[[label]]", "x = {" * 900)),
            )
    text = "\n".join(lines)
    if rng.random() < 0.01:
        text += '\n[[column]]\nname = "w{}"\nkind = "hash"\nwidth = 100000\n' * 300
        parts = text.split("{}")
        text = "".join(f"{part}{number}" for number, part in enumerate(parts))
    return text.encode()


def read_columns_text(content: bytes) -> None:
    """Read the content as an agreement; read it again as it is written."""
    path = Path("columns.toml")
    path.write_bytes(content)
    columns = Columns.read(path)
    assert Columns.of_text(columns.text()) == columns


def silo_files(rng: Random) -> bytes:
    """Return an agreement and a CSV file of a silo in one text, with a line of = between them."""
    agreement = _SOUND.encode() if rng.random() < 0.7 else columns_text(rng)
    return agreement + b"\n=====\n" + (csv_text(rng) if rng.random() < 0.2 else _silo_table(rng))


def _silo_table(rng: Random) -> bytes:
    """Return a table with the agreed columns, and with more or fewer cells that do not fit."""
    odd = rng.choice((0.0, 0.0, 0.01, 0.2))
    kinds = (("a", "b"), ("1", "2.5", ""), ("a", "b", "", "c"), ("2024-04-03", "2020-01-01", ""))
    cells = (
        "1e999",
        "inf",
        "x",
        "1,5",
        "0001-01-01",
        "9999-12-31",
        "31.12.2020",
        "\x1b[0m",
        "é",
        "1e308",
        "-1e308",
        '"',
    )
    rows = [[rng.choice(cells) if rng.random() < odd else rng.choice(kind) for kind in kinds] for _ in range(40)]
    return "\n".join(["y,x1,x2,x3", *(",".join(row) for row in rows)]).encode()


def read_silo_rows(content: bytes) -> None:
    """Read the content as a silo's rows by its agreement: their sums, then their features."""
    agreement, _, table = content.partition(b"\n=====\n")
    (Path("columns.toml")).write_bytes(agreement)
    (Path("rows.csv")).write_bytes(table)
    columns = Columns.read(Path("columns.toml"))
    source = str(Path("rows.csv"))
    silo_dataset(source, columns, summary_of(source, columns))
