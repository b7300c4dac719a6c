"""Labels of users' files, as classes or as numbers; their quantile bins; and splits of all rows by a ratio."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from silobench.data import DATASETS, Dataset, Split, load
from silobench.data.bins import as_codes, quantile_bins
from silobench.data.readers.targets import is_measurement
from silobench.data.splits import pooled_split, split_rule
from silobench.errors import ConfigError, DataError
from silobench.federation import federate


def table(path: Path, labels: list[object]) -> str:
    path.write_text("x,age\n" + "".join(f"{i % 7},{label}\n" for i, label in enumerate(labels)))
    return f"csv(path={path}, label=age"


@pytest.mark.parametrize(
    ("labels", "is_number"),
    [
        ([0, 1] * 30, False),
        ([f"{i % 5}.5" for i in range(60)], False),  # few values, as ratings are
        ([i % 20 + 3 for i in range(400)], False),
        ([i % 26 + 1 for i in range(400)], False),  # letters, numbered from 1
        ([i % 62 for i in range(6200)], False),
        ([17 + i % 74 for i in range(5000)], True),  # ages
        ([i % 60 if i % 60 != 30 else 31 for i in range(6000)], True),  # a gap: these do not number classes
        ([min(i, 29) for i in range(3000)], True),  # counts with a thin tail
        ([i / 8 for i in range(40)], True),
        ([0.1 * (i % 30) for i in range(3000)], True),
        ([i / 8 for i in range(10)], False),  # too few rows to tell
        ([f"n{i % 30}" for i in range(600)], False),
    ],
)
def test_what_a_label_is(tmp_path: Path, labels: list[object], is_number: bool) -> None:
    if len(labels) < 20:
        assert not is_measurement(np.array(labels, float))
        return
    data = load(table(tmp_path / "t.csv", labels) + ")")
    assert data.task == ("regression" if is_number else "classification")
    assert (data.classes == ()) == is_number
    assert any("predicted as a number" in note for note in data.notes) == is_number
    assert data.target == "age"


def test_ages_as_numbers_and_as_classes(tmp_path: Path) -> None:
    ages = [17 + i % 74 for i in range(2000)]
    spec = table(tmp_path / "people.csv", list(ages))
    auto, number, few = (
        load(spec + more) for more in (")", ", task=regression, unit=years)", ", task=classification)")
    )
    assert auto.notes[0] == (
        f"the label age has 74 different numbers, so it is predicted as a number (regression): csv(path="
        f"{tmp_path / 'people.csv'}, label=age, task=classification) makes them classes"
    )
    assert (number.unit, number.notes) == ("years", auto.notes[1:])
    assert sorted([*auto.train.y.tolist(), *auto.test.y.tolist()]) == sorted(ages)
    assert (auto.train.y.dtype, len(auto.test), len(few.classes)) == (np.float32, 400, 74)


def test_the_new_arguments_are_not_part_of_earlier_names() -> None:
    bound = DATASETS.bind("csv(path=a.csv, label=y)")
    assert "task" not in str(bound.full)
    assert "unit" not in str(bound.full)
    assert "task" not in str(DATASETS.bind("npz(path=a.npz)").full)
    assert "task" not in str(DATASETS.bind("libsvm(path=a.svm)").full)
    assert "task=regression" in str(DATASETS.bind("npz(path=a.npz, task=regression)").full)


def test_numbers_in_npz_and_libsvm(tmp_path: Path) -> None:
    x, y = np.random.default_rng(0).random((60, 3)), np.linspace(0, 1, 60)
    np.savez(tmp_path / "a.npz", x=x, y=y[:, None])
    data = load(f"npz(path={tmp_path / 'a.npz'})")
    assert (data.task, data.train.y.shape, data.notes[0][:20]) == ("regression", (48,), "the label y has 60 d")
    np.savez(tmp_path / "b.npz", x=x, y=y.round())
    assert load(f"npz(path={tmp_path / 'b.npz'})").classes == ("0.0", "1.0")
    assert load(f"npz(path={tmp_path / 'b.npz'}, task=regression)").task == "regression"
    (tmp_path / "a.svm").write_text("".join(f"{value:.4f} 1:{value:.3f} 3:1\n" for value in y))
    data = load(f"libsvm(path={tmp_path / 'a.svm'})")
    assert (data.task, sparse.issparse(data.train.x), len(data.test)) == ("regression", True, 12)


def test_numbers_that_are_all_equal_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="only the number 3 in the label age"):
        load(table(tmp_path / "t.csv", [3] * 30) + ", task=regression)")


# --- bins ---------------------------------------------------------------------------------------------


@given(st.lists(st.floats(-1e6, 1e6, width=32) | st.sampled_from([1.0, 2.0, 3.0]), min_size=1, max_size=200))
def test_every_bin_has_a_value_and_bins_are_in_order(values: list[float]) -> None:
    y = np.array(values, np.float32)
    bins = quantile_bins(y)
    codes = bins.codes(y)
    assert set(codes.tolist()) == set(range(len(bins)))
    assert len(bins) <= 10
    assert len(bins.names) == len(bins)
    order = np.argsort(y)
    assert (np.diff(codes[order]) >= 0).all()


def test_bins_of_different_values_are_equally_large() -> None:
    assert np.bincount(as_codes(np.random.default_rng(0).random(1000))).tolist() == [100] * 10
    labels = np.array([2, 0, 1])
    assert as_codes(labels) is labels


# --- splits -------------------------------------------------------------------------------------------


def rows_in(data: Dataset) -> list[tuple[float, ...]]:
    return sorted(map(tuple, np.concatenate([data.train.x, data.test.x]).reshape(-1, 64).tolist()))


def test_a_split_uses_every_row_once_in_the_ratio() -> None:
    given_split = load("digits")
    data = pooled_split(given_split, "10:1:1", seed=3)
    assert rows_in(data) == rows_in(given_split)
    assert (len(data.train), len(data.test), len(data.validation)) == (1648, 149, 150)  # 1,797 rows
    assert data.notes[-1].startswith("all 1797 rows were pooled and split 10:1:1 by the seed: 1498 training, 149 test")
    for rows in (data.test.y, data.train.y[data.validation]):  # stratified
        assert np.abs(np.bincount(rows, minlength=10) - 15).max() <= 2
    assert pooled_split(given_split, "given", 3) is given_split
    again, other = (pooled_split(given_split, "10:1:1", seed) for seed in (3, 4))
    assert again.checksum == data.checksum != other.checksum


def test_a_split_without_validation_rows_of_numbers_and_sparse_rows() -> None:
    rng = np.random.default_rng(0)
    x, y = sparse.random(90, 5, 0.5, "csr", dtype=np.float32, random_state=0), rng.random(90).astype(np.float32)
    town = np.arange(90) % 3
    whole = Split(x, y, {"town": town})
    data = Dataset("n", whole.take(np.arange(60)), whole.take(np.arange(60, 90)), (), "none", task="regression")
    cut = pooled_split(data, "4:1", 0)
    assert (len(cut.train), len(cut.test), len(cut.validation)) == (72, 18, 0)
    place = {value: row for row, value in enumerate(y.tolist())}
    for split in (cut.train, cut.test):
        rows = [place[value] for value in split.y.tolist()]
        assert (split.x != x[rows]).nnz == 0
        assert split.groups["town"].tolist() == town[rows].tolist()
    assert np.histogram(cut.test.y, [0, 0.5, 1])[0].min() >= 7  # stratified by bins


def test_parties_validate_on_their_rows_of_the_validation_part() -> None:
    data = pooled_split(load("digits"), "8:1:1", 0)
    federation = federate(data, "label-count(k=2)", 10)
    held = np.concatenate([party.validation.numpy() for party in federation.parties])
    assert sorted(held.tolist()) == data.validation.tolist()
    for party, rows in zip(federation.parties, federation.partition.rows, strict=True):
        assert sorted([*party.rows.tolist(), *party.validation.tolist()]) == rows.tolist()
    sharing = federate(data, "label-count(k=2) + share(beta=0.1)", 10)
    shared = set(sharing.partition.shared.tolist())
    assert not any(shared & set(party.validation.tolist()) for party in sharing.parties)
    with pytest.raises(ConfigError, match="both given: leave out validation"):
        federate(data, "iid", 10, validation=0.1)


def test_a_party_keeps_a_row_for_training() -> None:
    y = np.arange(4) % 2
    split = Split(np.eye(4, dtype=np.float32), y, {"town": np.array(["a", "a", "b", "b"])})
    data = Dataset("n", split, split, ("a", "b"), "none", validation=np.array([0, 1]))
    first, second = federate(data, "by-group").parties
    assert (first.rows.tolist(), first.validation.tolist()) == ([1], [0])
    assert (second.rows.tolist(), second.validation.tolist()) == ([2, 3], [])


def test_a_split_for_tuning_has_no_test_row() -> None:
    given_split = load("digits")
    for split, whole in (("tuning 4:1", given_split), ("10:1:1, tuning 4:1", pooled_split(given_split, "10:1:1", 3))):
        data = pooled_split(given_split, split, seed=3)
        assert rows_in(data) == sorted(map(tuple, whole.train.x.reshape(-1, 64).tolist()))  # training rows, each once
        assert abs(len(data.test) / len(whole.train) - 0.2) < 0.001
        counts = np.bincount(data.test.y, minlength=10) / np.bincount(whole.train.y, minlength=10)
        assert np.abs(counts - 0.2).max() < 0.02  # stratified: within two rows of about 140 of a class
        kept = {tuple(row) for row in whole.train.x[whole.validation].reshape(-1, 64).tolist()}
        assert all(tuple(row) in kept for row in data.train.x[data.validation].reshape(-1, 64).tolist())
        assert "test rows, which are not used" in data.notes[-1]
        again, other = (pooled_split(given_split, split, seed) for seed in (3, 4))
        assert again.checksum == data.checksum != other.checksum
    split = Split(np.eye(3, dtype=np.float32), np.arange(3) % 2)
    with pytest.raises(DataError, match="too few to be cut 100:1 for tuning"):
        pooled_split(Dataset("tiny", split, split, ("a", "b"), "none"), "tuning 100:1", 0)


@pytest.mark.parametrize("split", ["tuning", "tuning 4", "tuning 4:0", "tuning 8:1:1", "10:1, 4:1", "given, tuned 4:1"])
def test_bad_splits_for_tuning_are_refused(split: str) -> None:
    with pytest.raises(ConfigError, match='split = "tuning 4:1"'):
        split_rule(split)


@pytest.mark.parametrize("split", ["", "10", "10:0", "1:1:1:1", "a:b", "0.8:0.2", "-1:2"])
def test_bad_splits_are_refused(split: str) -> None:
    with pytest.raises(ConfigError, match="two or three whole numbers"):
        split_rule(split)


def test_splits_that_are_not_possible_are_refused() -> None:
    faces = load("synthetic-faces(identities=12, pictures=8, size=16, pairs=60)")
    with pytest.raises(ConfigError, match="its test rows are pairs"):
        pooled_split(faces, "10:1:1", 0)
    split = Split(np.eye(3, dtype=np.float32), np.arange(3) % 2)
    tiny = Dataset("tiny", split, split, ("a", "b"), "none")
    with pytest.raises(DataError, match="split 100:1 of 6 rows leaves no test rows"):
        pooled_split(tiny, "100:1", 0)
