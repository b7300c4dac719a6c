"""Leaderboards, submissions and files of records that cannot be read, ranked or accepted."""

import lzma
import shutil
from pathlib import Path

from wrong_inputs.case import Case, command, damaged
from wrong_inputs.results import intact, run_of


def _only_finished(runs: Path) -> None:
    """Remove the interrupted run and the lists of planned runs."""
    shutil.rmtree(run_of(runs, "fedprox"))
    shutil.rmtree(runs / ".plans")


def _notes_beside(runs: Path) -> None:
    (runs.parent / "notes.html").write_text("<p>my notes</p>", encoding="utf-8")


def _packed(text: bytes) -> dict[str, str | bytes]:
    return {"a.runs.xz": lzma.compress(text)}


_ZIP = {"a.runs.xz": b"PK\3\4" * 9}
CASES: list[Case] = [
    command("leaderboard rank", "no directory of runs was given: write one, such as runs/demo, or --published"),
    command("leaderboard nowhere", "there is no directory nowhere: run an experiment first, or check the path."),
    command("leaderboard runs --max-rounds 0", "--max-rounds must be a whole number of at least 1, but '0' was given."),
    command("leaderboard runs --max-bytes many", "must be a size such as 500kB or 2GB, but 'many' was given."),
    command("leaderboard runs --max-seconds 0", "--max-seconds must be a number above 0, but 0.0 was given."),
    command("leaderboard runs --max-epsilon nan", "--max-epsilon must be a number above 0, but nan was given."),
    command("leaderboard chekc runs", "`silobench leaderboard` has no command 'chekc': did you mean check?"),
    command("leaderboard chekc runs --runs 1", "has no command 'chekc': did you mean check?"),
    command("leaderboard nothing runs", "there is no directory nothing: run an experiment first, or check the path."),
    damaged("intact results", intact, "--dataset 'mnist' matches none", "leaderboard runs --json --dataset mnist"),
    damaged("intact results", intact, "--skew 'lable' matches none", "leaderboard runs --json --skew lable"),
    damaged("intact results", intact, "--method 'fedav' matches none", "leaderboard runs --json --method fedav"),
    damaged("a page of notes", _notes_beside, "notes.html exists and is not a page of silobench: choose another name",
            "leaderboard runs --output notes.html"),
    damaged("two finished runs", _only_finished, "is accepted", "leaderboard check runs --runs 1", code=0),
    command("leaderboard check nowhere", "there is no directory nowhere: run an experiment first, or check the path."),
    command("leaderboard pack runs", "`silobench leaderboard pack` needs --out"),
    damaged("intact results", intact, "written into a file NAME.runs.xz", "leaderboard pack runs --output all.zip"),
    command("leaderboard unpack nowhere.runs.xz", "there is no directory nowhere.runs.xz"),
    command("show a.runs.xz", "does not hold records of runs (it is not a whole .xz file)", files=_ZIP),
    command("show a.runs.xz", "it has no header of silobench", files=_packed(b"hello\n")),
]  # fmt: skip
