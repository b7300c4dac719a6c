"""Tables fit the width that there is: no line is longer, and no word or number is broken."""

import re

from hypothesis import given, settings
from hypothesis import strategies as st

from screens import check, lines_of
from silobench.cli.layout import Grid, Item
from silobench.cli.wrapping import wrap

name = st.text("abcdefgh-", min_size=1, max_size=18)
number = st.floats(-100, 100).map("{:.1f}".format)
spec = st.builds("{}({}={}, {}={})".format, st.text("abcdefgh", min_size=3, max_size=18), name, number, name, number)
result = st.builds("{} ± {}".format, number, number)
text = st.one_of(st.just(""), name, number, spec, result, st.lists(name, max_size=8).map(" ".join))
item = st.one_of(st.builds(Item, text), st.builds(Item, result, remark=result.map("paper {}".format)))


@st.composite
def grids(draw: st.DrawFn) -> Grid:
    names = draw(st.lists(name, min_size=1, max_size=10, unique=True))
    row = st.one_of(st.lists(item, min_size=len(names), max_size=len(names)))
    rows = draw(st.lists(row, min_size=1, max_size=6))
    for column in draw(st.sets(st.integers(0, len(names) - 1))):  # constants
        for each in rows:
            each[column] = rows[0][column]
    return Grid(names, rows, draw(st.lists(row, max_size=2)), frozenset(names[1:2]))


@given(grids(), st.sampled_from((80, 120, 40)))
@settings(deadline=None)
def test_any_table_fits_and_keeps_its_words(grid: Grid, width: int) -> None:
    check(grid, width)


@given(st.text(max_size=300), st.integers(1, 100))
def test_any_text_fits(text: str, width: int) -> None:
    printable = "".join(character for character in text if character.isprintable() and character.isascii())
    lines = wrap(printable, width)
    assert max(map(len, lines)) <= max(width, 2)
    assert re.sub(r"\s", "", "".join(lines)) == re.sub(r"\s", "", printable)


def _plain(names: str, *rows: str, footer: tuple[str, ...] = ()) -> Grid:
    """Return a table from lines, with | between entries."""
    cut = [[Item(entry.strip()) for entry in row.split("|")] for row in (*rows, *footer)]
    return Grid([name.strip() for name in names.split("|")], cut[: len(rows)], cut[len(rows) :])


def test_a_table_with_room_is_one_table() -> None:
    grid = _plain("partition | fedavg", "iid | 99.1 ± 0.1", "label-count(k=2) | 35.0 ± 2.1")
    assert lines_of(grid, 80) == [
        "partition         fedavg",
        "iid               99.1 ± 0.1",
        "label-count(k=2)  35.0 ± 2.1",
    ]


def test_what_all_rows_share_is_stated_once_if_space_is_short() -> None:
    grid = _plain(
        "skew | dataset | fedavg", "label | digits | 99.1", "label | fcube | 35.0", footer=("label | best | 1",)
    )
    assert lines_of(grid, 80)[0] == "skew   dataset  fedavg"
    assert lines_of(grid, 20) == ["skew: label", "dataset  fedavg", "digits   99.1", "fcube    35.0", "", "best     1"]


def test_a_text_of_the_footer_moves_if_its_column_is_stated_above() -> None:
    grid = _plain("data | partition | fedavg", "digits | iid | 9", "digits | Dir | 8", footer=("times best | | 2",))
    assert lines_of(grid, 20)[0] == "data: digits"
    assert lines_of(grid, 20)[-1] == "times best  2"


def test_settings_become_headings_if_space_is_short() -> None:
    rows = [
        f"{data} | {name} | 99.{place} | {place}.13 MB | {place}.1 ms"
        for data in ("digits", "fcube")
        for place, name in enumerate(("fedavg", "fedprox", "scaffold"))
    ]
    lines = lines_of(_plain("dataset | algorithm | accuracy | sent up | time", *rows), 42)
    assert lines[:4] == [
        "dataset",
        "  algorithm  accuracy  sent up  time",
        "digits",
        "  fedavg     99.0      0.13 MB  0.1 ms",
    ]


def test_results_stay_in_the_table_if_they_are_all_the_same() -> None:
    grid = _plain("dataset | rounds | fedavg | scaffold", "digits | 50 | 99.5 | 99.5", "fcube | 50 | 99.5 | 99.5")
    assert lines_of(grid, 30)[:2] == ["rounds: 50", "dataset  fedavg  scaffold"]


def test_a_wide_table_becomes_several_with_their_settings() -> None:
    columns = [f"algorithm-{place}" for place in range(8)]
    rows = [" | ".join([setting, *(f"9{place}.{place} ± 1.0" for place in range(8))]) for setting in ("iid", "skewed")]
    lines = lines_of(_plain(" | ".join(["partition", *columns]), *rows), 80)
    assert [line for line in lines if line.startswith("partition")] == [
        "partition  algorithm-0  algorithm-1  algorithm-2  algorithm-3",
        "partition  algorithm-4  algorithm-5  algorithm-6  algorithm-7",
    ]


def test_columns_of_blanks_and_dashes_are_left_out() -> None:
    grid = _plain("dataset | worst class | steady | accuracy", "digits | | - | 99.1", "fcube | | - | 99.2")
    assert lines_of(grid, 80)[0] == "dataset  accuracy"


def test_a_published_number_is_below_ours_if_space_is_short() -> None:
    grid = Grid(["partition", "fedavg"], [[Item("iid"), Item("99.5 ± 0.0 *", remark="paper 99.8 ± 0.2, -0.3")]])
    assert lines_of(grid, 80)[1] == "iid        99.5 ± 0.0 * (paper 99.8 ± 0.2, -0.3)"
    assert lines_of(grid, 40)[1:] == ["iid        99.5 ± 0.0 *", "           paper 99.8 ± 0.2, -0.3"]
