"""Check of submissions: an honest one is accepted; edits are refused, also where all digests were computed anew."""

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from commands import call, write
from silobench.errors import AbsentError
from silobench.models.module_file import _loaded
from silobench.runs import replay
from silobench.runs.archive import pack, records_of
from silobench.runs.replay import has_secret_noise, repeat
from silobench.runs.stored import facts_digest, read_run, read_runs, run_id
from silobench.runs.submission import check_records
from silobench.runs.verdict import Verdict, check_submission

EXPERIMENT = """
dataset = "fcube"
partition = "octants"
algorithm = ["fedavg", "fedprox(mu=0.5)"]
solver = "sgd(epochs=1)"
rounds = 3
trials = 2
"""


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a submission of four runs, as silobench wrote it."""
    from silobench.runs.execute import execute
    from silobench.runs.experiment import plan, read_experiment
    from silobench.runs.prepare import prepare

    folder = tmp_path_factory.mktemp("honest")
    for each in plan(read_experiment(write(folder / "tiny.toml", EXPERIMENT))):
        for _ in execute(prepare(each), folder / "runs"):
            pass
    return folder / "runs"


@pytest.fixture
def runs(honest: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(honest, tmp_path / "runs"))


def run_of(runs: Path, algorithm: str, seed: int = 0) -> Path:
    return next(run.path for run in read_runs(runs) if run.label.algorithm.name == algorithm and run.seed == seed)


def rows_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (path / "rounds.jsonl").read_text().splitlines()]


def forge(path: Path, facts: dict[str, Any], rows: list[dict[str, Any]]) -> Path:
    """Write a run anew with everything that a cheat can compute: the id, the seal and the digest of the facts."""
    lines = "".join(json.dumps(row) + "\n" for row in rows).encode()
    seal = {"rounds": len(rows), "bytes": len(lines), "sha256": hashlib.sha256(lines).hexdigest()}
    facts = {**facts, "id": run_id(facts["config"]), "records": seal}
    facts["facts_sha256"] = facts_digest(facts)
    shutil.rmtree(path)
    folder = path.with_name(facts["id"])
    folder.mkdir()
    (folder / "rounds.jsonl").write_bytes(lines)
    (folder / "run.json").write_text(json.dumps(facts, indent=1))
    return folder


def facts_of(path: Path) -> dict[str, Any]:
    facts: dict[str, Any] = json.loads((path / "run.json").read_text())
    return facts


def check_all(runs: Path) -> Verdict:
    return check_submission(runs, count=None)


def test_an_honest_submission_is_accepted(honest: Path) -> None:
    verdict = check_all(honest)
    assert (verdict.problems, verdict.escape) == ([], 0.0)
    assert [one.way for one in verdict.repetitions] == ["bits"] * 4
    assert all(one.is_whole for one in verdict.repetitions)


# --- edits with an editor -----------------------------------------------------------------------------


def edit_row(runs: Path, number: int, **values: object) -> None:
    path = run_of(runs, "fedavg")
    rows = rows_of(path)
    rows[number - 1] |= values
    (path / "rounds.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def drop_row(runs: Path) -> None:
    path = run_of(runs, "fedavg")
    lines = (path / "rounds.jsonl").read_text().splitlines(keepends=True)
    (path / "rounds.jsonl").write_text("".join(lines[:1] + lines[2:]))


def edit_config(runs: Path, name: str, value: object) -> None:
    path = run_of(runs, "fedavg")
    facts = facts_of(path)
    facts["config"][name] = facts["label"][name] = value
    (path / "run.json").write_text(json.dumps(facts, indent=1))


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        (lambda runs: edit_row(runs, 3, accuracy=0.99), "rounds.jsonl is damaged"),
        (drop_row, "rounds.jsonl is damaged"),
        (lambda runs: edit_config(runs, "algorithm", "fednova"), "run.json was changed"),
        (lambda runs: edit_config(runs, "seed", 7), "run.json was changed"),
    ],
    ids=["metric", "round", "configuration", "seed"],
)
def test_an_edit_is_refused_by_the_digests(runs: Path, edit: Callable[[Path], None], words: str) -> None:
    edit(runs)
    verdict = check_all(runs)
    assert words in verdict.problems[0]
    assert verdict.repetitions == []  # nothing is trained
    assert "none was repeated" in verdict.not_verified()[-1]


# --- edits with all digests computed anew -------------------------------------------------------------


@pytest.mark.parametrize("number", [1, 2, 3])
def test_an_edited_metric_is_refused_in_any_round(runs: Path, number: int) -> None:
    path = run_of(runs, "fedavg")
    rows = rows_of(path)
    rows[number - 1]["accuracy"] += 0.001
    forge(path, facts_of(path), rows)
    assert check_records(runs).problems == []  # the digests do not tell
    (problem,) = check_all(runs).problems
    assert f"round {number}: accuracy is " in problem


def test_a_missing_round_is_refused(runs: Path) -> None:
    path = run_of(runs, "fedavg")
    rows = rows_of(path)
    forged = forge(path, facts_of(path), [rows[0], rows[2]])
    assert any("rounds do not follow each other" in problem for problem in check_all(runs).problems)
    renumbered = [rows[0], {**rows[2], "round": 2}]
    forged = forge(forged, facts_of(forged), renumbered)
    assert "it has 2 of 3 rounds" in check_all(runs).problems[0]
    facts = facts_of(forged)
    for part in ("config", "label"):
        facts[part]["rounds"] = 2
    assert "round 2: " in repeat(read_run(forge(forged, facts, renumbered))).problem


def test_a_swapped_configuration_is_refused(runs: Path) -> None:
    """The numbers of fedprox under the name of fedavg."""
    good, other = run_of(runs, "fedavg"), run_of(runs, "fedprox")
    facts, rows = facts_of(good), rows_of(other)
    forge(good, facts, rows)
    (problem,) = check_all(runs).problems
    assert "round 1: " in problem


def test_a_label_of_another_method_is_refused(runs: Path) -> None:
    """A page shows the label, and the id is that of the configuration."""
    path = run_of(runs, "fedprox")
    facts = facts_of(path)
    facts["label"]["algorithm"] = "fednova"
    forge(path, facts, rows_of(path))
    assert check_records(runs).problems == []
    (problem,) = check_all(runs).problems
    assert "its label and its configuration are of different runs (algorithm)" in problem


def test_a_changed_seed_is_refused(runs: Path) -> None:
    """A good trial is shown twice: once more as seed 2."""
    path = run_of(runs, "fedavg", seed=1)
    copy = Path(shutil.copytree(path, path.with_name("copy")))
    facts = facts_of(copy)
    for part in ("config", "label"):
        facts[part]["seed"] = 2
    forge(copy, facts, rows_of(copy))
    assert check_records(runs).problems == []
    (problem,) = check_all(runs).problems
    assert "is not the one that its configuration gives" in problem or "round 1: " in problem


@pytest.mark.parametrize(
    ("part", "key", "value"),
    [("dataset", "train", 5), ("partition", "gini", 0.9), ("objective", "constant_answer", "x")],
)
def test_an_edited_fact_is_refused(runs: Path, part: str, key: str, value: object) -> None:
    path = run_of(runs, "fedavg")
    facts = facts_of(path)
    facts[part][key] = value
    forge(path, facts, rows_of(path))
    (problem,) = check_all(runs).problems
    assert f"its {part} is not the one that its configuration gives" in problem


def test_another_model_than_stated_is_refused(runs: Path) -> None:
    path = run_of(runs, "fedavg")
    forge(path, {**facts_of(path), "model_sha256": "0" * 64}, rows_of(path))
    (problem,) = check_all(runs).problems
    assert "its model_sha256 is not that of the repeated run" in problem


# --- what is missing ----------------------------------------------------------------------------------


def test_picked_seeds_are_refused(runs: Path) -> None:
    for algorithm in ("fedavg", "fedprox"):
        path = run_of(runs, algorithm, seed=1)
        facts = facts_of(path)
        for part in ("config", "label"):
            facts[part]["seed"] = 5
        forge(path, facts, rows_of(path))
    assert sum("has the seeds [0, 5]: seeds must follow each other" in text for text in check_all(runs).problems) == 2


def start_at(runs: Path, algorithm: str, first: int) -> None:
    for seed in (1, 0):
        path = run_of(runs, algorithm, seed)
        facts = facts_of(path)
        for part in ("config", "label"):
            facts[part]["seed"] = first + seed
        forge(path, facts, rows_of(path))


def test_a_first_seed_may_be_picked_and_that_is_said(runs: Path) -> None:
    start_at(runs, "fedavg", 7)
    (problem,) = check_records(runs).problems
    assert "fedavg starts at seed 7, and others at 0: all must start at the same seed" in problem
    start_at(runs, "fedprox", 7)
    submission = check_records(runs)
    assert submission.problems == []
    assert submission.notes[-1] == "the seeds start at 7 and not at 0, so they may have been chosen among several"


def test_runs_that_were_planned_must_be_there(runs: Path) -> None:
    from silobench.runs.results import write_planned

    write_planned(runs, "tiny.toml", {path.name: "a run" for path in runs.iterdir()}, is_part=False)
    assert check_records(runs).notes == []
    shutil.rmtree(run_of(runs, "fedavg", seed=1))
    assert check_all(runs).problems == ["1 run was planned and is not there"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda facts, rows: facts["made_by"].pop("torch"), "its environment does not state torch"),
        (lambda facts, rows: facts["dataset"].update(checksum="0"), "the checksum of its data is not that of"),
        (lambda facts, rows: rows[-1].pop("final"), "it has no final test"),
        (lambda facts, rows: rows[-1].update(clock=0.0), "its clock goes backwards"),
        (lambda facts, rows: rows[0].update(bytes_up=-1), "a negative number of bytes"),
        (lambda facts, rows: rows.append({**rows[-1], "round": 4}), "it has 4 of 3 rounds"),
    ],
)
def test_records_that_cannot_be_are_refused(runs: Path, change: Callable[..., object], words: str) -> None:
    path = run_of(runs, "fedavg")
    facts, rows = facts_of(path), rows_of(path)
    change(facts, rows)
    forge(path, facts, rows)
    assert any(words in problem for problem in check_records(runs).problems)


@pytest.mark.parametrize(
    "change",
    [
        lambda facts, rows: rows[0].update(bytes_up="many"),
        lambda facts, rows: rows[0].update(accuracy="good"),
        lambda facts, rows: rows[0].update(metrics=[1]),
        lambda facts, rows: rows[1].update(loss=float("nan")),
        lambda facts, rows: facts["label"].update(algorithm=5),
        lambda facts, rows: facts["label"].update(algorithm="fedbest"),
        lambda facts, rows: facts["label"].update(solver="sgd(lr=)"),
        lambda facts, rows: facts.update(partition={"sizes": "x"}),
        lambda facts, rows: facts.update(objective={"name": "x"}),
    ],
)
@pytest.mark.parametrize("cpu", ["", "neon"])
def test_records_of_other_types_are_refused_in_words(runs: Path, change: Callable[..., object], cpu: str) -> None:
    path = run_of(runs, "fedavg")
    facts, rows = facts_of(path), rows_of(path)
    if cpu:  # then numbers are compared within bands
        facts["made_by"]["cpu"] = cpu
    change(facts, rows)
    forge(path, facts, rows)
    assert check_all(runs).problems != []


# --- how far a check goes -----------------------------------------------------------------------------


def test_a_sample_of_runs_is_repeated(honest: Path) -> None:
    verdict = check_submission(honest, count=1, rounds=1)
    assert verdict.accepted
    assert (len(verdict.repetitions), verdict.escape) == (1, 0.75)
    words = " ".join(verdict.not_verified())
    assert "with probability 0.750" in words
    assert "rounds after round 1 were not repeated" in words


def test_the_sample_cannot_be_foreseen(honest: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of four runs is chosen: none of them is missed in 60 draws, but for one case in 10^7."""
    chosen = set()

    def note(run: Any, *_: object) -> replay.Repetition:
        chosen.add(run.path.name)
        return replay.Repetition(run, "", "bits", len(run.rounds))

    monkeypatch.setattr("silobench.runs.verdict.repeat", note)
    for _ in range(60):
        check_submission(honest, count=1)
    assert len(chosen) == 4


