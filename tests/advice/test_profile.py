"""Profiles: what they count, what they hide, and which files are refused."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from silobench.advice import profile as module
from silobench.advice.profile import Profile, combine, count, count_codes, read_profile
from silobench.advice.schema import CategoryBins, NumberBins, Schema, stated_schema
from silobench.data.table.cells import RawColumn, raw_columns
from silobench.errors import ConfigError, DataError
from silobench.privacy.randomness import Randomness

SCHEMA = Schema(CategoryBins("y", ("a", "b")), (NumberBins("x", (0.0, 1.0)), CategoryBins("c", ("u", "v"))))


def columns(**values: Any) -> dict[str, RawColumn]:
    return raw_columns("test", values)


def example(party: str = "p") -> Profile:
    return count(party, columns(y=["a", "b", "b", "a"], x=[-5.0, 0.5, np.nan, 9.0], c=["u", "v", "other", "v"]), SCHEMA)


# --- counting ----------------------------------------------------------------------------------------


def test_counts_by_hand() -> None:
    profile = example()
    assert profile.labels.tolist() == [2, 2]
    assert profile.features[0].tolist() == [[1, 0, 1], [0, 1, 0]]  # the empty cell is not counted
    assert profile.features[1].tolist() == [[1, 1], [0, 1]]  # nor is an unknown category


def test_empty_cells_are_counted_where_the_schema_says_so() -> None:
    schema = Schema(
        CategoryBins("y", ("a", "b")), (NumberBins("x", (0.0,), True), CategoryBins("c", ("u", "(missing)")))
    )
    profile = count("p", columns(y=["a", "a"], x=[np.nan, 1.0], c=["u", ""]), schema)
    assert profile.features[0].tolist() == [[0, 1, 1], [0, 0, 0]]
    assert profile.features[1].tolist() == [[1, 1], [0, 0]]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"y": ["a", "z"], "x": [1.0, 2.0], "c": ["u", "u"]}, "the label 'z'"),
        ({"y": ["a", ""], "x": [1.0, 2.0], "c": ["u", "u"]}, "the label ''"),
        ({"y": ["a", "b"], "x": ["one", "2"], "c": ["u", "u"]}, "no finite numbers"),
        ({"y": ["a", "b"], "c": ["u", "u"]}, "no column x"),
    ],
)
def test_rows_that_the_schema_does_not_fit_are_refused(values: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        count("p", columns(**values), SCHEMA)


Rows = st.lists(st.tuples(st.integers(0, 1), st.integers(-1, 2), st.integers(-1, 1)), min_size=1, max_size=30)


def _counted(rows: list[tuple[int, int, int]]) -> Profile:
    table = np.array(rows, np.int64).reshape(-1, 3)
    return count_codes("p", table[:, 0], [table[:, 1], table[:, 2]], SCHEMA)


@settings(max_examples=60, deadline=None)
@given(Rows, st.tuples(st.integers(0, 1), st.integers(-1, 2), st.integers(-1, 1)))
def test_one_row_changes_each_histogram_by_at_most_one(
    rows: list[tuple[int, int, int]], row: tuple[int, int, int]
) -> None:
    """The sensitivity that the noise is for: 1 for labels, and 1 for each feature, in the l1 norm."""
    before, after = _counted(rows), _counted([*rows, row])
    assert np.abs(after.labels - before.labels).sum() == 1
    for one, other in zip(before.features, after.features, strict=True):
        assert np.abs(other - one).sum() <= 1


@settings(max_examples=40, deadline=None)
@given(st.floats(0.01, 50), st.integers(0, 40))
def test_the_parts_of_epsilon_sum_to_epsilon(epsilon: float, features: int) -> None:
    label, feature = module._scales(epsilon, features)
    spent = 1 / label + (features / feature if features else 0.0)
    assert spent <= epsilon * (1 + 1e-12)
    assert spent >= epsilon * (1 - 1e-3)  # scales are rounded up by at most a millionth


# --- privacy -----------------------------------------------------------------------------------------


def test_every_count_gets_fresh_noise_of_the_stated_scale(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[float, int]] = []

    def spy(randomness: Randomness, scale: float, size: int) -> Any:
        calls.append((scale, size))
        return np.arange(1, size + 1)

    monkeypatch.setattr(module, "geometric", spy)
    exact = example()
    private = exact.privatised(1.0, Randomness.seeded(0, "test"))
    scale = 2 / 0.75
    assert calls == [(4.0, 2), (pytest.approx(scale, abs=1e-6), 6), (pytest.approx(scale, abs=1e-6), 4)]
    assert (private.labels - exact.labels).tolist() == [1, 2]
    assert (private.features[0] - exact.features[0]).reshape(-1).tolist() == [1, 2, 3, 4, 5, 6]


def test_a_private_file_has_noisy_counts_and_public_facts_only(tmp_path: Path) -> None:
    """A spy looks for numbers of the rows: sums, sizes, minima and texts that are not in the schema."""
    rows = 137
    table = columns(y=["a"] * rows, x=np.full(rows, 0.123456789), c=["secret"] * rows)
    private = count("p", table, SCHEMA).privatised(0.05, Randomness.seeded(1, "test"))
    private.write(tmp_path / "p.json")
    text = (tmp_path / "p.json").read_text()
    facts = json.loads(text)
    assert set(facts) == {"format", "party", "epsilon", "noise", "schema", "labels", "features"}
    assert "0.1234" not in text
    assert "secret" not in text
    numbers = [*facts["labels"], *np.array(facts["features"][0]).reshape(-1), sum(facts["labels"])]
    assert rows not in numbers
    assert facts["schema"] == SCHEMA.as_json()


def test_private_counts_are_made_private_once() -> None:
    private = example().privatised(1.0, Randomness.seeded(0, "test"))
    with pytest.raises(ConfigError, match="noise already"):
        private.privatised(1.0, Randomness.seeded(0, "test"))


@pytest.mark.parametrize("epsilon", [0.0, -1.0, float("nan"), float("inf"), 1e-9])
def test_an_epsilon_that_means_nothing_is_refused(epsilon: float) -> None:
    with pytest.raises(ConfigError, match="epsilon"):
        example().privatised(epsilon, Randomness.seeded(0, "test"))


# --- files -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("epsilon", [None, 1.0])
def test_a_file_brings_the_profile_back(tmp_path: Path, epsilon: float | None) -> None:
    profile = example() if epsilon is None else example().privatised(epsilon, Randomness.seeded(0, "test"))
    profile.write(tmp_path / "p.json")
    again = read_profile(tmp_path / "p.json")
    assert again.as_json() == profile.as_json()


DAMAGES: dict[str, Any] = {
    "no counts": lambda facts: facts.pop("labels"),
    "fewer classes": lambda facts: facts.update(labels=[1]),
    "fractions": lambda facts: facts.update(labels=[0.5, 1.5]),
    "texts": lambda facts: facts.update(labels=["2", "2"]),
    "a huge count": lambda facts: facts.update(labels=[10**30, 1]),
    "negative exact counts": lambda facts: facts.update(labels=[-1, 3]),
    "no rows": lambda facts: facts.update(labels=[0, 0]),
    "more rows in a feature": lambda facts: facts["features"][1][0].__setitem__(0, 50),
    "a feature less": lambda facts: facts["features"].pop(),
    "another epsilon": lambda facts: facts.update(epsilon=1.0),
    "a negative epsilon": lambda facts: facts.update(epsilon=-1.0),
    "no schema": lambda facts: facts.pop("schema"),
    "another format": lambda facts: facts.update(format="other"),
    "bins of other cuts": lambda facts: facts["schema"]["features"][0].update(cuts=[1.0, 0.0]),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_damaged_profiles_are_refused(tmp_path: Path, damage: Any) -> None:
    facts = example().as_json()
    damage(facts)
    (tmp_path / "p.json").write_text(json.dumps(facts))
    with pytest.raises((DataError, ConfigError)):
        read_profile(tmp_path / "p.json")


@pytest.mark.parametrize("content", ["", "{", "[1]", "\x00", "[" * 100_000])
def test_files_that_are_no_profiles_are_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "p.json").write_text(content)
    with pytest.raises(DataError):
        read_profile(tmp_path / "p.json")


# --- joining -----------------------------------------------------------------------------------------


def test_profiles_of_other_bins_are_refused() -> None:
    other = Schema(SCHEMA.label, SCHEMA.features[:1])
    foreign = count("q", columns(y=["a", "b"], x=[1.0, 2.0]), other)
    with pytest.raises(DataError, match="different schemas"):
        combine([example("p"), foreign])


def test_one_party_and_one_party_twice_are_refused() -> None:
    with pytest.raises(DataError, match="one party"):
        combine([example()])
    with pytest.raises(DataError, match="several profiles of the party p"):
        combine([example(), example()])


def test_a_party_with_one_row_is_joined() -> None:
    single = count("q", columns(y=["a"], x=[1.0], c=["u"]), SCHEMA)
    assert combine([example(), single]).sizes.tolist() == [4.0, 1.0]


# --- schemas -----------------------------------------------------------------------------------------


def test_a_schema_file_brings_the_schema_back(tmp_path: Path) -> None:
    schema = stated_schema("y=yes,no", ["age=0:100", "sex=f,m"], 4)
    schema.write(tmp_path / "schema.json")
    assert Schema.read(tmp_path / "schema.json") == schema
    assert schema.digest != stated_schema("y=yes,no", ["age=0:90", "sex=f,m"], 4).digest


@pytest.mark.parametrize(
    "arguments",
    [
        ("y=yes", []),
        ("y", []),
        ("y=a,a", []),
        ("y=a,b", ["age=100:0"]),
        ("y=a,b", ["age="]),
        ("y=a,b", ["y=0:1"]),
        ("y=a,b", ["x=0:1", "x=0:2"]),
    ],
)
def test_statements_that_mean_nothing_are_refused(arguments: tuple[str, list[str]]) -> None:
    with pytest.raises(ConfigError):
        stated_schema(*arguments, 4)
