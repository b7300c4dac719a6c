"""Facts about films: IMDB's table of films, and MovieLens joined by title with IMDB, or with OMDB and Rotten Tomatoes.

The last two are OARF's film task: users' ratings at one owner, attributes of the films at others.
"""

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np

from silobench.data.alignment.keys import Places, film_key, year_in
from silobench.data.dataset import Dataset
from silobench.data.readers import movielens
from silobench.data.readers.checks import unreadable
from silobench.data.readers.joined import Owner, Rows, Target, join, read_owner, texts_of
from silobench.data.store.cache import stored
from silobench.data.store.directory import Files, require
from silobench.data.table.cells import RawColumn, text_column
from silobench.errors import DataError

_GENRES = ("Action", "Animation", "Comedy", "Drama", "Documentary", "Romance", "Short")


def films() -> Dataset:
    """The mean rating (1 to 10) of 58,788 films by users of IMDB, from facts such as year, length, budget and genres.

    The decade is the group. A twelfth is held out.
    """
    return stored("films", _read_films)


def _read_films(files: Files) -> Dataset:
    path = files["movies.csv"]
    columns = read_owner(path, ("year", "length", "budget", "votes", "rating", *_GENRES), ("mpaa",))
    rating, year = columns.pop("rating").values, columns["year"].values
    if np.isnan(rating).any() or np.isnan(year).any():
        raise DataError(f"{path} has a film without a rating or a year: use the published file.")
    decade = np.array([f"{int(start) // 10 * 10}s" for start in year])
    target = Target("rating", rating.astype(np.float32), "points")
    return join(files, [Owner("imdb", columns, np.arange(len(rating)))], target, {"decade": decade})


# --- MovieLens with other owners ---------------------------------------------------------------------


def movielens_omdb(rows: Rows = "all") -> Dataset:
    """MovieLens 100K with facts of its films by OMDB (runtime, Oscars, genre) and Rotten Tomatoes (reviews).

    The target is a user's rating. Films are joined by title and year, which may differ by one. `rows` is all, or
    aligned: ratings of films that all owners have. Groups are users, films, and the owners that have a film. A twelfth
    is held out.
    """
    return stored("movielens-omdb", _read_movielens_omdb, rows=rows)


def movielens_imdb(rows: Rows = "all") -> Dataset:
    """MovieLens 100K with the length and the number of votes of its films at IMDB, the two columns of OARF.

    The arguments and groups are those of `movielens-omdb`.
    """
    return stored("movielens-imdb", _read_movielens_imdb, rows=rows)


def _read_movielens_omdb(files: Files, rows: Rows) -> Dataset:
    parts = movielens.read_parts(require("movielens-100k"))
    path = files["movies.db"]
    omdb = _query(path, "SELECT ID, Title, Year, Runtime, Oscars, Genre FROM omdb ORDER BY ID")
    critics = _query(path, "SELECT ID, Meter, Reviews, Fresh, Rotten, Rating FROM tomatoes ORDER BY ID")
    ids, titles, years, runtime, oscars, genres = omdb
    if critics[0] != ids:
        raise DataError(f"{path} has other films in its table tomatoes than in omdb: use the published file.")
    places = _film_places(parts, titles, years)
    first_genre = text_column([str(genre or "").partition(",")[0] for genre in genres], True)
    facts = {"year": _numbers(years), "runtime": _numbers(runtime), "oscars": _numbers(oscars), "genre": first_genre}
    reviews = dict(zip(("meter", "reviews", "fresh", "rotten", "rating"), map(_numbers, critics[1:]), strict=True))
    owners = [Owner("omdb", facts, places), Owner("tomatoes", reviews, places)]
    return _join_ratings(files, parts, owners, rows)


def _read_movielens_imdb(files: Files, rows: Rows) -> Dataset:
    parts, path = movielens.read_parts(require("movielens-100k")), require("films")["movies.csv"]
    columns = read_owner(path, ("year", "length", "votes"), ("title",))
    places = _film_places(parts, texts_of(columns.pop("title")), columns.pop("year").values.tolist())
    return _join_ratings(files, parts, [Owner("imdb", columns, places)], rows)


def _join_ratings(files: Files, parts: movielens.Parts, owners: Sequence[Owner], rows: Rows) -> Dataset:
    """Join MovieLens' own columns with those of other owners, whose places are by film."""
    ratings = parts.ratings
    films = movielens.positions(ratings, "film", ratings.films, parts.films.ids)
    users = movielens.positions(ratings, "user", ratings.users, parts.users.ids)
    columns = {"user": ratings.users.astype(np.float64), "film": ratings.films.astype(np.float64)}
    for attributes, places in ((parts.users, users), (parts.films, films)):
        columns |= {name: attributes.values[places, i].astype(np.float64) for i, name in enumerate(attributes.names)}
    own = Owner("movielens", {name: RawColumn("number", x) for name, x in columns.items()}, np.arange(len(films)))
    others = [Owner(owner.name, owner.columns, owner.places[films]) for owner in owners]
    groups = {"user": ratings.users, "film": ratings.films}
    return join(files, [own, *others], Target("rating", ratings.stars, "stars"), groups, rows, "normalised")


def _film_places(parts: movielens.Parts, titles: Sequence[str], years: Sequence[float | None]) -> Places:
    """Return the row of each film of MovieLens in another owner's table: the same title, and the nearest year."""
    rows: dict[str, list[int]] = {}
    for row, title in enumerate(titles):
        rows.setdefault(film_key(title), []).append(row)
    known = [(film_key(title), year_in(title)) for title in _titles(parts)]
    return np.array([_nearest(rows.get(key, ()), years, year) for key, year in known], dtype=np.int64)


def _titles(parts: movielens.Parts) -> list[str]:
    return [parts.titles[film] for film in parts.films.ids.tolist()]


def _nearest(rows: Sequence[int], years: Sequence[float | None], year: float) -> int:
    """Return the row with the year nearest to a film's, at most one year from it; -1 if there is none."""
    distances = [(abs((years[row] or 0) - year), row) for row in rows]
    distance, row = min(distances, default=(np.inf, -1))
    return row if distance <= 1 else -1


def _query(path: Path, query: str) -> list[tuple[Any, ...]]:
    """Return the columns of a query of an SQLite file, which is opened for reading only."""
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro&immutable=1", uri=True)) as database:
            rows = database.execute(query).fetchall()
    except sqlite3.Error as error:
        raise unreadable(path, error, "SQLite") from error
    if not rows:
        raise DataError(f"{path} has no films: at least one is needed; use the published file.")
    return list(zip(*rows, strict=True))


def _numbers(cells: Sequence[float | None]) -> RawColumn:
    return RawColumn("number", np.array([np.nan if cell is None else float(cell) for cell in cells]))
