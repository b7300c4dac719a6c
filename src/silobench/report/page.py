"""The HTML page of some runs: one file without scripts, which loads nothing."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from silobench import __version__
from silobench.analysis.cells import CellResult
from silobench.analysis.claims import Finding, claims_table, judge
from silobench.analysis.details import details_tables
from silobench.analysis.groups import by_metric, settings_of
from silobench.analysis.malicious import malicious_tables
from silobench.analysis.ranking import ranking_tables
from silobench.analysis.tables import cost_table, score_tables, varying
from silobench.analysis.vertical import vertical_notes
from silobench.errors import RecordError
from silobench.report.drawing import Section, caption
from silobench.report.evidence import posterior_sections, time_sections
from silobench.report.figures import curves_svg, partition_svg
from silobench.report.final import final_section
from silobench.report.privacy import privacy_sections
from silobench.report.vertical import federation_tables, leakage_sections
from silobench.runs.stored import PartitionFacts, StoredRun
from silobench.tasks.metrics import ACCURACY

_CHOICES = ("model", "solver", "rounds", "participation")
_OF_ROWS = ("participation",)  # keys of parties that hold rows


def write_report(
    cells: Sequence[CellResult],
    path: Path,
    title: str = "silobench report",
    sections: Sequence[Section] = (),
    findings: Sequence[Finding] = (),
) -> Path:
    """Write a page with the tables of scores, the partition and training curves of every setting, and the costs.

    `sections` come after the tables of scores; `findings` are judged by the cells, and shown if there is evidence.
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
        scores=[(_heading(group), score_tables(group)) for group in by_metric(cells)],
        ranks=[table for table in ranking_tables(cells) if len(table.rows) > 1],
        sections=[*(Section(table.title, [], table) for table in malicious_tables(cells)), *sections],
        claims=claims_table(claims, "silobench claims --evidence shows every piece"),
        posteriors=posterior_sections(cells),
        details=details_tables(cells),
        cost=cost_table(cells),
        vertical=federation_tables(cells),
        leakage=leakage_sections(cells),
        privacy=privacy_sections(cells),
        times=time_sections(cells),
        settings=(settings := [_setting(group, varying(cells), cells) for group in settings_of(cells)]),
        finals=[setting for setting in settings if setting["final"]],
        summary=_summary(cells),
    )
    try:
        path.write_text(page, encoding="utf-8")
    except OSError as error:
        raise RecordError(f"{path} cannot be written ({error.strerror}): choose another place.") from error
    return path


def _heading(cells: Sequence[CellResult]) -> str:
    title = cells[0].metric.title
    return title[:1].upper() + title[1:]


def _setting(cells: list[CellResult], names: Sequence[str], everything: Sequence[CellResult]) -> dict[str, Any]:
    """Return what the page shows of one partition: its numbers, and the training curves of every algorithm on it."""
    partition, metric = cells[0].runs[0].partition, cells[0].metric
    baseline = cells[0].baseline
    return {
        "name": caption(cells[0], names, everything),
        "facts": [
            ("parties", partition.party_count),
            *_skew_facts(partition),
            *([] if baseline is None else [(f"{metric.title} of a constant answer (dotted)", metric.text(baseline))]),
        ],
        "final": final_section(cells),
        "partition": _heatmap(cells[0].runs[0]),
        "curves": curves_svg({cell.label["algorithm"]: cell.curve for cell in cells}, metric, baseline),
    }


def _skew_facts(partition: PartitionFacts) -> list[tuple[str, str]]:
    """Return how rows differ between parties; empty where parties do not hold rows of their own."""
    if not partition.sizes:
        return []
    return [
        ("rows per party", f"{min(partition.sizes)} to {max(partition.sizes)}"),
        ("label EMD, mean", f"{partition.emd_weighted:.3f}"),
        ("total variation", f"{partition.total_variation:.3f}"),
        ("Jensen-Shannon", f"{partition.jensen_shannon:.3f} bit"),
        ("Gini of sizes", f"{partition.gini:.3f}"),
        ("feature shift", f"{partition.feature_shift:.3f}"),
        *([] if partition.wasserstein is None else [("Wasserstein", f"{partition.wasserstein:.3f} std")]),
    ]


def _heatmap(run: StoredRun) -> str:
    """Return the rows by party and class, or by party and bin of a numeric target; empty if they were not counted."""
    counts, target = run.partition.counts, run.facts.objective.target
    columns = len(counts[0]) if counts else 0
    if not columns:
        return ""
    if len(run.dataset.classes) == columns:
        return partition_svg(counts, run.partition.parties, run.dataset.classes)
    labels = bin_labels(target.bins, columns) if target else [str(place + 1) for place in range(columns)]
    return partition_svg(counts, run.partition.parties, labels, target.name if target else "bin")


def bin_labels(edges: Sequence[float], bins: int) -> list[str]:
    """Return the names of bins by their lower edges, or their numbers if the edges are not theirs.

    >>> bin_labels([0, 10, 20.5], 2), bin_labels([], 2)
    (['>=0', '>=10'], ['1', '2'])
    """
    known = len(edges) == bins + 1
    return [f">={edge:.4g}" for edge in edges[:-1]] if known else [str(place + 1) for place in range(bins)]


def _summary(cells: Sequence[CellResult]) -> list[tuple[str, Any]]:
    runs = [run for cell in cells for run in cell.runs]
    datasets = {run.dataset.name: run.dataset for run in runs}
    return [
        ("runs", len(runs)),
        ("settings", len(settings_of(cells))),
        (
            "data",
            "; ".join(
                f"{name}: {data.train} training rows, {data.test} test rows, licence: {data.licence}"
                for name, data in datasets.items()
            ),
        ),
        *[("objective", text) for text in dict.fromkeys(map(_objective, runs)) if text],
        *[("note", f"{name}: {note}") for name, data in datasets.items() for note in data.notes],
        *[("note", note) for note in vertical_notes(cells)],
        *[(key, ", ".join(dict.fromkeys(run.label.text(key) for run in runs))) for key in _choices(runs)],
        ("made by", ", ".join(f"{name} {version}" for name, version in _versions(runs))),
    ]


def _choices(runs: Sequence[StoredRun]) -> Sequence[str]:
    """Return the keys to state; those that parties with columns do not have are left out if there are no others."""
    return [key for key in _CHOICES if key not in _OF_ROWS or any(run.facts.vertical is None for run in runs)]


def _objective(run: StoredRun) -> str:
    """Return what a run trained for, and why; empty for plain classification."""
    objective = run.facts.objective
    if len(objective.metrics) == 1 and run.metric.name == ACCURACY.name:
        return ""
    why = f", because {objective.reason}" if objective.reason else ""
    return f"{run.dataset.name}: {objective.spec or objective.name}, judged by {run.metric.title}{why}"


def _versions(runs: Sequence[StoredRun]) -> list[tuple[str, str]]:
    """Return the versions and engines of all runs, each once."""
    return list(dict.fromkeys(pair for run in runs for pair in run.facts.environment.items()))
