"""The posteriors that a report shows: in each setting, the best algorithm against the runner-up and the baselines."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from silobench.analysis.cells import CellResult
from silobench.analysis.compare import Paired, Question, paired, rope_of
from silobench.analysis.comparison_table import difference_text
from silobench.analysis.groups import Cells, by_metric, settings_of
from silobench.analysis.tables import Table, best_of_grids, entries, is_baseline, shown_choices, varying
from silobench.tasks.metrics import Metric


@dataclass(frozen=True)
class Duel:
    """Two cells of one setting, and the posterior of the difference of their main metric."""

    a: CellResult
    b: CellResult
    question: Question
    pairs: Paired

    @property
    def names(self) -> tuple[str, str]:
        return str(self.a.label["algorithm"]), str(self.b.label["algorithm"])

    @property
    def verdict(self) -> str:
        return self.pairs.verdict(*self.names)


def duels(cells: Cells) -> list[Duel]:
    """Return the pairs of all settings that have two shared seeds or more, those with a verdict first.

    FedProx over a grid of mu has its best mu, as in tables of scores.
    """
    found = [duel for group in by_metric(cells) for duel in _of_metric(best_of_grids(group), group[0].metric)]
    return sorted(found, key=lambda duel: duel.verdict == "undecided")


def _of_metric(cells: Cells, metric: Metric) -> Iterator[Duel]:
    question = Question(metric.name, rope_of(metric), score=metric)
    for setting in settings_of(cells):
        finite = [cell for cell in setting if not cell.diverged]
        rivals = [cell for cell in finite if not is_baseline(str(cell.label["algorithm"]))]
        ordered = sorted(rivals, key=lambda cell: metric.gain(cell.score.mean, 0.0), reverse=True)
        others = [*ordered[1:2], *(cell for cell in finite if is_baseline(str(cell.label["algorithm"])))]
        for other in others if ordered else ():
            pairs = paired(ordered[0], other, question)
            if pairs and pairs.posterior:
                yield Duel(ordered[0], other, question, pairs)


def duels_table(found: Sequence[Duel], cells: Cells) -> Table:
    """Return the three probabilities and the verdict of each pair."""
    names = varying(cells)
    rows = []
    for duel in found:
        odds = [f"{p:.3f}" for p in duel.pairs.odds or ()]
        difference = f"{difference_text(duel.pairs, duel.question)} {duel.question.unit}"
        texts = entries(*duel.names, str(len(duel.pairs.seeds)), difference, *odds, duel.verdict)
        rows.append([*shown_choices(duel.a, names, cells), *texts])
    columns = [*names, "A", "B", "pairs", "A - B [95%]", "P(A better)", "P(equal)", "P(B better)", "verdict"]
    note = (
        "A: the algorithm with the best mean of the setting; B: the runner-up, or a baseline; A was picked because its "
        "mean is the best, so its lead is larger than new trials would show; silobench compare tests any other pair"
    )
    return Table("Best against runner-up and baselines", columns, rows, note)
