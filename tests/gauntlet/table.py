"""The outcomes of the gauntlet as a table: how many of each fault were tried, survived, refused and lost."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from gauntlet.outcome import VERDICTS, Outcome

HEAD = ("fault", "cases", "tried", *VERDICTS)
_BEGIN, _END = "<!-- gauntlet -->\n", "<!-- end of gauntlet -->\n"


def rows(outcomes: Sequence[Outcome]) -> list[tuple[str, ...]]:
    """Return a row for each fault and group of cases, and their sum; faults in the order in which they were tried."""
    faults = list(dict.fromkeys(outcome.fault for outcome in outcomes))
    counts: dict[tuple[str, str], Counter[str]] = {}
    for outcome in sorted(outcomes, key=lambda outcome: (faults.index(outcome.fault), outcome.group)):
        counts.setdefault((outcome.fault, outcome.group), Counter())[outcome.result] += 1
    counts["all", ""] = Counter(outcome.result for outcome in outcomes)
    return [
        (*names, str(count.total()), *(str(count[verdict]) for verdict in VERDICTS)) for names, count in counts.items()
    ]


def plain(outcomes: Sequence[Outcome]) -> str:
    """Return the table for a terminal."""
    lines = [HEAD, *rows(outcomes)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "".join(
        "  ".join(
            cell.ljust(width) if place < 2 else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        + "\n"
        for line in lines
    )


def total(outcomes: Sequence[Outcome]) -> str:
    """Return the sum as a sentence.

    >>> total([Outcome("deleted", "run.json", "refused", "")])
    'Faults: 1 tried, 0 survived, 1 refused, 0 lost.'
    """
    count = Counter(outcome.result for outcome in outcomes)
    return f"Faults: {len(outcomes)} tried, {', '.join(f'{count[verdict]} {verdict}' for verdict in VERDICTS)}."


def markdown(outcomes: Sequence[Outcome]) -> str:
    """Return the table as Markdown."""
    lines = [HEAD, ("---", "---", *["---:"] * (len(HEAD) - 2)), *rows(outcomes)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def write_markdown(path: Path, outcomes: Sequence[Outcome]) -> None:
    """Write the table into a file: between its two marks, if it has them."""
    text, table = path.read_text(encoding="utf-8") if path.exists() else "", markdown(outcomes)
    before, begin, rest = text.partition(_BEGIN)
    _, end, after = rest.partition(_END)
    path.write_text(f"{before}{begin}\n{table}\n{end}{after}" if begin and end else table, encoding="utf-8")
