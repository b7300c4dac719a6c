"""Studies from end to end: never on test rows, the same after a kill, and with any number of workers."""

import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from commands import call, run_killed, write
from silobench.data import DATASETS, load
from silobench.data.dataset import Dataset
from silobench.errors import ConfigError, RecordError
from silobench.runs.experiment import read_experiment
from silobench.runs.plan import Plan
from silobench.runs.stored import read_runs
from silobench.runs.sweep import sweep
from silobench.tuning.search import Search, definition_of, notes, open_study, tuned_choices
from silobench.tuning.study import Outcome, Study, Trial, final_score, read_outcome, read_study
from wrong_inputs.case import Answer, answered

TINY = """
dataset = "fcube"
partition = "octants"
solver = "sgd(epochs=1)"
rounds = 8

[tune]
"solver.lr" = "log(0.001, 1.0)"
"algorithm" = ["fedavg", "fedprox"]
"algorithm.mu" = "log(0.01, 1.0)"
"""
CHOICES = {"dataset": "fcube", "partition": "octants", "solver": "sgd(epochs=1)", "rounds": 8}
SPACE = {"solver.lr": "log(0.001, 1.0)", "solver.batch": [16, 64]}


def run(plans: Sequence[Plan], out: Path) -> None:
    for _ in sweep(plans, out):
        pass


def searched(out: Path, trials: int, space: Any = SPACE, choices: Any = CHOICES, **options: Any) -> Study:
    definition = definition_of(choices, space, **{"seeds": 1, **options})
    return Search(out, run).until(open_study(definition, out), trials)


# --- rows ---------------------------------------------------------------------------------------------


@pytest.fixture
def poisoned() -> str:
    """Return two datasets that differ only in their test rows: those of the second are not even numbers."""

    def without_test_rows(rows: bool = True) -> Dataset:
        data = load("fcube")
        test = data.test if rows else replace(data.test, x=np.full_like(data.test.x, 1e30), y=1 - data.test.y)
        return replace(data, name="fcube", test=test)

    DATASETS.register(without_test_rows)
    return "without-test-rows"


def test_trials_are_the_same_whatever_the_test_rows_are(poisoned: str, tmp_path: Path) -> None:
    """Test rows of 1e30 with swapped labels change no score, no suggestion and no round of a study."""
    studies = {}
    for name in ("true", "false"):
        out = tmp_path / name
        study = searched(out, 6, choices={**CHOICES, "dataset": f"{poisoned}(rows={name})"}, seeds=2)
        study = Search(out, run).repeat(study, 1)
        rounds = [
            {key: value for key, value in asdict(row).items() if key not in ("seconds", "time", "computing", "clock")}
            for result in read_outcome(study, out).trials
            for each in (*result.runs, *result.repeats)
            for row in each.rounds
        ]
        studies[name] = [trial.values for trial in study.trials], rounds
    assert studies["true"] == studies["false"]


def test_the_test_rows_are_used_only_to_confirm(poisoned: str, tmp_path: Path) -> None:
    """With swapped labels and features of 1e30, the score on test rows falls, and that on validation rows does not."""
    choices = {**CHOICES, "dataset": f"{poisoned}(rows=false)", "solver": "sgd(lr=0.3, epochs=1)"}
    study = searched(tmp_path, 1, choices=choices)
    study = Search(tmp_path, run).confirm(study, 2)
    outcome = read_outcome(study, tmp_path)
    assert outcome.default.score > 0.9
    assert max(map(final_score, outcome.confirm[0])) < 0.7


def test_validation_rows_are_a_stratified_part_of_the_training_rows(tmp_path: Path) -> None:
    study = searched(tmp_path, 1)
    (trial,) = read_runs(tmp_path / "trials")
    assert (trial.dataset.train, trial.dataset.test) == (3200, 800)  # of 4,000 training rows
    assert trial.label["split"] == "tuning 4:1"
    assert sum(trial.partition.sizes) == 3200
    study = Search(tmp_path, run).confirm(study, 1)
    for each in read_runs(tmp_path / "confirm"):
        assert (each.dataset.train, each.dataset.test) == (4000, 1000)
        assert "split" not in each.label


