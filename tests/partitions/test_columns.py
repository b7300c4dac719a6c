"""Columns: every feature at one party, exact overlaps of rows, and one sentence per refusal."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from commands import call
from silobench.data import Dataset, Split, digits, load
from silobench.data.feature_names import column_of, columns_of, owners_of
from silobench.data.readers import adult as census
from silobench.data.readers import tables
from silobench.data.store import cache
from silobench.errors import HookError, PartitionError, SilobenchError, SpecError
from silobench.federation import federate
from silobench.partitions import PARTITIONS, Deal, Partition, Skew, deal_columns, deals_columns
from silobench.partitions.columns import _notes
from silobench.spec import parse

DIGITS = digits()
SOURCES = ("age", "sex", "soil_a", "soil_b", "income", "job")
FEATURES = (
    *("age<26", "26<=age<33", "age>=33", "sex=f", "sex=m", "soil_a", "soil_b"),
    *("income", "job=cook", "job=smith", "job=(missing)"),
)


def table(
    rows: int = 40, tests: int = 20, columns: tuple[str, ...] = FEATURES, sources: Any = None, **facts: Any
) -> Dataset:
    """Return rows of zeros with these features; `sources` are the owners that have the training and test rows."""
    splits = []
    for size, owners in ((rows, sources), (tests, sources)):
        groups = {"sources": np.resize(np.array(owners), size)} if owners is not None else {}
        splits.append(Split(np.zeros((size, len(columns)), np.float32), np.arange(size) % 2, groups))
    return Dataset("table", *splits, ("a", "b"), columns=columns, **facts)


def names_of(dataset: Dataset, deal: Deal) -> list[list[str]]:
    """Return the columns of the source table of each party."""
    columns = columns_of(dataset)
    return [list(dict.fromkeys(columns[feature] for feature in features)) for features in deal.columns]


def refusal(dataset: Dataset, spec: str, *fragments: str, parties: int | None = None) -> None:
    with pytest.raises(SilobenchError) as caught:
        deal_columns(dataset, spec, parties)
    message = str(caught.value)
    assert "\n" not in message
    assert [part for part in fragments if part not in message] == []


# --- laws of all deals -------------------------------------------------------------------------------


@st.composite
def tables_of_columns(draw: st.DrawFn) -> Dataset:
    """1 to 8 columns of numbers, categories or hashed words, in a dense or a sparse table."""
    kinds = draw(st.lists(st.integers(0, 4), min_size=1, max_size=8))
    features = []
    for place, width in enumerate(kinds):
        features += [f"c{place}"] if width == 0 else [f"c{place}={value}" for value in range(width)]
    data = table(draw(st.integers(4, 60)), draw(st.integers(4, 60)), tuple(features))
    if draw(st.booleans()):
        splits = {
            side: replace(getattr(data, side), x=sparse.csr_matrix(getattr(data, side).x)) for side in ("train", "test")
        }
        data = replace(data, **splits)
    return data


@settings(max_examples=60, deadline=None)
@given(
    data=tables_of_columns(), by=st.sampled_from(["block", "random"]), parties=st.none() | st.integers(1, 9),
    overlap=st.floats(0.05, 1), hybrid=st.booleans(), seed=st.integers(0, 2**32),
)  # fmt: skip
def test_every_feature_is_at_one_party_and_overlaps_are_exact(
    data: Dataset, by: str, parties: int | None, overlap: float, hybrid: bool, seed: int
) -> None:
    spec, count = f"columns(by={by}, overlap={overlap}, hybrid={hybrid})", len(set(map(column_of, data.columns)))
    try:
        deal = deal_columns(data, spec, parties, seed)
    except PartitionError:
        assert overlap < 1 or not 2 <= (parties or 2) <= count
        return
    assert len(deal) == (parties or 2) <= count
    assert sorted(np.concatenate(deal.columns).tolist()) == list(range(len(data.columns)))
    columns = names_of(data, deal)
    assert sum(map(len, columns)) == count  # no column at two parties
    assert max(map(len, columns)) - min(map(len, columns)) <= 1
    for rows in (deal.train, deal.test):
        size = rows.shape[1]
        shares = [size if party == deal.label and not hybrid else round(overlap * size) for party in range(len(deal))]
        assert rows.sum(1).tolist() == shares
    if by == "block":
        assert np.concatenate(deal.columns).tolist() == list(range(len(data.columns)))
    again = deal_columns(data, spec, parties, seed)
    assert again.fingerprint == deal.fingerprint
    np.testing.assert_array_equal(again.train, deal.train)


@settings(max_examples=30, deadline=None)
@given(party_of=st.lists(st.integers(0, 3), min_size=6, max_size=6), seed=st.integers(0, 99))
def test_lists_give_each_party_the_columns_that_they_name(party_of: list[int], seed: int) -> None:
    lists = [[name for name, party in zip(SOURCES, party_of, strict=True) if party == each] for each in range(4)]
    if not all(lists[:2]):
        return
    lists = [each for each in lists if each]
    spec = f"columns(by=[{', '.join('[' + ', '.join(each) + ']' for each in lists)}])"
    data = table()
    assert names_of(data, deal_columns(data, spec, seed=seed)) == lists
    assert str(parse(str(parse(spec)))) == str(parse(spec))


def test_another_seed_is_another_deal() -> None:
    for spec in ("columns(by=random)", "columns(by=block, overlap=0.5)"):
        assert len({deal_columns(DIGITS, spec, seed=seed).fingerprint for seed in range(20)}) == 20
    assert len({deal_columns(DIGITS, "columns(by=block)", seed=seed).fingerprint for seed in range(3)}) == 1


def test_the_fingerprint_changes_with_everything_but_names() -> None:
    deal = deal_columns(table(), "columns(by=[[age, sex], [*]], overlap=0.5)")
    moved = deal.train.copy()
    moved[1, [np.flatnonzero(moved[1])[0], np.flatnonzero(~moved[1])[0]]] ^= True
    others = [
        replace(deal, label=1),
        replace(deal, absent="embedding"),
        replace(deal, train=moved),
        replace(deal, test=~deal.test),
        replace(deal, train=np.hstack([deal.train, np.zeros((2, 1), bool)])),  # the same bytes after packing
        replace(deal, columns=(deal.columns[0][1:], deal.columns[1])),
        replace(deal, columns=deal.columns[::-1]),
    ]
    assert len({each.fingerprint for each in [deal, *others]}) == 8
    assert replace(deal, names=("x", "y"), notes=()).fingerprint == deal.fingerprint


# --- columns -----------------------------------------------------------------------------------------


def test_lists_name_columns_features_and_patterns() -> None:
    data = table()
    deal = deal_columns(data, "columns(by=[[soil*, income], ['job=cook'], [*]], names=[land, cook, rest], label=rest)")
    shown = [[FEATURES[feature] for feature in features] for features in deal.columns]
    assert shown[:2] == [["soil_a", "soil_b", "income"], ["job=cook"]]
    assert shown[2] == [*FEATURES[:5], "job=smith", "job=(missing)"]
    assert (deal.names, deal.label, deal.absent, deal.notes) == (("land", "cook", "rest"), 2, "zeros", ())
    assert PARTITIONS.factories["columns"](by=[["age", "sex"], ["*"]]).deal(data, 2, np.random.default_rng()).names  # type: ignore[misc]


def test_names_in_lists_may_be_numbers_or_begin_with_any_sign() -> None:
    data = table(columns=("$price", "#rooms", "3", "age"))
    deal = deal_columns(data, "columns(by=[[$price, age], ['#rooms', 3]])")
    assert names_of(data, deal) == [["$price", "age"], ["#rooms", "3"]]


def test_rows_that_an_overlap_takes_after_columns_were_scaled_are_reported() -> None:
    data = table(notes=("numeric columns standardised by the pooled training rows",))
    note = "columns were scaled before rows were drawn, also by training rows that overlap takes from their owner"
    assert note in deal_columns(data, "columns(by=block, overlap=0.5)").notes
    assert note not in deal_columns(data, "columns(by=block)").notes
    assert note not in deal_columns(table(), "columns(by=block, overlap=0.5)").notes


def test_columns_of_a_table_with_odd_names_stay_together(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a=b,a=c,y\n" + "\n".join(f"{i},{'uvw'[i % 3]},{i % 2}" for i in range(30)))
    data = load(f"csv(path='{tmp_path / 't.csv'}', label=y)")
    assert names_of(data, deal_columns(data, "columns(by=block)")) == [["a=b"], ["a=c"]]


def test_images_are_dealt_by_pixels_of_all_channels() -> None:
    deal = deal_columns(DIGITS, "columns(by=block)", parties=4)
    assert [features.tolist() for features in deal.columns] == [list(range(16 * i, 16 * i + 16)) for i in range(4)]
    split = Split(np.zeros((6, 3, 2, 2), np.float32), np.arange(6) % 2)
    colour = Dataset("colour", split, split, ("a", "b"))
    assert [f.tolist() for f in deal_columns(colour, "columns(by=block)").columns] == [
        [0, 1, 4, 5, 8, 9],
        [2, 3, 6, 7, 10, 11],
    ]


def test_owners_are_stated_or_prefixes() -> None:
    prefixed = table(columns=("ign.score", "ign.genre=a", "ign.genre=b", "steam.price"))
    assert owners_of(prefixed) == {"ign": prefixed.columns[:3], "steam": prefixed.columns[3:]}
    for columns in (("ign.score", "price"), ("ign.score", "ign.price"), ("1.5<=x<2.5", "x>=2.5"), ("a.", ".b")):
        assert owners_of(table(columns=columns)) == {}
    stated = table(owners={"work": FEATURES[7:], "person": FEATURES[:7]})
    deal = deal_columns(stated, "columns")
    assert (deal.names, deal.label) == (("work", "person"), 0)
    assert names_of(stated, deal) == [["income", "job"], ["age", "sex", "soil_a", "soil_b"]]


# --- rows --------------------------------------------------------------------------------------------


def test_a_party_has_the_rows_of_the_owners_of_its_columns() -> None:
    columns = ("a.x", "b.x", "c.x")
    data = table(80, 80, columns, ["a+b+c", "a+b", "a+c", "a"])
    deal = deal_columns(data, "columns")
    assert deal.train[:, :4].astype(int).tolist() == [[1, 1, 1, 1], [1, 1, 0, 0], [1, 0, 1, 0]]
    assert deal.notes == ("every party has 20 of 80 training rows and 20 of 80 test rows",)
    pair = deal_columns(data, "columns(by=[[a.x], [b.x, c.x]])")
    assert pair.train[:, :4].astype(int).tolist() == [[1, 1, 1, 1], [1, 1, 1, 0]]
    half = deal_columns(data, "columns(overlap=0.5)", seed=1)
    assert half.train.sum(1).tolist() == [80, 20, 20]  # half of the rows that they have
    assert not (half.train & ~deal.train).any()
    other = deal_columns(table(8, 8, columns, ["x", "y"]), "columns")
    assert other.train.all()  # a level of another meaning


def test_hybrid_rows_that_no_party_has_are_reported() -> None:
    deal = deal_columns(table(400, 400), "columns(by=block, overlap=0.5, hybrid=true)")
    nowhere = int((~deal.train.any(0)).sum()), int((~deal.test.any(0)).sum())
    assert all(60 < count < 140 for count in nowhere)  # 100 on average, with a deviation of 5
    assert deal.notes[1] == f"no party has {nowhere[0]} training rows and {nowhere[1]} test rows, which are not used"
    assert (deal.train.sum(1).tolist(), deal.test.sum(1).tolist()) == ([200, 200], [200, 200])


def test_rows_without_a_party_are_counted_where_every_party_has_rows() -> None:
    """One training row of three is nowhere, and one of two test rows is at one party only."""
    train, test = np.array([[1, 0, 0], [1, 1, 0]], bool), np.array([[1, 1], [1, 0]], bool)
    every = "every party has 1 of 3 training rows and 1 of 2 test rows"
    nowhere = "no party has 1 training rows and 0 test rows, which are not used"
    assert list(_notes(train, test, False)) == [every, nowhere]
    assert list(_notes(train[:, :2], test, False)) == [every.replace("1 of 3", "1 of 2")]
    assert list(_notes(train[:, :1], test[:, :1], False)) == []


# --- refusals ----------------------------------------------------------------------------------------

TEXTS = Dataset(
    "texts", *[Split(np.zeros((4, 3), np.int32), np.arange(4) % 2)] * 2, ("a", "b"), vocabulary=("", "?", "word")
)  # fmt: skip


@pytest.mark.parametrize(
    ("data", "spec", "parties", "fragment"),
    [
        (table(), "columns", None, "table does not state owners of its columns: write by=block, by=random or lists of"),
        (table(), "columns(by=[[age], [sex]])", None, "columns without a party (soil_a, soil_b, income and 1 more)"),
        (table(), "columns(by=[[age, sex], [sex, *]])", None, "column 'sex' is at the parties party-0 and party-1"),
        (table(), "columns(by=[[sex], ['sex=m', *]])", None, "column 'sex' is at the parties party-0 and party-1"),
        (table(), "columns(by=[[agee], [*]])", None, "table has no column 'agee': did you mean age?"),
        (table(), "columns(by=[[z*], [*]])", None, "table has no column 'z*': choose from age, income"),
        (table(), "columns(by=[[*], [*]])", None, "* (all other columns) is at the parties party-0 and party-1"),
        (table(), "columns(by=[[*], []])", None, "party party-1 has no columns: give it one, or leave its list out"),
        (table(), "columns(by=[[*]])", None, "needs at least 2 parties, but by has 1 list"),
        (table(), "columns(by=[[age], [*]])", 3, "deals columns to 2 parties, but parties = 3: leave parties out"),
        (table(), "columns(by=block)", 7, "parties = 7 does not fit table, whose number of columns is 6: take 2 to 6"),
        (table(), "columns(by=random)", 1, "take 2 to 6 parties"),
        (table(columns=("x",)), "columns(by=block)", None, "choose a table with more columns"),
        (table(columns=("x", "y")), "columns(by=block)", 3, "is 2: take 2 parties"),
        (table(), "columns(by=block, label=party-2)", None, "no party 'party-2' for the labels: did you mean party-1?"),
        (table(), "columns(by=block, names=[a])", None, "the 2 parties of columns need as many names, but names has 1"),
        (table(), "columns(by=block, names=[a, a])", None, "has the parties ['a', 'a']: give each party another"),
        (table(), "columns(by=block, overlap=0.01)", None, "party party-1 has none of the 40 training rows"),
        (table(90, 20), "columns(by=block, overlap=0.02)", None, "party party-1 has none of the 20 test rows"),
        (table(), "columns(by=block, overlap=0.1)", 6, "none of the 20 test rows is at every party (party-0 20, "),
        (table(sources=["a", "b"], columns=("a.x", "b.x")), "columns(absent=drop)", None, "(a 20 and b 20): take a"),
        (table(sources=["a"], columns=("a.x", "b.x")), "columns", None, "party b has none of the 40 training rows"),
        (table(owners={"a": FEATURES[:9], "b": FEATURES[8:]}), "columns", None, "'job' is at the parties a and b"),
        (table(owners={"a": FEATURES, "b": ()}), "columns", None, "party b has no columns"),
        (replace(table(), columns=("age", "sex")), "columns(by=block)", None, "2 names of columns for 11 features"),
        (DIGITS, "columns(by=[[a], [b]])", None, "digits has no names of columns: write by=block or by=random"),
        (TEXTS, "columns(by=block)", None, "texts has texts as rows, which have no columns to deal"),
        (table(), "columns + noise(sigma=1)", None, "columns cannot be part of a sum"),
        (table(), "iid + columns", None, "columns cannot be part of a sum"),
        (table(), "columns + share(beta=0)", None, "columns cannot be part of a sum"),
        (table(), "iid", None, "iid divides rows among parties, but columns are to be divided: use columns(...)"),
        (table(), "columns(by=ownr)", None, "by must be owner, block, random, or a list of columns per party such as"),
        (table(), "columns(by=[age, sex])", None, "but ['age', 'sex'] was given"),
        (table(), "columns(by=[])", None, "but [] was given"),
        (table(), "columns(by=block, label=[a, b])", None, "label must be text, but ['a', 'b'] was given"),
    ],
)  # fmt: skip
def test_a_deal_that_cannot_be_made_is_refused(data: Dataset, spec: str, parties: int | None, fragment: str) -> None:
    refusal(data, spec, fragment, parties=parties)


def test_a_federation_of_rows_refuses_columns() -> None:
    assert deals_columns("columns")
    assert not deals_columns("label-count(k=2) + noise(sigma=1)")
    with pytest.raises(PartitionError, match="columns divides columns among parties, but this federation divides rows"):
        federate(DIGITS, "columns(by=block)")


@pytest.mark.parametrize(
    ("change", "fragment"),
    [
        ({"names": ("a", "a")}, "has the parties ['a', 'a']"),
        ({"names": ("a", "")}, "has the parties ['a', '']: give every party a name that is not empty"),
        ({"names": ()}, "give every party a name"),
        ({"columns": (np.array([0]),)}, "columns of 1 parties for 2 names"),
        ({"columns": (np.array([0]), np.array([1, 0]))}, "column 0 is at the parties a and b"),
        ({"columns": (np.array([0]), np.zeros(0, np.int64))}, "party b has no columns"),
        ({"label": 2}, "party 2 has the labels, but there are the parties 0 to 1"),
        ({"train": np.ones((2, 4))}, "give booleans [parties, rows]"),
        ({"test": np.ones((3, 4), bool)}, "states the test rows of 2 parties"),
        ({"train": np.ones((1, 4), bool)}, "states the training rows of 2 parties"),
        ({"train": np.array([[True], [False]])}, "party b has none of the 1 training rows"),
    ],
)
def test_a_wrong_deal_is_refused(change: dict[str, Any], fragment: str) -> None:
    facts = {"names": ("a", "b"), "columns": (np.array([0]), np.array([1])), "train": np.ones((2, 4), bool)}
    with pytest.raises(PartitionError) as caught:
        Deal(**{**facts, "test": np.ones((2, 4), bool), **change})
    assert fragment in str(caught.value)


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget what a test registers."""
    monkeypatch.setattr(PARTITIONS, "factories", dict(PARTITIONS.factories))


