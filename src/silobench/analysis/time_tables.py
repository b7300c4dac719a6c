"""Tables of what runs cost in time and messages, and of where the time of server and parties went."""

from collections.abc import Callable, Mapping, Sequence

from silobench.analysis import costs
from silobench.analysis.cells import CellResult
from silobench.analysis.costs import PARTIES, PARTS, SERVER, Mean
from silobench.analysis.groups import Cells
from silobench.analysis.tables import Table, cost_groups, entries, over_trials, shown_choices, varying
from silobench.analysis.units import duration, percent, short, size

BARS = {SERVER: "server", PARTIES: "mean party"}
ROUND_TIME = (
    "round time, which is that of parties side by side: network and training, as in virtual time, and encoding, "
    "aggregation and tests, as measured"
)
_COLUMNS = (
    "rounds to converge", "rows/s", "rows/core-s", "overhead, %", "uplink ratio", "downlink ratio", "end-to-end ratio",
)  # fmt: skip
_NOTES = {
    "rounds to converge": "rounds to converge: until the schedule ended the run; > if a run had all its rounds first",
    "rows/s": f"rows/s: training rows of all parties per second of {ROUND_TIME}",
    "overhead, %": "overhead: the share of round time in which the mean party does not train and no model is tested",
    "uplink ratio": "ratios: bytes of the same messages without compression over those sent",
    "end-to-end ratio": "end-to-end: the uplink ratio, times the rounds without compression over those with it",
}
_OF_SUMS = (
    "bytes: of all parties together, up from them and down to them; time: measured work of all parties and the "
    "server, for replies that of the masks; a message from party to party via the server is one"
)
_OF_CUTS = (
    "bytes: of all parties together, up to the party with the labels and down from it; time: measured work of senders "
    "and receivers, without training"
)
_STATED = ", where training is that of the device that clock states"
_MEASURED = " of the machine that trains"
_SOME_STATED = f"{_MEASURED}; where clock states a device, training is that of the device"


def time_table(cells: Cells, by_partition: bool = False) -> Table:
    """Return convergence, throughput, overhead and compression ratios, as means over partitions and trials.

    `by_partition` gives each partition a row of its own. If each row is one cell, deviations over trials are shown too.
    Cells of which no number is recorded are left out, and so are columns that no cell has.
    """
    names, groups = ([*varying(cells), "algorithm"], [[cell] for cell in cells]) if by_partition else cost_groups(cells)
    baseline = costs.uncompressed(cells)
    by_cell = all(len(group) == 1 for group in groups)
    texts = [_texts(group, [baseline(cell) for cell in group], by_cell) for group in groups]
    used = [place for place in range(len(_COLUMNS)) if any(row[place] for row in texts)]
    rows = [
        [*shown_choices(group[0], names, cells), *entries(*(row[place] or "-" for place in used))]
        for group, row in zip(groups, texts, strict=True)
        if any(row)
    ]
    columns = [_COLUMNS[place] for place in used]
    over = over_trials(cells) if by_cell else "mean over partitions and trials"
    note = "; ".join(_note(column, cells) for column in columns if column in _NOTES)
    return Table(f"Time and communication ({over})", [*names, *columns], rows, note)


def _note(column: str, cells: Cells) -> str:
    """Return how to read a column, as far as it depends on the clocks and algorithms of the cells."""
    if column == "rows/s":
        stated = {cell.label.clock.name == "device" for cell in cells}
        where = {(False,): _MEASURED, (True,): _STATED, (False, True): _SOME_STATED}[tuple(sorted(stated))]
        return f"{_NOTES[column]}; rows/core-s: per core-second{where}"
    if column == "overhead, %" and any(map(_is_solo, cells)):
        return f"{_NOTES[column]}; with solo too, a party waits in each round for the largest or slowest one"
    return _NOTES[column]


def _is_solo(cell: CellResult) -> bool:
    """Whether every party trains by itself on its own rows."""
    return cell.label["algorithm"] == "solo" and not cell.is_vertical


