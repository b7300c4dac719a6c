"""Damaged files of run directories: detected and named, and either repaired from the last good state or refused."""

import shutil
import tempfile
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from random import Random

from gauntlet.harms import HARMS, REPEATED, WRITTEN
from gauntlet.outcome import VERDICTS, Options, Outcome, Verdict
from gauntlet.readers import READERS, Reader, Reply, resume, show
from gauntlet.results import FOLDER, KINDS, Results, Run, bits_of, make_results

FILES = ("run.json", "rounds.jsonl", "checkpoint/state.safetensors", "encoder.json", ".lock")
OF_MODELS = ("checkpoint/state.safetensors", "encoder.json")  # which are read only to predict, once a run is finished
_ALL: Mapping[str, Reader] = {"show": show, **READERS}


@dataclass(frozen=True)
class Intact:
    """Results that are not damaged, and what commands tell about them."""

    results: Results
    _replies: dict[tuple[str, str], Reply] = field(default_factory=dict)

    def reply(self, reader: str, run: Run) -> Reply:
        """Return what a command tells."""
        key = reader, run.id if reader == "predict" else ""
        if key not in self._replies:
            with copy_of(self.results.folder) as folder:
                self._replies[key] = _ALL[reader](folder, run)
        return self._replies[key]


@dataclass(frozen=True)
class Damage:
    """A file of a run, and what happens to it."""

    run: Run
    file: str
    harm: str

    @property
    def case(self) -> str:
        return f"{self.file}: {'interrupted ' if self.run.is_interrupted else ''}{self.run.kind} run"


def damaged_runs(options: Options) -> Iterator[Outcome]:
    """Damage every kind of file of every kind of run in every way, and read and resume the results."""
    runs = [Run(kind, "", "", is_interrupted) for kind in KINDS for is_interrupted in (False, True)]
    damages = [Damage(run, file, harm) for run in runs for file in FILES for harm in HARMS]
    if not any(options.includes(damage.harm, damage.case) for damage in damages):
        return
    intact, random, readers = Intact(make_results(options.folder / "damage")), Random(options.seed), list(READERS)
    for damage in every_damage(intact.results):
        readers = [*readers[1:], readers[0]]  # each takes its turn, because all of them would take hours
        if options.includes(damage.harm, damage.case):
            own = ("predict",) if damage.file in OF_MODELS else ()
            yield try_damage(intact, damage, tuple(dict.fromkeys(("show", *own, *readers[:2]))), random)


def every_damage(results: Results, repeats: int = 3) -> Iterator[Damage]:
    """Yield every kind of damage to every file; those whose place matters several times."""
    for run in results.runs:
        for file in FILES:
            for harm in HARMS:
                if (results.folder / FOLDER / run.id / file).exists():
                    yield from [Damage(run, file, harm)] * (repeats if harm in REPEATED else 1)


def try_damage(intact: Intact, damage: Damage, readers: Sequence[str], random: Random) -> Outcome:
    """Damage a file of a copy of the results, read them by some commands, then run the experiment again."""
    with copy_of(intact.results.folder) as folder:
        file = folder / FOLDER / damage.run.id / damage.file
        if not file.stat().st_size and damage.harm in WRITTEN:
            file.write_bytes(b"\n")  # an empty file has nothing else to damage
        detail = HARMS[damage.harm](file, random)
        verdicts: dict[str, tuple[Verdict, str]] = {}
        for name in readers:
            verdicts[name] = _judged(partial(_read, intact, damage, name, folder))
        verdicts["run"] = _judged(partial(_resume, intact, damage, folder))
    worst = max(verdicts, key=lambda name: VERDICTS.index(verdicts[name][0]))
    result, reason = verdicts[worst]
    return Outcome(damage.harm, damage.case, result, f"{detail}; {worst}: {reason}" if reason else detail)


def _judged(attempt: Callable[[], tuple[Verdict, str]]) -> tuple[Verdict, str]:
    """Return the verdict of an attempt; an error that is not a sentence is lost."""
    try:
        return attempt()
    except Exception:
        return "lost", traceback.format_exc(limit=-3)


def _read(intact: Intact, damage: Damage, reader: str, folder: Path) -> tuple[Verdict, str]:
    """Judge what a command tells of damaged results: the same as before, or the name of the file."""
    before, now = intact.reply(reader, damage.run), _ALL[reader](folder, damage.run)
    if (now.code, now.told) == (before.code, before.told):
        return "survived", ""
    if problem := _unnamed(now, damage):
        return "lost", problem
    others = {subject: value for subject, value in now.told.items() if before.told.get(subject, value) != value}
    if reader == "show" and (others or len(now.told) < len(before.told) - 1):
        return "lost", f"other runs are shown otherwise: {list(others) or 'some are missing'}"
    return "refused", now.message[:200]


def _resume(intact: Intact, damage: Damage, folder: Path) -> tuple[Verdict, str]:
    """Judge the same experiment, run again: the bits of an undisturbed run, at the latest after the remedy."""
    runs, expected = folder / FOLDER, intact.results.whole[damage.run.id]
    others = _contents(runs, damage.run)
    now = resume(folder, damage.run)
    if _contents(runs, damage.run) != others:
        return "lost", "files of other runs changed"
    if now.code == 0:
        same = bits_of(runs / damage.run.id) == expected
        return ("survived", "") if same else ("lost", "the run has other bits")
    if problem := _unnamed(now, damage):
        return "lost", problem
    shutil.rmtree(runs / damage.run.id)  # which is what the sentence says
    again = resume(folder, damage.run)
    if again.code or bits_of(runs / damage.run.id) != expected:
        return "lost", f"the remedy does not help: {again.message}"
    return "refused", now.message[:200]


def _unnamed(reply: Reply, damage: Damage) -> str:
    """Return what is wrong with a refusal; empty for one sentence that names the file."""
    if reply.code != 2 or reply.message.count("error: ") > 1 or "Traceback" in reply.message:
        return f"exit code {reply.code}, {len(reply.message.splitlines())} lines: {reply.message[:300]}"
    if damage.run.id not in reply.message or Path(damage.file).parts[0] not in reply.message:
        return f"the file is not named: {reply.message[:300]}"
    return ""


def _contents(runs: Path, damaged: Run) -> dict[str, bytes]:
    """Return the files of all runs but the damaged one; locks are taken and left by every command."""
    files = [file for file in runs.rglob("*") if file.is_file() and file.name != ".lock"]
    places = {file.relative_to(runs).as_posix(): file for file in files}
    return {name: file.read_bytes() for name, file in places.items() if not name.startswith((damaged.id, "."))}


@contextmanager
def copy_of(folder: Path) -> Iterator[Path]:
    """Yield a copy of a folder, which is deleted afterwards."""
    with tempfile.TemporaryDirectory(dir=folder.parent) as place:
        yield Path(shutil.copytree(folder, Path(place) / "copy", symlinks=True))