def test_an_edit_after_the_repeated_rounds_is_not_found_and_that_is_said(runs: Path) -> None:
    path = run_of(runs, "fedavg")
    rows = rows_of(path)
    rows[2]["accuracy"] = 0.5
    forge(path, facts_of(path), rows)
    verdict = check_submission(runs, count=None, rounds=2)
    assert verdict.accepted
    assert "an edit there is not found" in " ".join(verdict.not_verified())


def test_another_environment_has_a_band(runs: Path) -> None:
    """The submission states another processor: small differences pass, large ones do not."""
    path = run_of(runs, "fedavg")
    facts, rows = facts_of(path), rows_of(path)
    facts["made_by"]["cpu"] = "neon"
    rows[0]["loss"] *= 1 + 1e-6
    path = forge(path, facts, rows)
    done = repeat(read_run(path))
    assert (done.problem, done.way, done.differs_in) == ("", "band", ("cpu",))
    rows[0]["accuracy"] += 0.02
    done = repeat(read_run(forge(path, facts, rows)))
    assert "round 1: accuracy is" in done.problem


def state_another_python(path: Path, rows: list[dict[str, Any]]) -> Path:
    facts = facts_of(path)
    facts["made_by"]["python"] = "3.99.0"
    return forge(path, facts, rows)


