"""Tables as Markdown, LaTeX, and CSV with one line per cell."""

import csv
import io
import math
from collections.abc import Sequence

from silobench.analysis.cells import CellResult
from silobench.analysis.parties import party_results
from silobench.analysis.privacy import EXAMPLE, UNITS, spent
from silobench.analysis.tables import Entry, Table, best_of_grids, entries, shown, skew_of, varying
from silobench.safety.texts import cells as as_cells
from silobench.safety.texts import visible
from silobench.tasks.metrics import ACCURACY, Metric

_LATEX = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "±": r"$\pm$", "†": r"$\dagger$", "<": "$<$", ">": "$>$",
    "|": "$|$", "≥": r"$\geq$", "≈": r"$\approx$", "∞": r"$\infty$", "→": r"$\to$", "²": "$^2$",
    "Δ": r"$\Delta$", "μ": r"$\mu$", "‖": r"$\Vert$",
}  # < > | are other characters in LaTeX's default fonts  # fmt: skip


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
    note = ["", _plain_markdown(table.note)] if table.note else []
    return "\n".join([f"**{_plain_markdown(table.title)}**", "", *lines, *note])


def _row(texts: Sequence[str]) -> str:
    return "| " + " | ".join(map(_plain_markdown, texts)) + " |"


def _plain_markdown(text: str) -> str:
    """Return text that stays in its cell, and that no reader of Markdown takes for HTML or a link."""
    text = " ".join(visible(text).splitlines())
    for mark, harmless in (("\\", "\\\\"), ("|", "\\|"), ("<", "&lt;"), ("](", "]\\(")):
        text = text.replace(mark, harmless)
    return text


def _marked(entry: Entry) -> str:
    text = f"**{entry.text}**" if entry.best else entry.text
    return f"{text} ({entry.beside})" if entry.beside else text


def latex(table: Table) -> str:
    """Return a booktabs tabular; the best of each row is bold, the published number small beside it."""
    lines = [f"% {_one_line(table.title)}", rf"\begin{{tabular}}{{{'l' * len(table.columns)}}}", r"\toprule"]
    lines += [" & ".join(map(_escape, table.columns)) + r" \\", r"\midrule"]
    lines += [_latex_row(row) for row in table.rows]
    lines += [r"\midrule", *map(_latex_row, table.footer)] if table.footer else []
    note = [f"% {_one_line(table.note)}"] if table.note else []
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", *note])


def _latex_row(row: Sequence[Entry]) -> str:
    return " & ".join(map(_latex_entry, row)) + r" \\"


def _latex_entry(entry: Entry) -> str:
    text = rf"\textbf{{{_escape(entry.text)}}}" if entry.best else _escape(entry.text)
    return rf"{text} {{\scriptsize ({_escape(entry.beside)})}}" if entry.beside else text


def _escape(text: str) -> str:
    return "".join(_LATEX.get(letter, letter) for letter in _one_line(text))


def _one_line(text: str) -> str:
    """Return text without line breaks, after which LaTeX would no longer take it for a comment."""
    return " ".join(visible(text).splitlines())


def scores_csv(cells: Sequence[CellResult], every: bool = False) -> str:
    """Return one line per cell: its choices, its accuracy beside the published one, its main metric, all metrics.

    Every metric has the unit in which tables show it, such as percent.
    """
    chosen, text = list(cells) if every else best_of_grids(cells), io.StringIO()
    names, lines = [*varying(chosen), "algorithm"], [_numbers(cell) for cell in chosen]
    columns = [name for name in dict.fromkeys(name for line in lines for name in line) if name not in names]
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(as_cells(["skew", *names, *columns]))
    for cell, line in zip(chosen, lines, strict=True):
        choices = [shown(cell, name, chosen) for name in names]
        writer.writerow(as_cells([skew_of(cell), *choices, *(line.get(name, "") for name in columns)]))
    return text.getvalue().rstrip("\n")


def parties_csv(cells: Sequence[CellResult]) -> str:
    """Return one line per cell, trial and party: rows, and the main metric on own test rows and on all test rows.

    The second one is empty where the party has no model of its own.
    """
    names, text = [*varying(cells), "algorithm"], io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(as_cells([*names, "seed", "party", "train_rows", "test_rows", "metric", "unit", "own", "all"]))
    for cell in cells:
        choices, metric = [shown(cell, name, cells) for name in names], cell.metric
        for trial in party_results(cell):
            for party, result in trial["parties"].items():
                scores = (_value(result[key], metric) for key in ("own", "all"))
                rows = (result["train_rows"], result["test_rows"])
                writer.writerow(as_cells([*choices, trial["seed"], party, *rows, metric.name, metric.unit, *scores]))
    return text.getvalue().rstrip("\n")


def cross_csv(cells: Sequence[CellResult]) -> str:
    """Return one line per cell, trial, model and test rows: the main metric of the model on these rows."""
    names, text = [*varying(cells), "algorithm"], io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(as_cells([*names, "seed", "model", "test", "metric", "unit", "score"]))
    for cell in cells:
        choices, metric = [shown(cell, name, cells) for name in names], cell.metric
        for run in cell.runs:
            for model, test, score in run.final.cross.items() if run.final.cross else ():
                writer.writerow(
                    as_cells([*choices, run.seed, model, test, metric.name, metric.unit, _value(score, metric)])
                )
    return text.getvalue().rstrip("\n")


def _numbers(cell: CellResult) -> dict[str, object]:
    """Return the numbers of a cell by the name of their column."""
    accuracy, paper, metric, score = cell.accuracy, cell.paper, cell.metric, cell.score
    percents = (accuracy.mean, accuracy.std, accuracy.best) if accuracy else (None,) * 3
    published = (paper.mean, paper.std, score.mean - paper.mean) if paper else (None,) * 3
    numbers: dict[str, object] = dict(zip(("accuracy", "std", "best"), map(_value, percents), strict=True))
    numbers |= {"trials": len(cell.seeds), "rounds": cell.label.rounds}
    numbers |= zip(("paper", "paper_std", "difference"), map(_value, published), strict=True)
    numbers |= {"paper_table": paper.table if paper else "", "metric": metric.name, "unit": metric.unit}
    numbers |= {f"{other.by.lower()}_replication": _value(other.mean) for other in cell.replications}
    for name, value in (("score", score.mean), ("score_std", score.std), ("score_best", score.best)):
        numbers[name] = _value(value, metric)
    if cell.on_own_rows is not None:
        numbers |= zip(("own", "own_std"), (_value(value, metric) for value in cell.on_own_rows), strict=True)
    for unit in UNITS:
        if trials := [one for run in cell.runs if (one := spent(run.rounds[-1], unit))]:
            begin = "" if unit == EXAMPLE else "party_"
            epsilon, delta = max(one.epsilon for one in trials), max(one.delta for one in trials)
            numbers |= {f"{begin}epsilon": f"{epsilon:.6g}", f"{begin}delta": f"{delta:.6g}"}
    if cell.baseline is not None:
        numbers["constant"] = _value(cell.baseline, metric)
    for name, (other, result) in cell.metrics.items():
        if name != ACCURACY.name:
            numbers |= {name: _value(result.mean, other), f"{name}_std": _value(result.std, other)}
    return numbers


def _value(value: float | None, metric: Metric = ACCURACY) -> str:
    """Return a number in its unit, with one decimal more than tables; empty where there is none."""
    if value is None or not math.isfinite(value):
        return ""
    return f"{metric.factor * value:.{metric.digits + 1}f}"
