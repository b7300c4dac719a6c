"""Whatever a user gets wrong: one sentence that names it, exit code 2, no traceback, nothing recorded is lost."""

import resource
from pathlib import Path

import numpy as np
import pytest

from commands import PATIENCE, TINY, call, start, write

CSV = "age,city,y\n31,Bern,yes\n40,Oslo,no\n22,Bern,no\n35,Rome,yes\n29,Oslo,yes\n50,Rome,no\n"

COMMANDS = {
    # names
    "unknown partition": (["partition", "digits", "label-dirichlt(beta=1)"], "did you mean label-dirichlet?"),
    "unknown dataset": (["partition", "digit", "iid"], "did you mean digits?"),
    "unknown argument": (["partition", "digits", "label-dirichlet(betta=1)"], "did you mean beta?"),
    "unknown kind": (["list", "algorithm"], "did you mean algorithms?"),
    "unknown suite": (["run", "dem"], "did you mean demo?"),
    # arguments
    "wrong type": (["partition", "digits", "label-dirichlet(beta=much)"], "beta must be a number"),
    "beta of zero": (["partition", "digits", "label-dirichlet(beta=0)"], "greater than 0"),
    "beta below zero": (["partition", "digits", "quantity-dirichlet(beta=-1)"], "greater than 0"),
    "whole number needed": (["partition", "digits", "label-count(k=1.5)"], "k must be"),
    "choice needed": (["partition", "digits", "noise(sigma=1, as=deviation)"], "'variance' or 'std'"),
    "argument missing": (["partition", "digits", "label-count"], "missing a required argument: 'k'"),
    "argument twice": (["partition", "digits", "noise(sigma=1, sigma=2)"], "twice"),
    "bracket open": (["partition", "digits", "label-count(k=2"], "with all brackets closed"),
    "code in a spec": (["partition", "digits", "__import__('os').system('id')"], "is not a name"),
    "nothing": (["partition", "digits", ""], "is not a spec"),
    # impossible splits
    "more parties than rows": (["partition", "digits", "iid", "--parties", "5000"], "1438 training rows"),
    "k above the classes": (["partition", "digits", "label-count(k=11)"], "take k <= 10"),
    "rows would be lost": (["partition", "digits", "label-count(k=1)", "--parties", "3"], "rows would be lost"),
    "min_size too large": (["partition", "digits", "Dir(0.5)", "--parties", "200"], "smaller min_size"),
    "no groups": (["partition", "digits", "by-group"], "needs a dataset with groups"),
    "octants of images": (["partition", "digits", "octants"], "use dataset fcube"),
    "unreachable emd": (["partition", "digits", "target-emd(emd=1.95)"], "cannot be reached by 10 parties with 10"),
    "sum the wrong way": (["partition", "digits", "iid + label-count(k=2)"], "put the label or group skew first"),
    "no reference": (["partition", "digits", "like(reference=nowhere.csv)"], "nowhere.csv cannot be read"),
    # places
    "a bare file": (["partition", "patients.csv", "iid"], "write csv(path=patients.csv, label=COLUMN)"),
    "quantity over real silos": (["partition", "fcube", "octants + q~Dir(0.5)"], "between real silos"),
    "no data file": (["partition", "csv(path=nowhere.csv, label=y)", "iid"], "there is no file nowhere.csv"),
    "no experiment file": (["run", "nowhere.toml"], "there is no experiment file"),
    "no runs": (["show", "nowhere"], "there is no directory nowhere"),
    "nothing to compare": (["compare", "nowhere", "fedavg", "scaffold"], "there is no directory nowhere"),
    "picture of no kind": (["partition", "digits", "iid", "--plot", "p.gif"], "must end in .png or .svg"),
    "export into a file": (["partition", "digits", "iid", "--export", "/proc/version/x"], "cannot be written"),
}  # fmt: skip

