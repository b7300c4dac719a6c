"""What a study found: the best setting, how sure that is, and what it cost; as facts, as text and as a TOML file."""

from collections.abc import Sequence
from dataclasses import asdict
from statistics import fmean
from typing import Any

from silobench.analysis.cells import collect, finite
from silobench.analysis.compare import Paired, checked_question, paired
from silobench.analysis.units import duration, size
from silobench.runs.stored import StoredRun
from silobench.tuning.study import Outcome, TrialResult, final_score


def comparison(default: Sequence[StoredRun], tuned: Sequence[StoredRun]) -> Paired | None:
    """Compare the tuned setting with the defaults, seed by seed; None if they are the same runs."""
    ids = {run.facts.id for run in tuned}
    if not ids or ids & {run.facts.id for run in default}:
        return None
    cells = collect([*default, *tuned])
    after, before = sorted(cells, key=lambda cell: cell.runs[0].facts.id not in ids)
    return paired(after, before, checked_question(None, None, None, None, cells))


def facts(outcome: Outcome) -> dict[str, Any]:
    """Return everything that a study found as JSON."""
    metric, best = outcome.metric, outcome.best
    return {
        "metric": {"name": metric.name, "higher_is_better": metric.higher_is_better, "unit": metric.unit},
        "space": outcome.study.definition.as_json()["space"],
        "best": _trial(best),
        "default": _trial(outcome.default),
        "repeats": _pairs(outcome.default.repeats, best.repeats),
        "confirm": _confirmed(*outcome.confirm),
        "cost": asdict(outcome.cost),
        "confirm_cost": asdict(outcome.confirm_cost),
        "trials": [_trial(trial) for trial in outcome.trials],
    }


def _trial(result: TrialResult) -> dict[str, Any]:
    is_judged = result.is_complete
    return {
        **result.trial.as_json(),
        "state": result.state,
        "score": finite(result.score) if is_judged else None,
        "std": finite(result.std) if is_judged else None,
        **({"repeats": [finite(final_score(run)) for run in result.repeats]} if result.repeats else {}),
    }


def _pairs(default: Sequence[StoredRun], tuned: Sequence[StoredRun]) -> dict[str, Any] | None:
    if not default:
        return None
    return {
        "seeds": [run.seed for run in default],
        "default": [finite(final_score(run)) for run in default],
        "tuned": [finite(final_score(run)) for run in tuned],
    }


def _confirmed(default: Sequence[StoredRun], tuned: Sequence[StoredRun]) -> dict[str, Any] | None:
    """Return pairs with their comparison, which is fair because nothing was chosen by them."""
    pairs, compared = _pairs(default, tuned), comparison(default, tuned)
    return pairs and {**pairs, "comparison": compared and compared.as_json("tuned", "defaults")}


def sentences(outcome: Outcome) -> list[str]:
    """Return what a study found in a few sentences."""
    metric, best, default = outcome.metric, outcome.best, outcome.default
    values = ", ".join(f"{key} = {value}" for key, value in best.trial.values.items())
    lines = [
        f"best of {len(outcome.trials)} trials: {values} (trial {best.trial.number}).",
        f"{metric.title} on validation rows: {metric.text(best.score, best.std)} tuned, "
        f"{metric.text(default.score, default.std)} with the defaults.",
    ]
    if default.repeats:
        means = _means(outcome, default.repeats, best.repeats)
        lines.append(f"repeated on validation rows, {means}; these seeds helped to choose the best trial.")
    if outcome.confirm[0]:
        lines.append(f"confirmed on test rows, {_means(outcome, *outcome.confirm)}{_verdict(*outcome.confirm)}.")
    cost = outcome.cost
    spent = f"{cost.runs} runs, {cost.rounds:,} rounds, {size(cost.bytes)} of messages"
    lines.append(f"the search cost {spent} and {duration(cost.seconds)} of computing.")
    return lines


def _means(outcome: Outcome, before: Sequence[StoredRun], after: Sequence[StoredRun]) -> str:
    metric, count = outcome.metric, len(before)
    seeds = f"{count} {'seed' if count == 1 else 'seeds'}"
    if outcome.best is outcome.default:
        return f"{seeds}: no trial was better than the defaults"
    means = [metric.text(fmean(map(final_score, runs))) for runs in (after, before)]
    return f"{seeds}: {means[0]} tuned, {means[1]} with the defaults"


def _verdict(before: Sequence[StoredRun], after: Sequence[StoredRun]) -> str:
    compared = comparison(before, after)
    if compared is None:
        return ""
    odds = f" (probability {compared.odds.better_a:.3f})" if compared.odds else ""
    return f"; {compared.verdict('tuned', 'defaults')}{odds}"
