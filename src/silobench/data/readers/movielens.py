"""MovieLens: ratings of films by users, with attributes of users and films."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from silobench.data.dataset import Dataset, Split
from silobench.data.readers.checks import bad_line, is_number, is_whole, shorten
from silobench.data.readers.delimited import check_header, fill_mean, hold_out_part, numbers, records, scale_columns
from silobench.data.store.cache import stored
from silobench.data.store.directory import Files
from silobench.errors import DataError


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


_GENRES_1M = _words(
    "Action Adventure Animation Children's Comedy Crime Documentary Drama Fantasy Film-Noir Horror Musical Mystery "
    "Romance Sci-Fi Thriller War Western"
)
_GENRES_100K = ("unknown", *_GENRES_1M)
_OCCUPATIONS_100K = _words(
    "administrator artist doctor educator engineer entertainment executive healthcare homemaker lawyer librarian "
    "marketing none other programmer retired salesman scientist student technician writer"
)
_OCCUPATIONS_1M = (  # in the order of their codes
    "other",
    "academic/educator",
    "artist",
    "clerical/admin",
    "college/grad student",
    "customer service",
    "doctor/health care",
    "executive/managerial",
    "farmer",
    "homemaker",
    "K-12 student",
    "lawyer",
    "programmer",
    "retired",
    "sales/marketing",
    "scientist",
    "self-employed",
    "technician/engineer",
    "tradesman/craftsman",
    "unemployed",
    "writer",
)
_RECBOLE = {  # headers of the files that RecBole publishes
    "ml-100k.inter": ("user_id:token", "item_id:token", "rating:float", "timestamp:float"),
    "ml-100k.item": ("item_id:token", "movie_title:token_seq", "release_year:token", "class:token_seq"),
    "ml-100k.user": ("user_id:token", "age:token", "gender:token", "occupation:token", "zip_code:token"),
}


@dataclass(frozen=True)
class Attributes:
    """The attributes of all users, or of all films: one row of features each."""

    names: tuple[str, ...]
    ids: NDArray[np.int64]  # [n], ascending
    values: NDArray[np.float32]  # [n, features]; an unknown year is NaN


def movielens_100k() -> Dataset:
    """MovieLens 100K: 100,000 ratings, from 1 to 5, of 1,682 films by 943 users; users and films are groups.

    The target is the rating. A row has the ids of user and film, the user's age, gender and occupation, and the film's
    year and genres. A twelfth of the rows is held out.
    """
    return stored("movielens-100k", _read_movielens_100k)


@dataclass(frozen=True)
class Ratings:
    """The ratings of a file: the ids of user and film, and the stars."""

    path: Path
    skip: int  # lines before the first rating
    users: NDArray[np.int64]
    films: NDArray[np.int64]
    stars: NDArray[np.float32]


@dataclass(frozen=True)
class Parts:
    """MovieLens 100K before it becomes a dataset; `titles` has the title of each film, with the year at its end."""

    ratings: Ratings
    users: Attributes
    films: Attributes
    titles: dict[int, str]


def _read_movielens_100k(files: Files) -> Dataset:
    parts = read_parts(files)
    return _movielens(files, parts.ratings, parts.users, parts.films)


def read_parts(files: Files) -> Parts:
    """Read MovieLens 100K in GroupLens' or in RecBole's form."""
    if files.form == "recbole":
        rating_file, film_file, user_file = (files[name] for name in _RECBOLE)
        films = [  # the original title ends in the year, which RecBole moved to its own column
            (line, cells[0], f"{cells[1]} ({cells[2]})", cells[3].split(" "))
            for line, cells in records(film_file, "\t", 4, _RECBOLE[film_file.name], "utf-8")
        ]
        user_rows = records(user_file, "\t", 5, _RECBOLE[user_file.name])
        check_header(rating_file, "\t", _RECBOLE[rating_file.name])
    else:
        rating_file, film_file, user_file = (files[name] for name in ("u.data", "u.item", "u.user"))
        films = [
            (line, cells[0], cells[1], _genres(film_file, line, cells[5:]))
            for line, cells in records(film_file, "|", 5 + len(_GENRES_100K))
        ]
        user_rows = records(user_file, "|", 5)
    users = ((line, cells[0], cells[1], cells[2], cells[3]) for line, cells in user_rows)
    return Parts(
        _ratings(rating_file, "\t", skip=int(files.form == "recbole")),
        _user_attributes(user_file, users, _OCCUPATIONS_100K),
        _film_attributes(film_file, films, _GENRES_100K),
        {int(id_): title for _, id_, title, _ in films},
    )


def movielens_1m() -> Dataset:
    """MovieLens 1M: 1,000,209 ratings, from 1 to 5, of 3,706 films by 6,040 users; users and films are groups.

    The columns are those of `movielens-100k`. Ages are the lower ends of seven ranges (1 is under 18, 56 is 56 and
    over). A twelfth of the rows is held out.
    """
    return stored("movielens-1m", _read_movielens_1m)


def _read_movielens_1m(files: Files) -> Dataset:
    films = [(n, c[0], c[1], c[2].split("|")) for n, c in records(files["movies.dat"], "::", 3)]
    occupations = {str(code): name for code, name in enumerate(_OCCUPATIONS_1M)}
    users = ((n, c[0], c[2], c[1], occupations.get(c[3], c[3])) for n, c in records(files["users.dat"], "::", 5))
    return _movielens(
        files,
        _ratings(files["ratings.dat"], "::"),
        _user_attributes(files["users.dat"], users, _OCCUPATIONS_1M),
        _film_attributes(files["movies.dat"], films, _GENRES_1M),
    )


def _movielens(files: Files, ratings: Ratings, users: Attributes, films: Attributes) -> Dataset:
    ids = np.stack([ratings.users, ratings.films], axis=1).astype(np.float32)
    user_values = users.values[positions(ratings, "user", ratings.users, users.ids)]
    film_values = films.values[positions(ratings, "film", ratings.films, films.ids)]
    x = np.concatenate([ids, user_values, film_values], axis=1)
    columns = ("user", "film", *users.names, *films.names)
    groups = {"user": ratings.users, "film": ratings.films}
    train, test = hold_out_part(ratings.path, Split(x, ratings.stars, groups), 12)
    filled = fill_mean(train, test, columns.index("year"))
    for column in map(columns.index, ("user", "film", "age", "year")):  # ids of thousands would make training diverge
        scale_columns(train, test, slice(column, column + 1), "standard")
    undated = int(np.isnan(films.values[:, 0]).sum())
    fill_note = f"{undated} film(s) without a year, in {filled} rating(s), got the mean year of the training ratings"
    return Dataset(
        files.entry.name,
        train,
        test,
        (),
        files.entry.licence,
        notes=(
            *([fill_note] if undated else []),
            "user, film, age and year standardised by the pooled training rows; the ids are also groups",
        ),
        task="regression",
        columns=columns,
        target="rating",
        unit="stars",
    )


def _ratings(path: Path, separator: str, skip: int = 0) -> Ratings:
    table = numbers(path, 4, separator=separator, skip=skip, dtype=np.float64)
    bad = (table[:, :2] != np.round(table[:, :2])).any(1) | (table[:, 2] < 0.5) | (table[:, 2] > 5)
    if bad.any():
        row = int(np.argmax(bad))
        values = ", ".join(f"{value:g}" for value in table[row, :3])
        needed = "the ids of a user and a film and a rating from 0.5 to 5 are needed"
        raise bad_line(path, row + 1 + skip, f"user, film and rating {values}", needed)
    ids = table[:, :2].astype(np.int64)
    return Ratings(path, skip, ids[:, 0].copy(), ids[:, 1].copy(), table[:, 2].astype(np.float32))


def positions(ratings: Ratings, what: str, ids: NDArray[np.int64], known: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the position of each id in the sorted array of known ids."""
    places = np.minimum(np.searchsorted(known, ids), len(known) - 1)
    unknown = np.flatnonzero(known[places] != ids)
    if len(unknown):
        line = int(unknown[0]) + 1 + ratings.skip
        raise bad_line(
            ratings.path, line, f"the {what} {ids[unknown[0]]}", f"one of the {len(known)} {what}s is needed"
        )
    return places.astype(np.int64)


