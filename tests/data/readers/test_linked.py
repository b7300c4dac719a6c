"""Tables of several owners: joined by a key, named by owner, padded where an owner has no row, or aligned."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from linked_files import billboard_files, credit_files, film_rows, flight_files, game_files, write_film_database
from table_files import Contents, Make, changed, grouplens_files, located, recbole_files, refusal, whole

from silobench.data.dataset import Dataset
from silobench.data.encoder import MISSING_CATEGORY
from silobench.data.readers import films, linked
from silobench.data.readers.movielens import _read_movielens_100k
from silobench.data.store.directory import Files
from silobench.errors import DataError

MISSING_TYPE = f"steam.type={MISSING_CATEGORY}"


def column(dataset: Dataset, name: str) -> np.ndarray:
    """A feature of all rows, training rows first."""
    x: np.ndarray = whole(dataset).x[:, dataset.columns.index(name)]
    return x


# --- games -------------------------------------------------------------------------------------------


def test_games_are_joined_by_title(make: Make) -> None:
    data = linked._read_games(make("files", game_files()), "all")
    rows = whole(data)
    assert (len(data.train), len(data.test), data.target, data.unit) == (33, 3, "score", "points")
    assert Counter(rows.groups["sources"].tolist()) == {
        "ign": 12, "ign+steam": 12, "ign+steamspy": 6, "ign+steam+steamspy": 6
    }  # fmt: skip
    assert set(rows.groups["genre"].tolist()) == {"Platformer", "Action", "unknown"}
    on_steam = np.array(["steam" in sources.split("+") for sources in rows.groups["sources"]])
    assert np.array_equal(column(data, MISSING_TYPE) == 0, on_steam)
    assert np.allclose(column(data, "steam.release_year")[~on_steam], 0, atol=1e-6)  # the training mean, after scaling
    assert len(np.unique(column(data, "steam.release_year")[on_steam])) == 5
    assert "rows of 36 by owner: ign 36, steam 18 and steamspy 12" in data.notes
    assert not [name for name in data.columns if "phrase" in name or "editors" in name or "score" in name.split(".")]
    assert sum(data.owners.values(), ()) == data.columns
    assert [*data.owners] == ["ign", "steam", "steamspy"]
    assert data.alignment["matched"] == {"ign": 36, "steam": 18, "steamspy": 12}
    assert data.alignment["unmatched"]["ign"] == 12


def test_aligned_games_are_those_of_all_owners(make: Make) -> None:
    contents = game_files(120)
    data = linked._read_games(make("files", contents), "aligned")
    rows = whole(data)
    assert len(rows) == 20
    assert set(rows.groups["sources"].tolist()) == {"ign+steam+steamspy"}
    assert "20 of 120 rows used, which every owner has" in data.notes
    assert sorted(rows.y.tolist()) == sorted(float(f"{i % 10}.5") for i in range(0, 120, 6))
    assert MISSING_TYPE not in data.columns


@pytest.mark.parametrize(
    ("name", "old", "new", "told"),
    [
        ("ign_game_clean.csv", "Great,3.5", "Great,good", "column 'score' that is not a finite number"),
        ("ign_game_clean.csv", "Great,3.5", "Great,", "a game without a score"),
        ("steam_game_clean.csv", "required_age", "age", "no column required_age"),
    ],
)
def test_games_of_another_format_are_refused(make: Make, name: str, old: str, new: str, told: str) -> None:
    files = make("files", changed(game_files(), name, old, new))
    refusal(lambda: linked._read_games(files, "all"), name, told)


# --- billboard and credit default --------------------------------------------------------------------


def test_billboard_has_the_year_and_four_owners(make: Make) -> None:
    data = linked._read_billboard(make("files", billboard_files()))
    rows = whole(data)
    assert sorted(rows.y.tolist()) == list(range(1960, 1996))
    assert Counter(rows.groups["genre"].tolist()) == {"Rock": 12, "Funk/Soul": 12, "unknown": 12}
    assert {name.partition(".")[0] for name in data.columns} == {"audio", "instruments", "people", "chart"}
    assert set(rows.groups) == {"genre"}  # every owner has every song


def test_a_song_without_a_date_is_refused(make: Make) -> None:
    files = make("files", changed(billboard_files(), "billboard.csv", "1962-08-04", "spring"))
    refusal(lambda: linked._read_billboard(files), "billboard.csv", "no date in line 4")


def test_credit_default_is_joined_by_the_client(make: Make) -> None:
    data = linked._read_credit_default(make("files", credit_files()))
    assert (len(data.train), len(data.test), data.classes) == (32, 8, ("paid", "default"))
    assert data.columns == (*(f"guest.x{i}" for i in range(13)), *(f"host.x{i}" for i in range(10)))
    assert Counter(data.test.y.tolist()) == {0: 6, 1: 2}
    np.testing.assert_allclose(column(data, "guest.x0"), -column(data, "host.x0"), atol=1e-6)


def test_a_label_other_than_0_and_1_is_refused(make: Make) -> None:
    files = make("files", changed(credit_files(), "guest.csv", "\n0,1,", "\n0,2,"))
    refusal(lambda: linked._read_credit_default(files), "guest.csv", "not 0 or 1")


# --- flights -----------------------------------------------------------------------------------------


def test_flights_have_what_is_known_before_departure(make: Make) -> None:
    data = linked._read_flights(make("files", flight_files()), "all")
    rows = whole(data)
    assert sorted(rows.y.tolist()) == [i - 20 for i in range(48) if i % 6 != 5]
    assert set(rows.groups["carrier"].tolist()) == {"UA", "AA"}
    assert set(rows.groups["origin"].tolist()) == {"EWR", "JFK", "LGA"}
    has_weather = np.array(["weather" in sources for sources in rows.groups["sources"]])
    assert np.array_equal(has_weather, rows.groups["origin"] != "LGA")
    assert len(np.unique(column(data, "weather.temp")[has_weather])) == 2  # of the hour
    assert np.allclose(column(data, "weather.temp")[~has_weather], 0, atol=1e-6)
    assert not [
        name for name in data.columns if name.split(".")[1] in ("dep_delay", "dep_time", "arr_time", "air_time")
    ]


def test_aligned_flights_have_weather_plane_and_airport(make: Make) -> None:
    rows = whole(linked._read_flights(make("files", flight_files()), "aligned"))
    wanted = [i - 20 for i in range(48) if i % 6 != 5 and i % 3 != 2 and i % 4 != 3]
    assert sorted(rows.y.tolist()) == wanted


# --- films -------------------------------------------------------------------------------------------


def test_films_are_read_with_their_decade(make: Make) -> None:
    data = films._read_films(make("files", film_rows()))
    rows = whole(data)
    assert (len(data.train), len(data.test)) == (30, 2)
    assert Counter(rows.groups["decade"].tolist())["1950s"] == 11
    assert {"imdb.length", "imdb.votes", "imdb.budget", "imdb.mpaa=PG", "imdb.Short"} <= set(data.columns)
    assert "imdb.rating" not in data.columns


def other_files(root: Path, form: str, contents: Contents) -> Files:
    root.mkdir()
    for name, content in contents.items():
        (root / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    return located(root, form, *contents)


@pytest.mark.parametrize(("form", "contents"), [("recbole", recbole_files()), ("grouplens", grouplens_files())])
def test_movielens_gets_length_and_votes_of_imdb(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str, contents: Contents
) -> None:
    ratings = other_files(tmp_path / "ratings", form, contents)
    table = other_files(tmp_path / "table", "files", film_rows())
    monkeypatch.setattr(films, "require", {"movielens-100k": ratings, "films": table}.__getitem__)
    data = films._read_movielens_imdb(make("files", {}), "all")
    rows, plain = whole(data), whole(_read_movielens_100k(ratings))
    assert np.array_equal(rows.y, plain.y)  # the same rows are held out
    assert np.array_equal(rows.groups["film"], plain.groups["film"])
    known = rows.groups["sources"] == "movielens+imdb"
    assert set(rows.groups["film"][known].tolist()) == {10, 40}  # Café, one year later, and 2001
    assert np.allclose(column(data, "imdb.length")[~known], 0, atol=1e-6)
    lengths = {film: column(data, "imdb.length")[rows.groups["film"] == film][0] for film in (10, 40)}
    assert lengths[10] < 0 < lengths[40]
    assert len(films._read_movielens_imdb(make("files", {}), "aligned").train) == 11


def test_movielens_gets_facts_of_omdb_and_critics(make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ratings = other_files(tmp_path / "ratings", "recbole", recbole_files())
    monkeypatch.setattr(films, "require", {"movielens-100k": ratings}.__getitem__)
    write_film_database(tmp_path / "movies.db")
    files = located(tmp_path, "files", "movies.db")
    data = films._read_movielens_omdb(files, "all")
    rows = whole(data)
    known = rows.groups["sources"] == "movielens+omdb+tomatoes"
    assert set(rows.groups["film"][known].tolist()) == {10}  # 2001 is two years off, or has no year
    assert (column(data, "omdb.genre=Drama") == known).all()
    assert "tomatoes.rating" in data.columns  # only the nearer film of the same title has one


def test_a_database_of_another_format_is_refused(make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ratings = other_files(tmp_path / "ratings", "recbole", recbole_files())
    monkeypatch.setattr(films, "require", {"movielens-100k": ratings}.__getitem__)
    files = located(tmp_path, "files", "movies.db")
    (tmp_path / "movies.db").write_bytes(b"not a database" * 100)
    refusal(lambda: films._read_movielens_omdb(files, "all"), "movies.db", "cannot be read as SQLite")
    (tmp_path / "movies.db").unlink()
    with pytest.raises(DataError, match="SQLite"):
        films._read_movielens_omdb(files, "all")
    assert not (tmp_path / "movies.db").exists()  # SQLite would create it
    write_film_database(tmp_path / "movies.db", critics=3)
    refusal(lambda: films._read_movielens_omdb(files, "all"), "movies.db", "other films in its table tomatoes")


@pytest.mark.parametrize(
    ("title", "key"),
    [
        ("Usual Suspects, The (1995)", "theusualsuspects"),
        ("Shanghai Triad (Yao a yao yao) (1995)", "shanghaitriad"),
        ("Léon", "leon"),
        ("Good, Bad", "goodbad"),
        ("Avventura, L' (1960)", "lavventura"),
    ],
)
def test_keys_of_titles(title: str, key: str) -> None:
    assert films.film_key(title) == key