@pytest.mark.parametrize(
    ("change", "fragment"),
    [
        (None, "returned None, but an sb.Deal(names, columns, train, test) is expected"),
        ({"columns": (np.array([0]), np.array([11]))}, "columns that are not numbers of features from 0 to 10"),
        ({"train": np.ones((2, 3), bool)}, "rows of another number than the 40 training and 20 test rows"),
    ],
)
@pytest.mark.usefixtures("registry")
def test_a_plugin_may_deal_columns_and_its_deal_is_checked(change: dict[str, Any] | None, fragment: str) -> None:
    wrong = False

    def cut(split: Split, parties: int, rng: np.random.Generator) -> Partition:
        raise PartitionError("unused")

    def deal(dataset: Dataset, parties: int | None, rng: np.random.Generator) -> Deal:
        whole = deal_columns(dataset, "columns(by=block)")
        return whole if not wrong else None if change is None else replace(whole, **change)  # type: ignore[return-value]

    @PARTITIONS.register
    def mine() -> Skew:
        return Skew(cut, deal=deal)

    assert deal_columns(table(), "mine").names == ("party-0", "party-1")
    wrong = True
    with pytest.raises(HookError) as caught:
        deal_columns(table(), "mine")
    assert fragment in str(caught.value)
    wrong = False
    with pytest.raises(HookError, match="columns of 2 parties, but 3 parties are expected"):
        deal_columns(table(), "mine", parties=3)


