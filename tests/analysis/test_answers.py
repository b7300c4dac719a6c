"""The answer of a study: who is best where, by how much, how sure; and what must never be called best."""

import random
from collections.abc import Sequence

import pytest

from silobench.analysis.answers import Sentence, answer, outcomes
from silobench.runs.stored import StoredRun
from stored import binary, cells, regression, stored


def trials(scores: Sequence[float], **choices: object) -> list[StoredRun]:
    """Return a run per score, after a first round of 0.1."""
    return [stored([0.1, score], seed, **choices) for seed, score in enumerate(scores)]  # type: ignore[arg-type]


def texts(sentences: Sequence[Sentence]) -> str:
    return "\n".join(sentence.text for sentence in sentences)


def kinds(*groups: Sequence[StoredRun]) -> list[str]:
    return [outcome.kind for outcome in outcomes(cells(*groups))]


FAR = [0.90, 0.91, 0.90, 0.91, 0.90]
NEAR = [0.80, 0.81, 0.81, 0.80, 0.81]


# --- best ---------------------------------------------------------------------------------------------


def test_a_clear_lead_is_best_with_its_size_and_probability() -> None:
    text = texts(answer(cells(trials(FAR, algorithm="scaffold"), trials(NEAR))))
    assert "scaffold is best on iid" in text
    assert "9.8 percentage points (95% interval" in text
    assert "above 1 percentage point is 0.9" in text or "is above 0.999" in text


def test_best_is_counted_over_settings_and_the_largest_lead_is_named() -> None:
    groups = []
    for place in range(4):
        lead = [score + 0.01 * place for score in FAR]
        groups += [trials(lead, algorithm="scaffold", partition=f"label-count(k={place + 1})")]
        groups += [trials(NEAR, partition=f"label-count(k={place + 1})")]
    text = texts(answer(cells(*groups)))
    assert "scaffold is best in 4 of 4 settings." in text
    assert "The largest lead is on label-count(k=4)" in text


def test_lower_is_better_for_errors() -> None:
    few = [regression([20.0, error], seed, algorithm="scaffold") for seed, error in enumerate([5.0, 5.1, 5.0, 5.1])]
    many = [regression([20.0, error], seed) for seed, error in enumerate([8.0, 8.1, 8.1, 8.0])]
    text = texts(answer(cells(few, many)))
    assert "scaffold is best" in text
    assert "3.0 years (95% interval 2." in text


def test_baselines_are_never_best() -> None:
    """`combined` sees all rows, so it is a reference point and not a rival."""
    groups = [trials([0.99] * 5, algorithm="combined"), trials(FAR, algorithm="scaffold"), trials(NEAR)]
    assert outcomes(cells(*groups))[0].leaders == ("scaffold",)
    assert kinds(trials([0.99] * 5, algorithm="combined"), trials(NEAR)) == ["alone"]


def test_methods_may_differ_in_another_key_than_the_algorithm() -> None:
    found = outcomes(cells(trials(FAR, transforms="qsgd(bits=8)"), trials(NEAR, transforms="top-k(share=0.1)")))
    assert (found[0].kind, found[0].leaders) == ("best", ("qsgd(bits=8)",))


# --- never best ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("scores", [[0.8, 0.8, 0.8], [0.8, 0.85, 0.75], [0.5], [0.1, 0.1]])
def test_equal_runs_tie(scores: list[float]) -> None:
    groups = [trials(scores, algorithm=name) for name in ("fedavg", "scaffold", "fednova")]
    assert "best" not in kinds(*groups)
    assert "is best" not in texts(answer(cells(*groups)))


def test_no_effect_is_hardly_ever_best() -> None:
    """Both methods have the same distribution. A wrong best has a probability of 0.05 at most, by construction.

    Of 200 draws at 0.05, more than 21 have a probability below 0.001.
    """
    draws, wrong = random.Random(7), 0
    for _ in range(200):
        groups = [
            trials([round(draws.gauss(0.7, 0.05), 3) for _ in range(3)], algorithm=a) for a in ("fedavg", "fednova")
        ]
        wrong += kinds(*groups) == ["best"]
    assert wrong <= 21


def test_each_mu_of_a_grid_counts_as_a_method() -> None:
    """FedProx has the best of 4 mu, so 5 cells may be best by chance: 1 - 0.05 / 5 is needed instead of 1 - 0.05 / 2.

    The other mu are far behind, so the lead over FedAvg stays the same.
    """
    groups = [trials([0.79, 0.83, 0.82], algorithm="fedprox(mu=0.01)"), trials([0.74, 0.76, 0.75])]
    grid = [trials([0.60, 0.61, 0.60], algorithm=f"fedprox(mu={mu})") for mu in (0.001, 0.1, 1.0)]
    one, many = outcomes(cells(*groups))[0], outcomes(cells(*groups, *grid))[0]
    assert one.lead
    assert many.lead
    assert 1 - 0.05 / 2 < one.lead.probability == many.lead.probability < 1 - 0.05 / 5
    assert (one.kind, one.leaders) == ("best", ("fedprox(mu=0.01)",))
    assert (many.kind, many.leaders) == ("tie", ("fedprox (best mu)", "fedavg"))


