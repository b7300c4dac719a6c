"""Scores of folders as tables: how many mutants were noticed, and which were not."""

import math
from dataclasses import dataclass
from pathlib import Path

from cosmic_ray.work_item import TestOutcome, WorkResult

from mutants.campaign import database
from mutants.plan import Folder
from mutants.sources import Mutant, mutants_of
from mutants.survivors import change_of, explanations
from mutants.trial import TIMEOUT

_DEVIATIONS = 1.959963984540054  # of a normal variable, within which 95% of its values are


@dataclass(frozen=True)
class Score:
    """What became of the mutants of a folder."""

    folder: str
    mutants: int
    killed: int
    late: int  # of the killed: those that exceeded their processor time
    explained: list[Mutant]
    unexplained: list[Mutant]

    @property
    def tried(self) -> int:
        return self.killed + len(self.explained) + len(self.unexplained)

    @property
    def interval(self) -> tuple[float, float]:
        """Return Wilson's interval of 95% for the share that would be killed; a point if all mutants were tried."""
        share = self.killed / self.tried
        if self.tried == self.mutants:
            return share, share
        n, z = self.tried, _DEVIATIONS
        centre, spread = share + z**2 / (2 * n), z * math.sqrt(share * (1 - share) / n + z**2 / (4 * n**2))
        return (centre - spread) / (1 + z**2 / n), (centre + spread) / (1 + z**2 / n)


def score(folder: Folder, mutants: list[Mutant], place: Path) -> Score:
    """Return the score of those of some mutants that have stored results."""
    with database(place, folder) as db:
        results: dict[str, WorkResult] = dict(db.results)
    outcomes = [(mutant, results[mutant.identity()]) for mutant in mutants if mutant.identity() in results]
    killed = [result for _, result in outcomes if result.test_outcome is TestOutcome.KILLED]
    survivors = [mutant for mutant, result in outcomes if result.test_outcome is TestOutcome.SURVIVED]
    listed = {change for entry in explanations() for change in entry.changes}
    explained = [mutant for mutant in survivors if change_of(mutant) in listed]
    unexplained = [mutant for mutant in survivors if mutant not in explained]
    late = sum(result.output == TIMEOUT for result in killed)
    count = sum(1 for file in folder.files() for _ in mutants_of(file))
    return Score(folder.name, count, len(killed), late, explained, unexplained)


def markdown(scores: list[Score]) -> str:
    """Return a table with one line for each folder."""
    lines = [
        "| folder | mutants | tried | killed | by time limit | survivors explained | unexplained | score | 95% |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for each in scores:
        if each.tried:
            low, high = each.interval
            cells = (each.folder, each.mutants, each.tried, each.killed, each.late, len(each.explained))
            share = f"{100 * each.killed / each.tried:.1f}% | {100 * low:.1f} to {100 * high:.1f}"
            lines.append(f"| {' | '.join(map(str, cells))} | {len(each.unexplained)} | {share} |")
    return "\n".join(lines) + "\n"


def survivors_markdown(each: Score) -> str:
    """Return a list of all survivors: the place, the line before and after, and the reason if there is one."""
    reasons = {change: entry.reason for entry in explanations() for change in entry.changes}
    lines = []
    for mutant in sorted([*each.explained, *each.unexplained], key=lambda mutant: (mutant.file, mutant.start)):
        change = change_of(mutant)
        place, reason = f"{change.file}:{mutant.start[0]}", reasons.get(change, "*Not explained.*")
        lines.append(f"- `{place}`: `{change.before}` becomes `{change.after or '(nothing)'}`. {reason}\n")
    return "".join(lines)


def write_page(page: Path, scores: list[Score]) -> None:
    """Replace what a page has between the two marks of each folder by its score and its survivors."""
    text = page.read_text("utf-8")
    for each in scores:
        start, end = f"<!-- mutants of {each.folder} -->\n", f"<!-- end of {each.folder} -->"
        before, rest = text.split(start)
        text = f"{before}{start}\n{markdown([each])}\n{survivors_markdown(each)}\n{end}{rest.split(end)[1]}"
    page.write_text(text, "utf-8")


def unexplained_lines(scores: list[Score]) -> str:
    """Return the survivors without an explanation, one by one, as survivors.toml would name them."""
    lines = []
    for each in scores:
        for mutant in each.unexplained:
            change = change_of(mutant)
            lines += [f"{change.file}:{mutant.start[0]}", f"    - {change.before}", f"    + {change.after}"]
    return "\n".join(lines)
