"""Every table of a study fits a terminal."""

from importlib import import_module
from itertools import chain

import pytest

from cases import CLOSE, Case, pattern, runs
from screens import check
from silobench.analysis.cells import CellResult
from silobench.analysis.claims import claims_table, evidence_table, judge
from silobench.analysis.details import details_tables
from silobench.analysis.profile import profile_table
from silobench.analysis.ranking import ranking_tables
from silobench.analysis.tables import Table, cost_table, score_tables
from silobench.cli.terminal import grid_of
from silobench.papers import FINDINGS, PAPERS, collect_cells, paper_tables

CASES: dict[str, Case] = {
    name: case for paper in PAPERS for name, case in import_module(f"cases_{paper.folder.name}").CASES.items()
}


def _tables(cells: list[CellResult]) -> list[Table]:
    verdicts = judge(cells, FINDINGS)
    return [
        *score_tables(cells), *paper_tables(cells), *ranking_tables(cells), cost_table(cells), profile_table(cells),
        *details_tables(cells, 0.5), claims_table(verdicts), *map(evidence_table, verdicts),
    ]  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_every_table_fits(name: str) -> None:
    case = CASES[name]
    cells = collect_cells(list(chain.from_iterable(runs(case, case.supported, pattern(CLOSE)))))
    for table in _tables(cells):
        for width in (80, 120):
            check(grid_of(table), width)
