"""The table of a comparison of two algorithms, or of two values of another key."""

import math
from statistics import fmean

from silobench.analysis.compare import FEWEST_SETTINGS, FEWEST_WITH_SPREAD, Comparison, Paired
from silobench.analysis.quantities import BEST, OWN, Question
from silobench.analysis.rivals import ALGORITHM
from silobench.analysis.tables import Table, entries

_LARGE = 1000  # numbers that are shown without digits after the point
_SMALL = 0.01  # of the values compared: a region of equivalence that suits another machine


def comparison_table(comparison: Comparison) -> Table:
    """Return one row per setting: mean difference with its 95% credible interval, three probabilities, a verdict."""
    (a, b), question = comparison.names, comparison.question
    columns = [
        "setting",
        "pairs",
        f"A - B, {question.unit} [95%]",
        "P(A better)",
        "P(equal)",
        "P(B better)",
        "verdict",
    ]
    rows = []
    for setting in comparison.settings:
        odds = [f"{p:.3f}" for p in setting.odds] if setting.odds else ["-"] * 3
        difference = difference_text(setting, question)
        rows.append(entries(setting.setting, str(len(setting.seeds)), difference, *odds, setting.verdict(a, b)))
    if len(rows) > 1:
        overall = [f"{p:.3f}" for p in comparison.odds] if comparison.odds else ["-"] * 3
        rows.append(entries(f"all {len(rows)} settings", "", "", *overall, comparison.verdict))
    return Table(comparison_title(comparison), columns, rows, _note(comparison))


def comparison_title(comparison: Comparison) -> str:
    """Return what is compared, and which direction is better."""
    better = "more is better" if comparison.question.kind.higher_is_better else "less is better"
    (a, b), key = comparison.names, "" if comparison.by == ALGORITHM else f"{comparison.by}: "
    return f"{key}A = {a}, B = {b}: {_metric(comparison.question)}, {better}"


def _metric(question: Question) -> str:
    score = question.score
    if question.kind.until == "target":
        unit = "" if score.is_share else f" {score.unit}"
        return f"{question.metric} until {score.title} {question.target:g}{unit.rstrip()}"
    on_own_rows = f"{score.title} on the parties' own test rows, mean over parties"
    names = {BEST: f"best test {score.title}", OWN: on_own_rows}
    return names.get(question.metric) or question.kind.title or f"test {score.title} in the last round"


def difference_text(setting: Paired, question: Question) -> str:
    """Return the mean difference with its 95% interval, with one digit more than the region of equivalence has.

    Large numbers, such as rows per second, have four digits that are not 0.
    """
    times, rope = question.factor, question.rope * question.factor
    digits = max(2, 1 - math.floor(math.log10(rope))) if 0 < rope < 1 else 2  # one more than the ROPE has
    digits = 1 if question.unit == "rows/s" else digits
    text = _number(times * setting.mean, digits)
    if setting.posterior:
        low, high = setting.posterior.interval()
        text += f" [{_number(times * low, digits)}, {_number(times * high, digits)}]"
    return text


def _number(value: float, digits: int) -> str:
    """Return a number with its sign, with digits after the point only if it is small.

    >>> _number(2.281, 2), _number(-214729.79, 2), _number(1234.5, 2)
    ('+2.28', '-214700', '+1234')
    """
    return f"{value:+z.{digits}f}" if abs(value) < _LARGE else f"{float(f'{value:.4g}'):+.0f}"


def _note(comparison: Comparison) -> str:
    question, settings = comparison.question, comparison.settings
    of_study = f", as in {question.study}" if question.study else ""
    notes = [f"equal: within ±{question.rope * question.factor:g} {question.unit}{of_study}"]
    level = fmean(setting.level for setting in settings)
    if question.study and not question.kind.on_test_rows and question.rope < _SMALL * level:
        notes.append(
            f"this is less than {100 * _SMALL:g}% of the values compared: it suits the machines of {question.study}, "
            "so state a --rope for yours"
        )
    rhos = sorted({f"{setting.posterior.rho:.2f}" for setting in settings if setting.posterior})
    if rhos:
        upto = f" to {rhos[-1]}" if len(rhos) > 1 else ""
        notes.append(f"each setting: Bayesian correlated t-test with rho {rhos[0]}{upto}")
    if len(settings) > 1 and comparison.odds:
        notes.append("all: Bayesian signed-rank test of the settings' differences, with their uncertainty")
    elif len(settings) > 1:
        notes.append(
            f"all: too few settings to decide, which takes {FEWEST_WITH_SPREAD} settings with two or more pairs each, "
            f"or {FEWEST_SETTINGS} settings"
        )
    never = sum(sum(setting.never) for setting in settings)
    what = "converged" if question.kind.until == "convergence" else "reached the target"
    if never:
        notes.append(f"runs that never {what} count with all their rounds, which is too few: {never}")
    neither = sum(setting.neither for setting in settings)
    if neither:
        notes.append(f"pairs of which no run {what} are left out: {neither}")
    if comparison.left_out:
        first, count = next(iter(comparison.left_out)), len(comparison.left_out)
        notes.append(f"settings without a pair to compare are left out: {count}, such as {first}")
    failed = sum(sum(setting.failed) for setting in settings)
    if failed:
        notes.append(f"runs without a finite score are left out, and never count as better: {failed}")
    return "; ".join([*notes, "a verdict is given above 0.95"])
