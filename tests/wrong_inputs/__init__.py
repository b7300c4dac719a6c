"""The table of wrong inputs: what users get wrong, and what silobench answers.

Each case is a command and its files. `tests/cli/test_wrong_inputs.py` runs them all, and docs/errors.md shows them;
`make errors` writes that page anew.
"""

from wrong_inputs import (
    advice,
    agreements,
    clusters,
    consortia,
    datasets,
    devices,
    experiments,
    figures,
    lines,
    reports,
    results,
    silos,
    submissions,
    tuning,
    watching,
)
from wrong_inputs.case import Answer, Case, answer, make_results, normalised
from wrong_inputs.page import PAGE, page, row, rows_of

__all__ = ["PAGE", "TABLE", "Answer", "Case", "answer", "make_results", "normalised", "page", "row", "rows_of"]

TABLE: dict[str, list[Case]] = {
    "Experiment files": experiments.FILES,
    "Lines of an experiment": experiments.LINES,
    "Dataset specs and data files": datasets.CASES,
    "What silos agree on": agreements.CASES,
    "Command lines": lines.CASES,
    "Results directories": results.CASES,
    "Studies and exports": tuning.CASES,
    "Advice": advice.CASES,
    "Clusters": clusters.CASES,
    "Live view": watching.CASES,
    "Figures": figures.CASES,
    "Leaderboards and submissions": submissions.CASES,
    "Reports": reports.CASES,
    "Devices": devices.CASES,
    "Real organisations": [*silos.CASES, *consortia.CASES],
}
