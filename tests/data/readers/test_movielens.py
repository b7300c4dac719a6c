"""MovieLens: the reader on small files, and on the real ones where they are available."""

import numpy as np
import pytest
from table_files import (
    FILMS,
    PEOPLE,
    RATINGS,
    Make,
    changed,
    grouplens_files,
    million_files,
    real,
    recbole_files,
    refusal,
    sizes,
    whole,
)

from silobench.data.readers import movielens


def test_both_forms_of_movielens_are_one_dataset(make: Make) -> None:
    recbole, grouplens = (
        movielens._read_movielens_100k(make(form, files, "movielens-100k"))
        for form, files in (("recbole", recbole_files()), ("grouplens", grouplens_files()))
    )
    assert recbole.checksum == grouplens.checksum
    assert (recbole.columns, recbole.notes, recbole.name) == (grouplens.columns, grouplens.notes, "movielens-100k")


def test_movielens_rows_by_hand(make: Make) -> None:
    data = movielens._read_movielens_100k(make("grouplens", grouplens_files()))
    assert (len(data.train), len(data.test), data.shape) == (22, 2, (2 + 2 + 21 + 1 + 19,))
    assert (data.task, data.classes, data.train.y.dtype, data.train.x.dtype) == (
        "regression",
        (),
        np.float32,
        np.float32,
    )
    held = sorted(np.random.default_rng(0).permutation(24)[:2].tolist())
    for split, rows in ((data.train, [i for i in range(24) if i not in held]), (data.test, held)):
        wanted = [RATINGS[i] for i in rows]
        assert split.groups["film"].tolist() == [film for _, film, _ in wanted]
        assert split.y.tolist() == [stars for _, _, stars in wanted]
        assert split.groups["user"].tolist() == [user for user, _, _ in wanted]
        for (user, film, _), row in zip(wanted, split.x, strict=True):
            named = {name for name, value in zip(data.columns[3:], row[3:], strict=True) if value and name != "year"}
            work, genres = PEOPLE[user - 1][3], FILMS[film // 10 - 1][5]
            gender = {"gender=F"} if user == 1 else set()
            assert named == {f"occupation={work}", *(f"genre={genre}" for genre in genres)} | gender


def test_movielens_numbers_are_standardised_and_a_missing_year_is_the_mean(make: Make) -> None:
    data = movielens._read_movielens_100k(make("grouplens", grouplens_files()))
    rows, groups, year = whole(data).x, whole(data).groups, data.columns.index("year")
    users, films = groups["user"], groups["film"]
    ages = np.array([PEOPLE[user - 1][1] for user in users])
    known = {10: 1950.0, 20: 1995.0, 40: 1968.0}
    mean = np.mean([known[film] for film in films[:22] if film != 30])
    years = np.array([known.get(film, mean) for film in films])
    for place, values in ((0, users), (1, films), (2, ages), (year, years)):
        np.testing.assert_allclose(rows[:, place], (values - values[:22].mean()) / values[:22].std(), atol=1e-4)
    assert data.notes[0].startswith("1 film(s) without a year, in 6 rating(s)")


def test_the_million_by_hand(make: Make) -> None:
    data = movielens._read_movielens_1m(make("grouplens", million_files(), "movielens-1m"))
    assert (data.name, data.shape, len(data.train)) == ("movielens-1m", (2 + 2 + 21 + 1 + 18,), 22)
    place = int(np.argmax(data.train.groups["user"] == 3))
    row, film = data.train.x[place], int(data.train.groups["film"][place])
    named = {name for name, value in zip(data.columns[3:], row[3:], strict=True) if value and name != "year"}
    genres = {10: {"genre=Drama", "genre=War"}, 20: {"genre=Western"}, 30: {"genre=Action"}, 40: {"genre=War"}}
    assert named == {"occupation=scientist", *genres[film]}
    assert "genre=unknown" not in data.columns
    assert data.notes[0].startswith("1 film(s)")


@pytest.mark.parametrize(
    ("name", "old", "new", "told"),
    [
        ("ml-100k.inter", "user_id", "user", "has the header 'user:token"),
        ("ml-100k.inter", "2\t20\t2\t", "2\t20\t9\t", "has user, film and rating 2, 20, 9 in line 3"),
        ("ml-100k.inter", "2\t20\t2\t", "2\t20.5\t2\t", "has user, film and rating 2, 20.5, 2 in line 3"),
        ("ml-100k.inter", "2\t20\t2\t", "2\t21\t2\t", "has the film 21 in line 3: one of the 4 films is needed"),
        ("ml-100k.inter", "2\t20\t2\t", "7\t20\t2\t", "has the user 7 in line 3: one of the 3 users is needed"),
        ("ml-100k.inter", "2\t20\t2\t", "2\tx\t2\t", "has 'x' in column 2 in line 3"),
        ("ml-100k.item", "Sci-Fi", "Sci-fi", "has the genre 'Sci-fi' in line 5"),
        ("ml-100k.item", "40\t", "10\t", "has the id '10' in line 5: a whole number that is not used before"),
        ("ml-100k.item", "40\t", "x\t", "has the id 'x' in line 5"),
        ("ml-100k.item", "40\t", "40\t\t", "has 5 cells in line 5: 4 are needed"),
        ("ml-100k.user", "\t20\t", "\told\t", "has the age 'old' in line 2: a number is needed"),
        ("ml-100k.user", "\tF\t", "\tX\t", "has the gender 'X' in line 2: F or M is needed"),
        ("ml-100k.user", "writer", "diver", "has the occupation 'diver' in line 2"),
    ],
)
def test_a_bad_recbole_file_is_refused(make: Make, name: str, old: str, new: str, told: str) -> None:
    refusal(
        lambda: movielens._read_movielens_100k(make("recbole", changed(recbole_files(), name, old, new))), name, told
    )


@pytest.mark.parametrize(
    ("name", "old", "new", "told"),
    [
        ("ratings.dat", "2::20::2::", "2::20::x::", "has 'x' in column 3 in line 2"),
        ("ratings.dat", "2::20::2::", "2::20::", "has 3 cells in line 2: 4 are needed"),
        ("users.dat", "::15::", "::21::", "has the occupation '21' in line 3"),
        ("users.dat", "1::F", "1:F", "has 4 cells in line 1: 5 are needed"),
    ],
)
def test_a_bad_file_of_the_million_is_refused(make: Make, name: str, old: str, new: str, told: str) -> None:
    refusal(
        lambda: movielens._read_movielens_1m(make("grouplens", changed(million_files(), name, old, new))), name, told
    )


def test_a_genre_flag_that_is_none_is_refused(make: Make) -> None:
    files = {**grouplens_files(), "u.item": b"1|A (1990)|01-Jan-1990||u" + b"|0" * 18 + b"|2\n"}
    refusal(
        lambda: movielens._read_movielens_100k(make("grouplens", files)), "u.item has '2' among the genres in line 1"
    )


def test_the_real_movielens() -> None:
    data = movielens._read_movielens_100k(real("recbole", "ml-100k.inter", "ml-100k.item", "ml-100k.user"))
    assert sizes(data) == (91_667, 8_333, (45,))
    rows = whole(data)
    assert (len(np.unique(rows.x[:, 0])), len(np.unique(rows.x[:, 1]))) == (943, 1_682)
    assert np.bincount(rows.y.astype(int)).tolist() == [0, 6_110, 11_370, 27_145, 34_174, 21_201]
