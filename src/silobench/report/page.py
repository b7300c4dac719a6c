"""The HTML page of some runs: self-contained, no scripts, nothing loaded from elsewhere."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from silobench._version import __version__
from silobench.analysis import CellResult, accuracy_table, cost_table
from silobench.analysis.tables import Table
from silobench.errors import RecordError
from silobench.report.figures import curves_svg, partition_svg


def write_report(cells: Sequence[CellResult], path: Path, title: str = "silobench report") -> Path:
    """Write one page with the accuracy table, the partitions and training curves of every setting, and the costs."""
    if not cells:
        raise RecordError("there is no finished run to report: run the experiment to its end first.")
    environment = Environment(
        loader=PackageLoader("silobench.report"), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    page = environment.get_template("report.html").render(
        title=title,
        version=__version__,
        accuracy=accuracy_table(cells),
        cost=cost_table(cells),
        settings=[_setting(group) for group in _by_setting(cells)],
        summary=_summary(cells),
    )
    try:
        path.write_text(page, encoding="utf-8")
    except OSError as error:
        raise RecordError(f"{path} cannot be written ({error.strerror}): choose another place.") from error
    return path


def _by_setting(cells: Sequence[CellResult]) -> list[list[CellResult]]:
    """Cells over the same data and partition, whose curves share one picture."""
    found: dict[tuple[str, str, int], list[CellResult]] = {}
    for cell in cells:
        found.setdefault((cell.label["dataset"], cell.label["partition"], cell.parties), []).append(cell)
    return list(found.values())


def _setting(cells: list[CellResult]) -> dict[str, Any]:
    facts = cells[0].runs[0].facts
    partition = facts["partition"]
    return {
        "name": f"{cells[0].label['dataset']} · {cells[0].label['partition']}",
        "facts": [
            ("parties", len(partition["sizes"])),
            ("rows a party", f"{min(partition['sizes'])} to {max(partition['sizes'])}"),
            ("label EMD, mean", f"{partition['emd_weighted']:.3f}"),
            ("Jensen-Shannon", f"{partition['jensen_shannon']:.3f} bit"),
            ("Gini of sizes", f"{partition['gini']:.3f}"),
            ("feature shift", f"{partition['feature_shift']:.3f}"),
        ],
        "partition": partition_svg(partition["counts"], partition["parties"], facts["dataset"]["classes"]),
        "curves": curves_svg(_curves(cells)),
    }


def _curves(cells: list[CellResult]) -> dict[str, list[tuple[int, float]]]:
    named = {}
    for cell in cells:
        name = cell.label["algorithm"]
        if name in named:  # another setting of the same algorithm: tell them apart by the first choice that differs
            other = next(c for c in cells if c.label["algorithm"] == name)
            differing = [key for key, value in cell.label.items() if other.label[key] != value]
            name += f" {differing[0]}={cell.label[differing[0]]}" if differing else ""
        named[name] = cell.curve
    return named


def _summary(cells: Sequence[CellResult]) -> list[tuple[str, Any]]:
    runs = [run for cell in cells for run in cell.runs]
    first = runs[0].facts
    datasets = {run.facts["dataset"]["name"]: run.facts["dataset"] for run in runs}
    return [
        ("runs", len(runs)),
        ("settings", len(_by_setting(cells))),
        ("data", "; ".join(f"{n}: {d['train']} / {d['test']} rows, {d['licence']}" for n, d in datasets.items())),
        *[("note", f"{name}: {note}") for name, data in datasets.items() for note in data["notes"]],
        ("solver", ", ".join(dict.fromkeys(run.facts["config"]["solver"] for run in runs))),
        ("versions", ", ".join(f"{name} {version}" for name, version in first["versions"].items())),
    ]


__all__ = ["Table", "write_report"]
