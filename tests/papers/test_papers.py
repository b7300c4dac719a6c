"""A paper is one value: everything that commands show of it is found through `PAPERS`."""

from pathlib import Path

import pytest

from commands import write
from silobench import papers
from silobench.analysis.cells import Published
from silobench.analysis.tables import Entry, Table
from silobench.papers import PAPERS, suites
from silobench.papers.paper import Paper
from silobench.report.drawing import Section
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
