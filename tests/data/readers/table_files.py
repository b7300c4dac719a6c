"""Helpers for tests of tables: small files of every dataset, and checks of errors."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from silobench.data.dataset import Dataset, Split
from silobench.data.readers import movielens, tables
from silobench.data.store.catalog import Entry, File
from silobench.data.store.directory import Files
from silobench.errors import DataError

Contents = dict[str, str | bytes]
Make = Callable[..., Files]


def located(root: Path, form: str, *names: str, name: str = "made") -> Files:
    listed = {file: File() for file in names}
    entry = Entry(name=name, summary="", licence="L", citation="", files=listed, forms={form: names})
    return Files(entry, form, root, names)


def refusal(call: Callable[[], Any], *told: object) -> None:
    with pytest.raises(DataError) as caught:
        call()
    message = str(caught.value)
    assert "\n" not in message
    assert message.endswith(".")
    assert [part for part in map(str, told) if part not in message] == []


def changed(contents: Contents, name: str, old: str, new: str) -> Contents:
    text = contents[name]
    assert isinstance(text, str)
    assert old in text
    return {**contents, name: text.replace(old, new, 1)}


def whole(dataset: Dataset) -> Split:
    """All rows, training rows first."""
    train, test = dataset.train, dataset.test
    groups = {level: np.concatenate([train.groups[level], test.groups[level]]) for level in train.groups}
    return Split(np.concatenate([train.x, test.x]), np.concatenate([train.y, test.y]), groups)


FIRST = (
    "39, State-gov, 77516, Bachelors, 13, Never-married, Adm-clerical, Not-in-family, White, Male, 2174, 0, 40, "
    "United-States, <=50K"
)
LAST = (
    "90, ?, 300000, Preschool, 1, Married-AF-spouse, Armed-Forces, Unmarried, Black, Female, 0, 4356, 99, "
    "Holand-Netherlands, >50K"
)
FIRST_A9A = "-1 3:1 11:1 14:1 19:1 39:1 42:1 55:1 64:1 67:1 73:1 75:1 76:1 80:1 83:1 \n"
LAST_A9A = "+1 5:1 18:1 34:1 35:1 46:1 60:1 66:1 71:1 72:1 74:1 77:1 82:1 123:1 \n"
UCI: Contents = {
    "adult.data": f"{FIRST}\n{LAST}\n\n",
    "adult.test": f"|1x3 Cross validator\n{LAST}.\n{FIRST}.\n",
}
A9A: Contents = {"a9a": FIRST_A9A + LAST_A9A, "a9a.t": LAST_A9A + FIRST_A9A}
COVER_HEADER = ",".join([*tables._COVER_COLUMNS, "Cover_Type"])


def cover_rows(rows: int) -> str:
    """Row i: numbers i, -i, 7 and 0s, then the indicators 1, 0, ..., 0, and the class i % 7 + 1."""
    return "".join(f"{i},{-i},7{',0' * 7},1{',0' * 43},{i % 7 + 1}\n" for i in range(rows))


def _hospital(float_text: bool, rows: int = 20) -> str:
    """Row i: age 40 + i, cholesterol 0 in every fourth row, fbs missing in every fifth; half of them are ill."""
    dot = ".0" if float_text else ""
    lines = []
    for i in range(rows):
        chol, fbs = (0 if i % 4 == 0 else 200 + i), ("?" if i % 5 == 0 else f"1{dot}")
        lines.append(f"{40 + i}{dot},1{dot},4{dot},120{dot},{chol}{dot},{fbs},0{dot},150,0,.5,2{dot},?,?,{i % 2 * 3}")
    return "\n".join(lines) + "\n"


def heart_files() -> Contents:
    made: Contents = {f"processed.{name}.data": _hospital(name == "cleveland") for name in tables._HOSPITALS}
    return changed(made, "processed.va.data", "150,0,.5,2,?,?", "150,0,.5,2,2,7")


RATINGS = [(1 + i % 3, 10 * (1 + i % 4), 1 + i % 5) for i in range(24)]  # user, film, stars
PEOPLE = [(1, 20, "F", "writer"), (2, 30, "M", "none"), (3, 40, "M", "student")]
FILMS = [  # title, year that recbole has, date of u.item, genres
    (10, "Café (Blue) (1950)", "Café (Blue)", "1950", "02-Feb-1999", ["Drama", "War"]),
    (20, "Dinos III (1995) (V)", "Dinos III (1995)", "V", "01-Jan-1995", ["Children's"]),
    (30, "unknown", "unkonwn", "unkonwn", "", ["unknown"]),
    (40, "2001 (1968)", "2001", "1968", "01-Jan-1968", ["Sci-Fi"]),
]


def recbole_files() -> Contents:
    films = [f"{i}\t{title}\t{year}\t{' '.join(genres)}" for i, _, title, year, _, genres in FILMS]
    return {
        "ml-100k.inter": "\r\n".join(
            ["user_id:token\titem_id:token\trating:float\ttimestamp:float"]
            + [f"{u}\t{f}\t{s}\t88125094{u}" for u, f, s in RATINGS]
        ),
        "ml-100k.item": "\r\n".join(
            ["item_id:token\tmovie_title:token_seq\trelease_year:token\tclass:token_seq", *films, ""]
        ),
        "ml-100k.user": "\r\n".join(
            ["user_id:token\tage:token\tgender:token\toccupation:token\tzip_code:token"]
            + [f"{i}\t{age}\t{gender}\t{work}\t85711" for i, age, gender, work in PEOPLE]
        ),
    }


def grouplens_files() -> Contents:
    films = []
    for i, title, _, _, date, genres in FILMS:
        flags = "|".join(str(int(genre in genres)) for genre in movielens._GENRES_100K)
        films.append(f"{i}|{title}|{date}||http://us.imdb.com/{i}|{flags}\n")
    return {
        "u.data": "".join(f"{u}\t{f}\t{s}\t88125094{u}\n" for u, f, s in RATINGS),
        "u.item": "".join(films).encode("latin-1"),
        "u.user": "".join(f"{i}|{age}|{gender}|{work}|85711\n" for i, age, gender, work in PEOPLE),
    }


def million_files() -> Contents:
    return {
        "ratings.dat": "".join(f"{u}::{f}::{s}::978300760\n" for u, f, s in RATINGS),
        "users.dat": "1::F::1::20::48067\n2::M::56::0::70072\n3::M::25::15::55117\n",
        "movies.dat": "10::Café (1950)::Drama|War\n20::B (1995)::Western\n30::C (2000)::Action\n40::D::War\n".encode(
            "latin-1"
        ),
    }


def song_rows(rows: int) -> str:
    return "".join(f"{1922 + i},{','.join(str((i + 1) * (c % 3) + c) for c in range(90))}\n" for i in range(rows))


def fma_files() -> Contents:
    """Tracks 2, 4, ..., 60; those that 6 divides have no date, and 8 has no row in tracks.csv."""
    features = "feature,mfcc,mfcc\nstatistics,mean,max\nnumber,01,02\ntrack_id,,\n"
    features += "".join(f"{i},{i}.5,{-i}\n" for i in range(2, 62, 2))
    tracks = ",album,album,track\n,comments,date_released,title\ntrack_id,,,\n"
    for i in range(60, 0, -2):  # in another order
        date = "" if i % 6 == 0 else f"{1950 + i}-01-05 00:00:00"
        tracks += f'{i},"a, b\nand ""c""",{date},Song\n' if i != 8 else ""
    return {"features.csv": features, "tracks.csv": tracks}


def speed_rows(steps: int, sensors: int, start: int = 0, times: bool = False) -> str:
    """The speed of sensor s at step t is 1000 s + t + start."""
    header = ",".join(["", *map(str, range(sensors))] if times else map(str, range(sensors)))
    rows = []
    for t in range(steps):
        cells = [f"{1000 * s + t + start}" for s in range(sensors)]
        rows.append(",".join([f"2012-03-01 00:{t:02d}:00", *cells] if times else cells))
    return "\n".join([header, *rows, ""])


def real(form: str, *names: str) -> Files:
    """Files by name, anywhere below the folder of SILOBENCH_TEST_DATA; skips when they are not there."""
    root = os.environ.get("SILOBENCH_TEST_DATA")
    found = sorted(Path(root).rglob(names[0])) if root else []
    found = [path for path in found if path.is_file()]
    if not found:
        pytest.skip(f"SILOBENCH_TEST_DATA does not name a folder with {names[0]}")
    return located(found[0].parent, form, *names)


def sizes(dataset: Dataset) -> tuple[int, int, tuple[int, ...]]:
    return len(dataset.train), len(dataset.test), dataset.shape
