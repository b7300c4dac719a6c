"""Every sentence of the answer of a study, word by word, from scores that are known."""

from collections.abc import Sequence

import pytest

from silobench.analysis.answers import Lead, answer, outcomes
from silobench.analysis.bayes import Odds, Posterior
from silobench.analysis.compare import Paired, Question
from silobench.runs.stored import StoredRun
from silobench.tasks.metrics import ACCURACY, Metric
from stored import binary, cells, regression, stored

SKEW = "label-count(k={})"
FAR, NEAR = [0.90, 0.91, 0.90, 0.91, 0.90], [0.80, 0.81, 0.81, 0.80, 0.81]
BLIND = (
    "one trial only, so nothing can be said about certainty: three trials or more give a spread (`trials = 3` in the "
    "experiment, or `silobench run FILE --trials 3`)."
)
CLEAR = (
    "scaffold has an accuracy of 90.4 ± 0.5% and fedavg of 80.6 ± 0.5%. Its lead is 9.8 percentage points (95% "
    "interval 8.4 to 11.2); the probability of a lead above 1 percentage point is above 0.999."
)


def trials(scores: Sequence[float], algorithm: str = "fedavg", partition: str = "iid") -> list[StoredRun]:
    return [stored([0.1, s], seed, algorithm=algorithm, partition=partition) for seed, s in enumerate(scores)]


def errors(scores: Sequence[float], algorithm: str = "fedavg", partition: str = "iid") -> list[StoredRun]:
    return [regression([90.0, s], seed, algorithm=algorithm, partition=partition) for seed, s in enumerate(scores)]


def areas(scores: Sequence[float], algorithm: str = "fedavg", partition: str = "iid") -> list[StoredRun]:
    return [binary([0.5, s], seed, algorithm=algorithm, partition=partition) for seed, s in enumerate(scores)]


def around(mean: float, turn: int) -> list[float]:
    """Return five scores that are 0 to 0.4 points above a number, in an order of their own."""
    return [mean + 0.001 * ((seed * 7 + turn) % 5) for seed in range(5)]


def said(*groups: list[StoredRun]) -> list[str]:
    """Return the sentences; a warning begins with a mark."""
    return [("! " if sentence.is_warning else "") + sentence.text for sentence in answer(cells(*groups))]


# --- one setting --------------------------------------------------------------------------------------


def test_the_best_of_one_setting() -> None:
    third = trials([0.7] * 5, "fednova")
    assert said(trials(FAR, "scaffold"), trials(NEAR), third) == [f"scaffold is best on iid: {CLEAR}"]


def test_a_tie_in_one_setting_names_those_that_tie_and_no_other() -> None:
    groups = trials([0.80, 0.82, 0.84], "scaffold"), trials([0.80, 0.83, 0.82]), trials([0.3, 0.31, 0.3], "fednova")
    assert said(*groups) == [
        "scaffold and fedavg tie on iid: scaffold has an accuracy of 82.0 ± 2.0% and fedavg of 81.7 ± 1.5%. The lead "
        "of scaffold is 0.3 percentage points (95% interval -4.3 to 5.0); the probability of a lead above 1 percentage "
        "point is 0.30, and that of a smaller difference 0.53."
    ]


def test_of_many_that_tie_four_are_named() -> None:
    names = ("a", "b", "c", "d", "e", "f")
    (text,) = said(*[trials([0.8 - 0.0001 * place, 0.82, 0.84], name) for place, name in enumerate(names)])
    assert text.startswith("a, b, c, d and 2 more tie on iid")


def test_errors_are_better_if_they_are_lower() -> None:
    assert said(errors([5.0, 5.1, 5.0, 5.1], "scaffold"), errors([8.0, 8.1, 8.1, 8.0])) == [
        "scaffold is best on iid: scaffold has an MAE of 5.05 ± 0.06 years and fedavg of 8.05 ± 0.06 years. Its lead "
        "is 3.0 years (95% interval 2.8 to 3.2); the probability of a lead above 0.1 years is above 0.999."
    ]


# --- several settings ---------------------------------------------------------------------------------