def test_arguments_are_checked_before_data() -> None:
    for argument in ("overlap=0", "overlap=1.1", "absent=mean", "hybrid=1", "names=a"):
        with pytest.raises(SpecError):
            PARTITIONS.bind(f"columns({argument})")


# --- owners of datasets, and the command line --------------------------------------------------------


def test_the_owners_of_published_tables() -> None:
    columns = [name for attribute in census.ATTRIBUTES for name in tables._census_columns(attribute)]
    assert [column_of(name) for name in columns] == [a.name for a in census.ATTRIBUTES for _ in range(a.width)]
    assert sorted(sum(census.OWNERS.values(), ())) == sorted(a.name for a in census.ATTRIBUTES)
    assert list(census.OWNERS) == ["work", "person"]  # income is the label, so work is first
    assert set(census.OWNERS["work"]) == {
        "workclass", "fnlwgt", "occupation", "capital-gain", "capital-loss", "hours-per-week",
    }  # fmt: skip
    assert {owner: len(names) for owner, names in tables._COVER_OWNERS.items()} == {
        "terrain": 10,
        "wilderness": 4,
        "soil": 40,
    }
    assert sum(tables._COVER_OWNERS.values(), ()) == tables._COVER_COLUMNS
    assert sorted(sum(tables._HEART_OWNERS.values(), ())) == sorted(tables._HEART_COLUMNS)


