"""Tables as text for other places: Markdown, LaTeX, and CSV with a line for every cell."""

import csv
import io
from collections.abc import Sequence

from silobench.analysis.cells import CellResult
from silobench.analysis.tables import Entry, Table, best_of_grids, shown, skew_of, varying

_LATEX = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "±": r"$\pm$", "†": r"$\dagger$",
}  # fmt: skip


def markdown(table: Table) -> str:
    """A GitHub table; the best of a row in bold.

    >>> print(markdown(Table("Accuracy", ["partition", "fedavg"], [[Entry("iid"), Entry("99.1", best=True)]])))
    **Accuracy**
    <BLANKLINE>
    | partition | fedavg |
    |---|---|
    | iid | **99.1** |
    """
    lines = [_row(table.columns), "|" + "---|" * len(table.columns)]
    lines += [_row([_marked(entry) for entry in row]) for row in table.rows]
    note = ["", table.note] if table.note else []
    return "\n".join([f"**{table.title}**", "", *lines, *note])


def _row(texts: Sequence[str]) -> str:
    return "| " + " | ".join(text.replace("|", "\\|") for text in texts) + " |"


def _marked(entry: Entry) -> str:
    text = f"**{entry.text}**" if entry.best else entry.text
    return f"{text} ({entry.paper})" if entry.paper else text


def latex(table: Table) -> str:
    """A tabular for booktabs, as papers set it; the best of a row in bold, the paper's number small below it."""
    lines = [rf"% {table.title}", rf"\begin{{tabular}}{{{'l' * len(table.columns)}}}", r"\toprule"]
    lines += [" & ".join(map(_escaped, table.columns)) + r" \\", r"\midrule"]
    lines += [" & ".join(map(_set, row)) + r" \\" for row in table.rows]
    note = [f"% {table.note}"] if table.note else []
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", *note])


def _set(entry: Entry) -> str:
    text = rf"\textbf{{{_escaped(entry.text)}}}" if entry.best else _escaped(entry.text)
    return rf"{text} {{\scriptsize ({_escaped(entry.paper)})}}" if entry.paper else text


def _escaped(text: str) -> str:
    return "".join(_LATEX.get(letter, letter) for letter in text)


def accuracy_csv(cells: Sequence[CellResult], every: bool = False) -> str:
    """One line a cell: the choices, the accuracy in percent, the paper's, and the difference."""
    chosen, text = list(cells) if every else best_of_grids(cells), io.StringIO()
    names = [*varying(chosen), "algorithm"]
    numbers = ("accuracy", "std", "best", "trials", "rounds", "paper", "paper_std", "difference", "paper_table")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["skew", *names, *(name for name in numbers if name not in names)])
    for cell in chosen:
        told = dict(zip(numbers, _numbers(cell), strict=True))
        choices = [shown(cell, name, chosen) for name in names]
        writer.writerow([skew_of(cell), *choices, *(told[name] for name in numbers if name not in names)])
    return text.getvalue().rstrip("\n")


def _numbers(cell: CellResult) -> list[object]:
    paper = cell.paper or {"mean": None, "std": None, "table": ""}
    difference = None if paper["mean"] is None else cell.accuracy.mean - paper["mean"]
    percents = [_percent(value) for value in (cell.accuracy.mean, cell.accuracy.std, cell.accuracy.best)]
    rest = [_percent(value) for value in (paper["mean"], paper["std"], difference)]
    return [*percents, len(cell.seeds), cell.label["rounds"], *rest, paper["table"]]


def _percent(value: float | None) -> str:
    return "" if value is None else f"{100 * value:.2f}"