def test_two_winners_and_a_tie() -> None:
    means = [(0.9, 0.8, 0.7), (0.92, 0.8, 0.7), (0.7, 0.8, 0.9), (0.8, 0.8, 0.8)]
    groups = [
        trials(around(mean, 3 * len(name) + place), name, SKEW.format(place))
        for place, each in enumerate(means, 1)
        for name, mean in zip(("scaffold", "fedavg", "fednova"), each, strict=True)
    ]
    assert said(*groups) == [
        "scaffold is best in 2 of 4 settings, fednova in 1; in the other 1 the leaders tie.",
        "The largest lead is on label-count(k=2), where scaffold has an accuracy of 92.2 ± 0.2% and fedavg of 80.2 ± "
        "0.2%: 12.0 percentage points (95% interval 11.6 to 12.4); the probability of a lead above 1 percentage point "
        "is above 0.999.",
        "label-count(k=4) hurts most: the leader there has an accuracy of 80.2%, against 92.2% on label-count(k=2).",
    ]
    assert [outcome.leaders for outcome in outcomes(cells(*groups))] == [
        ("scaffold",), ("scaffold",), ("fednova",), ("scaffold", "fedavg", "fednova"),
    ]  # fmt: skip


def test_ties_everywhere_name_the_largest_lead() -> None:
    pairs = (("iid", 0.9, 0.9), (SKEW.format(2), 0.803, 0.8), (SKEW.format(3), 0.701, 0.7))
    groups = [
        trials(around(mean, 3 * len(name)), name, place)
        for place, *means in pairs
        for name, mean in zip(("scaffold", "fedavg"), means, strict=True)
    ]
    assert said(*groups) == [
        "No method is shown to be better than the others in any of the 3 settings that can be judged: the leaders tie.",
        "The largest lead is that of scaffold over fedavg on label-count(k=2): 0.3 percentage points (95% interval "
        "-0.1 to 0.7); the probability of a lead above 1 percentage point is 0.00, and that of a smaller difference "
        "0.996.",
        "label-count(k=3) hurts most: the leader there has an accuracy of 70.3%, against 90.2% on iid.",
    ]


def test_the_partition_makes_little_difference() -> None:
    groups = [trials(FAR, name, place) for name in ("fedavg", "scaffold") for place in ("iid", SKEW.format(3))]
    assert said(*groups)[-1] == "The partition makes little difference: 90.4% on iid, 90.4% on label-count(k=3)."
    pairs = (("iid", 3.0, 5.0), (SKEW.format(3), 3.05, 5.05))  # years: a tenth is what matters
    near = [errors([ours] * 3, "scaffold", p) + errors([other] * 3, "fedavg", p) for p, ours, other in pairs]
    assert (
        said(*near)[-1] == "The partition makes little difference: 3.00 years on iid, 3.05 years on label-count(k=3)."
    )
    far = [near[0], errors([7.0] * 3, "scaffold", SKEW.format(3)) + errors([9.0] * 3, "fedavg", SKEW.format(3))]
    assert said(*far)[-1] == (
        "label-count(k=3) hurts most: the leader there has an MAE of 7.00 years, against 3.00 years on iid."
    )


def test_partitions_of_different_datasets_are_not_compared() -> None:
    groups = [trials(FAR, "scaffold"), trials(NEAR)]
    other = [
        stored([0.1, 0.5], seed, algorithm=a, dataset="fmnist") for seed in range(5) for a in ("fedavg", "scaffold")
    ]
    assert not [text for text in said(*groups, other) if "hurts" in text or "little difference" in text]


def test_reversed_leads_have_a_sentence_each_beside_the_verdict() -> None:
    further = [0.70, 0.71, 0.70, 0.99, 0.99, 0.99]
    places = SKEW.format(2), SKEW.format(3)
    groups = [group for place in places for group in (trials(further, "scaffold", place), trials(NEAR[:3], "x", place))]
    text = said(trials(FAR, "scaffold"), trials(NEAR), *groups)
    assert text[0] == f"scaffold is best on iid: {CLEAR}"
    assert [line.partition(",")[0] for line in text[1:3]] == [
        f"scaffold has the higher mean accuracy on {place}" for place in places
    ]


