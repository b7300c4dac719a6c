"""Tables of a study: its trials, and the tuned setting beside the defaults on fresh seeds."""

from silobench.analysis.tables import Entry, Table, entries
from silobench.analysis.units import duration, size
from silobench.tuning.study import Cost, Outcome, TrialResult, final_score

_ENDS = ("state", "rounds", "bytes", "seconds")


def trials_table(outcome: Outcome) -> Table:
    """Return a row per trial: its values, its score on validation rows and what it cost."""
    metric, keys = outcome.metric, list(outcome.study.definition.space)
    has_repeats = any(result.repeats for result in outcome.trials)
    columns = ["trial", *keys, metric.heading, *(["with repeats"] if has_repeats else []), *_ENDS]
    rows = []
    for result in outcome.trials:
        is_best = result is outcome.best
        scores = [Entry(_score(outcome, result), best=is_best and not has_repeats)]
        if has_repeats:
            scores.append(Entry(metric.number(result.overall) if result.repeats else "", best=is_best))
        values = (str(result.trial.values.get(key, "")) for key in keys)
        rows.append([*entries(_name(result), *values), *scores, *entries(result.state, *_spent(result))])
    return Table(f"Trials by {metric.title} on validation rows", columns, rows, _note(outcome, has_repeats))


def _note(outcome: Outcome, has_repeats: bool) -> str:
    seeds = outcome.study.definition.seeds
    over = f"means over {seeds} seeds" if seeds > 1 else "one seed per trial"
    repeats = (
        "; with repeats: the mean over all seeds of the best few trials and of the defaults" if has_repeats else ""
    )
    return f"Scores are on validation rows, which are cut from the training rows; {over}{repeats}."


def _name(result: TrialResult) -> str:
    return f"{result.trial.number} (defaults)" if result.trial.number == 0 else str(result.trial.number)


def _score(outcome: Outcome, result: TrialResult) -> str:
    return outcome.metric.number(result.score, result.std) if result.is_complete else "-"


def _spent(result: TrialResult) -> tuple[str, str, str]:
    cost = Cost.of(result.runs)
    return f"{cost.rounds:,}", size(cost.bytes), f"{cost.seconds:.1f}"


def confirm_table(outcome: Outcome) -> Table:
    """Return a row per fresh seed: the test score of the defaults and of the tuned setting."""
    from silobench.data.splits import split_rule  # loads scipy, which pages without a study do without

    metric = outcome.metric
    rows = []
    for before, after in zip(*outcome.confirm, strict=True):
        scores = [final_score(run) for run in (before, after)]
        shown = [Entry(metric.number(score), best=score == metric.best(scores)) for score in scores]
        gain = metric.gain(scores[1], scores[0])
        rows.append([Entry(str(before.seed)), *shown, Entry(f"{metric.factor * gain:+.{metric.digits}f}")])
    columns = ["seed", "defaults", "tuned", "gain"]
    seen = (
        "test rows that the seed draws: trials have seen some of them as training rows of other seeds"
        if split_rule(outcome.study.definition.split).ratio
        else "test rows that no trial has seen"
    )
    note = f"All training rows, and {seen}."
    return Table(f"{metric.heading} on test rows, fresh seeds".capitalize(), columns, rows, note)


def cost_table(outcome: Outcome) -> Table:
    """Return what the search cost, and what its confirmation cost."""
    rows = [
        entries(name, f"{cost.runs:,}", f"{cost.rounds:,}", size(cost.bytes), duration(cost.seconds))
        for name, cost in (("search", outcome.cost), ("confirmation on test rows", outcome.confirm_cost))
        if cost.runs
    ]
    note = "The search includes repeats of its best trial. Bytes are those of all messages; time is that of computing."
    return Table("What tuning cost", ["part", "runs", "rounds", "bytes", "time"], rows, note)
