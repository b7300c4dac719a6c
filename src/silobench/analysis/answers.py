"""The answer that a study gives, in a few sentences: which method is best where, by how much, and how sure that is.

A method is called best in a setting only if it beats every other one there by more than the region of practical
equivalence. It was picked for its mean, so the probability of each lead must be above 1 - 0.05 / methods (Bonferroni).
FedProx over a grid of mu was picked too, so each mu counts as a method there. Of many settings some have a best method
by chance. Where there are no more of them than chance gives, the probability must be above 1 - 0.05 / (methods *
settings). Where another method is better than that with the best mean on the seeds that both have, seeds are missing,
and no method is called best. Everything else is a tie, or cannot be said.
"""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from silobench.analysis.bayes import DECIDED
from silobench.analysis.cells import CellResult
from silobench.analysis.compare import Paired, Question, paired, rope_of
from silobench.analysis.constants import versus_constant
from silobench.analysis.groups import Cells, by_metric
from silobench.analysis.methods import METHOD_KEYS, Setting, by_harm, settings
from silobench.analysis.own_rows import own_rows_sentence
from silobench.analysis.tables import MORE_TRIALS, is_baseline
from silobench.errors import listed
from silobench.tasks.metrics import Metric

Kind: TypeAlias = Literal["best", "tie", "reversed", "one trial", "alone", "no better than constant", "diverged"]
_WITH_SPREAD: tuple[Kind, ...] = ("best", "tie", "reversed")  # of settings in which pairs were judged
_MOST_NAMED = 4  # settings or methods in a sentence


@dataclass(frozen=True)
class Lead:
    """The leader of a setting against the runner-up."""

    a: str
    b: str
    pairs: Paired
    question: Question

    @property
    def probability(self) -> float:
        """The probability that the leader is better by more than the region of practical equivalence."""
        return self.pairs.odds.better_a if self.pairs.odds else 0.0

    @property
    def is_reversed(self) -> bool:
        """Whether the runner-up is better on the seeds that both have, with the certainty of a comparison of two."""
        return self.pairs.odds is not None and self.pairs.odds.better_b > DECIDED

    @property
    def size(self) -> float:
        """By how much the leader is better over the seeds that both have, as it is shown.

        It is negative if the leader's mean is better only because of further seeds.
        """
        return self.question.factor * self.question.score.gain(self.pairs.mean, 0.0)

    @property
    def text(self) -> str:
        """The lead with its interval and its probability; where it is not decided, also that of a practical tie."""
        score, step = self.question.score, self.question.factor * self.question.rope
        interval = ""
        if self.pairs.posterior:
            low, high = (self.question.factor * end for end in self.pairs.posterior.interval())
            low, high = (low, high) if self.question.score.higher_is_better else (-high, -low)
            interval = f" (95% interval {_number(low)} to {_number(high)})"
        sure = f"the probability of a lead above {step:g} {_unit(score, step)} is {_probability(self.probability)}"
        tie = self.pairs.odds.equal if self.pairs.odds else 0.0
        less = "" if self.probability > DECIDED else f", and that of a smaller difference {_probability(tie)}"
        return f"{_number(self.size)} {_unit(score, self.size)}{interval}; {sure}{less}"


@dataclass(frozen=True)
class Outcome:
    """What can be said about one setting: of which kind it is, and which methods lead."""

    setting: Setting
    kind: Kind
    leaders: tuple[str, ...]  # the best one, those that tie, or the best number; if reversed, also the one ahead
    lead: Lead | None = None
    diverged: tuple[str, ...] = ()


@dataclass(frozen=True)
class Sentence:
    """A part of the answer."""

    text: str
    is_warning: bool = False


def answer(cells: Cells) -> list[Sentence]:
    """Return the sentences for each main metric of a study."""
    return [sentence for group in by_metric(cells) for sentence in _of_metric(group)]


def outcomes(cells: Cells) -> list[Outcome]:
    """Return what can be said about each setting; all cells have the same main metric."""
    places, error = settings(cells), 1 - DECIDED
    each = [_outcome(setting, error) for setting in places]
    judged, best = (sum(outcome.kind in kinds for outcome in each) for kinds in (_WITH_SPREAD, ("best",)))
    if best and _by_chance(best, judged, error) > error:
        return [_outcome(setting, error / judged) for setting in places]
    return each


