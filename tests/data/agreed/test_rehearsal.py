"""The dataset `silos`: the rows of all silos on one machine have the bits that each silo computes alone."""

import io
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from silo_files import SIZES, agreement, table, write_tables

import silobench as sb
from silobench.data.agreed import Columns, Summary, columns_of, joined, silo_dataset, summary_of
from silobench.errors import DataError, PartitionError


def rehearse(paths: list[str], columns: Columns, folder: Path) -> sb.Dataset:
    (folder / "columns.toml").write_text(columns.text(), encoding="utf-8")
    return sb.load(f"silos(files={[*paths]}, columns='{folder}/columns.toml')")


def assert_same_bits(dataset: sb.Dataset, paths: list[str], columns: Columns) -> None:
    """Compare each party with what its silo computes alone, from a joint summary that crossed as JSON."""
    import json

    sent = [json.dumps(summary_of(path, columns).as_json()) for path in paths]
    joint = joined([Summary.from_json(json.loads(text)) for text in sent])
    federation = sb.federate(dataset, "by-group(order=rows)")
    for party, path in enumerate(paths):
        silo = silo_dataset(path, columns, joint)
        rows, tests = federation.parties[party].rows.numpy(), federation.own_test_rows(party).numpy()
        assert federation.parties[party].name == Path(path).stem
        for side, part, places in ((dataset.train, silo.train, rows), (dataset.test, silo.test, tests)):
            assert side.x[places].tobytes() == part.x.tobytes()
            assert side.y[places].tobytes() == part.y.tobytes()


@pytest.mark.parametrize("label", ["outcome", "days"])
@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_each_party_has_the_bits_of_its_silo_in_the_order_of_files(tmp_path: Path, suffix: str, label: str) -> None:
    paths = write_tables(tmp_path, suffix)[::-1]
    columns = agreement(paths[1], label)
    dataset = rehearse(paths, columns, tmp_path)
    assert dataset.name == "west+south+north"
    assert len(dataset.train) + len(dataset.test) == sum(SIZES.values())
    assert_same_bits(dataset, paths, columns)


cells = st.one_of(st.none(), st.floats(-1e30, 1e30, allow_subnormal=False))
silo_tables = st.lists(
    st.lists(st.tuples(cells, st.sampled_from("pqr"), st.booleans()), min_size=26, max_size=40), min_size=1, max_size=4
)


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(silo_tables)
def test_any_tables_have_the_same_bits_at_silos_and_in_a_rehearsal(
    tmp_path: Path, parts: list[list[tuple[float | None, str, bool]]]
) -> None:
    paths = []
    for place, rows in enumerate(parts):
        frame = pd.DataFrame(rows, columns=["x", "code", "is_ill"])
        frame["is_ill"] = np.where(np.arange(len(rows)) < 6, np.arange(len(rows)) % 2 == 0, frame["is_ill"])
        frame.to_csv(tmp_path / f"s{9 - place}.csv", index=False)
        paths.append(str(tmp_path / f"s{9 - place}.csv"))
    text = (
        'version = 1\nkind = "table"\n[label]\nname = "is_ill"\ntask = "classification"\nclasses = ["False", "True"]\n'
        '[[column]]\nname = "x"\nkind = "number"\n[[column]]\nname = "code"\nkind = "category"\n'
        'categories = ["p", "q", "r"]\n'
    )
    columns = Columns.of_text(text)
    assert_same_bits(rehearse(paths, columns, tmp_path), paths, columns)


def test_missing_cells_and_constant_columns_are_scaled_as_in_one_table(tmp_path: Path) -> None:
    frames = [table(rows, seed).assign(constant=7.0) for rows, seed in ((60, 1), (80, 2))]
    paths = []
    for name, frame in zip("ab", frames, strict=True):
        frame.drop(columns=["notes", "days"]).to_csv(tmp_path / f"{name}.csv", index=False)
        paths.append(str(tmp_path / f"{name}.csv"))
    columns = columns_of(paths[0], "outcome", dates="admitted")
    dataset = rehearse(paths, columns, tmp_path)
    constant = dataset.columns.index("constant")
    assert not dataset.train.x[:, constant].any()
    age = dataset.train.x[:, dataset.columns.index("age")].astype(np.float64)
    # A missing cell is the mean, and counts as a row. Features are float32, so sums of them are off by as much.
    assert abs(age.mean()) < 1e-6
    assert abs(age.std() - 1) < 1e-6


