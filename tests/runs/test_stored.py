"""Stored runs as typed values, with keys missing or unknown, and read without torch."""

import json
import shutil
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest

from silobench.errors import RecordError
from silobench.runs.execute import execute
from silobench.runs.experiment import plan
from silobench.runs.label import Label
from silobench.runs.prepare import prepare
from silobench.runs.stored import FinalFacts, RoundRow, RunFacts, StoredRun, facts_digest, read_run
from silobench.training.state import SLOWEST, RoundRecord

CHOICES = {
    "dataset": "breast-cancer", "partition": "shards(per_party=1) + share(beta=0.1, warmup=1)", "parties": 2,
    "rounds": 4, "eval_every": 2, "solver": "sgd(epochs=1)", "validation": 0.2,
}  # fmt: skip


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    (made,) = plan(CHOICES)
    out = tmp_path_factory.mktemp("runs")
    list(execute(prepare(made), out))
    return out / made.id


def test_facts_are_those_of_run_json(finished: Path) -> None:
    run, stored = read_run(finished), json.loads((finished / "run.json").read_text())
    facts = run.facts
    for name in ("id", "status", "created", "parameters", "model_sha256", "state_sha256"):
        assert getattr(facts, name) == stored[name], name
    assert dict(facts.environment) == stored["made_by"]
    assert dict(facts.config) == stored["config"]
    assert dict(facts.label) == stored["label"]
    for name in ("name", "task", "checksum", "train", "test", "licence"):
        assert getattr(facts.dataset, name) == stored["dataset"][name], name
    assert list(facts.dataset.classes) == stored["dataset"]["classes"]
    for name in ("fingerprint", "emd_weighted", "total_variation", "jensen_shannon", "gini", "feature_shift"):
        assert getattr(facts.partition, name) == stored["partition"][name], name
    for name in ("parties", "sizes", "emd"):
        assert list(getattr(facts.partition, name)) == stored["partition"][name], name
    assert [list(row) for row in facts.partition.counts] == stored["partition"]["counts"]
    assert facts.partition.shared is not None
    assert {f.name: getattr(facts.partition.shared, f.name) for f in fields(facts.partition.shared)} == stored[
        "partition"
    ]["shared"]
    assert facts.records is not None
    assert {f.name: getattr(facts.records, f.name) for f in fields(facts.records)} == stored["records"]


def test_rows_are_those_of_rounds_jsonl(finished: Path) -> None:
    run, lines = read_run(finished), (finished / "rounds.jsonl").read_text().splitlines()
    for row, line in zip(run.rounds, map(json.loads, lines), strict=True):
        final = line.pop("final", {})
        assert {name: getattr(row, name) for name in line} == line
        assert row.final == FinalFacts.from_json(final)
        assert bool(final) == (row.round == 4)
    assert {f.name for f in fields(RoundRow)} == {f.name for f in fields(RoundRecord)} - {"state"}
    assert [row.round for row in run.tested] == [2, 4]
    assert [row.tested for row in run.rounds] == [False, True, False, True]
    assert list(run.measured("warm-up")) == [1]
    assert run.rounds[0].bytes == run.rounds[0].bytes_up + run.rounds[0].bytes_down
    phases = {name: spent for name, spent in run.rounds[0].seconds.items() if name != SLOWEST}
    assert run.rounds[0].total_seconds == sum(phases.values())


def test_keys_of_older_runs_may_be_missing_and_newer_ones_are_ignored() -> None:
    row = RoundRow.from_json({"round": 1, "accuracy": 0.5, "colour": "green"})
    assert (row.workers, row.measures, row.control, row.knobs) == (1, {}, {}, {})
    choices = {"dataset": "digits", "seed": 1}
    facts = RunFacts.from_json(
        {
            "id": "0", "status": "running", "config": choices, "label": choices, "colour": "green",
            "dataset": {"name": "digits", "train": 6, "test": 2, "classes": ["a"]}, "partition": {"sizes": [6]},
        }
    )  # fmt: skip
    assert (facts.dataset.task, facts.partition.shared, facts.warnings, facts.records) == (
        "classification",
        None,
        (),
        None,
    )
    run = StoredRun(Path("runs/0"), facts, [row])
    assert (run.label, run.seed, run.complete) == (Label(choices), 1, False)


@pytest.mark.parametrize("key", ["dataset", "partition", "label", "made_by", "records"])
def test_a_description_that_lacks_a_part_is_refused_by_name(finished: Path, tmp_path: Path, key: str) -> None:
    copy = Path(shutil.copytree(finished, tmp_path / finished.name))
    facts = json.loads((copy / "run.json").read_text())
    for broken in ({k: v for k, v in facts.items() if k != key}, {**facts, key: 3}):
        (copy / "run.json").write_text(json.dumps(broken))
        with pytest.raises(RecordError, match=r"run\.json"):
            read_run(copy)
    if key in ("dataset", "partition", "records"):
        (copy / "run.json").write_text(json.dumps({**facts, key: {}}))
        with pytest.raises(RecordError, match=r"run\.json is damaged|no.* run description|was changed"):
            read_run(copy)


@pytest.mark.parametrize("value", ["12", None, 1.5, True, [1]])
@pytest.mark.parametrize("key", ["rounds", "bytes", "sha256"])
def test_a_seal_of_other_types_is_refused_by_name(finished: Path, tmp_path: Path, key: str, value: object) -> None:
    copy = Path(shutil.copytree(finished, tmp_path / finished.name))
    facts = json.loads((copy / "run.json").read_text())
    facts["records"][key] = value
    (copy / "run.json").write_text(json.dumps({**facts, "facts_sha256": facts_digest(facts)}))
    with pytest.raises(RecordError, match=r"run\.json is|rounds\.jsonl is damaged"):
        read_run(copy)


def test_reading_needs_no_torch(finished: Path, tmp_path: Path) -> None:
    records = execute(prepare(plan({**CHOICES, "seed": 1})[0]), tmp_path)
    next(records)
    records.close()
    (interrupted,) = tmp_path.iterdir()
    code = """
import sys
from pathlib import Path
from silobench.runs.stored import read_run
whole, part = (read_run(Path(path)) for path in sys.argv[1:])
print(len(whole.rounds), len(part.rounds), whole.label.algorithm.name, "torch" in sys.modules)
"""
    command = [sys.executable, "-c", code, str(finished), str(interrupted)]
    assert subprocess.run(command, check=True, capture_output=True, text=True).stdout == "4 1 fedavg False\n"