def _by_chance(count: int, total: int, error: float) -> float:
    """Return the probability of at least so many errors.

    >>> round(_by_chance(1, 9, 0.05), 2), round(_by_chance(3, 9, 0.05), 3)
    (0.37, 0.008)
    """
    return 1 - sum(math.comb(total, few) * error**few * (1 - error) ** (total - few) for few in range(count))


def _of_metric(cells: Sequence[CellResult]) -> list[Sentence]:
    each, metric = outcomes(cells), cells[0].metric
    compared = [outcome for outcome in each if len(_rivals(outcome.setting)) > 1]
    judged = [outcome for outcome in compared if outcome.kind in ("best", "tie")]
    blind = [outcome for outcome in compared if outcome.kind == "one trial"]
    turned = [outcome for outcome in compared if outcome.kind == "reversed"]
    sentences = [
        *(_verdict(judged, metric, len(turned)) if judged else []),
        *(_reversed(outcome, metric) for outcome in turned),
        *(_without_spread(blind, metric, some=len(blind) < len(compared)) if blind else []),
        *(_alone(each, metric) if not compared else []),
        *(_harm(each, metric) if compared else []),
        *own_rows_sentence([outcome.setting for outcome in each]),
    ]
    return [*map(Sentence, sentences), *(Sentence(text, is_warning=True) for text in _warnings(each))]


# --- one setting --------------------------------------------------------------------------------------


def _rivals(setting: Setting) -> dict[str, CellResult]:
    """Return the methods that are not reference points."""
    return {name: cell for name, cell in setting.cells.items() if not is_baseline(str(cell.label["algorithm"]))}


def _outcome(setting: Setting, error: float) -> Outcome:
    """Return what can be said about a setting, where a wrong "best" may have this probability."""
    rivals, metric = _rivals(setting), setting.first.metric
    finite = {name: cell for name, cell in rivals.items() if math.isfinite(cell.score.mean) and not cell.diverged}
    failed = tuple(name for name in rivals if name not in finite)
    ordered = sorted(finite, key=lambda name: metric.gain(finite[name].score.mean, 0.0), reverse=True)
    if rivals and not finite:
        return Outcome(setting, "diverged", (), diverged=failed)
    verdicts = {versus_constant(cell, len(finite)) for cell in finite.values()}
    if finite and not verdicts & {"better", None}:
        return Outcome(setting, "no better than constant", tuple(ordered[:1]), diverged=failed)
    if len(finite) < 2:
        return Outcome(setting, "alone", tuple(ordered), diverged=failed)
    question = Question(metric.name, rope_of(metric), score=metric)
    pairs = {name: paired(finite[ordered[0]], finite[name], question) for name in ordered[1:]}
    leads = {name: Lead(ordered[0], name, pair, question) for name, pair in pairs.items() if pair and pair.odds}
    if len(leads) < len(pairs):
        return Outcome(setting, "one trial", _shown_best(ordered, finite, metric), diverged=failed)
    if behind := [name for name, lead in leads.items() if lead.is_reversed]:
        ahead = min(behind, key=lambda name: leads[name].size)
        turned = paired(finite[ahead], finite[ordered[0]], question)
        assert turned
        return Outcome(setting, "reversed", (ordered[0], ahead), Lead(ahead, ordered[0], turned, question), failed)
    level = 1 - error / (setting.candidates - len(failed))
    ties = [name for name, lead in leads.items() if lead.probability <= level]
    kind: Kind = "tie" if ties else "best"
    return Outcome(setting, kind, (ordered[0], *ties), leads[ordered[1]], failed)


def _shown_best(ordered: Sequence[str], cells: dict[str, CellResult], metric: Metric) -> tuple[str, ...]:
    """Return the methods with the best number, at the precision shown."""
    best = round(cells[ordered[0]].score.mean, metric.decimals)
    return tuple(name for name in ordered if round(cells[name].score.mean, metric.decimals) == best)


# --- sentences ----------------------------------------------------------------------------------------