def test_a_split_by_the_seed_is_told_of() -> None:
    definition = definition_of({**CHOICES, "split": "4:1"}, SPACE)
    assert "test rows of one seed are training rows of another" in notes(definition)[0]
    assert not notes(definition_of(CHOICES, SPACE))


def test_the_privacy_of_many_trials_is_told_of() -> None:
    private = {**CHOICES, "solver": "dp-sgd(noise=1.0, clip=1.0, epochs=1)"}
    assert "spends more than that" in notes(definition_of(private, {"solver.lr": "log(0.01, 1.0)"}))[0]


@pytest.mark.parametrize("command", ["tune", "export"])
def test_the_commands_have_help(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    answer = call(capsys, command, "--help")
    assert answer.code == 0
    assert f"Usage: silobench {command}" in answer.out


# --- the same study ------------------------------------------------------------------------------------


def content(out: Path) -> dict[str, bytes]:
    """Return what must be the same in equal studies: the study, the tuned experiment, and the scores of its runs."""
    scores = {each.facts.id: [row.loss for row in each.rounds] for each in read_runs(out)}
    return {
        "study": (out / "study.json").read_bytes(), "tuned": (out / "tuned.toml").read_bytes(),
        "scores": json.dumps(scores, sort_keys=True).encode(),
    }  # fmt: skip


def command(file: Path, out: Path, workers: int = 1, *more: str) -> list[str | Path]:
    options = ["--trials", "6", "--batch", "2", "--seeds", "2", "--repeats", "1", "--confirm", "2", "--prune", *more]
    return ["tune", file, "--out", out, "--workers", str(workers), *options]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Answer]:
    """Return the directory of a study that one process made without a stop, and what its command printed."""
    folder = tmp_path_factory.mktemp("whole")
    file = write(folder / "tiny.toml", TINY)
    answer = answered([*map(str, command(file, folder / "study", 1, "--json"))])
    assert answer.code == 0, answer.err
    return folder / "study", answer