def test_settings_with_reversed_leads_are_among_those_that_are_counted() -> None:
    equal, further = [0.80, 0.82, 0.81], [0.70, 0.71, 0.70, 0.99, 0.99, 0.99]
    scores = {2: (FAR, NEAR), 3: (FAR, NEAR), 4: (further, NEAR[:3]), 5: (equal, equal)}
    groups = {
        place: [trials(each, name, SKEW.format(place)) for name, each in zip(("scaffold", "x"), pair, strict=True)]
        for place, pair in scores.items()
    }
    assert said(*groups[2], *groups[3], *groups[4])[0] == "scaffold is best in 2 of 3 settings."
    every = [group for pair in groups.values() for group in pair]
    assert said(*every)[0] == "scaffold is best in 2 of 4 settings; in 1 the leaders tie."


def test_ties_whose_leads_are_all_below_zero_name_no_largest_lead() -> None:
    groups = [
        group
        for place in ("iid", SKEW.format(2))
        for group in (trials([0.78, 0.84, 0.99], "scaffold", place), trials([0.80, 0.83], "fedavg", place))
    ]
    text = said(*groups)
    assert text[0].endswith("in any of the 2 settings that can be judged: the leaders tie.")
    assert not [line for line in text if "largest lead" in line]


def test_ties_of_equal_methods_have_a_largest_lead_of_nothing() -> None:
    places = ("iid", SKEW.format(2))
    groups = [trials([0.8, 0.82, 0.81], name, place) for place in places for name in ("scaffold", "fedavg")]
    (line,) = [line for line in said(*groups) if "largest lead" in line]
    assert line.startswith("The largest lead is that of scaffold over fedavg on iid: 0.0 percentage points")


# --- one trial ----------------------------------------------------------------------------------------


def test_one_trial_of_one_setting() -> None:
    assert said(trials([0.95], "scaffold"), trials([0.5])) == [
        "scaffold has the highest accuracy in this trial, 95.0%.",
        f"There is {BLIND}",
    ]
    equal = trials([0.9501], "scaffold"), trials([0.9499]), trials([0.5], "fednova")
    assert said(*equal)[0] == "scaffold and fedavg share the highest accuracy in this trial, 95.0%."
    assert said(errors([5.0], "scaffold"), errors([8.0]))[0] == "scaffold has the lowest MAE in this trial, 5.00 years."


@pytest.mark.parametrize(
    ("second", "sentence"),
    [
        ((0.8, 0.7), "scaffold has the highest accuracy in 2 of 2 settings, in a single trial."),
        ((0.6, 0.7), "scaffold and fedavg have the highest accuracy in 1 of 2 settings each, in a single trial."),
    ],
)
def test_one_trial_of_two_settings(second: tuple[float, float], sentence: str) -> None:
    first = trials([0.9], "scaffold"), trials([0.8])
    place = SKEW.format(2)
    text = said(*first, trials([second[0]], "scaffold", place), trials([second[1]], "fedavg", place))
    assert text == [
        sentence,
        f"Every setting has {BLIND}",
        f"{place} hurts most: the leader there has an accuracy of {100 * max(second):.1f}%, against 90.0% on iid.",
    ]


@pytest.mark.parametrize(
    ("scores", "sentence"),
    [
        (
            [(0.9, 0.8, 0.7), (0.9, 0.9, 0.9), (0.7, 0.8, 0.6)],
            "scaffold and fedavg have the highest accuracy in 1 of 3 settings each, in a single trial; in 1 other "
            "setting several methods share it.",
        ),
        (
            [(0.9, 0.8, 0.7), (0.9, 0.9, 0.9), (0.9, 0.8, 0.6)],
            "scaffold has the highest accuracy in 2 of 3 settings, in a single trial; in 1 other setting several "
            "methods share it.",
        ),
        (
            [(0.9, 0.8, 0.7), (0.9, 0.9, 0.9), (0.8, 0.8, 0.6)],
            "scaffold has the highest accuracy in 1 of 3 settings, in a single trial; in 2 other settings several "
            "methods share it.",
        ),
        (
            [(0.9, 0.9, 0.9), (0.8, 0.8, 0.7)],
            "In each of 2 settings several methods share the highest accuracy, in a single trial.",
        ),
    ],
)
def test_an_equal_number_counts_for_no_method(scores: list[tuple[float, ...]], sentence: str) -> None:
    groups = [
        trials([score], name, SKEW.format(place))
        for place, each in enumerate(scores, 1)
        for name, score in zip(("scaffold", "fedavg", "fednova"), each, strict=True)
    ]
    assert said(*groups)[0] == sentence


