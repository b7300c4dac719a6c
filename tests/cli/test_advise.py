"""The command ``silobench advise``: pages, JSON, profiles of silos, the tree, and the experiment that it proposes."""

import json
import re
import tomllib
from pathlib import Path

import numpy as np
import pytest

from commands import call
from silobench.advice import next_step
from silobench.data import load
from silobench.runs.experiment import plan, read_experiment
from stored import stored

LABEL = "label-dirichlet(beta=0.1)"
BASE = ("--label", "outcome", "--party", "ward")
SCHEMA = ("--label", "outcome=no,yes", "--feature", "age=20:80", "--feature", "sex=f,m")


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """A table whose three wards have different shares of the label."""
    rng = np.random.default_rng(0)
    wards = np.arange(900) % 3
    outcome = np.where(rng.random(900) < np.array([0.1, 0.5, 0.9])[wards], "yes", "no")
    age = np.clip(rng.normal(50, 10, 900), 20, 80)
    sex = rng.choice(["f", "m"], 900)
    lines = [f"{a:.1f},{s},{o},w{w}" for a, s, o, w in zip(age, sex, outcome, wards, strict=True)]
    path = tmp_path / "wards.csv"
    path.write_text("\n".join(["age,sex,outcome,ward", *lines]) + "\n")
    return path


def _evidence(folder: Path) -> Path:
    """Write runs in which scaffold wins under label skew, and fedavg without a skew."""
    for dataset in ("mnist", "fmnist", "svhn"):
        for number, (partition, winner, emd) in enumerate([(LABEL, "scaffold", 1.0), ("iid", "fedavg", 0.0)] * 2):
            for algorithm in ("fedavg", "scaffold"):
                choices = {
                    "dataset": dataset,
                    "partition": partition,
                    "algorithm": algorithm,
                    "parties": 3 + number // 2,
                }
                facts = {"emd_weighted": emd}
                stored([0.8 if algorithm == winner else 0.7], partition_facts=facts, out=folder, **choices)
    return folder