def _verdict(judged: Sequence[Outcome], metric: Metric, turned: int) -> list[str]:
    """Return who is best where, and the clearest lead. In `turned` further settings a lead is reversed."""
    best = [outcome for outcome in judged if outcome.kind == "best"]
    if len(judged) == 1:
        return [_only_setting(judged[0], metric)]
    if not best:
        leads = [outcome for outcome in judged if outcome.lead]
        largest = max(leads, key=lambda outcome: outcome.lead.size if outcome.lead else 0.0)
        assert largest.lead
        none = (
            f"No method is shown to be better than the others in any of the {len(judged)} settings that can be judged"
        )
        if largest.lead.size < 0:
            return [f"{none}: the leaders tie."]
        return [
            f"{none}: the leaders tie.",
            f"The largest lead is that of {largest.lead.a} over {largest.lead.b} on {largest.setting.name}: "
            f"{largest.lead.text}.",
        ]
    wins = Counter(outcome.leaders[0] for outcome in best)
    texts = [f"{name} in {count}" for name, count in wins.most_common(_MOST_NAMED)]
    ties = len(judged) - len(best)
    rest = f"; in {'' if turned else 'the other '}{ties} the leaders tie" if ties else ""
    name, count = wins.most_common(1)[0]
    first = f"{name} is best in {count} of {len(judged) + turned} settings"
    others = f", {listed(texts[1:])}" if len(texts) > 1 else ""
    clearest = max(best, key=lambda outcome: outcome.lead.size if outcome.lead else 0.0)
    assert clearest.lead
    return [
        f"{first}{others}{rest}.",
        f"The largest lead is on {clearest.setting.name}, where {_scores(clearest, metric)}: {clearest.lead.text}.",
    ]


def _only_setting(outcome: Outcome, metric: Metric) -> str:
    lead = outcome.lead
    assert lead
    if outcome.kind == "best":
        best = f"{outcome.leaders[0]} is best on {outcome.setting.name}"
        return f"{best}: {_scores(outcome, metric)}. Its lead is {lead.text}."
    names = listed(outcome.leaders, _MOST_NAMED)
    start = f"{names} tie on {outcome.setting.name}: {_scores(outcome, metric)}."
    if lead.size < 0:
        return f"{start} On the seeds that both have, the lead of {lead.a} is {lead.text}."
    return f"{start} The lead of {lead.a} is {lead.text}."


def _reversed(outcome: Outcome, metric: Metric) -> str:
    """Return that the method with the best mean is worse on shared seeds, so that none is best."""
    (first, ahead), lead, cells = outcome.leaders, outcome.lead, outcome.setting.cells
    assert lead
    one, other = (metric.text(cells[name].score.mean, cells[name].score.std) for name in (first, ahead))
    word = "higher" if metric.higher_is_better else "lower"
    return (
        f"{first} has the {word} mean {metric.title} on {outcome.setting.name}, {one} against {other}, but {ahead} is "
        f"better on the {len(lead.pairs.seeds)} seeds that both have: its lead there is {lead.text}. So no method is "
        "called best there: run the seeds that one of the two lacks."
    )


def _scores(outcome: Outcome, metric: Metric) -> str:
    """Return the scores of the leader and the runner-up."""
    lead, cells = outcome.lead, outcome.setting.cells
    assert lead
    a, b = (metric.text(cells[name].score.mean, cells[name].score.std) for name in (lead.a, lead.b))
    return f"{lead.a} has {_article(metric)} of {a} and {lead.b} of {b}"


def _without_spread(blind: Sequence[Outcome], metric: Metric, *, some: bool) -> list[str]:
    """Return that one trial has no spread, and which method has the best numbers in it."""
    count = f"{len(blind)} of the settings {'has' if len(blind) == 1 else 'have'}"
    where = count if some else "Every setting has" if len(blind) > 1 else "There is"
    texts = [f"{where} one trial only, so nothing can be said about certainty: {MORE_TRIALS}."]
    word = "highest" if metric.higher_is_better else "lowest"
    if len(blind) == 1:
        leaders = blind[0].leaders
        score = metric.text(blind[0].setting.cells[leaders[0]].score.mean)
        have = "share" if len(leaders) > 1 else "has"
        return [f"{listed(leaders, _MOST_NAMED)} {have} the {word} {metric.title} in this trial, {score}.", *texts]
    return [_counted_leaders(blind, f"the {word} {metric.title}"), *texts]


