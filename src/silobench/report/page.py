"""The HTML page of some runs: self-contained, no scripts, nothing loaded from elsewhere."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from silobench import __version__
from silobench.analysis import CellResult, accuracy_table, cost_table, details_table, ranking_table
from silobench.analysis.claims import claims_table, judge
from silobench.analysis.tables import settings_of, shown, varying
from silobench.errors import RecordError
from silobench.papers.findings import FINDINGS
from silobench.report.figures import curves_svg, partition_svg
from silobench.runs.record import StoredRun

_CHOICES = ("model", "solver", "rounds", "participation")


def write_report(cells: Sequence[CellResult], path: Path, title: str = "silobench report") -> Path:
    """Write one page with the accuracy table, the partitions and training curves of every setting, and the costs."""
    from silobench.papers.zhao2018.figures import sections

    if not cells:
        raise RecordError("there is no finished run to report: run the experiment to its end first.")
    environment = Environment(
        loader=PackageLoader("silobench.report"), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    bearing = [claim for claim in judge(cells, FINDINGS) if claim.evidence]
    page = environment.get_template("report.html").render(
        title=title,
        version=__version__,
        accuracy=accuracy_table(cells),
        ranks=ranking_table(cells),
        sections=sections(cells),
        claims=claims_table(bearing, "silobench claims --evidence shows every piece"),
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
    """One partition and the training curves of every algorithm on it."""
    facts = cells[0].runs[0].facts
    partition = facts["partition"]
    return {
        "name": " · ".join(filter(None, (shown(cells[0], name, everything) for name in names))),
        "facts": [
            ("parties", len(partition["sizes"])),
            ("rows a party", f"{min(partition['sizes'])} to {max(partition['sizes'])}"),
            ("label EMD, mean", f"{partition['emd_weighted']:.3f}"),
            ("Jensen-Shannon", f"{partition['jensen_shannon']:.3f} bit"),
            ("Gini of sizes", f"{partition['gini']:.3f}"),
            ("feature shift", f"{partition['feature_shift']:.3f}"),
        ],
        "partition": partition_svg(partition["counts"], partition["parties"], facts["dataset"]["classes"]),
        "curves": curves_svg({cell.label["algorithm"]: cell.curve for cell in cells}),
    }


def _summary(cells: Sequence[CellResult]) -> list[tuple[str, Any]]:
    runs = [run for cell in cells for run in cell.runs]
    datasets = {run.facts["dataset"]["name"]: run.facts["dataset"] for run in runs}
    return [
        ("runs", len(runs)),
        ("settings", len(settings_of(cells))),
        ("data", "; ".join(f"{n}: {d['train']} / {d['test']} rows, {d['licence']}" for n, d in datasets.items())),
        *[("note", f"{name}: {note}") for name, data in datasets.items() for note in data["notes"]],
        *[(key, ", ".join(dict.fromkeys(str(run.facts["label"][key]) for run in runs))) for key in _CHOICES],
        ("made by", ", ".join(f"{name} {version}" for name, version in _made_by(runs))),
    ]


def _made_by(runs: Sequence[StoredRun]) -> list[tuple[str, str]]:
    """Everything that any run was made by, once."""
    return list(dict.fromkeys(pair for run in runs for pair in run.facts["made_by"].items()))
