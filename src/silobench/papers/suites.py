"""The published experiments as TOML files: title, table, printed numbers, and the scales they can be run at."""

from pathlib import Path
from typing import Any

from silobench.papers import PAPERS
from silobench.papers.published import published_files, read_suite

_DEMO = Path(__file__).parent / "demo.toml"


def names() -> list[str]:
    """Return the names of all suites: the demo and those of every paper."""
    return sorted(_files())


def path(name: str) -> Path:
    """Return the file of a suite."""
    return _files()[name]


def describe() -> list[dict[str, Any]]:
    """Return a description of each suite, by name."""
    citations = {name: paper.citation for paper in PAPERS for name in paper.suites}
    return [_about(name, read_suite(path(name)), citations.get(name, "")) for name in names()]


def _files() -> dict[str, Path]:
    files = {"demo": _DEMO}
    for paper in PAPERS:
        files |= paper.suites
    return files


def _about(name: str, suite: dict[str, Any], citation: str) -> dict[str, Any]:
    title, table = suite.get("title", ""), suite.get("table", "")
    origin = f" ({citation.split(':')[0]}, {table})" if citation else ""
    return {
        "name": name,
        "signature": name,
        "summary": title + origin,
        "title": title,
        "paper": citation,
        "table": table,
        "numbers": ", ".join(published_files(suite)),
        "scales": {scale: changes["note"] for scale, changes in sorted(suite.get("scale", {}).items(), reverse=True)},
    }
