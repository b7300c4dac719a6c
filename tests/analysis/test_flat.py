"""Flat tables: Parquet, CSV, event files, a tracking database and DataFrames have the numbers of the records."""

import csv
import json
import math
import sys
from collections.abc import Iterable
from pathlib import Path, PurePath
from typing import Any

import pandas as pd
import pyarrow.parquet as pq
import pytest

import silobench as sb
from commands import call
from silobench.analysis.flat import tables
from silobench.analysis.flat.columns import TABLES, columns_of
from silobench.analysis.flat.scalars import file_name
from silobench.analysis.flat.tables import Runs
from silobench.errors import ConfigError, RecordError
from silobench.runs.stored import StoredRun, read_runs
from stored import columns_of as columns_of_parties
from stored import regression, stored

PRIVACY = {"example": {"epsilon": 1.25, "delta": 1e-5, "noise": [1.0], "accountant": "rdp"}}
NAMES = ["Köln/Süd", "a=b", 'x,"y"\nz', "<script>"]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return runs of many kinds: two seeds, diverged, private, regression, vertical, odd names, with other phases."""
    out = tmp_path_factory.mktemp("flat")
    seconds = {"train": 0.1, "evaluate": 1 / 3, "slowest": 0.05}
    every = {"seconds": seconds, "knobs": {"theta": 0.2}, "steps": 7, "rows": 9}
    for seed in (0, 1):
        stored([0.1, None, 0.7 + seed / 10], seed, every=every, out=out)
    stored([0.2, 0.3], 0, [{}, {"loss": None, "accuracy": None}], algorithm="scaffold", out=out)
    private = [{"privacy": PRIVACY}, {"privacy": {"example": {**PRIVACY["example"], "epsilon": None}}}]
    stored([0.4, 0.5], 3, private, solver="dp-sgd(noise=1.0)", out=out)
    regression([3.5, None], 0, out=out)
    names = {"parties": NAMES, "emd": [0.1, 0.2, 0.3, 0.4]}
    final = {"final": {"parties": {name: {"rows": 5, "own": 0.25, "all": None} for name in NAMES}}}
    by_party = [{"party_accuracy": [0.5, None, 0.25, 1.0], "validation": 0.6}, final]
    stored([0.3, 0.9], 0, by_party, parties=4, partition="by-group(level='a/b=c')", partition_facts=names, out=out)
    owners = {"vertical": columns_of_parties("bank", "shop"), "partition_facts": {"parties": ["bank", "shop"]}}
    stored([0.8], 0, parties=2, partition="columns", out=out, **owners)
    return out


def lines_of(run: StoredRun) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run.path / "rounds.jsonl").read_text(encoding="utf-8").splitlines()]


def parquet(root: Path, folder: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, list[dict[str, Any]]]:
    assert call(capsys, "export", root, "--format", "parquet", "--output", folder).code == 0
    return {table: pq.read_table(folder / f"{table}.parquet").to_pylist() for table in TABLES}


def test_numbers_in_parquet_are_those_of_the_records(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    content = parquet(root, tmp_path, capsys)
    rounds = {(row["run"], row["round"]): row for row in content["rounds"]}
    runs = read_runs(root)
    assert len(content["runs"]) == len(runs)
    assert len(rounds) == sum(len(run.rounds) for run in runs)
    for run in runs:
        for line in lines_of(run):
            row = rounds[run.facts.id, line["round"]]
            for name in ("loss", "bytes_up", "bytes_down"):
                assert row[name] == line[name]
            assert row["clock_seconds"] == line["clock"]
            assert row["metric.accuracy"] == line["accuracy"]
            for phase, spent in line["seconds"].items():
                assert row[f"seconds.{phase}"] == spent
            for name, value in line.get("metrics", {}).items():
                assert row[f"metric.{name}"] == value
            assert row["score"] == line.get("metrics", {}).get(run.metric.name, line["accuracy"])


def test_kinds_of_runs(root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    content = parquet(root, tmp_path, capsys)
    keys = ("algorithm", "solver", "partition", "dataset", "seed")
    by = {tuple(row[key] for key in keys): row for row in content["runs"]}
    plain = by["fedavg", "sgd", "iid", "mnist", 1]
    assert (plain["score"], plain["rounds"], plain["kind"], plain["split"]) == (0.7 + 1 / 10, 3, "horizontal", "given")
    assert plain["seconds"] == pytest.approx(3 * (0.1 + 1 / 3))  # the slowest party is a part of training
    assert (plain["main_metric"], plain["unit"], plain["higher_is_better"]) == ("accuracy", "%", True)
    diverged = by["scaffold", "sgd", "iid", "mnist", 0]
    assert (diverged["score"], diverged["diverged"], diverged["best_score"]) == (0.2, False, 0.2)
    numbers = by["fedavg", "sgd", "iid", "people", 0]
    assert (numbers["score"], numbers["diverged"], numbers["class_count"]) == (None, True, None)
    assert (numbers["main_metric"], numbers["unit"], numbers["best_score"]) == ("mae", "years", 3.5)
    private = by["fedavg", "dp-sgd(noise=1.0)", "iid", "mnist", 3]
    assert (private["epsilon.example"], private["delta.example"]) == (math.inf, 1e-5)  # no protection in the end
    assert [row["epsilon.example"] for row in content["rounds"] if row["run"] == private["run"]] == [1.25, math.inf]
    vertical = by["fedavg", "sgd", "columns", "mnist", 0]
    assert (vertical["kind"], vertical["party_count"], vertical["gini"]) == ("vertical", 2, None)


def test_parties_by_name(root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    parties = parquet(root, tmp_path, capsys)["parties"]
    named = [row for row in parties if row["party"] in NAMES]
    assert [row["party"] for row in named] == NAMES * 2
    assert [row["validation_score"] for row in named[:4]] == [0.5, None, 0.25, 1.0]
    assert [row["score"] for row in named] == [None] * 4 + [0.25] * 4
    assert [(row["test_rows"], row["train_rows"], row["emd"]) for row in named[4:]] == [
        (5, 40, emd) for emd in (0.1, 0.2, 0.3, 0.4)
    ]
    shop = next(row for row in parties if row["party"] == "shop")
    assert (shop["columns"], shop["train_rows"], shop["test_rows"], shop["emd"]) == (4, 900, 90, None)


def test_csv_has_what_parquet_has(root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    content = parquet(root, tmp_path / "p", capsys)
    assert call(capsys, "export", root, "--format", "csv", "--output", tmp_path / "c").code == 0
    for table, rows in content.items():
        with (tmp_path / "c" / f"{table}.csv").open(encoding="utf-8", newline="") as file:
            lines = list(csv.DictReader(file))
        assert len(lines) == len(rows)
        for line, row in zip(lines, rows, strict=True):
            assert {name: _read(text, row[name]) for name, text in line.items()} == row


def _read(text: str, like: Any) -> Any:
    if text == "":
        return like if like == "" else None
    return {"true": True, "false": False}[text] if isinstance(like, bool) else type(like)(text)


def test_the_same_runs_give_the_same_bytes_and_columns_say_what_they_are(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for form in ("parquet", "csv", "tensorboard"):
        for folder in ("a", "b"):
            assert call(capsys, "export", root, "--format", form, "--output", tmp_path / folder / form).code == 0
    paths = [path for path in sorted((tmp_path / "a").rglob("*")) if path.is_file()]
    files = {path.relative_to(tmp_path / "a"): path.read_bytes() for path in paths}
    assert files == {path: (tmp_path / "b" / path).read_bytes() for path in files}
    schema = pq.read_schema(tmp_path / "a" / "parquet" / "rounds.parquet")
    assert schema.field("bytes_up").metadata[b"unit"] == b"bytes"
    assert all(field.metadata[b"about"] for field in schema)


def test_many_runs_are_streamed(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No more rows are held than a batch and one run."""
    monkeypatch.setattr(tables, "_ROWS_AT_ONCE", 3)
    runs = Runs(root)
    batches = [batch for _, batch in tables.batches_of(runs, {"rounds": columns_of("rounds", runs)})]
    assert len(batches) > 2
    assert max(map(len, batches)) <= 3 + max(len(run.rounds) for run in runs)
    assert sum(map(len, batches)) == sum(len(run.rounds) for run in runs)


