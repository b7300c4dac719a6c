"""The cells of all suites at their smallest scale: the first trial of each, with the run that it starts from."""

import json
from dataclasses import dataclass
from functools import cache

from silobench.papers import PAPERS, suites
from silobench.runs.experiment import at_scale, plan, read_experiment
from silobench.runs.label import Label
from silobench.runs.plan import Plan
from silobench.runs.replay import has_secret_noise


@dataclass(frozen=True)
class SuiteCell:
    """A cell of a suite, by its first trial."""

    paper: str  # the demo is a paper of its own
    suite: str
    plan: Plan


@cache
def suite_cells() -> tuple[SuiteCell, ...]:
    """Return every cell once, under the first suite that has it. Runs whose noise is secret have no digest."""
    papers = {suite: paper.name for paper in PAPERS for suite in paper.suites}
    cells: dict[str, SuiteCell] = {}
    for suite in suites.names():
        choices = read_experiment(suites.path(suite))
        for each in plan(choices if suite == "demo" else at_scale(choices, "smoke")):
            cells.setdefault(_setting(each), SuiteCell(papers.get(suite, "demo"), suite, each))
    return tuple(cell for cell in cells.values() if not has_secret_noise(Label(cell.plan.config)))


def _setting(each: Plan) -> str:
    return json.dumps({key: value for key, value in each.config.items() if key != "seed"}, sort_keys=True)
