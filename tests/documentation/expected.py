"""What a page needs before it begins, and what must be true after everything on it was executed."""

import re
import shlex
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from documentation.blocks import ROOT
from documentation.session import Session
from silobench.analysis.cells import collect
from silobench.analysis.privacy import is_hidden
from silobench.runs.stored import read_runs

# --- files that a reader has ----------------------------------------------------------------------------


def _patients() -> None:
    """Write a table with numbers and categories, and new rows without a label."""
    rng = np.random.default_rng(0)
    lines = []
    for row in range(120):
        age, ward = rng.normal(60, 15), rng.choice(["heart", "lung"])
        lines.append(f"{age:.1f},{ward},site{row % 3},{'died' if age > 65 else 'alive'}")
    Path("patients.csv").write_text("\n".join(["age,ward,hospital,outcome", *lines]) + "\n", encoding="utf-8")
    Path("new.csv").write_text("ward,age\nheart,20\nlung,99\nheart,61\n", encoding="utf-8")


def _numbers() -> None:
    """Write a table with a numeric target."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(400, 2))
    y = 1950 + 4 * x[:, 0] - 2 * x[:, 1] + rng.exponential(5.0, size=400)
    rows = [f"{a:.6f},{b:.6f},{c:.6f}" for (a, b), c in zip(x, y, strict=True)]
    Path("numbers.csv").write_text("\n".join(["a,b,y", *rows]) + "\n", encoding="utf-8")


BEFORE: dict[str, Callable[[], None]] = {"docs/models.md": _patients, "docs/extending.md": _numbers}

# --- what is true afterwards ----------------------------------------------------------------------------


def _labels(folder: str, key: str) -> list[str]:
    return sorted(str(run.label[key]) for run in read_runs(Path(folder)))


def _readme(session: Session) -> None:
    assert {"run", "show", "compare", "report"} <= {text.split()[1] for text, _ in session.results}
    assert set(_labels("runs/skew", "algorithm")) == {"fedavg", "scaffold", "ditto"}


def _algorithms(session: Session) -> None:
    assert "fedavgm(beta=0.9)" in session.results[0][1].out
    (run,) = read_runs(Path("runs/parts"))
    assert (run.label["model"], run.label["transforms"]) == ("two-layers(width=64)", "bfloat16")
    sizes = run.partition.sizes
    assert sum(sizes) == 1438
    assert all(abs(smaller / larger - 0.5) < 0.02 for larger, smaller in pairwise(sizes))  # each size is floored


def _clock(session: Session) -> None:
    """Seconds of the clock are exact; those of the server and of encoding are measured, and may be very short."""
    bar = session.names["bar"]
    assert bar["train"] == pytest.approx(0.64, abs=0.005)
    straggler = 479 / 500  # its rows by its speed
    assert bar["idle"] + bar["encode"] >= straggler - bar["train"] - 1e-8  # seconds are rounded to nine digits


def _datasets(session: Session) -> None:
    assert len(session.names["data"].train) >= 80
    page = (ROOT / session.page).read_text(encoding="utf-8")
    examples = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    for form in ("from_pandas", "(path=stays.parquet", "from_torch", "from_huggingface", "linked("):
        assert sum(form in example for example in examples) == 1
    assert max(len(example.strip().splitlines()) for example in examples) <= 15


def _extending(session: Session) -> None:
    """A run that a command made has the parts that the command names."""
    runs = read_runs(Path("runs"))
    assert all(len(run.rounds) == 3 for run in runs)
    for text, _ in session.results:
        arguments = shlex.split(text)
        if arguments[1] == "run":
            changes = [part.split("=", 1) for flag, part in pairwise(arguments) if flag == "--set"]
            parts = {key: _terms(value) for key, value in changes}
            assert any(all(_terms(str(run.label.get(key, ""))) == parts[key] for key in parts) for run in runs), text
    printed = {text.split()[1]: result.out for text, result in session.results if "run" not in text.split()[1]}
    assert "quantile(share=0.5)" in printed["list"]
    assert "by-feature(column=20)" in printed["partition"]


def _terms(text: str) -> list[str]:
    return [term.strip().split("(")[0].replace("_", "-") for term in text.split("|")]


def _first_entry(session: Session) -> None:
    """The algorithm of the page bears what FedAvg does not, and others can check it."""
    runs = [run for run in read_runs(Path("runs/mine")) if "lr=0.3" in str(run.label["solver"])]
    scores = {
        name: [run.rounds[-1].accuracy or 0.0 for run in runs if run.label["algorithm"] == name]
        for name in ("fedavg", "careful(doubt=8.0)")
    }
    assert [len(each) for each in scores.values()] == [5, 5]
    assert min(scores["careful(doubt=8.0)"]) > np.mean(scores["fedavg"])
    assert "careful" in Path("runs/mine/leaderboard.html").read_text(encoding="utf-8")
    assert Path("runs/mine/report/index.html").is_file()


def _first_silos(session: Session) -> None:
    """Three processes that each have one table compute what a rehearsal with all tables computes."""
    if session.is_cut_short:
        pytest.skip("Flower is not installed: pip install 'silobench[flower]'")
    (rehearsal,), (trial,) = (read_runs(Path("runs") / name) for name in ("rehearsal", "trial"))
    assert trial.partition.parties == ("north", "south", "west")
    assert all(row.replied is None or len(row.replied) == 3 for row in trial.rounds)
    for ours, theirs in zip(trial.rounds, rehearsal.rounds, strict=True):
        assert ours.accuracy == pytest.approx(theirs.accuracy, abs=1e-5)
        assert ours.loss == pytest.approx(theirs.loss, abs=1e-5)


def _hospital(session: Session) -> None:
    assert len(session.results) == 9, "the page counts its commands"
    verdict = "no algorithm beats the constant answer"
    plain, weighted = (
        next(result.out for text, result in session.results if f"run hospital.toml --out runs/{name}" in text)
        for name in ("plain", "weighted")
    )
    assert verdict in plain
    assert verdict not in weighted


def _models(session: Session) -> None:
    assert session.names["last"].accuracy > 0.8  # the estimator of the second example
    assert _labels("runs/mine", "model") == ["module(path=model.py:Net)", "module(path=model.py:Net, width=64)"]
    (run,) = read_runs(Path("runs/plugin"))
    assert run.label["model"] == "two-layers(width=16)"
    assert run.facts.parameters == 65 * 16 + 17 * 10
    printed = {text: result.out for text, result in session.results}
    assert printed["silobench predict runs/patients new.csv"].splitlines()[:3] == [
        "row,prediction",
        "1,alive",
        "2,died",
    ]
    assert Path("answers.csv").read_text().startswith("row,prediction,p(alive),p(died)\n1,alive,0.")
    programs = [out for text, out in printed.items() if text.startswith("silobench model ")]
    assert len(programs) == 2
    for program in programs:
        names = {"rows": np.zeros((2, 3), np.float32)}
        exec(program, names)
        assert tuple(names["outputs"].shape) == (2, 2)


def _personal(session: Session) -> None:
    runs = {str(run.label["algorithm"]): run for run in read_runs(Path("runs/own-head"))}
    average, ours = runs["fedavg"], runs["own-head(epochs=2)"]
    assert average.rounds[-1].bytes_up == ours.rounds[-1].bytes_up
    own = [[party.score or 0.0 for party in run.final.parties.values()] for run in (average, ours)]
    assert sum(own[1]) > sum(own[0])  # heads for two digits of their own


def _privacy(session: Session) -> None:
    (run,) = read_runs(Path("runs/private"))
    assert run.rounds[-1].privacy["example"]["epsilon"] == pytest.approx(2, rel=1e-3)
    assert is_hidden(*collect([run]))  # by the label of a real run
    assert all("Privacy" in result.out for _, result in session.results)
    assert "single updates" in session.results[0][1].out


def _vertical(session: Session) -> None:
    assert set(_labels("runs/columns", "algorithm")) == {"split", "combined", "solo"}


CHECKS: dict[str, Callable[[Session], None]] = {
    "README.md": _readme,
    "docs/algorithms.md": _algorithms,
    "docs/clock.md": _clock,
    "docs/datasets.md": _datasets,
    "docs/extending.md": _extending,
    "docs/first-leaderboard-entry.md": _first_entry,
    "docs/first-silos.md": _first_silos,
    "docs/hospital.md": _hospital,
    "docs/models.md": _models,
    "docs/personal.md": _personal,
    "docs/privacy.md": _privacy,
    "docs/vertical.md": _vertical,
}
