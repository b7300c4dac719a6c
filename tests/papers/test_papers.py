"""A paper is one value: everything that commands show of it is found through `PAPERS`."""

import re
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

from cases import CLOSE, WIDE, Case, pattern, runs
from commands import write
from silobench import papers
from silobench.analysis.cells import Published
from silobench.analysis.claims import judge
from silobench.analysis.tables import Entry, Table
from silobench.papers import PAPERS, suites
from silobench.papers.paper import Paper
from silobench.report.drawing import Section
from silobench.runs.experiment import at_scale, bind, expand, read_experiment
from stored import cells, stored

TABLE = Table("Ours", ["a"], [[Entry("1")]])
EMPTY = Table("Nothing", ["a"], [])


@pytest.fixture
def fourth(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Paper:
    (tmp_path / "suites").mkdir()
    write(tmp_path / "suites" / "ours-1.toml", 'title = "Ours"\ntable = "Table 1"\nnumbers = "ours.csv"\n')
    paper = Paper(
        name="Ours",
        citation="We: A paper, 2030",
        folder=tmp_path,
        findings=(),
        accuracy=lambda label, parties: Published(0.5, None, "Table 1", "ours, 1 round") if parties == 7 else None,
        tables=(lambda cells: TABLE, lambda cells: EMPTY),
        facts={"ours": lambda cells: [{"parties": cell.parties} for cell in cells]},
        sections=lambda cells: [Section("Ours", (), TABLE), Section("Nothing", (), EMPTY)],
    )
    for module in (papers, suites):
        monkeypatch.setattr(module, "PAPERS", (*PAPERS, paper))
    return paper


def test_a_fourth_paper_is_one_value(fourth: Paper) -> None:
    (cell,) = cells([stored([0.6], parties=7, dataset="digits")])
    assert cell.paper == Published(0.5, None, "Table 1", "ours, 1 round")
    assert [table.title for table in papers.paper_tables([cell])] == ["Ours"]
    assert papers.paper_facts([cell])["ours"] == [{"parties": 7}]
    assert [section.title for section in papers.paper_sections([cell])] == ["Ours"]
    assert suites.path("ours-1") == fourth.folder / "suites" / "ours-1.toml"
    (about,) = [row for row in suites.describe() if row["name"] == "ours-1"]
    assert about["summary"] == "Ours (We, Table 1)"
    assert (about["paper"], about["numbers"]) == ("We: A paper, 2030", "ours.csv")


PAGE = Path(__file__).parents[2] / "docs" / "papers.md"


@pytest.fixture
def ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Paper]:
    """The paper of docs/papers.md, from the files that the page shows."""
    files = re.findall(r"^`((?:tests/)?papers/\S+)`\n\n```\w+\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.M | re.S)
    assert len(files) == 6
    for name, text in files:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        write(tmp_path / name, text)
    monkeypatch.setattr(papers, "__path__", [*papers.__path__, str(tmp_path / "papers")])
    monkeypatch.syspath_prepend(tmp_path / "tests" / "papers")
    paper: Paper = import_module("silobench.papers.ours2030").PAPER
    for module in (papers, suites):
        monkeypatch.setattr(module, "PAPERS", (*PAPERS, paper))
    yield paper
    for name in [name for name in sys.modules if "ours2030" in name]:
        del sys.modules[name]


def test_the_page_about_papers_adds_one(ours: Paper) -> None:
    experiment = read_experiment(suites.path("ours-skew"))
    assert {scale: len(expand(at_scale(experiment, scale))) for scale in ("smoke", "laptop", "paper")} == {
        "smoke": 6, "laptop": 6, "paper": 6,
    }  # fmt: skip
    for choices in expand(at_scale(experiment, "smoke")):
        bind(choices)
    skewed = {"dataset": "mnist", "partition": "label-dirichlet(beta=0.5)"}
    (cell,) = cells([stored([0.6], **skewed)])
    assert ours.accuracy(cell.label, 10) == Published(
        0.982, 0.004, "Table 1", "Ours, Table 1: 50 rounds of 10 local epochs"
    )
    assert ours.accuracy(cell.label, 20) is None
    others = {
        "model": "mlp", "solver": "sgd(lr=5.0)", "participation": 0.5, "start": "centralised(rounds=7)",
        "server": "adam", "algorithm": "scaffold", "dataset": "fmnist", "partition": "label-count(k=1)",
    }  # fmt: skip
    for key, other in others.items():
        assert ours.accuracy(cell.label.replace(**{key: other}), 10) is None


def test_the_finding_of_the_page_has_three_verdicts(ours: Paper) -> None:
    case: Case = import_module("cases_ours2030").CASES["ours-1"]

    def verdict(numbers: list[float], noise: float) -> str:
        (claim,) = judge(cells(*runs(case, numbers, pattern(noise))), ours.findings)
        return claim.verdict

    assert verdict(case.supported, CLOSE) == "supported"
    assert verdict(case.contradicted, CLOSE) == "contradicted"
    assert verdict(case.supported, WIDE) == "undecided"


def test_papers_do_not_share_names() -> None:
    assert len({paper.name for paper in PAPERS}) == len(PAPERS)
    every = [suite for paper in PAPERS for suite in paper.suites]
    assert len(set(every)) == len(every)
    facts = [name for paper in PAPERS for name in paper.facts]
    assert len(set(facts)) == len(facts)
    assert all(finding.paper == paper.name for paper in PAPERS for finding in paper.findings)


def test_every_printed_table_is_named_by_a_suite() -> None:
    for paper in PAPERS:
        named = {
            name for row in suites.describe() if row["name"] in paper.suites for name in row["numbers"].split(", ")
        }
        assert {file.name for file in paper.folder.glob("published/*.csv")} == named - {""}