FILES = {
    "empty CSV": ("t.csv", "", "csv(path={}, label=y)", "has 0 lines"),
    "header only": ("t.csv", "age,y\n", "csv(path={}, label=y)", "has 1 lines"),
    "label column missing": ("t.csv", CSV, "csv(path={}, label=Y2)", "no column 'Y2': did you mean y?"),
    "group column missing": ("t.csv", CSV, "csv(path={}, label=y, group=town)", "no column 'town'"),
    "NaN in features": ("t.csv", CSV.replace("31", "nan"), "csv(path={}, label=y)", "'nan' in column 'age', line 2"),
    "infinity": ("t.csv", CSV.replace("50", "inf"), "csv(path={}, label=y)", "'inf' in column 'age', line 7"),
    "ragged line": ("t.csv", CSV + "1,2\n", "csv(path={}, label=y)", "2 cells in line 8"),
    "measurements as labels": (
        "t.csv",
        "x,y\n" + "".join(f"{i},{i / 7}\n" for i in range(40)),
        "csv(path={}, label=y, task=classification)",
        "40 different labels in 40 rows",
    ),
    "text as a number": (
        "t.csv",
        CSV,
        "csv(path={}, label=y, task=regression)",
        "task=regression needs finite numbers",
    ),
    "group missing": ("t.csv", CSV.replace("Rome", "?"), "csv(path={}, label=y, group=city)", "group column 'city'"),
    "one class": ("t.csv", CSV.replace("yes", "no"), "csv(path={}, label=y)", "at least two"),
    "not text": ("t.csv", b"\xff\xfe\x00\x01", "csv(path={}, label=y)", "cannot be read as text"),
    "not an npz": ("t.npz", "hello", "npz(path={})", "cannot be read as an npz"),
    "not LIBSVM": ("t.svm", "a b c\n", "libsvm(path={})", "cannot be read as LIBSVM"),
}

EXPERIMENTS = {
    "no dataset": ("rounds = 3", "needs a dataset"),
    "unknown key": ('dataset = "digits"\nrouns = 3', "did you mean rounds?"),
    "not TOML": ("dataset = ", "cannot be read as TOML"),
    "rounds of zero": ('dataset = "digits"\nrounds = 0', "rounds must be greater than or equal to 1"),
    "rounds as text": ('dataset = "digits"\nrounds = "many"', "rounds must be"),
    "participation above one": ('dataset = "digits"\nparticipation = 1.5', "participation must be"),
    "empty axis": ('dataset = "digits"\nalgorithm = []', "empty list"),
    "unknown algorithm": ('dataset = "digits"\nalgorithm = "fedprx"', "did you mean fedprox?"),
    "mu below zero": ('dataset = "digits"\nalgorithm = "fedprox(mu=-1)"', "mu must be greater than or equal to 0"),
    "unknown model": ('dataset = "digits"\nmodel = "cn"', "did you mean cnn?"),
    "cnn on a table": ('dataset = "fcube"\nmodel = "cnn"', "cnn needs images"),
    "momentum of one": ('dataset = "digits"\nsolver = "sgd(momentum=1)"', "momentum must be less than 1"),
    "steps and epochs": ('dataset = "digits"\nsolver = "sgd(steps=3, epochs=2)"', "give one of them"),
    "network": (
        'dataset = "digits"\nnetwork = 10',
        'network must be text in quotation marks, such as network = "100Mbps", but 10 was given.',
    ),
    "transforms": ('dataset = "digits"\ntransforms = 1', "transforms must be text in quotation marks, but 1 was"),
    "count": (
        'dataset = "digits"\nparticipation = 2.5',
        "participation must be less than or equal to 1, but 2.5 was given: a count is a whole number, such as 2.",
    ),
    "solver's key": (
        'dataset = "digits"\nlr = 0.1',
        "an experiment has no key 'lr': lr is an argument of solver: write solver = \"sgd(lr=...)\".",
    ),
    "bandwidth": ('dataset = "digits"\nnetwork = "link(bandwidth=fast)"', "must read like 100Mbps"),
    "one bad cell of a grid": ('dataset = "digits"\npartition = ["iid", "label-count(k=12)"]', "take k <= 10"),
    "one bracket too few": ('dataset = "digits"\n[grid]\nrounds = 3', "write [[grid]] above each"),
    "a model of terabytes": ('dataset = "digits"\nmodel = "mlp(1000000, 1000000)"', "cannot be built"),
    "a count above the parties": ('dataset = "digits"\nparticipation = 11', "above the 10 parties"),
    "seeds and trials": ('dataset = "digits"\nseed = [1, 2]\ntrials = 3', "give a list of seeds, or one seed"),
    "trials of zero": ('dataset = "digits"\ntrials = 0', "trials must be"),
}  # fmt: skip


def refused(result, fragment: str) -> None:
    assert result.code == 2, result
    notices = ("compiling the native step", "the native step is not available")  # logged once per process
    lines = [line for line in result.err.strip().splitlines() if not line.startswith(notices)]
    assert len(lines) == 1, result.err
    assert lines[0].startswith("error: ")
    assert fragment in lines[0]
    assert "Traceback" not in result.out + result.err


