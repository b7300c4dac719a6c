"""Damaged studies, lists of planned runs, and archives of records: named, rebuilt from the runs, or refused."""

import json
from collections.abc import Iterator
from pathlib import Path
from random import Random

from gauntlet.damage import copy_of
from gauntlet.harms import HARMS, REPEATED
from gauntlet.outcome import Options, Outcome, Verdict
from gauntlet.results import command

_EXPERIMENT = """
dataset = "fcube"
partition = "iid"
parties = 2
solver = "sgd(epochs=1)"
rounds = 1

[tune]
"solver.lr" = [0.01, 0.1]
"""
_TUNE = (
    "tune", "tiny.toml", "--out", "study", "--sampler", "grid", "--trials", "2", "--seeds", "1", "--repeats", "0",
    "--confirm", "0", "--workers", "1", "--engine", "inline",
)  # fmt: skip
_FILES = {
    "study.json": "study/study.json",
    "tuned.toml": "study/tuned.toml",
    "archive": "all.runs.xz",
    "list of planned runs": "runs/.plans",
}


def damaged_studies(options: Options) -> Iterator[Outcome]:
    """Damage what commands store besides runs."""
    folder, random = options.folder / "studies", Random(options.seed)
    pairs = [(kind, harm) for kind in _FILES for harm in HARMS for _ in range(3 if harm in REPEATED else 1)]
    pairs = [(kind, harm) for kind, harm in pairs if options.includes(harm, f"other records: {kind}")]
    if pairs:
        _make(folder)
    for kind, harm in pairs:
        yield _try(folder, kind, harm, random)


def _make(folder: Path) -> None:
    folder.mkdir(parents=True)
    (folder / "tiny.toml").write_text(_EXPERIMENT)
    for line in (
        _TUNE,
        ("run", "tiny.toml", "--out", "runs", "--workers", "1", "--engine", "inline"),
        ("leaderboard", "pack", "runs", "--output", "all.runs.xz"),
    ):
        answer = command(folder, *line)
        assert answer.code == 0, answer.err


def _try(folder: Path, kind: str, harm: str, random: Random) -> Outcome:
    """Damage a file in a copy of the folder, and use it by the command that reads it."""
    with copy_of(folder) as copy:
        file = copy / _FILES[kind]
        file = next(file.iterdir()) if file.is_dir() else file
        detail = HARMS[harm](file, random)
        try:
            result, reason = _JUDGES[kind](folder, copy, file)
        except Exception as error:
            result, reason = "lost", f"{type(error).__name__}: {error}"
    return Outcome(harm, f"other records: {kind}", result, f"{detail}; {reason}" if reason else detail)


def _study(folder: Path, copy: Path, file: Path) -> tuple[Verdict, str]:
    """Judge a study: refused by name, and built again from its runs once the file is deleted, as the sentence says."""
    whole = (folder / _FILES["study.json"]).read_bytes()
    reported = command(copy, "report", "study")
    tuned = command(copy, *_TUNE)
    if tuned.code == 0:
        same = file.read_bytes() == whole
        return ("survived", "") if same else ("lost", "another study was written")
    if not (reported.code == tuned.code == 2 and "study.json" in reported.err and "study.json" in tuned.err):
        return "lost", f"report: {reported.code} {reported.err[-200:]}; tune: {tuned.code} {tuned.err[-200:]}"
    file.rmdir() if file.is_dir() else file.unlink()
    again = command(copy, *_TUNE)
    same = again.code == 0 and file.read_bytes() == whole
    return ("refused", tuned.err[-200:]) if same else ("lost", f"the remedy does not help: {again.err[-200:]}")


def _tuned(folder: Path, copy: Path, file: Path) -> tuple[Verdict, str]:
    """Judge the tuned experiment, which every command writes anew."""
    answer = command(copy, *_TUNE)
    if answer.code:
        is_named = answer.code == 2 and "tuned.toml" in answer.err
        return ("refused" if is_named else "lost"), answer.err[-200:]
    same = file.read_bytes() == (folder / _FILES["tuned.toml"]).read_bytes()
    return ("survived", "") if same else ("lost", "another experiment was written")


def _archive(folder: Path, copy: Path, file: Path) -> tuple[Verdict, str]:
    """Judge an archive: shown as before, or refused by name."""
    answer, whole = command(copy, "show", file.name, "--json"), command(folder, "show", file.name, "--json")
    if answer.code == 0:
        return ("survived", "") if answer.out == whole.out else ("lost", "other numbers are shown")
    is_named = answer.code == 2 and file.name in answer.err
    return ("refused" if is_named else "lost"), answer.err[-200:]


def _planned(folder: Path, copy: Path, file: Path) -> tuple[Verdict, str]:
    """Judge a list of planned runs: the runs are shown as before, and a damaged list is named."""
    shown, whole = (json.loads(command(place, "show", "runs", "--json").out) for place in (copy, folder))
    if shown["cells"] != whole["cells"] or shown["not_started"] != whole["not_started"]:
        return "lost", "other numbers are shown"
    again = command(copy, "run", "tiny.toml", "--out", "runs", "--workers", "1", "--engine", "inline")
    return ("survived", "") if again.code == 0 else ("lost", again.err[-200:])


_JUDGES = {"study.json": _study, "tuned.toml": _tuned, "archive": _archive, "list of planned runs": _planned}