def test_one_trial_in_some_settings() -> None:
    clear = trials(FAR, "scaffold"), trials(NEAR)
    place = SKEW.format(2)
    assert said(*clear, trials([0.9], "scaffold", place), trials([0.8], "fedavg", place)) == [
        f"scaffold is best on iid: {CLEAR}",
        "scaffold has the highest accuracy in this trial, 90.0%.",
        f"1 of the settings has {BLIND}",
        "The partition makes little difference: 90.4% on iid, 90.0% on label-count(k=2).",
    ]


# --- one method, and none -----------------------------------------------------------------------------


def test_a_method_alone() -> None:
    assert said(trials(FAR)) == ["fedavg is the only method: it has an accuracy of 90.4% on iid."]
    assert said(trials(FAR), trials(NEAR, partition=SKEW.format(2))) == [
        "fedavg is the only method, in 2 settings, so no methods are compared. Its accuracy is between 80.6% on "
        "label-count(k=2) and 90.4% on iid."
    ]
    assert said(trials(FAR), trials(NEAR, "scaffold", SKEW.format(2))) == [
        "No setting has two methods, so none is compared with another: fedavg and scaffold."
    ]
    assert said(errors([5.0, 5.1, 5.0]), errors([7.0, 7.1, 7.0], partition=SKEW.format(2))) == [
        "fedavg is the only method, in 2 settings, so no methods are compared. Its MAE is between 7.03 years on "
        "label-count(k=2) and 5.03 years on iid."
    ]


def test_a_setting_that_has_a_reference_point_only_compares_no_methods() -> None:
    other = trials(NEAR, "solo", SKEW.format(2))
    assert said(trials(FAR), other) == ["fedavg is the only method: it has an accuracy of 90.4% on iid."]
    assert said(other) == []


def test_what_beats_no_constant_answer_is_a_warning() -> None:
    weak = areas([0.5, 0.501, 0.502], "scaffold"), areas([0.5, 0.501, 0.502])
    nothing = "! No method is shown to beat the best constant answer"
    assert said(*weak) == [f"{nothing} in any setting, so nothing is shown to be learnt."]
    place = SKEW.format(2)
    assert said(*weak, areas([0.9, 0.901, 0.902], "scaffold", place), areas([0.8, 0.801, 0.803], "fedavg", place)) == [
        "scaffold is best on label-count(k=2): scaffold has an AUC of 90.1 ± 0.1% and fedavg of 80.1 ± 0.2%. Its lead "
        "is 10.0 percentage points (95% interval 9.8 to 10.1); the probability of a lead above 1 percentage point is "
        "above 0.999.",
        f"{nothing} on iid.",
    ]
    (outcome,) = outcomes(cells(*weak))
    assert outcome.leaders == ("scaffold",)


def test_what_has_diverged_is_named_with_its_setting() -> None:
    broken = [stored([0.1, 0.1], seed, [{}, {"loss": None}], algorithm=a) for seed in range(5) for a in ("x", "y")]
    warning = "! Diverged, so not compared: x on iid and y on iid."
    assert said(trials(FAR, "scaffold"), trials(NEAR), broken) == [f"scaffold is best on iid: {CLEAR}", warning]
    assert said(trials(FAR, "scaffold"), broken) == [warning]
    (outcome,) = outcomes(cells(trials(FAR, "scaffold"), broken))
    assert (outcome.kind, outcome.leaders, outcome.diverged) == ("alone", ("scaffold",), ("x", "y"))


# --- the lead -----------------------------------------------------------------------------------------


