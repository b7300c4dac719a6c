"""Matching of keys: exact, normalised, fuzzy, private and by order; and keys that contain the label."""

import random
import string

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from silobench.data.alignment.fuzzy import similar_pairs, similarity
from silobench.data.alignment.keys import text_key
from silobench.data.alignment.leaks import label_in_key
from silobench.data.alignment.matching import Entries, How, Keys, match
from silobench.errors import DataError

TEXTS = st.lists(st.sampled_from(["", "a", "A", "é", "e\u0301", "b c", "bc", "大神", "x", "y"]), max_size=10)


def keys(*texts: str, years: list[float] | None = None) -> Keys:
    return Keys("shop", texts, None if years is None else np.array(years))


def places(holder: Keys, other: Keys, how: How, **options: float) -> list[int]:
    return match(holder, other, how, **options).places.tolist()


# --- exact and private --------------------------------------------------------------------------------


@settings(deadline=None, max_examples=30)
@given(TEXTS, TEXTS)
def test_private_matches_are_the_exact_ones(first: list[str], second: list[str]) -> None:
    holder, other = keys(*first), keys(*second)
    result = match(holder, other, "psi")
    assert result.places.tolist() == places(holder, other, "exact")
    sent = 32 * 2 * (len(Entries.of(holder, "psi").first) + len(Entries.of(other, "psi").first))
    assert result.costs["bytes"] == sent
    for row, place in enumerate(result.places.tolist()):  # an oracle by Unicode's canonical equivalence
        same = [text.replace("e\u0301", "é") for text in second]
        text = first[row].replace("e\u0301", "é")
        assert place == (same.index(text) if text and text in same else -1)


def test_empty_and_repeated_keys() -> None:
    entries = Entries.of(keys("a", "", "b", "a", "a", "b", ""), "exact")
    assert (entries.repeated, entries.duplicates) == ([(0, 3), (2, 2)], 3)
    assert places(keys("", "a", "a"), keys("", "x", "a", "a"), "exact") == [-1, 2, 2]
    assert keys("", "a", "").empty == 2


def test_a_year_by_itself_is_not_a_key() -> None:
    films = keys("(1995)", "Heat (1995)", years=[1995.0, 1995.0])
    assert films.empty == 1
    assert places(films, films, "normalised") == [-1, 1]


@settings(deadline=None, max_examples=30)
@given(TEXTS, TEXTS)
def test_private_matches_of_normalised_keys(first: list[str], second: list[str]) -> None:
    holder, other = keys(*first), keys(*second)
    assert places(holder, other, "psi-normalised") == places(holder, other, "normalised")


def test_letters_that_consist_of_others_match_in_private() -> None:
    """Normalised Korean has single jamo, which NFC joins to syllables again."""
    holder, other = keys("Ann, A.", "기생충", "e\u0301mile"), keys("EMILE", "「기생충」", "ann a")
    assert places(holder, other, "psi-normalised") == places(holder, other, "normalised") == [2, 1, 0]
    assert places(holder, other, "psi") == [-1, -1, -1]


# --- normalised ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("Postino, Il", "il postino"),
        ("Misérables, Les", "LES MISERABLES"),
        ("Half-Life 2: Episode One", "half life 2 episode one"),
        ("Straße", "STRASSE"),
        ("ﬁre", "Fire"),
        ("Ωmega!", "ωmega"),
    ],
)
def test_normalised_keys_are_equal(first: str, second: str) -> None:
    assert text_key(first) == text_key(second)
    assert places(keys(first), keys("other", second), "normalised") == [1]


def test_normalised_keys_differ_where_the_words_do() -> None:
    names = ["大神", "カニ", "ガニ", "!!!", "???", "की", "का", "Rocky 2", "Rocky 3", "Ring (1998)", "Ring (2002)"]
    assert len({text_key(name) for name in names}) == len(names)


def test_years_may_differ_by_the_tolerance() -> None:
    holder = keys(
        "Heat (1995)", "Ring (1998)", "Ring (2002)", "Heat (1986)", "Alien", years=[1995, 1998, 2002, 1986, 0]
    )
    other = keys("heat", "The Ring", "ring", "ring", years=[1994, 1998, 2003, 1999])
    assert places(holder, other, "normalised") == [0, 3, 2, -1, -1]
    assert places(holder, other, "normalised", tolerance=0) == [-1, -1, -1, -1, -1]
    # The nearest year wins, and a row of the other owner belongs to one key only.
    assert places(keys("x", "x", years=[2000, 2001]), keys("x", years=[2001]), "normalised") == [-1, 0]
    assert places(keys("x", years=[np.nan]), keys("x", years=[np.nan]), "normalised") == [-1]


# --- fuzzy --------------------------------------------------------------------------------------------