def test_baselines_and_diverged_methods_do_not_count_as_candidates() -> None:
    """The lead is decided among 2 methods, and would not be among 5."""
    groups = [trials([0.79, 0.83, 0.82], algorithm="scaffold"), trials([0.74, 0.76, 0.75])]
    broken = [
        stored([0.1, 0.1], seed, [{}, {"loss": None}], algorithm=name) for seed in range(3) for name in ("a", "b")
    ]
    assert kinds(*groups, broken, trials([0.9] * 3, algorithm="combined")) == ["best"]


def test_many_settings_without_an_effect_have_no_best() -> None:
    """One lead among 20 settings that would be decided alone is what chance gives."""
    lucky, other = [0.80, 0.84, 0.82], [0.74, 0.76, 0.75]
    assert kinds(trials(lucky, algorithm="scaffold"), trials(other)) == ["best"]
    groups = [trials(lucky, algorithm="scaffold"), trials(other)]
    for place in range(19):
        for algorithm in ("fedavg", "scaffold"):
            groups.append(trials([0.8, 0.82, 0.81], algorithm=algorithm, partition=f"label-count(k={place + 1})"))
    assert set(kinds(*groups)) == {"tie"}
    assert "No method is shown to be better" in texts(answer(cells(*groups)))


def test_a_lead_smaller_than_what_matters_is_a_tie() -> None:
    """0.5 points in every one of ten trials are certain, and too few to matter."""
    groups = [trials([0.805] * 10, algorithm="scaffold"), trials([0.8] * 10)]
    assert kinds(*groups) == ["tie"]
    text = texts(answer(cells(*groups)))
    assert "scaffold and fedavg tie" in text
    assert "a smaller difference" in text


def test_one_trial_says_nothing_about_certainty() -> None:
    groups = [trials([0.95], algorithm="scaffold"), trials([0.5])]
    text = texts(answer(cells(*groups)))
    assert kinds(*groups) == ["one trial"]
    assert "nothing can be said about certainty" in text
    assert "scaffold has the highest accuracy in this trial, 95.0%" in text
    assert "best" not in text


def test_seeds_that_are_not_shared_are_no_pairs() -> None:
    other = [stored([0.1, score], 10 + seed) for seed, score in enumerate(NEAR)]
    assert kinds(trials(FAR, algorithm="scaffold"), other) == ["one trial"]


def test_a_mean_that_is_better_by_further_seeds_is_neither_best_nor_a_tie() -> None:
    """The mean of the first is better by its further seeds only: on shared ones it is ten points worse."""
    groups = trials([0.70, 0.71, 0.70, 0.99, 0.99, 0.99], algorithm="scaffold"), trials([0.80, 0.81, 0.80])
    (outcome,) = outcomes(cells(*groups))
    assert (outcome.kind, outcome.leaders) == ("reversed", ("scaffold", "fedavg"))
    (text,) = (sentence.text for sentence in answer(cells(*groups)))
    assert text.startswith(
        "scaffold has the higher mean accuracy on iid, 84.7 ± 15.7% against 80.3 ± 0.6%, but fedavg is better on the 3 "
        "seeds that both have: its lead there is 10.0 percentage points (95% interval 9.9 to 10.1); the probability "
    )
    assert text.endswith("So no method is called best there: run the seeds that one of the two lacks.")
    assert "tie" not in text


def test_an_error_that_is_lower_by_further_seeds_is_neither_best_nor_a_tie() -> None:
    few = [
        regression([20.0, error], seed, algorithm="scaffold") for seed, error in enumerate([9.0, 9.1, 9.0, 2.0, 1.0])
    ]
    more = [regression([20.0, error], seed) for seed, error in enumerate([8.0, 8.1, 8.1])]
    text = texts(answer(cells(few, more)))
    assert "scaffold has the lower mean MAE on iid" in text
    assert "fedavg is better on the 3 seeds that both have: its lead there is 1.0 years" in text


def test_a_third_method_may_reverse_the_lead() -> None:
    """The runner-up has all seeds and ties."""
    groups = [
        trials([0.70, 0.71, 0.70, 0.99, 0.99, 0.99], algorithm="scaffold"),
        trials([0.75, 0.64, 0.72, 0.99, 0.97, 0.98], algorithm="fednova"),
        trials([0.80, 0.81, 0.80]),
    ]
    (outcome,) = outcomes(cells(*groups))
    assert (outcome.kind, outcome.leaders) == ("reversed", ("scaffold", "fedavg"))


def test_an_undecided_lead_below_zero_is_a_tie_and_its_words_say_of_which_seeds() -> None:
    text = texts(answer(cells(trials([0.78, 0.84, 0.99], algorithm="scaffold"), trials([0.80, 0.83]))))
    assert "scaffold and fedavg tie on iid" in text
    assert "On the seeds that both have, the lead of scaffold is -0.5 percentage points (95% interval" in text