def _texts(group: Sequence[CellResult], plain: Sequence[CellResult | None], with_spread: bool) -> list[str]:
    """Return the numbers of a row as text, empty where they are not known; `plain` has the uncompressed cells."""
    runs = [run for cell in group for run in cell.runs]
    numbers = [costs.mean_of(runs, number) for number in costs.NUMBERS.values()]
    if not any(numbers) and not any(costs.convergence(run) for run in runs):
        return [""] * len(_COLUMNS)
    others = [run for cell in plain if cell for run in cell.runs]
    is_compressed = any(baseline is not cell for baseline, cell in zip(plain, group, strict=True))
    end_to_end = costs.end_to_end_ratio(runs, others) if all(plain) and is_compressed else None
    rounds, (rate, core_rate, overhead, up, down) = costs.rounds_to_convergence(runs), numbers
    share = overhead and percent(overhead.mean, overhead.std if with_spread else None)
    return [
        _text(rounds, with_spread), *(_text(each, with_spread, _rounded) for each in (rate, core_rate)), share or "",
        *(_text(ratio, False) for ratio in (up, down, end_to_end)),
    ]  # fmt: skip


def _text(number: Mean | None, with_spread: bool, digits: Callable[[float], str] = short) -> str:
    """Return a number, with its bound and its deviation if there are any."""
    if number is None:
        return ""
    spread = f" ± {digits(number.std)}" if with_spread and number.std is not None else ""
    return f"{number.bound}{digits(number.mean)}{spread}"


def _rounded(rate: float) -> str:
    """Return a rate with three digits that are not 0, because measured seconds have no more.

    >>> _rounded(123456.7), _rounded(98.765), _rounded(0.0)
    ('123000', '98.8', '0')
    """
    return f"{float(f'{rate:.3g}'):.12g}"


def decomposition_table(cells: Cells) -> Table:
    """Return the round time of server and mean party by part, in seconds and percent."""
    known = [(cell, bars) for cell in cells if (bars := costs.mean_decomposition(cell.runs))]
    parts = [part for part in PARTS if any(times[part] for _, bars in known for times in bars.values())]
    names = [*varying(cells), "algorithm"]
    rows = [
        [
            *shown_choices(cell, names, cells),
            *entries(BARS[bar], duration(sum(times.values())), *(_part(times, part) for part in parts)),
        ]
        for cell, bars in known
        for bar, times in bars.items()
    ]
    note = (
        f"of the whole run, in {ROUND_TIME}; mean party: over all parties, one that is not asked idles; "
        "encode: transforms and packing; communicate: messages that cross the network"
    )
    return Table("Time of server and parties (mean over trials)", [*names, "of", "round time", *parts], rows, note)


def phases_tables(cells: Cells) -> list[Table]:
    """Return the bytes, messages and milliseconds of a round by phase; cells without phases are left out.

    Secure sums, and what crosses the cut between parties that hold columns, have tables of their own.
    """
    kinds = {
        "Secure sum by phase": ([cell for cell in cells if not cell.is_vertical], _OF_SUMS),
        "Messages by phase": ([cell for cell in cells if cell.is_vertical], _OF_CUTS),
    }
    tables = [_phases_table(title, some, note) for title, (some, note) in kinds.items()]
    return [table for table in tables if table.rows]


def _phases_table(title: str, cells: Cells, note: str) -> Table:
    names = [*varying(cells), "algorithm"] if cells else []
    rows = [
        [
            *shown_choices(cell, names, cells),
            *entries(
                phase, size(numbers["up"]), size(numbers["down"]), short(numbers["messages"]),
                _rounded(1000 * numbers["seconds"]),
            ),
        ]
        for cell in cells
        for phase, numbers in costs.phases_of_runs(cell.runs).items()
    ]  # fmt: skip
    columns = [*names, "phase", "bytes up", "bytes down", "messages", "time, ms"]
    return Table(f"{title} (mean over rounds and trials)", columns, rows, note)


def _part(times: Mapping[str, float], part: str) -> str:
    total = sum(times.values())
    return f"{duration(times[part])} ({100 * times[part] / total:.1f}%)" if times[part] else "-"
