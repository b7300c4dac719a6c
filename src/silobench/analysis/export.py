"""Tables as Markdown, LaTeX, and CSV with one line per cell."""

import csv
import io
from collections.abc import Sequence

from silobench.analysis.cells import CellResult
from silobench.analysis.tables import Entry, Table, best_of_grids, entries, shown, skew_of, varying

_LATEX = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "±": r"$\pm$", "†": r"$\dagger$",
}  # fmt: skip


def markdown(table: Table) -> str:
    """Return a GitHub table with the best of each row in bold.

    >>> print(markdown(Table("Accuracy", ["partition", "fedavg"], [[Entry("iid"), Entry("99.1", best=True)]])))
    **Accuracy**
    <BLANKLINE>
    | partition | fedavg |
    |---|---|
    | iid | **99.1** |
    """
    lines = [_row(table.columns), "|" + "---|" * len(table.columns)]
    separator = [entries(*[""] * len(table.columns))] if table.footer else []
    lines += [_row([_marked(entry) for entry in row]) for row in (*table.rows, *separator, *table.footer)]
    note = ["", table.note] if table.note else []
    return "\n".join([f"**{table.title}**", "", *lines, *note])


def _row(texts: Sequence[str]) -> str:
    return "| " + " | ".join(text.replace("|", "\\|") for text in texts) + " |"


def _marked(entry: Entry) -> str:
    text = f"**{entry.text}**" if entry.best else entry.text
    return f"{text} ({entry.paper})" if entry.paper else text


def latex(table: Table) -> str:
    """Return a booktabs tabular; the best of each row is bold, the published number small beside it."""
    lines = [rf"% {table.title}", rf"\begin{{tabular}}{{{'l' * len(table.columns)}}}", r"\toprule"]
    lines += [" & ".join(map(_escape, table.columns)) + r" \\", r"\midrule"]
    lines += [_latex_row(row) for row in table.rows]
    lines += [r"\midrule", *map(_latex_row, table.footer)] if table.footer else []
    note = [f"% {table.note}"] if table.note else []
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", *note])


def _latex_row(row: Sequence[Entry]) -> str:
    return " & ".join(map(_latex_entry, row)) + r" \\"


def _latex_entry(entry: Entry) -> str:
    text = rf"\textbf{{{_escape(entry.text)}}}" if entry.best else _escape(entry.text)
    return rf"{text} {{\scriptsize ({_escape(entry.paper)})}}" if entry.paper else text


def _escape(text: str) -> str:
    return "".join(_LATEX.get(letter, letter) for letter in text)


def accuracy_csv(cells: Sequence[CellResult], every: bool = False) -> str:
    """Return one line per cell: the choices, the accuracy in percent, the published one, and the difference."""
    chosen, text = list(cells) if every else best_of_grids(cells), io.StringIO()
    names = [*varying(chosen), "algorithm"]
    numbers = ("accuracy", "std", "best", "trials", "rounds", "paper", "paper_std", "difference", "paper_table")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["skew", *names, *(name for name in numbers if name not in names)])
    for cell in chosen:
        values = dict(zip(numbers, _numbers(cell), strict=True))
        choices = [shown(cell, name, chosen) for name in names]
        writer.writerow([skew_of(cell), *choices, *(values[name] for name in numbers if name not in names)])
    return text.getvalue().rstrip("\n")


def _numbers(cell: CellResult) -> list[object]:
    accuracy, paper = cell.accuracy, cell.paper
    percents = [_hundredths(value) for value in (accuracy.mean, accuracy.std, accuracy.best)]
    published = [paper.mean, paper.std, accuracy.mean - paper.mean] if paper else [None] * 3
    rest = [_hundredths(value) for value in published]
    return [*percents, len(cell.seeds), cell.label.rounds, *rest, paper.table if paper else ""]


def _hundredths(value: float | None) -> str:
    """Return a fraction in percent with two decimals; empty where there is none."""
    return "" if value is None else f"{100 * value:.2f}"