def test_the_cache_has_owners_and_alignment(tmp_path: Path) -> None:
    data = table(owners={"a": FEATURES[:4], "b": FEATURES[4:]}, alignment={"matched": [1, 2]})
    cache._write_cache(tmp_path / "made", data)
    cached = cache._read_cache(tmp_path / "made")
    assert cached is not None
    assert (cached.owners, cached.alignment) == (data.owners, data.alignment)


def test_the_command_shows_columns_and_rows(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    rows = "\n".join(f"{i},{'uv'[i % 2]},{i * i},{i % 2}" for i in range(40))
    (tmp_path / "t.csv").write_text(f"age,job,pay,y\n{rows}\n")
    spec = f"csv(path='{tmp_path / 't.csv'}', label=y)"
    command = "partition", spec, "columns(by=[[age, job], [pay]], names=[a, b], overlap=0.5)"
    shown = call(capsys, *command).out.splitlines()
    assert [line.split() for line in shown[2:4]] == [
        ["a", "yes", "3", "32", "8", "age", "and", "job"],
        ["b", "1", "16", "4", "pay"],
    ]
    assert "note: every party has 16 of 32 training rows and 4 of 8 test rows" in shown
    facts = json.loads(call(capsys, *command, "--json").out)
    assert (facts["names"], facts["label"], facts["absent"]) == (["a", "b"], "a", "zeros")
    assert (facts["columns"], facts["features"]) == ([["age", "job"], ["pay"]], [[0, 1, 2], [3]])
    assert (facts["train_rows"], facts["test_rows"]) == ([32, 16], [8, 4])
    assert (facts["train_aligned"], facts["test_aligned"]) == (16, 4)
    pixels = json.loads(call(capsys, "partition", "digits", "columns(by=block)", "--json").out)
    assert pixels["columns"] == [["0-31"], ["32-63"]]
