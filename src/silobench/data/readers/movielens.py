"""MovieLens: ratings of films by users, with what is known of both."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from silobench.data.dataset import Dataset, Split
from silobench.data.readers.delimited import (
    bad_line,
    check_header,
    fill_mean,
    is_number,
    is_whole,
    numbers,
    permuted,
    records,
    scale_columns,
    shown,
)
from silobench.data.store.cache import stored
from silobench.data.store.store import Files
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
_OCCUPATIONS_1M = (  # in the order of their numbers
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
_RECBOLE = {  # the headers of its files
    "ml-100k.inter": ("user_id:token", "item_id:token", "rating:float", "timestamp:float"),
    "ml-100k.item": ("item_id:token", "movie_title:token_seq", "release_year:token", "class:token_seq"),
    "ml-100k.user": ("user_id:token", "age:token", "gender:token", "occupation:token", "zip_code:token"),
}


@dataclass(frozen=True)
class _Traits:
    """What is known of all users, or of all films: a row of features each."""

    names: tuple[str, ...]
    ids: NDArray[np.int64]  # [n], rising
    values: NDArray[np.float32]  # [n, features]; a year that is not known is NaN


def movielens_100k() -> Dataset:
    """MovieLens' 100,000 ratings, 1 to 5, of 1,682 films by 943 users, who are the groups: how will a user rate a film?

    A row has the ids of user and film, what is known of the user (age, gender, occupation), and the film's year and
    genres. A twelfth is held out.
    """
    return stored("movielens-100k", _read_movielens_100k)


def _read_movielens_100k(files: Files) -> Dataset:
    if files.form == "recbole":
        rated, film_file, user_file = (files[name] for name in _RECBOLE)
        films = [  # the title as it was before the year was taken from its end
            (line, cells[0], f"{cells[1]} ({cells[2]})", cells[3].split(" "))
            for line, cells in records(film_file, "\t", 4, _RECBOLE[film_file.name], "utf-8")
        ]
        people = records(user_file, "\t", 5, _RECBOLE[user_file.name])
        check_header(rated, "\t", _RECBOLE[rated.name])
    else:
        rated, film_file, user_file = (files[name] for name in ("u.data", "u.item", "u.user"))
        films = [
            (line, cells[0], cells[1], _flagged(film_file, line, cells[5:]))
            for line, cells in records(film_file, "|", 5 + len(_GENRES_100K))
        ]
        people = records(user_file, "|", 5)
    users = ((line, cells[0], cells[1], cells[2], cells[3]) for line, cells in people)
    return _movielens(
        files,
        _ratings(rated, "\t", skip=int(files.form == "recbole")),
        _user_traits(user_file, users, _OCCUPATIONS_100K),
        _film_traits(film_file, films, _GENRES_100K),
    )


def movielens_1m() -> Dataset:
    """MovieLens' 1,000,209 ratings, 1 to 5, of 3,706 films by 6,040 users, who are the groups; as `movielens-100k`.

    An age is the lowest of one of seven ranges (1 is under 18, 56 is 56 or more). A twelfth is held out.
    """
    return stored("movielens-1m", _read_movielens_1m)


def _read_movielens_1m(files: Files) -> Dataset:
    films = [(n, c[0], c[1], c[2].split("|")) for n, c in records(files["movies.dat"], "::", 3)]
    places = {str(place): name for place, name in enumerate(_OCCUPATIONS_1M)}
    users = ((n, c[0], c[2], c[1], places.get(c[3], c[3])) for n, c in records(files["users.dat"], "::", 5))
    return _movielens(
        files,
        _ratings(files["ratings.dat"], "::"),
        _user_traits(files["users.dat"], users, _OCCUPATIONS_1M),
        _film_traits(files["movies.dat"], films, _GENRES_1M),
    )


@dataclass(frozen=True)
class _Ratings:
    path: Path
    skip: int  # lines before the first
    users: NDArray[np.int64]
    films: NDArray[np.int64]
    stars: NDArray[np.float32]


def _movielens(files: Files, ratings: _Ratings, users: _Traits, films: _Traits) -> Dataset:
    ids = np.stack([ratings.users, ratings.films], axis=1).astype(np.float32)
    user_values = users.values[_places(ratings, "user", ratings.users, users.ids)]
    film_values = films.values[_places(ratings, "film", ratings.films, films.ids)]
    x = np.concatenate([ids, user_values, film_values], axis=1)
    columns = ("user", "film", *users.names, *films.names)
    train, test = permuted(ratings.path, Split(x, ratings.stars, {"user": ratings.users}), 12)
    age, year = columns.index("age"), columns.index("year")
    filled = fill_mean(train, test, year)
    for place in (age, year):
        scale_columns(train, test, slice(place, place + 1), "standard")
    dateless = int(np.isnan(films.values[:, 0]).sum())
    guessed = f"{dateless} film(s) without a year, in {filled} rating(s), took the mean year of the training ratings"
    return Dataset(
        files.entry.name,
        train,
        test,
        (),
        files.entry.licence,
        notes=(
            *([guessed] if dateless else []),
            "age and year standardised by the pooled training rows; user and film are their ids",
        ),
        task="regression",
        columns=columns,
    )


def _ratings(path: Path, separator: str, skip: int = 0) -> _Ratings:
    table = numbers(path, 4, separator=separator, skip=skip, dtype=np.float64)
    bad = (table[:, :2] != np.round(table[:, :2])).any(1) | (table[:, 2] < 0.5) | (table[:, 2] > 5)
    if bad.any():
        row = int(np.argmax(bad))
        given = ", ".join(f"{value:g}" for value in table[row, :3])
        needed = "a user's and a film's id and 0.5 to 5 stars are needed"
        raise bad_line(path, row + 1 + skip, f"user, film and rating {given}", needed)
    ids = table[:, :2].astype(np.int64)
    return _Ratings(path, skip, ids[:, 0].copy(), ids[:, 1].copy(), table[:, 2].astype(np.float32))


def _places(ratings: _Ratings, what: str, ids: NDArray[np.int64], known: NDArray[np.int64]) -> NDArray[np.int64]:
    """Where each id stands among the known ones."""
    places = np.minimum(np.searchsorted(known, ids), len(known) - 1)
    strange = np.flatnonzero(known[places] != ids)
    if len(strange):
        line = int(strange[0]) + 1 + ratings.skip
        raise bad_line(
            ratings.path, line, f"the {what} {ids[strange[0]]}", f"one of the {len(known)} {what}s is needed"
        )
    return places.astype(np.int64)


def _user_traits(path: Path, users: Iterable[tuple[int, str, str, str, str]], occupations: Sequence[str]) -> _Traits:
    """From the line, id, age, gender and occupation of each user."""
    rows = []
    for line, id_, age, gender, occupation in users:
        if not is_number(age):
            raise bad_line(path, line, f"the age '{shown(age)}'", "a number is needed")
        if gender not in ("F", "M"):
            raise bad_line(path, line, f"the gender '{shown(gender)}'", "F or M is needed")
        if occupation not in occupations:
            raise bad_line(
                path, line, f"the occupation '{shown(occupation)}'", "one of those in MovieLens' README is needed"
            )
        rows.append((line, id_, [float(age), gender == "F", *(occupation == name for name in occupations)]))
    return _traits(path, ("age", "gender=F", *(f"occupation={name}" for name in occupations)), rows)


def _film_traits(path: Path, films: Iterable[tuple[int, str, str, list[str]]], genres: Sequence[str]) -> _Traits:
    """From the line, id, title and genres of each film. The year is the one that ends the title.

    u.item has dates too, but they are often those of a later release, and the other forms have none.
    """
    rows = []
    for line, id_, title, given in films:
        strange = [genre for genre in given if genre not in genres]
        if strange:
            raise bad_line(path, line, f"the genre '{shown(strange[0])}'", "those in MovieLens' README are needed")
        years = re.findall(r"\((\d{4})\)", title)
        year = float(years[-1]) if years else np.nan
        rows.append((line, id_, [year, *(genre in given for genre in genres)]))
    return _traits(path, ("year", *(f"genre={genre}" for genre in genres)), rows)


def _flagged(path: Path, line: int, flags: Sequence[str]) -> list[str]:
    strange = [flag for flag in flags if flag not in ("0", "1")]
    if strange:
        raise bad_line(path, line, f"'{shown(strange[0])}' among the genres", "0 or 1 is needed")
    return [genre for genre, flag in zip(_GENRES_100K, flags, strict=True) if flag == "1"]


def _traits(path: Path, names: tuple[str, ...], rows: Sequence[tuple[int, str, Sequence[float]]]) -> _Traits:
    found: dict[int, Sequence[float]] = {}
    for line, id_, values in rows:
        if not is_whole(id_) or int(id_) in found:
            raise bad_line(path, line, f"the id '{shown(id_)}'", "a whole number that no line before it has is needed")
        found[int(id_)] = values
    if not found:
        raise DataError(f"{path} has no rows: at least one is needed; use the published file.")
    ids = sorted(found)
    return _Traits(names, np.array(ids, dtype=np.int64), np.array([found[i] for i in ids], dtype=np.float32))