def test_a_study_that_was_killed_twice_is_the_study(
    whole: tuple[Path, Answer], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file, killed = write(tmp_path / "tiny.toml", TINY), tmp_path / "killed"
    for rounds in (20, 60):  # in the first and in the third batch
        run_killed(killed / "trials", rounds, *command(file, killed))
        assert not (killed / "tuned.toml").exists()
    assert 0 < len(read_study(killed).trials) <= 6
    assert call(capsys, *command(file, killed)).code == 0
    assert content(killed) == content(whole[0])
    (killed / "study.json").unlink()  # it follows from the runs
    assert call(capsys, *command(file, killed)).code == 0
    assert content(killed) == content(whole[0])


def test_workers_do_not_change_a_study(
    whole: tuple[Path, Answer], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = write(tmp_path / "tiny.toml", TINY)
    assert call(capsys, *command(file, tmp_path / "study", 2)).code == 0
    assert content(tmp_path / "study") == content(whole[0])


def test_more_trials_continue_a_study(tmp_path: Path) -> None:
    """A batch that was cut by the number of trials goes on as if it had not been."""
    searched(tmp_path / "a", 6, batch=4)
    longer = searched(tmp_path / "a", 11, batch=4)
    assert longer.trials == searched(tmp_path / "b", 11, batch=4).trials


def grid_command(file: Path, out: Path, *options: str) -> list[str | Path]:
    """Return a command that searches a grid with one seed per trial."""
    return ["tune", file, "--out", out, "--workers", "1", "--sampler", "grid", "--seeds", "1", *options]


def outcome_in(out: Path) -> Outcome:
    return read_outcome(read_study(out), out)


def by_score(outcome: Outcome) -> int:
    return max(outcome.trials, key=lambda result: result.score).trial.number


@pytest.fixture
def confirmed_early(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> tuple[Path, Path]:
    """Return the file and the directory of a study that was repeated and confirmed after two bad trials."""
    space = '"solver.lr" = [0.0001, 0.0002, 0.0003, 0.3]'
    file = write(
        tmp_path / "tiny.toml", f"{TINY.partition('[tune]')[0].replace('epochs=1', 'lr=0.0001')}[tune]\n{space}\n"
    )
    out = tmp_path / "study"
    answer = call(capsys, *grid_command(file, out, "--trials", "2", "--repeats", "1", "--confirm", "2"))
    assert "confirmed on test rows" in answer.out, answer.err
    return file, out


@pytest.mark.parametrize("repeats", ["0", "1"])
def test_earlier_repeats_and_test_runs_do_not_speak_for_later_trials(
    repeats: str, confirmed_early: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    file, out = confirmed_early
    earlier = outcome_in(out).best.trial.number
    answer = call(capsys, *grid_command(file, out, "--trials", "5", "--repeats", repeats, "--confirm", "0"))
    outcome = outcome_in(out)
    assert outcome.best.trial.number == by_score(outcome) != earlier
    assert read_experiment(out / "tuned.toml")["solver"] == "sgd(lr=0.3)"
    assert "confirmed on test rows" not in answer.out
    assert f"(trial {outcome.best.trial.number})" in answer.out


def test_a_study_that_goes_on_shows_nothing_stale(confirmed_early: tuple[Path, Path]) -> None:
    """A trial that was only suggested yet takes away what was concluded from fewer trials."""
    _, out = confirmed_early
    study = read_study(out)
    assert study.with_trial(study.trials[1]) == study
    assert study.confirm
    longer = study.with_trial(Trial(2, {"solver.lr": 0.3}, ("0123456789abcdef",)))
    assert (longer.repeats, longer.confirm) == ({}, None)
    other = replace(study, confirm=replace(study.confirm, trial=1 - study.confirm.trial))
    assert read_outcome(other, out).confirm == ([], [])


def test_seeds_of_repeats_are_never_called_fresh(
    confirmed_early: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    file, out = confirmed_early  # seed 0 searched, seed 1 repeated
    call(capsys, *grid_command(file, out, "--trials", "2", "--repeats", "0", "--confirm", "3"))
    assert [each.seed for each in outcome_in(out).confirm[0]] == [2, 3, 4]
    call(capsys, *grid_command(file, out, "--trials", "2", "--repeats", "1", "--confirm", "0"))  # the same repeats
    assert [each.seed for each in outcome_in(out).confirm[0]] == [2, 3, 4]
    call(capsys, *grid_command(file, out, "--trials", "2", "--repeats", "3", "--confirm", "0"))  # seeds 1 to 3
    assert outcome_in(out).confirm == ([], [])


def test_pruned_trials_stop_early_and_are_never_the_best(tmp_path: Path) -> None:
    study = searched(tmp_path, 12, {"solver.lr": "log(0.0001, 1.0)"}, prune=True, batch=4)
    outcome = read_outcome(study, tmp_path)
    pruned = [result for result in outcome.trials if result.state == "pruned"]
    assert pruned
    assert all([len(each.rounds) for each in result.runs] == [result.trial.pruned] for result in pruned)
    assert {result.trial.pruned for result in pruned} <= {2, 4}
    assert outcome.best.state == "finished"
    assert outcome.cost.rounds < 12 * 8
    assert min(result.trial.number for result in pruned) >= 4  # the first batch has nothing to be judged by


def test_a_grid_ends_when_it_is_empty(tmp_path: Path) -> None:
    study = searched(tmp_path, 50, {"solver.batch": [16, 32], "solver.lr": [0.01, 0.1]}, sampler="grid")
    assert [len(study.trials), study.trials[0].values] == [5, {"solver.batch": 64, "solver.lr": 0.01}]


def test_a_study_of_columns_and_one_of_numbers(tmp_path: Path) -> None:
    """Vertical runs, and a metric of which less is better."""
    vertical = {"dataset": "digits", "partition": "columns(by=block)", "parties": 2, "rounds": 2}
    study = searched(tmp_path / "v", 2, {"solver.lr": [0.001, 0.01]}, vertical)
    assert len(read_outcome(study, tmp_path / "v").finished) == 2
    lines = [f"{place % 7},{place % 5},{place % 7 + 2 * (place % 5)}" for place in range(100)]
    file = write(tmp_path / "rows.csv", "\n".join(["a,b,age", *lines]))
    numbers = {
        "dataset": f"csv(path={file}, label=age, task=regression)",
        "rounds": 3,
        "partition": "iid",
        "parties": 2,
    }
    outcome = read_outcome(searched(tmp_path / "n", 5, {"solver.lr": "log(0.0001, 0.1)"}, numbers), tmp_path / "n")
    assert not outcome.metric.higher_is_better
    assert outcome.best.score == min(result.score for result in outcome.finished)


# --- what a study says ---------------------------------------------------------------------------------


def test_the_tuned_file_runs_what_was_confirmed(whole: tuple[Path, Answer], capsys: pytest.CaptureFixture[str]) -> None:
    out, answer = whole
    facts, study = json.loads(answer.out), read_study(out)
    assert facts["file"] == str(out / "tuned.toml")
    assert [trial["number"] for trial in facts["trials"]] == list(range(6))
    assert facts["default"]["values"]["solver.lr"] == 0.01
    assert len(facts["confirm"]["tuned"]) == len(facts["confirm"]["default"]) == 2
    confirmed = read_outcome(study, out).confirm
    assert facts["confirm"]["default"] == [final_score(each) for each in confirmed[0]]
    assert facts["cost"]["rounds"] == sum(len(each.rounds) for each in read_runs(out / "trials"))
    assert facts["cost"]["bytes"] == sum(row.bytes for each in read_runs(out / "trials") for row in each.rounds)
    tuned = read_experiment(out / "tuned.toml")
    assert tuned == tuned_choices(study.definition.choices, facts["best"]["values"])
    seeds = facts["confirm"]["seeds"]
    again = call(
        capsys, "run", out / "tuned.toml", "--set", f"seed={seeds}", "--out", out / "confirm", "--workers", "1"
    )
    assert again.code == 0
    assert "already finished" in again.err or "[" not in again.err  # the same runs


def test_keys_of_ranges_need_no_quotation_marks(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    ranges = "[tune]\nalgorithm.fedprox.mu = [0.1]\nsolver.lr = [0.1]\nalgorithm.mu = [0.2]\n"
    text = TINY.partition("[tune]")[0].replace("rounds = 8", 'rounds = 1\nalgorithm = "fedprox"')
    file, out = write(tmp_path / "plain.toml", text + ranges), tmp_path / "study"
    answer = call(capsys, *grid_command(file, out, "--trials", "1", "--repeats", "0", "--confirm", "0"))
    assert answer.code == 0, answer.err
    assert set(read_study(out).definition.space) == {"algorithm.fedprox.mu", "solver.lr", "algorithm.mu"}


def test_an_experiment_with_a_table_of_ranges_still_runs(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = write(tmp_path / "tiny.toml", TINY.replace("rounds = 8", "rounds = 1"))
    assert call(capsys, "run", file, "--out", tmp_path / "runs", "--workers", "1").code == 0
    assert len(read_runs(tmp_path / "runs")) == 1


def test_another_study_in_the_same_place_is_refused(tmp_path: Path) -> None:
    searched(tmp_path, 1)
    with pytest.raises(RecordError, match="another search space"):
        searched(tmp_path, 1, {"solver.lr": [0.1]})
    with pytest.raises(RecordError, match="another sampler"):
        searched(tmp_path, 1, sampler="random")
    (tmp_path / "study.json").write_text("{", encoding="utf-8")
    with pytest.raises(RecordError, match="delete this file, and the same command builds it again"):
        searched(tmp_path, 1)


def test_what_cannot_be_tuned_is_refused() -> None:
    with pytest.raises(ConfigError, match="several values of algorithm: choose one with --set algorithm"):
        definition_of({**CHOICES, "algorithm": ["fedavg", "fedprox"]}, SPACE)
    with pytest.raises(ConfigError, match="there is no sampler 'cmaes'"):
        definition_of(CHOICES, SPACE, sampler="cmaes")
    with pytest.raises(ConfigError, match="write, for example, --validation 4:1"):
        definition_of(CHOICES, SPACE, validation="0.2")


def test_a_trial_that_cannot_run_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"trial 1 \(algorithm=nothing\) cannot run: there is no algorithm"):
        searched(tmp_path, 2, {"algorithm": ["nothing"]})


def test_a_definition_is_read_back(tmp_path: Path) -> None:
    definition = definition_of(CHOICES, SPACE, prune=True, seeds=2)
    Study(definition).write(tmp_path)
    assert read_study(tmp_path).definition == definition