def test_another_environment_is_a_weaker_verdict(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = run_of(runs, "fedavg")
    state_another_python(path, rows_of(path))
    verdict = check_all(runs)
    assert (verdict.problems, verdict.outcome, verdict.accepted) == ([], "accepted within bands only", False)
    assert "a false one weakens this check" in " ".join(verdict.not_verified())
    weaker = call(capsys, "leaderboard", "check", runs, "--all")
    assert (weaker.code, weaker.out.partition("\n")[0]) == (3, f"{runs} is accepted within bands only")
    facts = json.loads(call(capsys, "leaderboard", "check", runs, "--all", "--json").out)
    assert (facts["verdict"], facts["accepted"]) == ("accepted within bands only", False)


def move_last(row: dict[str, Any], points: float) -> None:
    """Move the last score of a shared model, and all parts of its final test that state it."""
    moved = round(1000 * points)
    row["accuracy"] += points
    row["final"]["confusion"][0][0] += moved
    row["final"]["confusion"][0][1] -= moved
    row["final"]["cross"]["scores"][0][-1] += points
    for party in row["final"]["parties"].values():
        party["own"] += points


@pytest.mark.parametrize("points", [-0.2, 0.2])
def test_a_shift_of_all_runs_of_a_method_is_refused(runs: Path, points: float) -> None:
    """20 points are inside the band of one late round; two runs that moved the same way are no chance."""
    for seed in (0, 1):
        path = run_of(runs, "fedprox", seed)
        rows = rows_of(path)
        move_last(rows[-1], points)
        state_another_python(path, rows)
    verdict = check_all(runs)
    assert all(not one.problem for one in verdict.repetitions)
    together, problem = verdict.problems
    assert together.startswith("all methods: ")
    assert f"fedprox(mu=0.5): the last scores of 2 runs are 20.0 points {'above' if points > 0 else 'below'}" in problem


def test_shifts_that_cancel_are_chance(runs: Path) -> None:
    for seed, points in ((0, -0.2), (1, 0.2)):
        path = run_of(runs, "fedprox", seed)
        rows = rows_of(path)
        move_last(rows[-1], points)
        state_another_python(path, rows)
    assert check_all(runs).outcome == "accepted within bands only"


def perfect(row: dict[str, Any]) -> None:
    table = row["final"]["confusion"]
    row["final"]["confusion"] = [[sum(line) * (k == place) for k in range(2)] for place, line in enumerate(table)]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            lambda row: row["privacy"]["example"].update(epsilon=0.9 * row["privacy"]["example"]["epsilon"]),
            "epsilon is",
        ),
        (lambda row: row.pop("privacy"), "privacy is absent"),
        (perfect, "final.confusion gives accuracy 1.0, and its last round has"),
        (lambda row: row["final"]["confusion"][0].__setitem__(0, 9999), "final.confusion[0] is"),
        (lambda row: row["final"]["cross"]["scores"][0].__setitem__(-1, 1.0), "final.cross gives accuracy 1.0"),
        (lambda row: row["final"]["parties"]["0"].update(own=1.0), "final.parties gives accuracy"),
        (lambda row: row["final"]["parties"]["0"].update(rows=1), "final.parties.0.rows is 1"),
        (lambda row: row.update(bytes_up=row["bytes_up"] - 1), "bytes_up is"),
    ],
    ids=["epsilon", "no privacy", "confusion", "class", "cross-test", "party", "rows of a party", "bytes"],
)
@pytest.mark.parametrize("secret", [False, True])
def test_what_rounding_does_not_change_is_exact_in_any_environment(
    private: Path, tmp_path: Path, change: Callable[[dict[str, Any]], object], words: str, secret: bool
) -> None:
    """`test_a_private_run_of_another_environment_repeats` has the same run without a change, which is right."""
    path = copy_of(private, tmp_path, secret)
    rows = rows_of(path)
    change(rows[-1])
    assert words in repeat(read_run(state_another_python(path, rows))).problem