def _counted_leaders(blind: Sequence[Outcome], score: str) -> str:
    """Return which method has the best number in how many settings; one that several methods share counts for none."""
    wins = Counter(outcome.leaders[0] for outcome in blind if len(outcome.leaders) == 1)
    shared = len(blind) - wins.total()
    if not wins:
        return f"In each of {len(blind)} settings several methods share {score}, in a single trial."
    count = max(wins.values())
    top = [name for name, times in wins.items() if times == count]
    who, each = (f"{listed(top, _MOST_NAMED)} have", " each") if len(top) > 1 else (f"{top[0]} has", "")
    rest = f"; in {shared} other setting{'s' * (shared != 1)} several methods share it" if shared else ""
    return f"{who} {score} in {count} of {len(blind)} settings{each}, in a single trial{rest}."


def _alone(each: Sequence[Outcome], metric: Metric) -> list[str]:
    """Return what a study of a single method shows."""
    names = list(dict.fromkeys(name for outcome in each for name in outcome.leaders))
    if not names:
        return []
    scores = [
        (outcome.setting.cells[name].score.mean, outcome.setting.name) for outcome in each for name in outcome.leaders
    ]
    if len(names) > 1:
        return [f"No setting has two methods, so none is compared with another: {listed(names, _MOST_NAMED)}."]
    if len(scores) == 1:
        return [
            f"{names[0]} is the only method: it has {_article(metric)} of {metric.text(scores[0][0])} on "
            f"{scores[0][1]}."
        ]
    best, worst = (pick([score for score, _ in scores]) for pick in (metric.best, metric.worst))
    (high, easy), (low, hard) = ((value, dict(scores)[value]) for value in (best, worst))
    return [
        f"{names[0]} is the only method, in {len(scores)} settings, so no methods are compared. Its {metric.title} is "
        f"between {metric.text(low)} on {hard} and {metric.text(high)} on {easy}."
    ]


def _harm(each: Sequence[Outcome], metric: Metric) -> list[str]:
    """Return which partition costs most, among settings of one dataset that differ in the partition only."""
    families: dict[object, list[Outcome]] = {}
    for outcome in each:
        if outcome.leaders and outcome.kind != "no better than constant":
            families.setdefault(outcome.setting.first.label.without("partition", *METHOD_KEYS), []).append(outcome)
    family = max(families.values(), key=len, default=[])
    if len(family) < 2:
        return []
    ordered = by_harm([outcome.setting for outcome in family])
    leaders = {outcome.setting.name: outcome.leaders[0] for outcome in family}
    easy, hard = ((place, place.cells[leaders[place.name]].score.mean) for place in (ordered[0], ordered[-1]))
    if not metric.gain(easy[1], hard[1]) > rope_of(metric):
        return [
            f"The partition makes little difference: {metric.text(easy[1])} on {easy[0].name}, {metric.text(hard[1])} "
            f"on {hard[0].name}."
        ]
    return [
        f"{hard[0].name} hurts most: the leader there has {_article(metric)} of {metric.text(hard[1])}, against "
        f"{metric.text(easy[1])} on {easy[0].name}."
    ]


def _warnings(each: Sequence[Outcome]) -> list[str]:
    unbeaten = [outcome.setting.name for outcome in each if outcome.kind == "no better than constant"]
    failed = [f"{name} on {outcome.setting.name}" for outcome in each for name in outcome.diverged]
    texts = []
    if unbeaten and len(unbeaten) == len(each):
        texts.append(
            "No method is shown to beat the best constant answer in any setting, so nothing is shown to be learnt."
        )
    elif unbeaten:
        texts.append(f"No method is shown to beat the best constant answer on {listed(unbeaten, _MOST_NAMED)}.")
    if failed:
        texts.append(f"Diverged, so not compared: {listed(failed, _MOST_NAMED)}.")
    return texts


# --- words --------------------------------------------------------------------------------------------


def _unit(metric: Metric, size: float) -> str:
    if metric.is_share:
        return "percentage point" if size == 1 else "percentage points"
    return metric.unit or f"of {metric.title}"


def _article(metric: Metric) -> str:
    """Return the metric as "an accuracy of ..." begins."""
    is_spelt = metric.title.isupper() and metric.title[0] in "AEFHILMNORSX"  # as in MAE, RMSE, R2
    return f"{'an' if is_spelt or metric.title[0].lower() in 'aeiou' else 'a'} {metric.title}"


def _number(value: float) -> str:
    return f"{value:z.1f}" if abs(value) < 100 else f"{value:.0f}"


def _probability(value: float) -> str:
    return "above 0.999" if value > 0.999 else f"{value:.3f}" if value >= DECIDED else f"{value:.2f}"
