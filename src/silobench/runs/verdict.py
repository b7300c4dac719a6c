"""The verdict on a submission: its records are checked, some of its runs are repeated, and what that proves is said."""

import secrets
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

from silobench.runs.agreement import BANDS, LATE, shift_limit
from silobench.runs.replay import Repetition, repeat
from silobench.runs.stored import StoredRun
from silobench.runs.submission import Submission, check_records

Outcome: TypeAlias = Literal["accepted", "accepted within bands only", "accepted with scores on trust", "refused"]
Report = Callable[[StoredRun, int, int], object]  # gets a run, its place among those that are repeated, and a round


@dataclass(frozen=True)
class Verdict:
    """What is known about a submission."""

    submission: Submission
    repetitions: Sequence[Repetition]
    rounds: int | None = None  # how many rounds of each run were asked for; None for all

    @property
    def problems(self) -> list[str]:
        """Why the submission is refused; empty if it is accepted."""
        repeated = [f"{one.run.path.name}: {one.problem}" for one in self.repetitions if one.problem]
        return [*self.submission.problems, *repeated, *_shift_problems(self.repetitions)]

    @property
    def outcome(self) -> Outcome:
        """The verdict in words: that of the weakest comparison."""
        ways = {one.way for one in self.repetitions}
        if self.problems:
            return "refused"
        if "configuration" in ways:
            return "accepted with scores on trust"
        return "accepted within bands only" if "band" in ways else "accepted"

    @property
    def accepted(self) -> bool:
        """Whether every repeated run had the same numbers to the last bit."""
        return self.outcome == "accepted"

    @property
    def escape(self) -> float:
        """The probability that an edit of one run is not among the runs that were repeated."""
        total = len(self.submission.runs)
        return 1 - len(self.repetitions) / total if total else 1.0

    def verified(self) -> list[str]:
        """Return sentences about what was checked and holds."""
        if self.submission.problems:
            return []
        good = [one for one in self.repetitions if not one.problem]
        total = _runs(len(self.submission.runs))
        texts = [f"the digests, ids, rounds and environments of {total} agree with each other"]
        exact, near, secret = ([one for one in good if one.way == way] for way in ("bits", "band", "configuration"))
        if exact:
            texts.append(f"{_repeated(exact)} with the same numbers to the last bit: {_names(exact)}")
        if near:
            differs = ", ".join(sorted({name for one in near for name in one.differs_in}))
            texts.append(
                f"{_repeated(near)} with the same numbers within {_bands()}, because {differs} are not those of the "
                f"submission: {_names(near)}"
            )
        if secret:
            texts.append(
                f"{_repeated(secret)} with the same bytes and epsilon, which follow from the configuration: "
                f"{_names(secret)}"
            )
        return texts

    def not_verified(self) -> list[str]:
        """Return sentences about what was not checked."""
        texts, ways = [*self.submission.notes], {one.way for one in self.repetitions}
        if not self.repetitions:
            return [*texts, "that runs give these numbers: none was repeated, because the records are refused"]
        others = len(self.submission.runs) - len(self.repetitions)
        if others:
            texts.append(
                f"{_runs(others)} {'was' if others == 1 else 'were'} not repeated: this check misses one edited run "
                f"whose digests were computed anew with probability {self.escape:.3f}; --all repeats all runs"
            )
        if any(not one.is_whole and not one.problem for one in self.repetitions):
            texts.append(f"rounds after round {self.rounds} were not repeated: an edit there is not found")
        if "band" in ways:
            texts.append(
                "edits smaller than the bands: the submission states its environment itself, and a false one weakens "
                "this check; repeat the runs in the environment that they state to be certain"
            )
        if "configuration" in ways:
            texts.append("scores of runs with secret noise: nobody can draw it again, so their scores are on trust")
        return [*texts, "measured times: they differ in every run"]

    def as_json(self) -> dict[str, Any]:
        return {
            "verdict": self.outcome,
            "accepted": self.accepted,
            "problems": self.problems,
            "runs": len(self.submission.runs),
            "repeated": [
                {
                    "run": str(one.run.path), "compared": one.way, "rounds": one.rounds, "problem": one.problem or None,
                    "environment_differs_in": list(one.differs_in),
                }
                for one in self.repetitions
            ],
            "escape_probability": self.escape,
            "verified": self.verified(),
            "not_verified": self.not_verified(),
        }  # fmt: skip


def check_submission(
    path: Path,
    count: int | None = 3,
    rounds: int | None = None,
    plugins: Sequence[Path] = (),
    report: Report = lambda run, place, number: None,
    trusted: Sequence[Path] = (),
) -> Verdict:
    """Check the records of a submission, and repeat some of its runs, which nobody can foresee; None for all of them.

    Nothing is repeated if the records alone are refused. A model file is executed only if it is a trusted one.
    """
    submission = check_records(path)
    if submission.problems:
        return Verdict(submission, [], rounds)
    total = len(submission.runs)
    chosen = submission.runs
    if count is not None and count < total:
        chosen = secrets.SystemRandom().sample(submission.runs, count)
    repetitions = []
    for place, run in enumerate(chosen):

        def tell(number: int, run: StoredRun = run, place: int = place) -> object:
            return report(run, place, number)

        repetitions.append(repeat(run, rounds, plugins, tell, trusted))
    return Verdict(submission, repetitions, rounds)


def _shift_problems(repetitions: Sequence[Repetition]) -> Iterator[str]:
    """Yield a sentence about each method, and about all of them, whose scores moved one way more than by chance."""
    groups: dict[str, list[float]] = {}
    for one in repetitions:
        if one.shift is not None and not one.problem:
            for name in ("all methods", str(one.run.label["algorithm"])):
                groups.setdefault(name, []).append(one.shift)
    for name, shifts in groups.items():
        mean, limit = sum(shifts) / len(shifts), shift_limit(len(shifts))
        if abs(mean) > limit:
            yield (
                f"{name}: the last scores of {_runs(len(shifts))} are {100 * abs(mean):.1f} points "
                f"{'above' if mean > 0 else 'below'} those of the repetitions on average, and chance explains at most "
                f"{100 * limit:.1f}"
            )


def _runs(count: int) -> str:
    return f"{count} run{'s' * (count != 1)}"


def _repeated(each: Sequence[Repetition]) -> str:
    rounds = max(one.rounds for one in each)
    where = "to the last round" if all(one.is_whole for one in each) else f"until round {rounds}"
    return f"{_runs(len(each))} {'was' if len(each) == 1 else 'were'} repeated {where}"


def _names(each: Sequence[Repetition]) -> str:
    names = [one.run.path.name for one in each]
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")


def _bands() -> str:
    early = ", ".join(f"{100 * band.score:g} points in round {number}" for number, band in enumerate(BANDS, 1))
    return f"{early} and {100 * LATE.score:g} points later"