def test_the_checksum_covers_every_file_and_the_agreement(tmp_path: Path) -> None:
    paths = write_tables(tmp_path)
    columns = agreement(paths[0])
    before = rehearse(paths, columns, tmp_path).checksum
    assert rehearse(paths[::-1], columns, tmp_path).checksum != before
    text = Path(paths[2]).read_text()
    Path(paths[2]).write_text(text.replace("skin", "lung"))
    changed = rehearse(paths, columns, tmp_path).checksum
    assert changed != before
    Path(paths[2]).write_text(text)
    (tmp_path / "columns.toml").write_text(columns.text().replace("test = 0.2", "test = 0.3"))
    spec = f"silos(files={paths}, columns='{tmp_path}/columns.toml')"
    assert sb.load(spec).checksum not in (before, changed)


def test_a_file_that_changes_is_read_again_also_inside_a_spec(tmp_path: Path) -> None:
    paths = write_tables(tmp_path)
    columns = agreement(paths[0])
    sources = [paths[0], f"csv(path='{paths[1]}', sep=comma)"]
    before = rehearse(sources, columns, tmp_path)
    spec = f"silos(files={sources}, columns='{tmp_path}/columns.toml')"
    assert sb.load(spec) is before
    table(100, seed=7).to_csv(paths[1], index=False)
    assert len(sb.load(spec).train) > len(before.train)


def test_the_default_partition_gives_each_silo_its_own_rows(tmp_path: Path) -> None:
    paths = write_tables(tmp_path)[::-1]
    dataset = rehearse(paths, agreement(paths[0]), tmp_path)
    federation = sb.federate(dataset, dataset.defaults["partition"])
    assert [party.name for party in federation.parties] == ["west", "south", "north"]
    assert [party.name for party in sb.federate(dataset, "by-group").parties] == ["north", "south", "west"]
    assert sum(len(federation.own_test_rows(party)) for party in range(3)) == len(dataset.test)
    two = sb.federate(dataset, "by-group(order=rows)", parties=2)
    assert sum(party.samples for party in two.parties) == len(dataset.train)
    with pytest.raises(PartitionError):
        sb.federate(dataset, "by-group(order=rows)", parties=4)


def test_a_stored_encoder_reads_new_rows_as_the_silos_did(tmp_path: Path) -> None:
    paths = write_tables(tmp_path)
    dataset = rehearse(paths, agreement(paths[0]), tmp_path)
    assert dataset.encoder is not None
    features = dataset.encoder.read(Path(paths[1]))
    rows = {row.tobytes() for row in features}
    south = dataset.train.x[dataset.train.groups["silo"] == "south"]
    assert {row.tobytes() for row in south} <= rows


def test_files_that_cannot_be_silos_are_refused(tmp_path: Path) -> None:
    paths = write_tables(tmp_path)
    columns = agreement(paths[0])
    (tmp_path / "copy").mkdir()
    twin = tmp_path / "copy" / "north.csv"
    twin.write_bytes(Path(paths[0]).read_bytes())
    with pytest.raises(DataError, match="which would both be the silo north: rename one"):
        rehearse([paths[0], str(twin)], columns, tmp_path)
    with pytest.raises(DataError, match="would both be the silo north"):
        rehearse([paths[0], paths[0]], columns, tmp_path)
    with pytest.raises(DataError, match="silos has no files"):
        rehearse([], columns, tmp_path)


def test_five_silos_are_counted_in_the_name(tmp_path: Path) -> None:
    buffer = io.StringIO()
    table(60, 0).to_csv(buffer, index=False)
    for number in range(5):
        (tmp_path / f"s{number}.csv").write_text(buffer.getvalue())
    paths = [str(tmp_path / f"s{number}.csv") for number in range(5)]
    assert rehearse(paths, agreement(paths[0]), tmp_path).name == "5 silos"