@pytest.mark.parametrize("secret", [False, True])
def test_a_private_run_of_another_environment_repeats(private: Path, tmp_path: Path, secret: bool) -> None:
    path = copy_of(private, tmp_path, secret)
    assert repeat(read_run(state_another_python(path, rows_of(path)))).problem == ""


def copy_of(private: Path, folder: Path, secret: bool) -> Path:
    """Copy the run whose noise is secret, or the other one."""
    runs = Path(shutil.copytree(private, folder / "runs"))
    return next(run.path for run in read_runs(runs) if has_secret_noise(run.config) is secret)


@pytest.fixture(scope="module")
def private(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a run with secret noise, and one whose noise follows from the seed."""
    from silobench.runs.execute import execute
    from silobench.runs.experiment import plan, read_experiment
    from silobench.runs.prepare import prepare

    folder = tmp_path_factory.mktemp("private")
    solver = "dp-sgd(noise=1.0, batch=64, steps=1"
    text = EXPERIMENT.replace('"sgd(epochs=1)"', f'["{solver})", "{solver}, reproducible=true)"]')
    text = text.replace("trials = 2", "").replace('["fedavg", "fedprox(mu=0.5)"]', '"fedavg"')
    for each in plan(read_experiment(write(folder / "private.toml", text))):
        for _ in execute(prepare(each), folder / "runs"):
            pass
    return folder / "runs"


def test_secret_noise_cannot_be_repeated_but_epsilon_can(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = EXPERIMENT.replace("sgd(epochs=1)", "dp-sgd(noise=1.0, batch=64, steps=1)").replace("trials = 2", "")
    file = write(tmp_path / "private.toml", text.replace('["fedavg", "fedprox(mu=0.5)"]', '"fedavg"'))
    assert call(capsys, "run", file, "--workers", "1", "--out", tmp_path / "runs").code == 0
    (run,) = read_runs(tmp_path / "runs")
    assert has_secret_noise(run.config)
    verdict = check_all(tmp_path / "runs")
    assert verdict.problems == []
    assert verdict.repetitions[0].way == "configuration"
    assert verdict.outcome == "accepted with scores on trust"
    assert "their scores are on trust" in " ".join(verdict.not_verified())
    rows = rows_of(run.path)
    rows[2]["privacy"]["example"]["epsilon"] /= 2
    forge(run.path, facts_of(run.path), rows)
    assert "epsilon" in " ".join(check_all(tmp_path / "runs").problems)


def test_data_must_be_there(runs: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SILOBENCH_DATA", str(tmp_path / "nothing"))
    path = run_of(runs, "fedavg")
    facts = facts_of(path)
    for part in ("config", "label"):
        facts[part]["dataset"] = "mnist"
    run = read_run(forge(path, facts, rows_of(path)))
    with pytest.raises(AbsentError, match="silobench data fetch mnist"):
        repeat(run)


def test_a_plugin_must_be_named(runs: Path) -> None:
    path = run_of(runs, "fedavg")
    facts = facts_of(path)
    facts["config"]["plugins"] = ["mine.py 0123456789abcdef"]
    folder = forge(path, facts, rows_of(path))
    with pytest.raises(AbsentError, match=r"used the plugin mine\.py 0123456789abcdef, which is not here"):
        repeat(read_run(folder))


NETWORK = """
from pathlib import Path
from torch import nn

Path(__file__).with_name("executed").touch()


def build(inputs, outputs):
    return nn.Linear(inputs, outputs)
"""


def test_a_model_file_is_executed_only_if_it_is_trusted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    network, mark, runs = write(tmp_path / "net.py", NETWORK), tmp_path / "executed", tmp_path / "runs"
    model = f"trials = 1\nmodel = 'module(path=\"{network}:build\")'"
    file = write(tmp_path / "own.toml", EXPERIMENT.replace("trials = 2", model))
    assert call(capsys, "run", file, "--workers", "1", "--out", runs).code == 0
    _loaded.cache_clear()
    mark.unlink()
    refusal = call(capsys, "leaderboard", "check", runs)
    assert refusal.code == 2
    assert f"takes its model from {network}" in refusal.err
    assert f"--trust {network}" in refusal.err
    other = write(tmp_path / "other.py", NETWORK)
    assert call(capsys, "leaderboard", "check", runs, "--trust", other).code == 2
    assert not mark.exists()
    assert call(capsys, "leaderboard", "check", runs, "--all", "--trust", network).code == 0
    assert mark.exists()


def test_runs_in_an_archive_are_repeated(honest: Path, tmp_path: Path) -> None:
    pack(records_of(honest), tmp_path / "a.runs.xz")
    verdict = check_submission(tmp_path / "a.runs.xz", count=2)
    assert verdict.accepted
    assert [one.rounds for one in verdict.repetitions] == [3, 3]


# --- the command --------------------------------------------------------------------------------------


def test_the_command_says_what_it_knows(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good = call(capsys, "leaderboard", "check", runs, "--all", "--rounds", "1")
    assert good.code == 0
    assert good.out.startswith(f"{runs} is accepted\n")
    path = run_of(runs, "fedavg")
    rows = rows_of(path)
    rows[0]["accuracy"] += 0.01
    forge(path, facts_of(path), rows)
    bad = call(capsys, "leaderboard", "check", runs, "--all", "--json")
    facts = json.loads(bad.out)
    assert (bad.code, facts["accepted"], len(facts["problems"])) == (1, False, 1)
    assert call(capsys, "leaderboard", "check", runs / "nowhere").code == 2
