"""Advice as people read it in a terminal."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.text import Text

from silobench.advice.answer import REGIME_WORDS, Answer
from silobench.advice.evidence import settings
from silobench.advice.tree_drawing import tree_text
from silobench.cli.layout import Grid, Item, lay_out
from silobench.cli.output import Console
from silobench.cli.wrapping import wrap
from silobench.errors import listed

if TYPE_CHECKING:
    from silobench.runs.stored import StoredRun

_ASPECTS = {
    "algorithm": "algorithm",
    "local_epochs": "local epochs",
    "normalisation": "normalisation",
    "communication": "communication",
}
_MOST_LINE = 110  # characters: longer lines are hard to read


def print_answer(answer: Answer, written: str) -> None:
    """Print what was measured, the kind of skew, the tests, the recommendation and what to do next."""
    console = _console()
    _title(console, "What was measured")
    for line in answer.measured():
        _paragraph(console, line)
    _print_privacy(console, answer)
    for note in answer.notes:
        _paragraph(console, f"note: {note}", "dim")
    _title(console, "Which skew")
    _paragraph(console, REGIME_WORDS[answer.regime].capitalize() + ".", "bold")
    _print_tests(console, answer)
    for doubt in answer.doubts():
        _paragraph(console, f"Not certain about {doubt}.", "yellow")
    _title(console, "What to do")
    for name, choice in answer.recommendation.choices.items():
        console.print(Text.assemble(f"{_ASPECTS[name]}: ", (choice.value, "bold")), soft_wrap=True)
        for line in wrap(f"{choice.reason} [{choice.source}]", min(console.width, _MOST_LINE) - 4):
            console.print(Text(f"    {line}"), soft_wrap=True)
    _title(console, "How sure")
    recommendation = answer.recommendation
    _paragraph(console, f"Basis: {recommendation.basis}. {_sentence(recommendation.why_this_basis)}")
    _paragraph(console, _sentence(recommendation.confidence))
    _title(console, "To be surer, run")
    console.print(Text(answer.toml.rstrip(), "cyan"), soft_wrap=True)
    place = f"wrote it to {written}; " if written else "--next FILE.toml writes it to a file, and "
    _paragraph(console, f"{place}--try runs it.", "dim")


def _console() -> Console:
    console = Console()
    return console if console.is_terminal else Console(width=_MOST_LINE)


def _title(console: Console, text: str) -> None:
    console.print()
    console.print(Text(text, "bold underline"))


def _paragraph(console: Console, text: str, style: str = "") -> None:
    for line in wrap(text, min(console.width, _MOST_LINE)):
        console.print(Text(line, style), soft_wrap=True)


def _grid(console: Console, grid: Grid) -> None:
    for line in lay_out(grid, min(console.width, _MOST_LINE)):
        console.print(Text.assemble(*line), soft_wrap=True)


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:] + ("" if text.endswith(".") else ".")


def _print_privacy(console: Console, answer: Answer) -> None:
    if not answer.profiles.is_private:
        return
    epsilons = sorted({epsilon for epsilon in answer.profiles.epsilons if epsilon is not None})
    exact = [
        name for name, epsilon in zip(answer.profiles.parties, answer.profiles.epsilons, strict=True) if epsilon is None
    ]
    text = f"Counts have noise: each party's profile is {epsilons[-1]:g}-differentially private for every row."
    more = f" Those of {listed(exact)} are exact." if exact else ""
    _paragraph(console, text + more)


def _print_tests(console: Console, answer: Answer) -> None:
    rows = [
        [
            Item(test.kind),
            Item("yes" if test.is_present else "no", "bold" if test.is_present else ""),
            Item(f"{test.effect:.2f}"),
            Item(f"{test.threshold:g}"),
            Item(_p_text(test.adjusted_p)),
        ]
        for test in answer.tests
    ]
    columns = ("skew", "present", "effect", "matters from", "p")
    _grid(console, Grid(columns, rows, right=frozenset(("effect", "matters from", "p"))))
    for test in answer.tests:
        _paragraph(console, f"{test.kind}: {test.statistic}", "dim")


def _p_text(p: float) -> str:
    return "<0.001" if p < 0.001 else f"{p:.3f}"


def print_tree(answer: Answer) -> None:
    """Print the decision tree."""
    console = _console()
    _title(console, f"The tree ({answer.recommendation.basis})")
    console.print(Text(tree_text(answer.recommendation.tree)), soft_wrap=True)


def print_trial(answer: Answer, runs: "Sequence[StoredRun]", out: Path) -> None:
    """Say what the runs of the proposed experiment show about the recommended algorithm."""
    console, method = _console(), answer.recommendation.algorithm.value
    tested = settings(runs)
    if not tested or method not in tested[0].regrets:
        _paragraph(console, f"The runs in {out} do not compare algorithms by accuracy: see the tables above.")
        return
    regrets = tested[0].regrets
    ties = [name for name, regret in regrets.items() if not regret]
    if method in ties:
        others = [name for name in ties if name != method]
        equal = f" {listed(others)} {'is' if len(others) == 1 else 'are'} within a point of it." if others else ""
        where = f" Note: {answer.subject.note}." if answer.subject.note else ""
        _paragraph(
            console,
            f"The runs do not contradict the advice: no algorithm is a point better than {method}.{equal}{where}",
        )
    else:
        _paragraph(
            console,
            f"The runs contradict the advice: {method} is {regrets[method]:.1f} points below {listed(ties)}. Use that, "
            f"and keep {out} as evidence: --evidence {out}.",
        )
