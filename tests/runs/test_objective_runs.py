"""Runs with an objective or a split of their own: ids, facts of run.json, notes, engines, and resuming."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from commands import call, rounds_on_disk, run_killed, write
from silobench.engines import inline
from silobench.errors import ConfigError
from silobench.runs.execute import execute
from silobench.runs.experiment import plan
from silobench.runs.label import Label
from silobench.runs.plan import bind
from silobench.runs.prepare import check, prepare
from silobench.runs.stored import read_json, run_paths

DIGITS = {"dataset": "digits", "model": "linear", "rounds": 2}


@pytest.fixture
def people(tmp_path: Path) -> Path:
    """A table with a number (age), two uneven classes (rich) and a city."""
    rng = np.random.default_rng(5)
    age = rng.integers(17, 91, 400)
    income = 2 * age + rng.normal(0, 8, 400)
    rows = zip(age, income, income > 170, rng.choice(["Oslo", "Rome"], 400), strict=True)
    lines = "".join(f"{years},{money:.2f},{'yes' if rich else 'no'},{city}\n" for years, money, rich, city in rows)
    return write(tmp_path / "people.csv", "age,income,rich,city\n" + lines)


def ages(people: Path, **more: Any) -> dict[str, Any]:
    choices = {"dataset": f"csv(path={people}, label=age, unit=years)", "model": "mlp(8)", "parties": 4, "rounds": 4}
    return {**choices, "solver": "sgd(lr=0.05, keep_momentum=True)", **more}


def run(choices: dict[str, Any], out: Path, engine: str = "inline") -> tuple[dict[str, Any], list[dict[str, Any]]]:
    (planned,) = plan(choices)
    for _ in execute(prepare(planned), out, engine):
        pass
    return read_json(out / planned.id)


# --- ids ----------------------------------------------------------------------------------------------


def test_ids_know_objective_and_split_only_if_they_are_chosen() -> None:
    plain = bind(DIGITS)
    assert {"objective", "split"} & {*plain.config, *plain.label} == set()
    assert bind({**DIGITS, "objective": "auto", "split": "given"}).id == plain.id
    several = bind({**DIGITS, "objective": "cross-entropy", "split": "10:1:1"})
    assert (several.config["objective"], several.label["objective"]) == (
        "cross-entropy(main=accuracy)",
        "cross-entropy",
    )
    assert several.config["split"] == "10:1:1"
    assert len({plain.id, several.id, bind({**DIGITS, "split": "10:1"}).id}) == 3
    assert bind({**DIGITS, "split": " 10 : 1"}).id == bind({**DIGITS, "split": "10:1"}).id
    label = Label(several.label)
    assert (label.objective.name, label.split) == ("cross-entropy", "10:1:1")
    assert (Label(plain.label).objective.name, Label(plain.label).split) == ("auto", "given")


def test_bad_choices_are_refused_before_the_first_round(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="two or three whole numbers"):
        bind({**DIGITS, "split": "ten"})
    for wrong, message in (
        ({"objective": "regression"}, "regression needs numbers as labels"),
        ({"objective": "binary"}, "digits has 10"),
        ({"split": "8:1:1", "validation": 0.1}, "leave out validation"),
    ):
        with pytest.raises(ConfigError, match=message):
            check([bind({**DIGITS, **wrong})], tmp_path, inline())


# --- runs ---------------------------------------------------------------------------------------------


def test_a_number_from_a_table(people: Path, tmp_path: Path) -> None:
    facts, rows = run(ages(people, partition="label-dirichlet(beta=0.5)", validation=0.1), tmp_path)
    objective = facts["objective"]
    assert (objective["name"], objective["main"], objective["reason"]) == (
        "regression",
        "mae",
        "the label age is numeric",
    )
    assert objective["metrics"][0]["unit"] == "years"
    assert rows[-1]["metrics"]["mae"] < objective["metrics"][0]["constant"]
    assert (rows[-1]["accuracy"], rows[-1]["class_accuracy"]) == (None, None)
    assert facts["partition"]["wasserstein"] > 0
    assert len(facts["partition"]["counts"][0]) == len(objective["target"]["bins"]) - 1
    assert "predicted as a number" in facts["dataset"]["notes"][0]
    assert facts["made_by"]["engine"] == "inline"


@pytest.mark.parametrize("choices", [{}, {"algorithm": "scaffold", "objective": "regression(loss=huber)"}])
def test_workers_do_not_change_a_number(people: Path, tmp_path: Path, choices: dict[str, Any]) -> None:
    digests = []
    for engine in ("inline", "pool(workers=2)", "auto"):
        facts, rows = run(ages(people, **choices), tmp_path / engine, engine)
        digests.append((facts["state_sha256"], [(row["metrics"], row["loss"]) for row in rows]))
    assert digests[0] == digests[1] == digests[2]


@pytest.mark.parametrize(
    "choices",
    [
        {"validation": 0.1},
        {"split": "8:1:1", "objective": "regression(main=r2)"},
        {
            "algorithm": "gaia",
            "solver": "sgd(lr=0.01)",
            "controller": "skewscout(period=2, sample=20, sigma_al=2.0)",
            "partition": "shards(per_party=1)",
        },
    ],
)
def test_an_interrupted_run_continues_bit_for_bit(people: Path, tmp_path: Path, choices: dict[str, Any]) -> None:
    (planned,) = plan(ages(people, rounds=6, **choices))
    records = execute(prepare(planned), tmp_path / "twice", "inline")
    for _ in range(3):
        next(records)
    records.close()
    results = [run(ages(people, rounds=6, **choices), tmp_path / out) for out in ("twice", "once")]
    (facts, rows), (expected, expected_rows) = results
    assert facts["state_sha256"] == expected["state_sha256"]
    for row, other in zip(rows, expected_rows, strict=True):
        assert {**row, "seconds": {}, "time": {}} == {**other, "seconds": {}, "time": {}}
    if "controller" in choices:
        decisions = [row["control"] for row in rows if "control" in row]
        assert decisions[0]["metric"] == "mae"
        assert "MAE loss" in decisions[0]["reason"]
        assert decisions[0]["accuracy_loss"] > 0


def test_two_uneven_classes(people: Path, tmp_path: Path) -> None:
    choices = {**ages(people), "dataset": f"csv(path={people}, label=rich, drop=income)"}
    plain = prepare(plan(choices)[0])
    assert sum("AUC" in note for note in plain.notes) == 1
    assert not any("AUC" in note for note in prepare(plan({**choices, "objective": "binary"})[0]).notes)
    assert not any("AUC" in note for note in prepare(bind(DIGITS)).notes)
    digests = []
    for objective in ("auto", "binary", "binary(positive=no)", "cross-entropy"):
        facts, rows = run({**choices, "objective": objective}, tmp_path, "auto")
        digests.append(facts["model_sha256"])
        assert ("metrics" in rows[-1]) == (objective != "auto")
    assert len(set(digests)) == 1


def test_trials_of_a_split_have_their_own_test_rows(tmp_path: Path) -> None:
    plans = plan({**DIGITS, "split": "10:1:1", "seed": [0, 1], "algorithm": ["fedavg", "fedprox"]})
    check(plans, tmp_path, inline())
    rows = {(each.cell.seed, each.cell.algorithm): prepare(each).dataset.test.x.tobytes() for each in plans}
    assert rows[0, "fedavg"] == rows[0, "fedprox"] != rows[1, "fedavg"]
    facts, records = run({**DIGITS, "split": "10:1:1"}, tmp_path)
    assert (facts["dataset"]["train"], facts["dataset"]["test"]) == (1648, 149)
    assert facts["dataset"]["checksum"] == plans[0].config["checksum"]
    assert records[-1]["validation"] > 0.5
    assert records[-1]["validation_loss"] > 0


# --- the command line ---------------------------------------------------------------------------------


def test_a_killed_command_resumes_a_number(people: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    choices = ages(people, rounds=24)
    file = write(tmp_path / "e.toml", "".join(f"{key} = {json.dumps(value)}\n" for key, value in choices.items()))
    out = tmp_path / "out"
    run_killed(out, 5, "run", file, "--out", out, "--engine", "inline")
    assert 5 <= rounds_on_disk(out) < 24
    result = call(capsys, "run", file, "--out", out, "--engine", "inline")
    assert result.code == 0, result.err
    (path,) = run_paths(out)
    assert read_json(path)[0]["state_sha256"] == run(choices, tmp_path / "once")[0]["state_sha256"]


def test_the_skew_of_a_number_is_shown(people: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spec = f"csv(path={people}, label=age)"
    shown = call(capsys, "partition", spec, "label-count(k=2)", "--parties", "5")
    assert "the target age is numeric: 10 quantile bins" in " ".join(shown.out.split())
    facts = json.loads(call(capsys, "partition", spec, "label-count(k=2)", "--parties", "5", "--json").out)
    assert facts["wasserstein"] > 0.3
    assert facts["emd_weighted"] > 1
    assert (len(facts["bins"]), facts["classes"]) == (11, [])
    assert "wasserstein" not in json.loads(call(capsys, "partition", "digits", "iid", "--json").out)


def test_objectives_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    shown = call(capsys, "list", "objectives", "--json")
    names = [row["name"] for row in json.loads(shown.out)]
    assert names == ["auto", "binary", "cross-entropy", "hinge", "regression", "verification"]