def lead(probability: float, tie: float, mean: float, metric: Metric = ACCURACY, rope: float = 0.01) -> Lead:
    odds = Odds(probability, tie, 1 - probability - tie)
    pairs = Paired("", [0, 1, 2], [mean] * 3, (0, 0), Posterior(mean, 0.0, 2, 3, 0.0), odds)
    return Lead("a", "b", pairs, Question(metric.name, rope, score=metric))


@pytest.mark.parametrize(
    ("probability", "tie", "text"),
    [
        (0.9995, 0.0, "is above 0.999"),
        (0.999, 0.0, "is 0.999"),
        (0.9514, 0.0, "is 0.951"),
        (0.95, 0.04, "is 0.950, and that of a smaller difference 0.04"),
        (0.944, 0.056, "is 0.94, and that of a smaller difference 0.06"),
        (0.01, 0.964, "is 0.01, and that of a smaller difference 0.964"),
        (0.0001, 0.9996, "is 0.00, and that of a smaller difference above 0.999"),
    ],
)
def test_probabilities_have_more_digits_where_they_decide(probability: float, tie: float, text: str) -> None:
    shown = "2.0 percentage points (95% interval 2.0 to 2.0); the probability of a lead above 1 percentage point "
    assert lead(probability, tie, 0.02).text == shown + text


@pytest.mark.parametrize(
    ("metric", "mean", "rope", "text"),
    [
        (
            ACCURACY,
            0.01,
            0.02,
            "1.0 percentage point (95% interval 1.0 to 1.0); the probability of a lead above 2 perce",
        ),
        (
            ACCURACY,
            0.005,
            0.01,
            "0.5 percentage points (95% interval 0.5 to 0.5); the probability of a lead above 1 perc",
        ),
        (Metric("mae", "MAE", False, "years"), -99.94, 0.1, "99.9 years (95% interval 99.9 to 99.9)"),
        (Metric("mae", "MAE", False, "years"), -100.0, 0.1, "100 years (95% interval 100 to 100)"),
        (Metric("mae", "MAE", False, "years"), -123.4, 0.1, "123 years (95% interval 123 to 123)"),
        (
            Metric("r2", "R2", True),
            2.0,
            0.1,
            "2.0 of R2 (95% interval 2.0 to 2.0); the probability of a lead above 0.1 of R2",
        ),
    ],
)
def test_a_lead_has_the_unit_and_digits_of_its_metric(metric: Metric, mean: float, rope: float, text: str) -> None:
    assert lead(0.99, 0.0, mean, metric, rope).text.startswith(text)
    assert lead(0.99, 0.0, mean, metric, rope).size == pytest.approx(abs(mean) * metric.factor)


def test_an_interval_of_an_error_is_turned_round() -> None:
    """a - b is negative where a has the smaller error, and its lead is positive."""
    pairs = Paired("", [0, 1, 2], [-4.0, -3.0, -2.0], (0, 0), Posterior(-3.0, 0.5, 2, 3, 0.0), Odds(0.99, 0.0, 0.01))
    text = Lead("a", "b", pairs, Question("mae", 0.1, score=Metric("mae", "MAE", False, "years"))).text
    assert text.startswith("3.0 years (95% interval 0.8 to 5.2); ")


@pytest.mark.parametrize(
    ("title", "article"),
    [("accuracy", "an"), ("AUC", "an"), ("MAE", "an"), ("RMSE", "an"), ("loss", "a"), ("Mean", "a"), ("Error", "an"),
     ("perplexity", "a"), ("R2", "an"), ("PSNR", "a")],
)  # fmt: skip
def test_the_article_is_that_of_the_spoken_name(title: str, article: str) -> None:
    metric = {
        "name": "m",
        "title": title,
        "higher_is_better": True,
        "unit": "",
        "factor": 1.0,
        "digits": 2,
        "constant": 0.0,
    }
    objective = {"name": "o", "spec": "o", "reason": "", "main": "m", "metrics": [metric]}
    runs = [stored([None], seed, [{"metrics": {"m": 3.0}}], objective=objective) for seed in range(3)]
    assert said(runs) == [f"fedavg is the only method: it has {article} {title} of 3.00 on iid."]
