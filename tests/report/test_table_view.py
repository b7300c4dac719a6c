"""Tables as pages show them."""

import pytest

from markup import read, table_texts
from silobench.analysis.tables import Entry, Table, entries
from silobench.report.drawing import Section
from silobench.report.page import Page
from silobench.report.rendering import Frame, render
from silobench.report.table_view import by_partition, view


def table(columns: list[str], *rows: list[str], **more: object) -> Table:
    return Table("Accuracy", columns, [entries(*row) for row in rows], **more)  # type: ignore[arg-type]


def titles(shown: Table) -> list[str]:
    return [column.title for column in view(shown).columns]


def test_columns_without_a_value_are_left_out() -> None:
    assert titles(table(["model", "fedavg", "note"], ["a", "1", ""], ["b", "2", ""])) == ["model", "fedavg"]


def test_a_column_with_a_value_in_one_row_or_in_the_footer_stays() -> None:
    below = table(["model", "x"], ["a", ""], ["b", ""], footer=[entries("", "3")])
    assert titles(below) == ["model", "x"]
    assert titles(table(["model", "x"], ["a", ""], ["b", "1"])) == ["model", "x"]


def test_choices_that_all_rows_share_become_a_sentence() -> None:
    shown = view(table(["dataset", "model", "fedavg"], ["digits", "a", "90.1"], ["digits", "b", "90.1"]))
    assert [column.title for column in shown.columns] == ["model", "fedavg"]  # equal numbers are results, not choices
    assert shown.shared == "All rows: dataset digits."


def test_one_row_and_equal_rows_keep_their_choices() -> None:
    assert titles(table(["dataset", "fedavg"], ["digits", "1"])) == ["dataset", "fedavg"]
    assert titles(table(["dataset", "model"], ["digits", "a"], ["digits", "a"])) == ["dataset"]


@pytest.mark.parametrize(
    ("text", "is_number"),
    [
        ("90.1", True), ("90.1 ± 0.3", True), ("90.1 ± 0.3 †", True), ("1.5 MB", True), ("82 ms", True), ("-0.2", True),
        ("12,500", True), ("1e-05", True), ("97%", True), ("71.2 ± 0.1 [mu=0.01]", True), ("mlp(32)", False),
        ("0 to 5", False), ("3 of 4", False), ("2nd", False),
    ],
)  # fmt: skip
def test_numbers_are_told_from_texts(text: str, is_number: bool) -> None:
    assert view(table(["x", "y"], [text, "a"], ["-", "b"])).columns[0].is_number is is_number


@pytest.mark.parametrize(
    ("gap", "shown", "colour"),
    [
        (-7.0, "−7.0", "m2"),
        (-2.0, "−2.0", "m1"),
        (-0.04, "+0.0", ""),
        (0.9, "+0.9", ""),
        (3.0, "+3.0", "p1"),
        (9.0, "+9.0", "p2"),
    ],
)
def test_the_gap_to_the_paper_has_a_sign_a_text_and_a_colour(gap: float, shown: str, colour: str) -> None:
    entry = Entry("90.0", paper=f"paper 97.0, {gap:+.1f}", gap=gap)
    (cell,) = view(Table("", ["fedavg"], [[entry]])).rows[0]
    assert (cell.paper_text, cell.gap_text, cell.gap_class) == ("paper 97.0", shown, colour)


def test_the_partition_comes_first_with_its_skew() -> None:
    shown = by_partition(
        table(["skew", "dataset", "partition", "fedavg"], ["label", "digits", "iid", "1"],
              footer=[entries("label", "times best of 2", "", "7")])
    )  # fmt: skip
    assert shown.columns == ["partition", "dataset", "fedavg"]
    assert [entry.text for entry in shown.rows[0]] == ["iid", "digits", "1"]
    assert shown.rows[0][0].paper == "label skew"
    assert [entry.text for entry in shown.footer[0]] == ["label skew: times best of 2", "", "7"]


def test_markup_of_a_table() -> None:
    """Headers have scopes, the best has a mark, and texts are escaped."""
    rows = [[Entry("<b>"), Entry("90.1 ± 0.2", best=True)], [Entry("b"), Entry("80.0 ± 0.1")]]
    html = render(
        Page("a.html", "A", [Section("S", (), Table("T", ["class", "fedavg"], rows, "one; two"))]), Frame("s")
    )
    root = read(html)
    assert table_texts(next(root.each("table"))) == [
        {"class": "<b>", "fedavg": "90.1 ± 0.2 ★"}, {"class": "b", "fedavg": "80.0 ± 0.1"}
    ]  # fmt: skip
    assert {head.attributes["scope"] for head in root.each("th")} == {"col", "row"}
    assert [item.text for item in root.each("li")][-2:] == ["One.", "Two."]
    assert next(root.each("caption")).text == "T"