def test_the_page_says_what_why_and_what_next(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    result = call(capsys, "advise", table, *BASE)
    assert result.code == 0, result.err
    titles = ("What was measured", "Which skew", "What to do", "How sure", "To be surer, run")
    assert [line for line in result.out.splitlines() if line in titles] == list(titles)
    assert "3 parties hold 900 rows" in result.out
    assert "Label skew" in result.out
    assert "Basis: " in result.out
    for choice in ("algorithm: ", "local epochs: ", "normalisation: ", "communication: "):
        assert choice in result.out
    prose = result.out.replace(str(table), "wards.csv").partition("To be surer, run")[
        0
    ]  # the file below is not wrapped
    assert max(map(len, prose.splitlines())) <= 110


def test_json_is_the_stable_interface(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    facts = json.loads(call(capsys, "advise", table, *BASE, "--json").out)
    assert {"regime", "measures", "recommendation", "basis"} <= set(facts)
    assert facts["regime"] == "label"
    assert facts["measures"]["sizes"] == [300, 300, 300]
    assert facts["measures"]["emd"] == pytest.approx(2 * 0.8 / 3, abs=0.1)
    assert [test["kind"] for test in facts["tests"]] == ["label", "feature", "quantity"]
    assert [test["present"] for test in facts["tests"]] == [True, False, False]
    assert set(facts["recommendation"]) >= {"algorithm", "local_epochs", "normalisation", "communication"}
    assert tomllib.loads(facts["next"]["toml"])["partition"] == "by-group"
    assert facts["private"] is None


def test_stored_runs_are_the_basis_where_they_can_be(
    table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    facts = json.loads(call(capsys, "advise", table, *BASE, "--evidence", _evidence(tmp_path / "runs"), "--json").out)
    assert facts["basis"] == "stored runs"
    assert facts["recommendation"]["algorithm"]["value"] == "scaffold"
    assert facts["settings"] == 12
    assert facts["validation"]["tree"] < facts["validation"]["constant"]


def test_a_dataset_with_a_partition(capsys: pytest.CaptureFixture[str]) -> None:
    result = call(capsys, "advise", "digits", "--partition", "label-count(k=2)", "--parties", "5", "--json")
    facts = json.loads(result.out)
    assert facts["regime"] == "label"
    partition = json.loads(call(capsys, "partition", "digits", "label-count(k=2)", "--parties", "5", "--json").out)
    assert facts["measures"]["emd"] == pytest.approx(partition["emd_weighted"])
    assert tomllib.loads(facts["next"]["toml"])["dataset"] == "digits"


def test_a_table_can_be_divided_by_a_partition(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    result = call(
        capsys, "advise", table, "--label", "outcome", "--drop", "ward", "--partition", "quantity-dirichlet(beta=0.2)",
        "--parties", "4", "--json",
    )  # fmt: skip
    facts = json.loads(result.out)
    assert facts["regime"] == "quantity"
    assert len(facts["parties"]) == 4


# --- profiles ----------------------------------------------------------------------------------------


def _silos(table: Path) -> list[Path]:
    header, *lines = table.read_text().splitlines()
    paths = []
    for ward in ("w0", "w1", "w2"):
        path = table.with_name(f"{ward}.csv")
        path.write_text("\n".join([header, *(line for line in lines if line.endswith(ward))]) + "\n")
        paths.append(path)
    return paths


def test_silos_profile_jointly(table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    schema = tmp_path / "schema.json"
    assert call(capsys, "advise", "schema", *SCHEMA, "--output", schema).code == 0
    profiles = []
    for silo in _silos(table):
        profiles.append(silo.with_suffix(".json"))
        result = call(capsys, "advise", "profile", silo, "--schema", schema, "--epsilon", "2", "--output", profiles[-1])
        assert result.code == 0, result.err
        assert "2-differentially private" in result.out
    facts = json.loads(call(capsys, "advise", "combine", *profiles, "--json").out)
    assert facts["regime"] == "label"
    assert facts["parties"] == ["w0", "w1", "w2"]
    assert facts["private"] == {"epsilon": [2.0, 2.0, 2.0]}
    assert "stand in" in facts["next"]["note"]
    page = call(capsys, "advise", "combine", *profiles).out
    assert "each party's profile is 2-differentially private" in page


def test_noise_is_not_repeated(table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    schema, silo = tmp_path / "schema.json", _silos(table)[0]
    call(capsys, "advise", "schema", *SCHEMA, "--output", schema)
    contents = []
    for name in ("one.json", "two.json"):
        call(capsys, "advise", "profile", silo, "--schema", schema, "--epsilon", "0.5", "--output", tmp_path / name)
        contents.append(json.loads((tmp_path / name).read_text())["features"])
    assert contents[0] != contents[1]


def test_exact_counts_are_written_only_if_that_is_said(
    table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    schema, silo, output = tmp_path / "schema.json", _silos(table)[0], tmp_path / "p.json"
    call(capsys, "advise", "schema", *SCHEMA, "--output", schema)
    assert call(capsys, "advise", "profile", silo, "--schema", schema, "--output", output).code == 2
    assert not output.exists()
    call(capsys, "advise", "profile", silo, "--schema", schema, "--exact", "--output", output)
    assert sum(json.loads(output.read_text())["labels"]) == 300


def test_private_advice_about_a_table(table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    schema = tmp_path / "schema.json"
    call(capsys, "advise", "schema", *SCHEMA, "--output", schema)
    facts = json.loads(call(capsys, "advise", table, *BASE, "--private", "50", "--schema", schema, "--json").out)
    assert facts["regime"] == "label"  # the noise is secret: with much of it, another answer is possible
    assert facts["private"]["epsilon"] == [50.0] * 3


# --- what is written ---------------------------------------------------------------------------------


def test_the_tree_is_printed_and_drawn(table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    printed = call(capsys, "advise", table, *BASE, "--evidence", _evidence(tmp_path / "runs"), "--tree", "-").out
    assert "The tree (stored runs)" in printed
    assert re.search(r"├─ .*: (fedavg|scaffold) \(6 settings, 0\.0 points below the best\)", printed)
    drawing = tmp_path / "tree.svg"
    assert "wrote" in call(capsys, "advise", table, *BASE, "--tree", drawing).out
    assert "<svg" in drawing.read_text()


def test_the_proposed_experiment_can_be_planned(
    table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "next.toml"
    call(capsys, "advise", table, *BASE, "--evidence", _evidence(tmp_path / "runs"), "--next", path)
    assert len(plan(read_experiment(path))) == 6


def test_an_experiment_of_the_user_is_never_replaced_by_the_proposed_one(
    table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "next.toml"
    command = ("advise", table, *BASE, "--evidence", _evidence(tmp_path / "runs"), "--next", path)
    assert [call(capsys, *command).code for _ in range(2)] == [0, 0]  # the same again is fine
    path.write_text("dataset = 'mine'\n")
    result = call(capsys, *command)
    assert result.code == 2
    assert "next.toml exists and is another experiment: move it away, or give another path." in result.err
    assert path.read_text() == "dataset = 'mine'\n"


def test_try_runs_the_experiment_and_resumes(
    table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(next_step, "ROUNDS", 1)
    monkeypatch.setattr(next_step, "TRIALS", 1)
    monkeypatch.setattr("silobench.cli.running.cores", lambda: 1)
    evidence = _evidence(tmp_path / "evidence")
    options = ("advise", table, *BASE, "--evidence", evidence, "--try", "--out", tmp_path / "runs")
    first = call(capsys, *options)
    assert first.code == 0, first.err
    assert re.search(r"The runs (do not )?contradict the advice", first.out)
    again = call(capsys, *options)
    assert "2 of 2 runs are already finished" in again.err
    assert again.out.split("To be surer")[1] == first.out.split("To be surer")[1]


def test_help_names_all_commands(capsys: pytest.CaptureFixture[str]) -> None:
    text = call(capsys, "advise", "--help").out
    for name in ("measure", "schema", "profile", "combine"):
        assert name in text


def test_the_proposed_experiment_does_not_learn_from_identifiers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rng = np.random.default_rng(3)
    lines = ["patient_id,age,outcome,hospital"]
    lines += [f"p{row:05d},{rng.normal():.4f},{'ab'[row % 2]},{'xyz'[row % 3]}" for row in range(600)]
    path = tmp_path / "patients.csv"
    path.write_text("\n".join(lines), encoding="utf-8")
    result = call(capsys, "advise", path, "--label", "outcome", "--party", "hospital")
    assert result.code == 0, result.err
    proposed = next(line for line in result.out.splitlines() if line.startswith("dataset = "))
    assert "drop=" in proposed
    assert "patient_id" in proposed


def test_the_proposed_experiment_reads_dates_as_the_advice_did(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    days = np.datetime64("2024-01-01") + np.arange(300)  # too few texts to be detected as dates in a dataset
    lines = ["age,admitted,outcome,ward"]
    lines += [f"{20 + row % 60},{day},{'ab'[row % 2]},w{row % 3}" for row, day in enumerate(days)]
    (tmp_path / "wards.csv").write_text("\n".join(lines), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    result = call(capsys, "advise", "wards.csv", "--label", "outcome", "--party", "ward", "--next", "next.toml")
    assert result.code == 0, result.err
    dataset = tomllib.loads(Path("next.toml").read_text(encoding="utf-8"))["dataset"]
    assert dataset == "csv(path=wards.csv, label=outcome, group=ward, dates=admitted)"
    assert load(dataset).shape == (1 + 3,)  # age; days, month and weekday
    import pandas

    pandas.read_csv("wards.csv").to_parquet("wards.parquet")
    result = call(capsys, "advise", "wards.parquet", "--label", "outcome", "--party", "ward", "--next", "same.toml")
    assert result.code == 0, result.err
    same = tomllib.loads(Path("same.toml").read_text(encoding="utf-8"))["dataset"]
    assert load(same).columns == load(dataset).columns