def common_subsequence(first: str, second: str) -> int:
    """The length of the longest common subsequence by the textbook's table."""
    table = np.zeros((len(first) + 1, len(second) + 1), int)
    for i, a in enumerate(first):
        for j, b in enumerate(second):
            table[i + 1, j + 1] = table[i, j] + 1 if a == b else max(table[i, j + 1], table[i + 1, j])
    return int(table[-1, -1])


@settings(deadline=None, max_examples=60)
@given(st.text("abc ", max_size=9), st.text("abc ", max_size=9))
def test_the_similarity_is_that_of_the_longest_common_subsequence(first: str, second: str) -> None:
    total = len(first) + len(second)
    assert similarity(first, second) == (2 * common_subsequence(first, second) / total if total else 1)


def random_names(count: int, rng: random.Random) -> list[str]:
    words = ["".join(rng.choices(string.ascii_lowercase, k=rng.randint(3, 8))) for _ in range(60)]
    return list(dict.fromkeys(" ".join(rng.choices(words, k=3)) for _ in range(count)))


def test_candidates_miss_no_similar_pair() -> None:
    rng = random.Random(3)
    first = random_names(120, rng)
    second = [name[:place] + rng.choice("xyz") + name[place + 1 :] for name in first for place in [rng.randrange(8)]]
    pairs = {(pair.first, pair.second): pair.score for pair in similar_pairs(first, second, 0.85)}
    scores = {(i, j): similarity(a, b) for i, a in enumerate(first) for j, b in enumerate(second)}
    assert pairs == {pair: score for pair, score in scores.items() if score >= 0.85}
    assert len(pairs) >= len(first)


def test_fuzzy_matches_report_likely_false_ones() -> None:
    holder = keys("The Godfather", "Rocky 2", "Casablanca", "Metropolis", "Alien Resurrection", "Nothing like it")
    other = keys("Godfathre, The", "Rocky 3", "CASABLANCA", "Metropolys", "Alien Resurrektion", "Alien Resurection")
    result = match(holder, other, "fuzzy", threshold=0.85)
    assert result.places.tolist() == [0, 1, 2, 3, 5, -1]
    doubts = {example["key"]: example for example in result.examples}
    assert result.likely_false == len(doubts) == 2
    assert doubts["Rocky 2"]["reason"] == "the numbers in them differ"
    alien = doubts["Alien Resurrection"]
    assert (alien["match"], alien["next"], alien["reason"]) == (
        "Alien Resurection", "Alien Resurrektion", "another key is almost as similar",
    )  # fmt: skip
    assert similarity("metropolis", "metropolys") == 0.9
    assert match(holder, other, "fuzzy", threshold=0.89).examples[0]["reason"] == "just above the threshold"


def test_all_likely_false_matches_are_counted_and_20_shown() -> None:
    holder, other = (keys(*(f"report of station {i}{digit}" for i in range(10, 40))) for digit in "12")
    result = match(holder, other, "fuzzy", threshold=0.9)
    assert (result.likely_false, len(result.examples)) == (30, 20)
    assert sorted(result.places.tolist()) == list(range(30))  # no row is used twice


# --- by order -----------------------------------------------------------------------------------------


def test_rows_in_the_same_order() -> None:
    assert places(keys("b", "a"), keys("b", "a"), "order") == [0, 1]
    with pytest.raises(DataError, match="has 2 rows and shop 1"):
        match(Keys("bank", ["a", "b"]), keys("a"), "order")
    with pytest.raises(DataError, match=r"different keys in 2 of 3 rows, first in row 1 \(counted from 0: 'b' and 'c'"):
        match(Keys("bank", ["a", "b", "c"]), keys("a", "c", "b"), "order")


# --- labels in keys -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("texts", "labels", "is_leak"),
    [
        ([f"song{i} ({1960 + i})" for i in range(30)], [str(1960 + i) for i in range(30)], True),
        (
            [f"{i:05}-{'yes' if i % 2 else 'no'}" for i in range(30)],
            ["yes" if i % 2 else "no" for i in range(30)],
            True,
        ),
        ([f"1995-{i % 12 + 1:02}" for i in range(30)], [str(i % 12 + 1) for i in range(30)], True),
        ([f"{i}" for i in range(30)], [str(i) for i in range(30)], True),
        ([f"{i}" for i in range(30)], [str(i % 2) for i in range(30)], False),
        ([f"yes or no {i}" for i in range(30)], ["yes", "no"] * 15, False),
        ([f"song{i} ({1960 + i})" for i in range(30)], [str(1961 + i) for i in range(30)], False),
        ([f"0-{i + 100}" for i in range(30)], ["1"] + ["0"] * 29, False),  # every key has a 0
        (["1 a", "2 b"], ["1", "2"], False),  # too few rows to tell
    ],
)
def test_keys_that_contain_the_label(texts: list[str], labels: list[str], is_leak: bool) -> None:
    assert (label_in_key(texts, labels) is not None) == is_leak