def _user_attributes(
    path: Path, users: Iterable[tuple[int, str, str, str, str]], occupations: Sequence[str]
) -> Attributes:
    """Encode the attributes of users, given as (line, id, age, gender, occupation)."""
    rows = []
    for line, id_, age, gender, occupation in users:
        if not is_number(age):
            raise bad_line(path, line, f"the age '{shorten(age)}'", "a number is needed")
        if gender not in ("F", "M"):
            raise bad_line(path, line, f"the gender '{shorten(gender)}'", "F or M is needed")
        if occupation not in occupations:
            raise bad_line(
                path, line, f"the occupation '{shorten(occupation)}'", "an occupation of MovieLens' README is needed"
            )
        rows.append((line, id_, [float(age), gender == "F", *(occupation == name for name in occupations)]))
    return _attributes(path, ("age", "gender=F", *(f"occupation={name}" for name in occupations)), rows)


def _film_attributes(path: Path, films: Iterable[tuple[int, str, str, list[str]]], genres: Sequence[str]) -> Attributes:
    """Encode the attributes of films, given as (line, id, title, genres). The year is at the end of the title.

    u.item also has dates, but often of a later release, and the other files have none.
    """
    rows = []
    for line, id_, title, film_genres in films:
        unknown = [genre for genre in film_genres if genre not in genres]
        if unknown:
            raise bad_line(path, line, f"the genre '{shorten(unknown[0])}'", "a genre of MovieLens' README is needed")
        years = re.findall(r"\((\d{4})\)", title)
        year = float(years[-1]) if years else np.nan
        rows.append((line, id_, [year, *(genre in film_genres for genre in genres)]))
    return _attributes(path, ("year", *(f"genre={genre}" for genre in genres)), rows)


def _genres(path: Path, line: int, flags: Sequence[str]) -> list[str]:
    """Return the genres whose flags are 1."""
    bad = [flag for flag in flags if flag not in ("0", "1")]
    if bad:
        raise bad_line(path, line, f"'{shorten(bad[0])}' among the genres", "0 or 1 is needed")
    return [genre for genre, flag in zip(_GENRES_100K, flags, strict=True) if flag == "1"]


def _attributes(path: Path, names: tuple[str, ...], rows: Sequence[tuple[int, str, Sequence[float]]]) -> Attributes:
    by_id: dict[int, Sequence[float]] = {}
    for line, id_, values in rows:
        if not is_whole(id_) or int(id_) in by_id:
            raise bad_line(path, line, f"the id '{shorten(id_)}'", "a whole number that is not used before is needed")
        by_id[int(id_)] = values
    if not by_id:
        raise DataError(f"{path} has no rows: at least one is needed; use the published file.")
    ids = sorted(by_id)
    return Attributes(names, np.array(ids, dtype=np.int64), np.array([by_id[i] for i in ids], dtype=np.float32))
