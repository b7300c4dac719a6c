"""Where profiles come from: tables with odd columns, datasets with partitions, and files of one party."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import silobench as sb
from silobench.advice.components import components, regime
from silobench.advice.profile import combine
from silobench.advice.schema import MISSING, CategoryBins, NumberBins, Schema
from silobench.advice.sources import federation_rows, party_profile, table_rows, table_spec
from silobench.data.dataset import Dataset, Split
from silobench.errors import SilobenchError


def table(rows: int = 300, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "age": rng.normal(50, 10, rows).round(1),
            "sex": rng.choice(["f", "m"], rows),
            "outcome": rng.choice(["yes", "no"], rows),
            "ward": rng.choice(["a", "b", "c"], rows),
        }
    )


def written(frame: pd.DataFrame, folder: Path, name: str = "t.csv") -> Path:
    path = folder / name
    frame.to_parquet(path) if path.suffix == ".parquet" else frame.to_csv(path, index=False)
    return path


@pytest.mark.parametrize("name", ["t.csv", "t.parquet"])
def test_rows_by_hand(tmp_path: Path, name: str) -> None:
    frame = table()
    rows = table_rows(written(frame, tmp_path, name), "outcome", "ward")
    assert rows.parties == ("a", "b", "c")
    assert [bins.name for bins in rows.schema.features] == ["age", "sex"]
    profiles = combine(rows.profiles())
    expected = frame.groupby(["ward", "outcome"]).size().unstack()
    assert profiles.labels.tolist() == expected[["no", "yes"]].to_numpy().tolist()
    ages = profiles.features[0].sum((0, 1))
    assert ages.sum() == 300
    assert ages.min() > 40  # quantile bins are about equally large


def test_missing_cells_are_a_bin_of_their_own(tmp_path: Path) -> None:
    frame = table()
    frame.loc[:29, "age"] = np.nan
    frame.loc[:9, "sex"] = None
    rows = table_rows(written(frame, tmp_path), "outcome", "ward")
    age, sex = rows.schema.features
    assert isinstance(age, NumberBins)
    assert age.has_missing
    assert isinstance(sex, CategoryBins)
    assert MISSING in sex.categories
    assert combine(rows.profiles()).features[0][:, :, -1].sum() == 30


def test_missing_by_party_is_feature_skew(tmp_path: Path) -> None:
    frame = table(3000)
    frame.loc[frame["ward"] == "b", "age"] = frame["age"].where(np.arange(3000) % 2 == 0)
    rows = table_rows(written(frame, tmp_path), "outcome", "ward")
    assert regime(components(combine(rows.profiles()))) == "feature"


def test_identifiers_constants_and_free_texts_are_left_out(tmp_path: Path) -> None:
    frame = table()
    frame["patient id"] = range(300)
    frame["constant"] = 7
    rows = table_rows(written(frame, tmp_path), "outcome", "ward")
    assert [bins.name for bins in rows.schema.features] == ["age", "sex"]
    assert any("identifier" in note for note in rows.notes)


def test_a_numeric_label_has_bins(tmp_path: Path) -> None:
    frame = table()
    frame["outcome"] = np.random.default_rng(1).normal(size=300)
    rows = table_rows(written(frame, tmp_path), "outcome", "ward")
    assert len(rows.schema.label) == 10
    assert any("regression" in note for note in rows.notes)


def test_a_numeric_label_that_differs_between_parties_is_label_skew(tmp_path: Path) -> None:
    frame = table(2000)
    frame["outcome"] = np.random.default_rng(1).normal(size=2000) + frame["ward"].map({"a": -1, "b": 0, "c": 1})
    rows = table_rows(written(frame, tmp_path), "outcome", "ward")
    assert regime(components(combine(rows.profiles()))) == "label"


def test_dropped_columns_are_not_compared(tmp_path: Path) -> None:
    rows = table_rows(written(table(), tmp_path), "outcome", "ward", ("age",))
    assert [bins.name for bins in rows.schema.features] == ["sex"]


@pytest.mark.parametrize(
    ("label", "party"),
    [("outcom", "ward"), ("outcome", "wards"), ("outcome", "outcome")],
    ids=["label", "party", "both"],
)
def test_wrong_columns_are_refused(tmp_path: Path, label: str, party: str) -> None:
    with pytest.raises(SilobenchError):
        table_rows(written(table(), tmp_path), label, party)


def test_rows_without_a_party_are_refused(tmp_path: Path) -> None:
    frame = table()
    frame.loc[0, "ward"] = None
    with pytest.raises(SilobenchError, match="ward"):
        table_rows(written(frame, tmp_path), "outcome", "ward")


def test_a_party_with_one_row_does_not_stop_the_tests(tmp_path: Path) -> None:
    frame = table()
    frame.loc[0, "ward"] = "lonely"
    profiles = combine(table_rows(written(frame, tmp_path), "outcome", "ward").profiles())
    assert sorted(profiles.sizes.tolist())[0] == 1
    assert regime(components(profiles)) in ("none", "quantity")


# --- stated bins -------------------------------------------------------------------------------------


SCHEMA = Schema(
    CategoryBins("outcome", ("no", "yes")), (NumberBins("age", (40.0, 60.0)), CategoryBins("sex", ("f", "m")))
)


def test_files_of_parties_give_the_profiles_of_the_whole_table(tmp_path: Path) -> None:
    frame = table()
    whole = combine(table_rows(written(frame, tmp_path), "outcome", "ward", schema=SCHEMA).profiles())
    files = [written(part, tmp_path, f"{name}.csv") for name, part in frame.groupby("ward")]
    parts = combine([party_profile(path, path.stem, SCHEMA) for path in files])
    assert parts.labels.tolist() == whole.labels.tolist()
    assert all((one == other).all() for one, other in zip(parts.features, whole.features, strict=True))


def test_stated_bins_do_not_follow_from_the_rows(tmp_path: Path) -> None:
    """The bins of a file with other values are the same, so they reveal nothing."""
    frame = table()
    frame["age"] += 1000
    assert table_rows(written(frame, tmp_path), "outcome", "ward", schema=SCHEMA).schema == SCHEMA


# --- datasets ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("partition", "expected"),
    [
        ("iid", "none"),
        ("label-count(k=2)", "label"),
        ("noise(sigma=1)", "feature"),
        ("quantity-dirichlet(beta=0.5)", "quantity"),
    ],
)
def test_partitions_of_a_dataset(partition: str, expected: str) -> None:
    federation = sb.federate(sb.load("digits"), partition, parties=5, seed=1)
    assert regime(components(combine(federation_rows(federation).profiles()))) == expected


def test_wide_rows_are_summarised() -> None:
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, 600)
    images = rng.random((600, 1, 16, 16), dtype=np.float32) * 0.5 + labels[:, None, None, None] * np.float32(0.1)
    data = Dataset("wide", Split(images[:500], labels[:500]), Split(images[500:], labels[500:]), ("a", "b", "c"))
    rows = federation_rows(sb.federate(data, "noise(sigma=0.1)", parties=4))
    assert len(rows.schema.features) == 16
    assert regime(components(combine(rows.profiles()))) == "feature"
    assert regime(components(combine(federation_rows(sb.federate(data, "iid", parties=4)).profiles()))) == "none"


def test_the_spec_of_a_table() -> None:
    assert table_spec("my file.csv", "y", ("a", "b")) == "csv(path='my file.csv', label=y, drop=[a, b])"
    assert table_spec("t.parquet", "y") == "parquet(path=t.parquet, label=y)"
    named = table_spec("t.csv", "y", ("a",), "ward", ("from", "to"))
    assert named == "csv(path=t.csv, label=y, group=ward, drop=a, dates=[from, to])"
