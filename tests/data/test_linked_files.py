"""Files of several parties become one dataset: rows matched by a key, features named by party, absent rows padded."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from silobench.data import Dataset, load
from silobench.data.readers.user_linked import linked
from silobench.errors import DataError

CITIES = ("Bern", "Oslo", "Rome")


def bank(rows: int = 40) -> pd.DataFrame:
    """Clients 0, 1, ... with the label `default`."""
    return pd.DataFrame(
        {
            "id": [*range(rows)],
            "age": [20.0 + 3 * i for i in range(rows)],
            "city": [CITIES[i % 3] for i in range(rows)],
            "default": ["yes" if i % 4 else "no" for i in range(rows)],
        }
    )


def shop(first: int = 10, last: int = 60) -> pd.DataFrame:
    """Clients of a shop, in another order than those of the bank."""
    ids = [*range(last - 1, first - 1, -1)]
    return pd.DataFrame({"id": ids, "spent": [5.0 * i for i in ids], "age": [i + 1.0 for i in ids]})


def save(folder: Path, **frames: pd.DataFrame) -> list[str]:
    paths = []
    for name, frame in frames.items():
        path = folder / f"{name}.{'parquet' if name == 'shop' else 'csv'}"
        frame.to_parquet(path) if name == "shop" else frame.to_csv(path, index=False)
        paths.append(str(path))
    return paths


def rows_of(data: Dataset, feature: str) -> np.ndarray:
    """A feature of all rows, training rows first."""
    place = data.columns.index(feature)
    return np.concatenate([data.train.x[:, place], data.test.x[:, place]])


def sources(data: Dataset) -> np.ndarray:
    return np.concatenate([data.train.groups["sources"], data.test.groups["sources"]])


def refused(action: Callable[[], Any], *parts: str) -> None:
    with pytest.raises(DataError) as error:
        action()
    message = str(error.value)
    assert all(part in message for part in parts), message
    assert message.endswith((".", "?"))
    assert "\n" not in message


# --- datasets ----------------------------------------------------------------------------------------


def test_rows_of_the_label_holder_are_matched_and_padded(tmp_path: Path) -> None:
    files = save(tmp_path, shop=shop(), bank=bank())
    data = linked(tuple(files), label="default", key="id")
    assert (data.name, len(data.train), len(data.test)) == ("bank+shop", 32, 8)
    assert data.owners == {
        "bank": ("bank.age", "bank.city=Bern", "bank.city=Oslo", "bank.city=Rome"),
        "shop": ("shop.spent", "shop.age"),
    }
    assert data.alignment == {
        "match": "exact", "rows": {"bank": 40, "shop": 50}, "matched": {"bank": 40, "shop": 30},
        "unmatched": {"bank": 10, "shop": 20}, "duplicates": {"bank": 0, "shop": 0}, "empty": {"bank": 0, "shop": 0},
        "likely_false": 0, "examples": [],
    }  # fmt: skip
    has_shop = sources(data) == "bank+shop"
    assert has_shop.sum() == 30
    spent, shop_age, age = (rows_of(data, name) for name in ("shop.spent", "shop.age", "bank.age"))
    assert (spent[~has_shop] == 0).all()
    for values in (spent, shop_age):  # both are linear in the client's number, as the bank's age is
        assert np.corrcoef(values[has_shop], age[has_shop])[0, 1] > 1 - 1e-6
    assert "rows matched by exact keys; rows without a counterpart: 10 of bank and 20 of shop" in data.notes
    assert data.checksum == linked(tuple(reversed(files)), label="default", key="id").checksum


def test_aligned_rows_are_those_of_all_parties(tmp_path: Path) -> None:
    gym = pd.DataFrame({"client": [f"{i}.0" for i in range(5, 25)], "visits": [*range(20)]})
    files = save(tmp_path, bank=bank(), shop=shop(), gym=gym)
    data = linked(tuple(files), label="default", key=("id", "id", "client"), rows="aligned")
    assert len(data.train) + len(data.test) == 15  # clients 10 to 24
    assert set(sources(data)) == {"bank+shop+gym"}
    assert data.alignment["matched"] == {"bank": 40, "shop": 30, "gym": 20}
    assert data.alignment["unmatched"] == {"bank": 5, "shop": 20, "gym": 0}


def test_a_group_named_sources_is_not_replaced(tmp_path: Path) -> None:
    files = save(tmp_path, bank=bank().rename(columns={"city": "sources"}), shop=shop())
    refused(lambda: linked(tuple(files), label="default", key="id", group="sources"), "'sources'", "rename the column")
    files = save(tmp_path, bank=bank().rename(columns={"city": "sources"}), shop=shop(0))  # every party has every row
    data = linked(tuple(files), label="default", key="id", group="sources")
    assert set(sources(data)) == set(CITIES)


def test_private_matches_give_the_same_dataset(tmp_path: Path) -> None:
    files = tuple(save(tmp_path, bank=bank(), shop=shop()))
    exact, private = (linked(files, label="default", key="id", match=how) for how in ("exact", "psi"))
    assert exact.checksum == private.checksum
    assert private.alignment["bytes"] == 32 * 2 * (40 + 50)
    assert private.alignment["seconds"] > 0
    assert any(note.startswith("rows matched by private set intersection; rows without") for note in private.notes)
    assert f"the private set intersection took {private.alignment['seconds']} s and sent 5,760 bytes" in private.notes


def test_messy_keys_are_matched_in_private(tmp_path: Path) -> None:
    names = [f"{CITIES[i % 3]} Client-{i}" for i in range(40)]
    left = bank().assign(id=names)
    right = shop(0, 40).assign(id=[name.upper().replace("-", " ") if i % 2 else name for i, name in enumerate(names)])
    files = tuple(save(tmp_path, bank=left, shop=right))
    ways = ("psi", "normalised", "psi-normalised")
    exact, normalised, private = (linked(files, label="default", key="id", match=how) for how in ways)
    assert [data.alignment["matched"]["shop"] for data in (exact, normalised, private)] == [20, 40, 40]
    assert private.checksum == normalised.checksum
    assert private.alignment["bytes"] == 32 * 2 * (40 + 40)
    note = "rows matched by private set intersection of normalised keys; every row has a counterpart"
    assert note in private.notes
    twice = tuple(save(tmp_path, bank=left, shop=right.assign(id=[name.upper() for name in names[:39]] + names[:1])))
    refused(lambda: linked(twice, label="default", key="id", match="psi-normalised"), "after they are normalised")


def test_titles_are_matched_by_words_and_year(tmp_path: Path) -> None:
    titles = ["Postino, Il", "Heat", "Misérables, Les", "Ring, The", "Alien"] * 4
    shown = [f"{title} ({1990 + i})" for i, title in enumerate(titles)]
    ratings = pd.DataFrame({"film": shown, "stars": [i % 5 + 0.5 for i in range(20)], "length": [*range(20)]})
    plain = ["il postino", "HEAT", "Les miserables", "the ring", "alien"] * 4
    facts = pd.DataFrame({"title": plain, "year": [1991 + i for i in range(20)], "votes": [*range(20)]})
    files = tuple(save(tmp_path, ratings=ratings, facts=facts))
    options: dict[str, Any] = {"label": "stars", "key": ("film", "title"), "task": "regression"}
    data = linked(files, match="normalised", year=("key", "year"), **options)
    assert data.alignment["matched"]["facts"] == 20
    np.testing.assert_allclose(rows_of(data, "facts.votes"), rows_of(data, "ratings.length"), rtol=1e-5, atol=1e-5)
    refused(
        lambda: linked(files, match="normalised", year=("key", "year"), tolerance=0, **options),
        "facts.csv has no row whose key is in", "'il postino'", "'Postino, Il (1990)'", "choose another match",
    )  # fmt: skip
    refused(lambda: linked(files, year=("key", "year"), **options), "a year with match=exact")


def test_likely_false_matches_are_noted(tmp_path: Path) -> None:
    names = [f"{CITIES[i % 3]} branch {i // 3 + 100}" for i in range(30)]
    left, right = bank(30).assign(id=names), shop(0, 30).assign(id=[name + "a" for name in names])
    right.loc[0, "id"] = "Bern branch 190"  # instead of Bern branch 100a
    data = linked(tuple(save(tmp_path, bank=left, shop=right)), label="default", key="id", match="fuzzy")
    assert (data.alignment["matched"]["shop"], data.alignment["likely_false"]) == (30, 1)
    pair = "'Bern branch 100' and 'Bern branch 190' (the numbers in them differ)"
    assert f"1 match is likely false: {pair}" in data.notes


def test_repeated_keys_on_request(tmp_path: Path) -> None:
    frame = bank()
    frame["id"] = frame["id"] // 2
    twice = pd.concat([shop(0, 15), shop(0, 10)])
    files = tuple(save(tmp_path, bank=frame, shop=twice))
    refused(lambda: linked(files, label="default", key="id"), "bank.csv has 20 keys in 'id' that several rows share")
    data = linked(files, label="default", key="id", duplicates="first")
    assert data.alignment["duplicates"] == {"bank": 20, "shop": 10}
    assert data.alignment["matched"] == {"bank": 40, "shop": 30}
    assert "rows that repeat the key of an earlier row: 20 of bank and 10 of shop" in data.notes


def test_files_in_the_same_order_need_no_key(tmp_path: Path) -> None:
    left, right = bank().drop(columns="id"), shop(0, 40).drop(columns="id")
    files = tuple(save(tmp_path, bank=left, shop=right))
    data = linked(files, label="default", match="order")
    assert "sources" not in data.train.groups
    assert np.corrcoef(rows_of(data, "shop.spent"), rows_of(data, "bank.age"))[0, 1] < -1 + 1e-6
    refused(
        lambda: linked(tuple(save(tmp_path, bank=bank(), shop=shop(0, 40))), label="default", key="id", match="order"),
        "bank and shop have different keys in 40 of 40 rows", "'0' and '39'", "sort the files",
    )  # fmt: skip


@settings(deadline=None, max_examples=15)
@given(st.lists(st.text(min_size=1, max_size=4), min_size=8, max_size=20, unique=True), st.data())
def test_parquet_keys_of_any_text(tmp_path_factory: pytest.TempPathFactory, texts: list[str], data: Any) -> None:
    """Letters around each text keep it from being a word for a missing cell, such as NA."""
    folder, files = tmp_path_factory.mktemp("keys"), []
    for name in ("bank", "shop"):
        order = data.draw(st.permutations(texts))
        frame = pd.DataFrame({"id": [f"k{text}k" for text in order], "x": [float(texts.index(text)) for text in order]})
        if name == "bank":
            frame["default"] = ["no" if row % 2 else "yes" for row in range(len(texts))]
        frame.to_parquet(folder / f"{name}.parquet")
        files.append(str(folder / f"{name}.parquet"))
    joined = linked(tuple(files), label="default", key="id", scale="none", test=0.5, duplicates="first", match="psi")
    if not sum(joined.alignment["duplicates"].values()):  # texts that are equal in NFC are one key
        np.testing.assert_array_equal(rows_of(joined, "bank.x"), rows_of(joined, "shop.x"))


def test_changed_files_are_read_again(tmp_path: Path) -> None:
    files = save(tmp_path, bank=bank(), shop=shop())
    spec = f"linked(files=[{', '.join(files)}], label=default, key=id)"
    before = load(spec)
    save(tmp_path, shop=shop(20, 60))
    assert load(spec).alignment["matched"]["shop"] == 20 != before.alignment["matched"]["shop"]


# --- wrong files -------------------------------------------------------------------------------------


def test_keys_of_other_types_are_refused(tmp_path: Path) -> None:
    texts = bank().assign(id=[f"c{i}" for i in range(40)])
    refused(
        lambda: linked(tuple(save(tmp_path, bank=texts, shop=shop())), label="default", key="id"),
        "shop.parquet has numbers as keys in 'id' ('59'), but", "bank.csv has texts in 'id' ('c0')",
    )  # fmt: skip
    codes = bank().assign(id=[f"{i:03}" for i in range(40)])
    refused(
        lambda: linked(tuple(save(tmp_path, bank=codes, shop=shop())), label="default", key="id"),
        "bank.csv has keys with zeros in front in 'id' ('000')", "numbers in 'id', which lost them",
    )  # fmt: skip
    large = shop().assign(id=[2**53 + i for i in range(50)])
    refused(
        lambda: linked(tuple(save(tmp_path, bank=bank(), shop=large)), label="default", key="id"),
        "numbers of 2^53 or more as keys",
    )


def test_files_without_keys_are_refused(tmp_path: Path) -> None:
    gym = pd.DataFrame({"id": [None] * 9, "visits": [*range(9)]})
    files = tuple(save(tmp_path, bank=bank(), gym=gym))
    for how in ("exact", "normalised", "fuzzy", "psi", "order"):
        refused(
            lambda how=how: linked(files, label="default", key="id", match=how),
            "gym.csv has no keys: all 9 cells of 'id' are empty, so fill in the column, or name another one as key.",
        )
    titles = bank().assign(id=[f"film {i}" for i in range(40)])
    files = tuple(save(tmp_path, bank=titles, gym=titles.drop(columns="default").assign(age=None)))
    refused(
        lambda: linked(files, label="default", key="id", match="normalised", year="age"),
        "gym.csv has no row with both a key and a year among its 40 rows (a key is such as 'film 0')", "year='age'",
    )  # fmt: skip


def test_empty_names_are_refused(tmp_path: Path) -> None:
    files = tuple(save(tmp_path, bank=bank(), shop=shop()))
    refused(lambda: linked(files, label="default", key=""), "an empty name as key: name a column, as in key=COLUMN.")
    refused(lambda: linked(files, label="default", key=("id", "")), "an empty name as key")
    refused(lambda: linked(files, label="", key="id"), "an empty name as label")
    refused(
        lambda: linked(files, label="default", key="id", match="normalised", year=("age", "")), "an empty name as year"
    )
    refused(lambda: linked((), label="default", key="id"), "linked has no file: one per party is needed")


@pytest.mark.parametrize("form", ["{}", "{}.0", "{},0"])
def test_keys_with_the_year_of_the_label_are_refused(tmp_path: Path, form: str) -> None:
    """pandas writes 1960.0 for 1960 in a column that had a missing value."""
    years = [1960 + i % 17 for i in range(40)]
    songs = pd.DataFrame({"id": [f"song {i} ({year})" for i, year in enumerate(years)], "length": [*range(40)]})
    files = tuple(save(tmp_path, bank=songs.assign(year=[form.format(year) for year in years]), shop=songs))
    refused(
        lambda: linked(files, label="year", key="id", task="regression"),
        "bank.csv has the label in its key: 100% of the keys", "such as 'song 0 (1960)' for '1960'",
    )  # fmt: skip


def test_advice_names_arguments_of_linked_only(tmp_path: Path) -> None:
    texts = [f"a text of several words with the number {i}" for i in range(40)]
    dates = [f"{i % 12 + 1:02}/{i * 7 % 12 + 1:02}/2020" for i in range(40)]
    files = tuple(save(tmp_path, bank=bank().assign(words=texts, day=dates), shop=shop()))
    refused(
        lambda: linked(files, label="default", key="id", drop="city"),
        "linked has 40 different texts in column 'bank.words'", "leave bank.words out with drop=[city, bank.words]",
        "write dates such as 2024-04-03 in bank.day, or drop the column",
    )  # fmt: skip
    path = tmp_path / "gym.csv"
    for encoding in ("latin-1", "utf-16"):
        path.write_text("id,town\n" + "".join(f"{i},Zürich\n" for i in range(40)), encoding=encoding)
        with pytest.raises(
            DataError, match=r"gym\.csv cannot be read as text in UTF-8, because .*[^,]: save it as UTF-8"
        ):
            linked((files[0], str(path)), label="default", key="id")


def test_zeros_in_front_are_named(tmp_path: Path) -> None:
    gym = pd.DataFrame({"id": [f"{i:05}" for i in range(40)], "visits": [*range(40)]})
    files = tuple(save(tmp_path, bank=bank(), gym=gym))
    for how in ("exact", "normalised"):
        refused(
            lambda how=how: linked(files, label="default", key="id", match=how),
            "such as '00000', and", "some keys differ only by zeros in front, so write them with the same number",
        )  # fmt: skip


def test_parties_without_matching_rows_are_refused(tmp_path: Path) -> None:
    files = tuple(save(tmp_path, bank=bank(), shop=shop(100, 120)))
    refused(lambda: linked(files, label="default", key="id"), "shop.parquet has no row whose key is in", "'119'", "'0'")
    gym = pd.DataFrame({"id": [*range(10)], "visits": [*range(10)]})
    files = tuple(save(tmp_path, bank=bank(), shop=shop(), gym=gym))
    refused(lambda: linked(files, label="default", key="id", rows="aligned"), "have no key that is in all of them")


def test_cells_are_named_by_their_file(tmp_path: Path) -> None:
    files = tuple(save(tmp_path, bank=bank(), gym=shop().assign(spent="inf")))
    refused(lambda: linked(files, label="default", key="id"), "gym.csv has 'inf' in column 'spent', line 2:")
    files = tuple(save(tmp_path, bank=bank().assign(default=""), shop=shop()))
    refused(
        lambda: linked(files, label="default", key="id"),
        "has 40 rows without a value in the label column 'default', the first in line 2: fill in",
    )
    files = tuple(save(tmp_path, bank=bank(), shop=shop()))
    refused(lambda: linked(files, label="default", key="id", drop="spend"), "no column 'spend' to drop: did you mean")
    refused(lambda: linked(files, label="default", key="id", drop=("spent", "shop.age")), "no columns for features")
    for name in ("id", "shop.id"):
        refused(
            lambda name=name: linked(files, label="default", key="id", drop=name),
            f"linked has '{name}' as key and as drop: a key is not a feature, so leave it out of drop.",
        )
    refused(lambda: linked(files, label="default", key="id", drop="default"), "a column has one role")
    assert linked(files, label="default", key="id", drop="age").owners["shop"] == ("shop.spent",)
