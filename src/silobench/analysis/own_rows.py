"""What a study shows about models of parties: the score on their own test rows, which all test rows together hide."""

from collections import Counter
from collections.abc import Sequence

from silobench.analysis.methods import Setting
from silobench.analysis.tables import best_means, is_baseline


def own_rows_sentence(settings: Sequence[Setting]) -> list[str]:
    """Return which method has the best mean on the parties' own test rows; empty if no party has its own model.

    It states means only, and makes no claim of certainty.
    """
    scores = [scores for setting in settings if (scores := _scores(setting))]
    if not scores:
        return []
    metric = settings[0].first.metric
    leaders = [best_means(values, metric) for values in scores]
    wins = Counter(name for names in leaders for name in names if len(names) == 1)  # a shared best counts for none
    word = "highest" if metric.higher_is_better else "lowest"
    start = "On the parties' own test rows, which matter where each party has its own model, "
    if not wins:
        return [f"{start}several methods share the {word} mean {metric.title}{_everywhere(scores)}."]
    name, count = wins.most_common(1)[0]
    leads = [
        (values[name], metric.best(_others(values, name)))
        for values, names in zip(scores, leaders, strict=True)
        if names == {name}
    ]
    best, rival = max(leads, key=lambda lead: metric.gain(*lead))
    where = f"in {count} of {len(scores)} settings" if len(scores) > 1 else "here"
    return [
        f"{start}{name} has the {word} mean {metric.title} {where}: {metric.text(best)} against {metric.text(rival)} "
        "of the next method."
    ]


def _everywhere(scores: Sequence[dict[str, float]]) -> str:
    return f" in each of {len(scores)} settings" if len(scores) > 1 else " here"


def _scores(setting: Setting) -> dict[str, float]:
    """Return the scores on own rows by method, where some method has models of parties and another one is there."""
    rivals = {name: cell for name, cell in setting.cells.items() if not is_baseline(str(cell.label["algorithm"]))}
    if not any(cell.has_party_models for cell in rivals.values()):
        return {}
    known = {name: cell.on_own_rows[0] for name, cell in rivals.items() if cell.on_own_rows is not None}
    return known if len(known) > 1 else {}


def _others(values: dict[str, float], name: str) -> list[float]:
    return [score for other, score in values.items() if other != name]
