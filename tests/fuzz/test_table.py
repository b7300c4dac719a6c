"""The counts of campaigns: rows of the same target and driver take each other's place, and the page has their table."""

from pathlib import Path

from fuzz.drive import Row
from fuzz.table import COUNTS, markdown, store, stored_rows, write_page
from fuzz.target import all_targets

FIRST = Row("spec", "mutator", 10, 4, 6, slowest=0.5, megabytes=1.0)
GUIDED = Row("spec", "atheris", 5, 5, 0, edges=70, findings=1, slowest=2.0)
BOUNDS = {"data-csv-wide": 1024, "data-picture": 1365}  # MB, as the page states them
OTHER = Row("letter", "mutator", 2000, 1, 1999, megabytes=3.0)


def test_a_row_takes_the_place_of_that_of_its_target_and_driver(tmp_path: Path) -> None:
    file = tmp_path / "counts.json"
    assert stored_rows(file) == []
    store([FIRST, GUIDED], file)
    again = Row("spec", "mutator", 20, 20)
    assert store([again, OTHER], file) == stored_rows(file) == [OTHER, GUIDED, again]


def test_the_table_has_sums_by_target_and_by_driver() -> None:
    lines = markdown([OTHER, GUIDED, FIRST]).splitlines()
    assert lines[2:] == [
        "| `letter` | 2,000 | 1 | 1,999 |  | 0 | 0.00 s | 3 MB |",
        "| `spec` | 15 | 9 | 6 | 70 | 1 | 2.00 s | 1 MB |",
        "| all, by atheris | 5 | 5 | 0 | 70 | 1 | 2.00 s | 0 MB |",
        "| all, by mutator | 2,010 | 5 | 2,005 |  | 0 | 0.50 s | 3 MB |",
        "| **all** | 2,015 | 10 | 2,005 |  | 1 | 2.00 s | 3 MB |",
    ]


def test_a_page_keeps_what_is_around_the_table(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- counts -->\nold\n<!-- end of counts -->\nafter\n")
    write_page([FIRST], page)
    text = page.read_text()
    assert text.startswith("before\n<!-- counts -->\n| target |")
    assert text.endswith("|\n<!-- end of counts -->\nafter\n")
    assert "old" not in text


def test_the_published_table_is_that_of_the_published_counts() -> None:
    page = Path(__file__).parents[2] / "docs" / "trust" / "fuzzing.md"
    rows = stored_rows(COUNTS)
    assert f"<!-- counts -->\n{markdown(rows)}\n<!-- end of counts -->" in page.read_text(encoding="utf-8")
    assert sum(row.inputs for row in rows) >= 100_000
    assert not any(row.findings for row in rows)


def test_the_published_counts_have_all_targets_and_keep_the_bounds_of_memory() -> None:
    rows = stored_rows(COUNTS)
    assert {row.target for row in rows} == set(all_targets())
    assert {row.driver for row in rows} == {"atheris", "hypothesis", "mutator"}
    assert [row for row in rows if row.megabytes > BOUNDS.get(row.target, 512)] == []