@pytest.mark.parametrize("case", COMMANDS)
def test_command(
    case: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    arguments, fragment = COMMANDS[case]
    refused(call(capsys, *arguments), fragment)


@pytest.mark.parametrize("case", FILES)
def test_data_file(case: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    name, content, spec, fragment = FILES[case]
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    refused(call(capsys, "partition", spec.format(path), "iid", "--parties", "2"), fragment)


@pytest.mark.parametrize("case", EXPERIMENTS)
def test_experiment(case: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    text, fragment = EXPERIMENTS[case]
    refused(call(capsys, "run", write(tmp_path / "e.toml", text), "--out", tmp_path / "runs"), fragment)
    assert not (tmp_path / "runs").exists()  # nothing was begun


def test_nan_in_arrays(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=np.array([[1.0], [np.nan], [3.0], [4.0]] * 5), y=np.array([0, 1, 0, 1] * 5))
    refused(call(capsys, "partition", f"npz(path={tmp_path / 'a.npz'})", "iid", "--parties", "2"), "NaN or infinite")


@pytest.mark.parametrize("place", ["/proc/silobench", "{file}/runs"])
def test_a_place_that_cannot_be_written(capsys: pytest.CaptureFixture[str], tmp_path: Path, place: str) -> None:
    file = write(tmp_path / "tiny.toml", TINY)
    refused(call(capsys, "run", file, "--workers", "1", "--out", place.format(file=file)), "cannot be written")


def test_set_only_and_engine(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = write(tmp_path / "tiny.toml", TINY)
    refused(call(capsys, "run", file, "--set", "rounds"), "takes key=value")
    refused(call(capsys, "run", file, "--set", "rond=3"), "did you mean rounds?")
    refused(call(capsys, "run", file, "--only", "*mnist*"), "matches none of 2 runs")
    refused(call(capsys, "run", file, "--only", "*Dir*"), "names use long specs such as label-dirichlet(beta=0.3).")
    refused(call(capsys, "run", file, "--engine", "inlin"), "did you mean inline?")


def test_plugin_that_fails(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file, plugin = write(tmp_path / "tiny.toml", TINY), write(tmp_path / "mine.py", "raise ValueError('oh')\n")
    refused(call(capsys, "run", file, "--plugin", plugin), "ValueError in line 1: oh")
    refused(call(capsys, "run", file, "--plugin", tmp_path / "none.py"), "there is no plugin file")


def test_a_damaged_run_is_reported_and_loses_nothing(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file, out = write(tmp_path / "tiny.toml", TINY), tmp_path / "runs"
    assert call(capsys, "run", file, "--workers", "1", "--out", out).code == 0
    first, second = sorted(file.parent for file in out.glob("*/run.json"))
    kept = (second / "rounds.jsonl").read_bytes()
    (first / "rounds.jsonl").write_bytes(b"")
    for command in (["run", file, "--out", out], ["show", out], ["report", out]):
        refused(call(capsys, *command), "rounds.jsonl is damaged")
    assert (second / "rounds.jsonl").read_bytes() == kept


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_full_disk_keeps_what_is_recorded_and_the_run_goes_on_later(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, workers: str
) -> None:
    file = write(tmp_path / "tiny.toml", TINY.replace("rounds = 3", "rounds = 40"))
    limit = 6_000  # bytes a file may have: fits some rounds of this run, not all
    process = start(
        "run", file, "--workers", workers, "--out", tmp_path / "runs",
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)),
    )  # fmt: skip
    _, err = process.communicate(timeout=PATIENCE)
    last = err.strip().splitlines()[-1]
    assert process.returncode == 2, err
    assert "cannot be written" in last
    assert "Traceback" not in err
    assert call(capsys, "run", file, "--workers", "1", "--out", tmp_path / "runs").code == 0
    assert call(capsys, "run", file, "--workers", "1", "--out", tmp_path / "fresh").code == 0
    for path in (file.parent for file in (tmp_path / "fresh").glob("*/run.json")):
        model = '"model_sha256"'
        lines = [next(line for line in (root / path.name / "run.json").read_text().splitlines() if model in line)
                 for root in (tmp_path / "runs", tmp_path / "fresh")]  # fmt: skip
        assert lines[0] == lines[1]
