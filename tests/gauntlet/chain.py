"""SIGKILL, at many moments of many commands; the same command then goes on to the same bits.

A command is run once undisturbed. It lists its file operations, with their times. Kills are drawn from them: right
before an operation, or at a moment between two. A command that was killed is started again with the next trap, and in
the end without any. Then its results must be those of the undisturbed one.
"""

import json
import random
import signal
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from file_trap import FIRST, START
from gauntlet.cases import Case, Experiment
from gauntlet.contents import contents, differences, unreadable
from gauntlet.outcome import Outcome
from killable import Command, running

AT_A_FILE, AT_ANY_MOMENT = "SIGKILL before a file operation", "SIGKILL at a random moment"
_SOON = 6  # operations: as many as a resumed run has until its first round is committed
_MOST_RUNS = 2  # of one case
_FACTORS = (0, 5)  # of `_COMMIT_EVERY`: with 50, which is silobench's, a run of a second would be committed twice


@dataclass(frozen=True, order=True)
class Operation:
    """A file operation of the undisturbed command."""

    time: float  # seconds after its start
    process: str
    path: str


@dataclass(frozen=True)
class Target:
    """A run that is to be killed: its file operations in the undisturbed command, and how often it is killed yet."""

    case: Case
    place: str  # a part of the paths of its files
    operations: Sequence[Operation]
    kills: int
    is_resumed: bool = False

    @property
    def rest(self) -> "list[Target]":
        """What is left to do after a kill: kills soon after it goes on, because it may have little left to do."""
        again = replace(self, operations=self.operations[:_SOON], kills=self.kills - 1, is_resumed=True)
        return [again] if again.kills else []


@dataclass(frozen=True)
class Moment:
    """When a command is killed: some seconds after its start, or after an operation of a target."""

    target: Target
    seconds: float
    number: int | None = None  # of the operation among those of the target; None for the start of the command

    @property
    def fault(self) -> str:
        return AT_ANY_MOMENT if self.seconds or self.number is None else AT_A_FILE

    def trap(self, marker: Path) -> dict[str, Any]:
        """Return the kill for a `file_trap`."""
        fields = {"place": self.target.place, "number": self.number, "delay": self.seconds}
        return {**fields, "marker": str(marker), "victim": self.target.case.victim}


@dataclass(frozen=True)
class Kill:
    """A kill that took place, and what was wrong right after it."""

    moment: Moment
    detail: str
    problems: Sequence[str]