@pytest.mark.parametrize("form", ["parquet", "csv", "tensorboard"])
def test_an_export_reads_each_run_twice(
    form: str, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Once for the number of runs, their columns and problems, and once for all tables."""
    read: list[Path] = []
    real = tables.read_run
    monkeypatch.setattr(tables, "read_run", lambda path: read.append(path) or real(path))
    assert call(capsys, "export", root, "--format", form, "--output", tmp_path).code == 0
    assert sorted(read) == sorted([run.path for run in read_runs(root)] * 2)


# --- trackers -----------------------------------------------------------------------------------------


def test_tensorboard_reads_its_event_files(root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from tensorboard.util import tensor_util

    assert call(capsys, "export", root, "--format", "tensorboard", "--output", tmp_path).code == 0
    runs = read_runs(root)
    assert len({path.name for path in tmp_path.iterdir()}) == len(runs)
    for run in runs:
        events = EventAccumulator(str(tmp_path / file_name(run)), size_guidance={"tensors": 0}).Reload()

        series = {
            tag: {event.step: tensor_util.make_ndarray(event.tensor_proto).item() for event in events.Tensors(tag)}
            for tag in ("round/loss", "round/bytes_up")
        }
        known = [line for line in lines_of(run) if line["loss"] is not None]
        assert series["round/loss"] == {line["round"]: line["loss"] for line in known}
        assert series["round/bytes_up"] == {line["round"]: line["bytes_up"] for line in lines_of(run)}
        text = tensor_util.make_ndarray(events.Tensors("choices")[0].tensor_proto).item().decode()
        assert f"| algorithm | `{run.config['algorithm']}` |" in text
        assert events.PluginTagToContent("hparams")


def test_mlflow_reads_its_database_and_nothing_is_there_twice(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for _ in range(2):
        assert call(capsys, "export", root, "--format", "mlflow", "--output", tmp_path).code == 0
    from mlflow.tracking import MlflowClient

    client = MlflowClient(tracking_uri=f"sqlite:///{tmp_path / 'mlflow.db'}")
    experiment = client.get_experiment_by_name(root.name)
    stored_runs = {each.data.tags["silobench.run"]: each for each in client.search_runs([experiment.experiment_id])}
    runs = read_runs(root)
    assert stored_runs.keys() == {run.facts.id for run in runs}
    assert len(client.search_runs([experiment.experiment_id])) == len(runs)
    for run in runs:
        found = stored_runs[run.facts.id]
        assert found.data.params["solver"] == run.config["solver"]
        assert found.info.status == "FINISHED"
        history = client.get_metric_history(found.info.run_id, "loss")
        assert {metric.step: metric.value for metric in history} == {
            line["round"]: line["loss"] for line in lines_of(run) if line["loss"] is not None
        }
        assert len(history) == len({metric.step for metric in history})


@pytest.mark.parametrize(
    ("form", "module", "extra"),
    [
        ("mlflow", "mlflow.tracking", "mlflow"),
        ("mlflow", "sqlalchemy", "mlflow"),
        ("tensorboard", "tensorboard.compat.proto.event_pb2", "tensorboard"),
    ],
)
def test_a_missing_package_is_named_with_its_command(
    form: str, module: str, extra: str, root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setitem(sys.modules, module, None)
    answer = call(capsys, "export", root, "--format", form, "--output", tmp_path)
    assert answer.code == 2
    assert f"pip install 'silobench[{extra}]'" in answer.err


# --- DataFrames ---------------------------------------------------------------------------------------


def test_means_of_a_frame_are_those_of_show(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    frame = sb.results(root, by="run")
    cells = json.loads(call(capsys, "show", root, "--json").out)["cells"]
    for cell in cells:
        runs = frame[frame["run"].isin([Path(path).name for path in cell["runs"]])]
        assert len(runs) == cell["trials"]
        mean, score = cell["metric"]["mean"], runs["score"]
        assert score.isna().any() if mean is None else float(score.mean()) == pytest.approx(mean, abs=1e-15)
        assert float(runs["bytes_up"].mean()) == cell["bytes_up"]
    two = frame[(frame["algorithm"] == "fedavg") & (frame["solver"] == "sgd") & (frame["partition"] == "iid")]
    assert float(two.loc[two["dataset"] == "mnist", "score"].mean()) == pytest.approx(0.75)


def test_types_of_a_frame(root: Path) -> None:
    frame = sb.results(root)
    kinds = {name: str(kind) for name, kind in frame.dtypes.items()}
    assert {kinds[name] for name in ("dataset", "algorithm", "party", "status", "engine")} == {"category"}
    assert {kinds[name] for name in ("round", "seed", "bytes_up")} == {"Int64"}
    assert (kinds["score"], kinds["tested"]) == ("Float64", "boolean")
    rounds, parties = frame[frame["party"].isna()], frame[frame["party"].notna()]
    assert len(rounds) == len(sb.results(root, by="round"))
    assert len(parties) == len(sb.results(root, by="party"))
    untested = rounds[~rounds["tested"].astype(bool)]
    assert len(untested)
    assert untested["metric.accuracy"].isna().all()
    assert not any(value is not pd.NA and isinstance(value, float) and math.isnan(value) for value in frame["score"])
    assert frame["algorithm"].notna().all()


def test_rows_of_a_round_come_before_those_of_its_parties(root: Path) -> None:
    frame = sb.results(root)
    for _, rows in frame.groupby("run", sort=False):
        assert rows.index.tolist() == list(range(rows.index[0], rows.index[0] + len(rows)))
        keys = [(int(one["round"]), -1 if pd.isna(one["number"]) else int(one["number"])) for _, one in rows.iterrows()]
        assert keys == sorted(keys)


def test_any_kind_of_path_is_a_directory_of_results(root: Path) -> None:
    for place in (str(root), PurePath(root)):
        assert sb.results(place, by="run").equals(sb.results(root, by="run"))  # type: ignore[arg-type]


def test_a_frame_of_another_kind_or_without_pandas_is_refused(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match="did you mean party"):
        sb.results(root, by="partys")  # type: ignore[arg-type]
    with pytest.raises(RecordError, match="there is no directory"):
        sb.results("nowhere")
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ConfigError, match="pip install pandas"):
        sb.results(root)


def test_an_archive_is_read_like_a_directory(root: Path, tmp_path: Path) -> None:
    from silobench.runs.archive import SUFFIX, pack, records_of

    file = tmp_path / f"all{SUFFIX}"
    pack(records_of(root), file)
    pd.testing.assert_frame_equal(
        sb.results(file, by="round").sort_values(["run", "round"], ignore_index=True),
        sb.results(root, by="round").sort_values(["run", "round"], ignore_index=True),
        check_categorical=False,
    )


# --- unfinished and damaged runs ----------------------------------------------------------------------


def _names(rows: Iterable[dict[str, Any]]) -> set[str]:
    return {row["run"] for row in rows}


def test_damaged_runs_are_left_out_and_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for seed in (0, 1):
        stored([0.1], seed, out=tmp_path / "runs")
    broken = read_runs(tmp_path / "runs")[0].path
    (broken / "rounds.jsonl").write_text("{}", encoding="utf-8")
    answer = call(capsys, "export", tmp_path / "runs", "--output", tmp_path / "out")
    assert answer.code == 2
    assert "1 of 2 runs is left out" in answer.err
    assert broken.name not in _names(pq.read_table(tmp_path / "out" / "runs.parquet").to_pylist())


def test_a_run_without_a_round_is_a_row_without_numbers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stored([0.1], 0, out=tmp_path / "runs")
    (run,) = read_runs(tmp_path / "runs")
    facts = json.loads((run.path / "run.json").read_text(encoding="utf-8"))
    (run.path / "run.json").write_text(json.dumps({**facts, "status": "running"}), encoding="utf-8")
    (run.path / "rounds.jsonl").unlink()
    for form in ("parquet", "csv", "tensorboard"):
        assert call(capsys, "export", tmp_path / "runs", "--format", form, "--output", tmp_path / form).code == 0
    (row,) = pq.read_table(tmp_path / "parquet" / "runs.parquet").to_pylist()
    assert (row["status"], row["score"], row["rounds"], row["diverged"]) == ("running", None, 0, None)
    assert len(sb.results(tmp_path / "runs")) == 0