def test_a_setting_whose_lead_is_reversed_makes_no_other_setting_best() -> None:
    """It counts among those that were judged: one lead of 20 that is decided alone is what chance gives."""
    lucky, other = [0.80, 0.84, 0.82], [0.74, 0.76, 0.75]
    groups = [trials(lucky, algorithm="scaffold"), trials(other)]
    for place in range(19):
        skew = f"label-count(k={place + 1})"
        groups += [trials([0.70, 0.71, 0.70, 0.99, 0.99, 0.99], algorithm="scaffold", partition=skew)]
        groups += [trials([0.80, 0.81, 0.80], partition=skew)]
    assert kinds(*groups) == ["tie", *["reversed"] * 19]


def test_nothing_beats_the_constant_answer() -> None:
    """AUC of a constant answer is 0.5."""
    weak = [binary([0.5, 0.5 + 0.001 * seed], seed, algorithm="scaffold") for seed in range(3)]
    weaker = [binary([0.5, 0.48], seed) for seed in range(3)]
    sentences = answer(cells(weak, weaker))
    assert kinds(weak, weaker) == ["no better than constant"]
    assert [s.is_warning for s in sentences] == [True]
    assert "nothing is shown to be learnt" in sentences[0].text


# --- failures and single methods ----------------------------------------------------------------------


def test_a_diverged_method_is_named_and_not_compared() -> None:
    broken = [stored([0.1, 0.1], seed, [{}, {"loss": None}], algorithm="fednova") for seed in range(5)]
    sentences = answer(cells(trials(FAR, algorithm="scaffold"), trials(NEAR), broken))
    assert "scaffold is best" in texts(sentences)
    assert [s.text for s in sentences if s.is_warning] == ["Diverged, so not compared: fednova on iid."]


def test_all_methods_diverged() -> None:
    broken = [
        stored([0.1, 0.1], seed, [{}, {"loss": None}], algorithm=a) for seed in range(3) for a in ("fedavg", "fednova")
    ]
    assert kinds(broken) == ["diverged"]
    assert texts(answer(cells(broken))).startswith("Diverged, so not compared: fedavg on iid and fednova on iid")


def test_one_method_is_described_and_not_ranked() -> None:
    text = texts(answer(cells(trials(FAR, partition="iid"), trials(NEAR, partition="label-count(k=2)"))))
    assert "fedavg is the only method, in 2 settings" in text
    assert "between 80.6% on label-count(k=2) and 90.4% on iid" in text


def test_the_partition_that_hurts_most_is_named() -> None:
    groups = [trials(FAR, algorithm=a, partition="iid") for a in ("fedavg", "fednova")]
    groups += [trials(NEAR, algorithm=a, partition="label-count(k=1)") for a in ("fedavg", "fednova")]
    assert "label-count(k=1) hurts most: the leader there has an accuracy of 80.6%, against 90.4% on iid." in texts(
        answer(cells(*groups))
    )


def test_no_cells_have_no_answer() -> None:
    assert answer([]) == []


def test_own_rows_have_a_sentence_only_where_parties_have_models() -> None:
    from silobench.analysis.methods import settings
    from silobench.analysis.own_rows import own_rows_sentence
    from silobench.papers import collect_cells
    from silobench.runs.archive import published_runs

    (sentence,) = own_rows_sentence(settings(collect_cells(published_runs("personal"))))
    assert "own test rows" in sentence
    assert "fedavg" not in sentence.split(" has ")[0]  # one model for all is worse there, by tens of points
    assert own_rows_sentence(settings(collect_cells(published_runs("demo")))) == []


def test_an_equal_mean_on_own_rows_counts_for_no_method() -> None:
    from silobench.analysis.methods import settings
    from silobench.analysis.own_rows import own_rows_sentence

    def scored(partition: str, **scores: float) -> list[list[StoredRun]]:
        """Return a run of each method, by its score on the rows of its one party."""
        return [
            [stored([0.8], 0, [{"final": {"parties": {"0": {"rows": 10, "own": score, "all": 0.5}}}}], algorithm=name,
                    partition=partition)]
            for name, score in scores.items()
        ]  # fmt: skip

    def sentence(*groups: list[StoredRun]) -> str:
        (text,) = own_rows_sentence(settings(cells(*groups)))
        return text

    equal, clear = scored("iid", ditto=0.9, fedper=0.9001), scored("shards", ditto=0.7, fedper=0.8)
    assert "fedper has the highest mean accuracy in 1 of 2 settings: 80.0% against 70.0%" in sentence(*equal, *clear)
    assert sentence(*equal).endswith("several methods share the highest mean accuracy here.")
    more = scored("shards", ditto=0.7, fedper=0.7)
    assert sentence(*equal, *more).endswith("several methods share the highest mean accuracy in each of 2 settings.")