@dataclass(frozen=True)
class Gauntlet:
    """One experiment in a folder of its own, undisturbed and killed."""

    experiment: Experiment
    folder: Path
    seed: int = 0
    is_forked: bool = False

    @property
    def out(self) -> Path:
        """Where the results of the killed command are."""
        return self.folder / "killed"

    @property
    def whole(self) -> Path:
        """Where the results of the undisturbed command are."""
        return self.folder / "whole"

    def outcomes(self) -> Iterator[Outcome]:
        """Kill the experiment again and again, and yield what became of each kill."""
        self.folder.mkdir(parents=True)
        self.write_files()
        operations = self.undisturbed()
        kills = list(self._chain(operations, random.Random(f"{self.seed} {self.folder.name}")))
        lost = self._finished()
        for kill in kills:
            case = kill.moment.target.case
            ids = lost if "" in case.ids else ("", *case.ids)
            problems = [*kill.problems, *(text for id in ids for text in lost.get(id, []))]
            detail = "; ".join([kill.detail, *problems])
            name = f"{self.experiment.group}: {case.name}"
            yield Outcome(kill.moment.fault, name, "lost" if problems else "survived", detail)

    def write_files(self) -> None:
        """Write what the command needs."""
        lines = (f"{key} = {json.dumps(value)}\n" for key, value in self.experiment.choices.items())
        (self.folder / "experiment.toml").write_text("".join(lines), encoding="utf-8")

    def command(self, out: Path, **trap: Any) -> Command:
        """Return the command of the experiment with a trap."""
        words = [self.experiment.command, "experiment.toml", *self.experiment.options, "--out", str(out)]
        return Command(words, self.folder, {"out": str(out), **trap}, self.is_forked)

    def undisturbed(self) -> list[Operation]:
        """Run the experiment to its end; return its file operations."""
        log = self.folder / "operations"
        with running(self.command(self.whole, log=str(log), commit=0)) as command:
            code = command.wait()
        if code != 0:
            raise RuntimeError(f"{self.experiment.group} ended with {code} without any fault: {command.errors}")
        lines = [line.split(" ", 3) for line in log.read_text().splitlines()]
        began = min(float(moment) for moment, _, event, _ in lines if event == START)
        others = (line for line in lines if line[2] != START)
        return [Operation(float(moment) - began, process, path) for moment, process, _, path in others]

    def _chain(self, operations: Sequence[Operation], draw: random.Random) -> Iterator[Kill]:
        """Kill the run of every case, one after the other, some of them several times in a row.

        Traps of later cases are set as well: a run that was killed may have less left to do than its next trap needs.
        """
        targets = list(self._targets(operations, draw))
        while targets:
            start = drawn_start(targets[0], operations[0].time, draw)
            moments = [*start, *(drawn_moment(target, draw) for target in targets)]
            kills = list(self._killed(moments, draw.choice(_FACTORS) if targets[0].is_resumed else _FACTORS[0]))
            yield from kills
            if not kills:
                return
            hit = targets.index(kills[-1].moment.target)
            done = hit if self.experiment.has_workers else 0  # side by side, earlier runs may not have ended
            targets[done : hit + 1] = targets[hit].rest

    def _targets(self, operations: Sequence[Operation], draw: random.Random) -> Iterator[Target]:
        for case in self.experiment.cases:
            for id in case.ids[:_MOST_RUNS]:
                place = f"/{id}/" if id else case.place
                own = tuple(each for each in operations if place in each.path)
                count = draw.choice(self.experiment.in_a_row)
                if case.victim == "worker":  # the command goes on, so all its kills are in one command
                    own = tuple(each for each in own if each.process != FIRST)
                    yield from [Target(case, place, own, 1)] * count
                else:
                    yield Target(case, place, own, count)

    def _killed(self, moments: Sequence[Moment], commit: int) -> Iterator[Kill]:
        """Run the experiment until one of some moments, or to its end if only workers are killed; yield the kills."""
        markers = [self.folder / f"marker-{place}" for place in range(len(moments))]
        for marker in markers:
            marker.unlink(missing_ok=True)
        pairs = list(zip(moments, markers, strict=True))
        traps = [moment.trap(marker) for moment, marker in pairs if moment.number is not None]
        with running(self.command(self.out, kills=traps, commit=commit)) as command:
            code = command.wait(moments[0].seconds if moments[0].number is None else None)
            if code is None:
                command.kill()
            problems = [f"{len(left)} processes were left"] if (left := command.leftovers()) else []
        if code not in (None, 0, -signal.SIGKILL):
            problems.append(f"the command ended with {code}: {command.errors}")
        problems += unreadable(self.out)
        hits = pairs[:1] if code is None else [pair for pair in pairs if pair[1].exists()]
        if problems and not hits:
            raise RuntimeError(f"{self.experiment.group}: {'; '.join(problems)}")
        yield from (Kill(moment, _described(moment, marker), problems) for moment, marker in hits)

    def _finished(self) -> dict[str, list[str]]:
        """Run the experiment to its end; return what differs from the undisturbed one, by run, or under ""."""
        with running(self.command(self.out)) as command:
            code = command.wait()
            problems = [f"{len(left)} processes were left"] if (left := command.leftovers()) else []
        if code != 0:
            return {"": [*problems, f"the same command ended with {code}: {command.errors}"]}
        is_secret = self.experiment.is_secret
        whole, killed = contents(self.whole, is_secret), contents(self.out, is_secret)
        return _by_run(whole, killed) | ({"": problems} if problems else {})


def drawn_start(target: Target, start: float, draw: random.Random) -> list[Moment]:
    """Draw, for one kill in five, a moment before the first operation of a command, which takes `start` seconds."""
    is_early = target.case.victim == "group" and draw.random() < 0.2
    return [Moment(target, draw.uniform(0, start))] if is_early else []


def drawn_moment(target: Target, draw: random.Random) -> Moment:
    """Draw a moment of a run: right before one of its operations, or between the first and the last."""
    own = target.operations
    if draw.random() < 0.5:
        last, moment = draw.choice(own), 0.0
    else:
        moment = draw.uniform(own[0].time, own[-1].time)
        last = max(each for each in own if each.time <= moment)
    number = [each for each in own if each.process == last.process].index(last)  # a trap counts in each process
    return Moment(target, moment and moment - last.time, number)


def _described(moment: Moment, marker: Path) -> str:
    if moment.number is None:
        return f"{moment.seconds:.2f} s after the start"
    operation = marker.read_text().replace(str(marker.parent), "").strip() if marker.exists() else "?"
    return f"{moment.seconds * 1000:.0f} ms after {operation}" if moment.seconds else f"before {operation}"


def _by_run(whole: Mapping[str, Any], killed: Mapping[str, Any]) -> dict[str, list[str]]:
    problems = {}
    for name in whole.keys() | killed.keys():
        other = differences({"": whole.get(name)}, {"": killed.get(name)})
        if other:
            problems[name if len(name) == 16 else ""] = [f"other bits than undisturbed: {', '.join(other)}"]
    return problems
