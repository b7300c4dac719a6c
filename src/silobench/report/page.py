"""The HTML page of some runs: one file without scripts, which loads nothing."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from silobench import __version__
from silobench.analysis.cells import CellResult
from silobench.analysis.claims import Finding, claims_table, judge
from silobench.analysis.details import details_table
from silobench.analysis.groups import settings_of
from silobench.analysis.ranking import ranking_table
from silobench.analysis.tables import accuracy_table, cost_table, shown, varying
from silobench.errors import RecordError
from silobench.report.drawing import Section
from silobench.report.figures import curves_svg, partition_svg
from silobench.runs.stored import StoredRun

_CHOICES = ("model", "solver", "rounds", "participation")


def write_report(
    cells: Sequence[CellResult],
    path: Path,
    title: str = "silobench report",
    sections: Sequence[Section] = (),
    findings: Sequence[Finding] = (),
) -> Path:
    """Write a page with the accuracy table, the partition and training curves of every setting, and the costs.

    `sections` come after the accuracy table; `findings` are judged by the cells, and shown if there is evidence.
    """
    if not cells:
        raise RecordError("there is no finished run to report: run the experiment to its end first.")
    environment = Environment(
        loader=PackageLoader("silobench.report"), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    claims = [claim for claim in judge(cells, findings) if claim.evidence]
    page = environment.get_template("report.html").render(
        title=title,
        version=__version__,
        accuracy=accuracy_table(cells),
        ranks=ranking_table(cells),
        sections=sections,
        claims=claims_table(claims, "silobench claims --evidence shows every piece"),
        details=details_table(cells),
        cost=cost_table(cells),
        settings=[_setting(group, varying(cells), cells) for group in settings_of(cells)],
        summary=_summary(cells),
    )
    try:
        path.write_text(page, encoding="utf-8")
    except OSError as error:
        raise RecordError(f"{path} cannot be written ({error.strerror}): choose another place.") from error
    return path


def _setting(cells: list[CellResult], names: Sequence[str], everything: Sequence[CellResult]) -> dict[str, Any]:
    """Return what the page shows of one partition: its numbers, and the training curves of every algorithm on it."""
    partition = cells[0].runs[0].partition
    return {
        "name": " · ".join(filter(None, (shown(cells[0], name, everything) for name in names))),
        "facts": [
            ("parties", len(partition.sizes)),
            ("rows per party", f"{min(partition.sizes)} to {max(partition.sizes)}"),
            ("label EMD, mean", f"{partition.emd_weighted:.3f}"),
            ("Jensen-Shannon", f"{partition.jensen_shannon:.3f} bit"),
            ("Gini of sizes", f"{partition.gini:.3f}"),
            ("feature shift", f"{partition.feature_shift:.3f}"),
        ],
        "partition": partition_svg(partition.counts, partition.parties, cells[0].dataset.classes),
        "curves": curves_svg({cell.label["algorithm"]: cell.curve for cell in cells}),
    }


def _summary(cells: Sequence[CellResult]) -> list[tuple[str, Any]]:
    runs = [run for cell in cells for run in cell.runs]
    datasets = {run.dataset.name: run.dataset for run in runs}
    return [
        ("runs", len(runs)),
        ("settings", len(settings_of(cells))),
        ("data", "; ".join(f"{n}: {d.train} / {d.test} rows, {d.licence}" for n, d in datasets.items())),
        *[("note", f"{name}: {note}") for name, data in datasets.items() for note in data.notes],
        *[(key, ", ".join(dict.fromkeys(run.label.text(key) for run in runs))) for key in _CHOICES],
        ("made by", ", ".join(f"{name} {version}" for name, version in _versions(runs))),
    ]


def _versions(runs: Sequence[StoredRun]) -> list[tuple[str, str]]:
    """Return the versions and engines of all runs, each once."""
    return list(dict.fromkeys(pair for run in runs for pair in run.facts.environment.items()))
