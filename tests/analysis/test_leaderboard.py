"""The leaderboard: what is compared with what, ties under a null effect, real effects, budgets and choices."""

from collections.abc import Sequence
from dataclasses import replace
from math import sqrt
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from silobench.analysis.board_tables import contests_table, standings_table
from silobench.analysis.budget import Budget, spendings, within
from silobench.analysis.contests import Choice, chosen, contests
from silobench.analysis.leaderboard import Board, board_json, leaderboard
from silobench.errors import ConfigError, RecordError
from silobench.report.leaderboard import write_board
from silobench.runs.stored import StoredRun
from stored import regression, stored, texts

METHODS = ("fedavg", "fednova", "scaffold", "moon")


def trials(scores: Sequence[float], **choices: Any) -> list[StoredRun]:
    return [stored([0.1, score], seed, **choices) for seed, score in enumerate(scores)]


def noisy(rng: np.random.Generator, settings: int, methods: Sequence[str] = METHODS, **gains: float) -> list[StoredRun]:
    """Return three trials of each method in each setting: the same scores but for noise of 2 points, and a gain."""
    return [
        run
        for setting in range(settings)
        for method in methods
        for run in trials(
            0.7 + gains.get(method, 0.0) + 0.02 * rng.standard_normal(3), algorithm=method, parties=setting + 2
        )
    ]


def of(board: Board, method: str) -> Any:
    return next(standing for standing in board.standings if standing.method == method)


# --- ties and effects ---------------------------------------------------------------------------------


def test_a_null_effect_is_a_tie() -> None:
    """A false win needs a posterior above 0.95: at most 1 in 20 ordered pairs, and fewer with a region of equivalence.

    The bound has four standard deviations of a count on top.
    """
    settings = 300
    board = leaderboard(noisy(np.random.default_rng(1), settings, METHODS[:2]))
    assert len(board.ranked) == settings
    false_wins = sum(len(one.better) for one in board.ranked)
    pairs = 2 * settings
    assert false_wins <= 0.05 * pairs + 4 * sqrt(pairs * 0.05 * 0.95)


def test_a_null_effect_has_no_sole_winner_among_several() -> None:
    board = leaderboard(noisy(np.random.default_rng(2), 200))
    sole = sum(place.won for one in board.ranked for place in one.places.values())
    assert sole <= 0.05 * 200  # it must beat three others at once


def test_a_null_effect_leaves_all_methods_first_over_settings() -> None:
    """Each of 40 boards has 12 pairs, of which 1 in 20 may be ahead by chance were ranks not mostly ties."""
    rng = np.random.default_rng(3)
    boards = [leaderboard(noisy(rng, 8)) for _ in range(40)]
    assert sum(any(standing.rank > 1 for standing in board.standings) for board in boards) <= 4


def test_the_same_method_under_two_names_ties() -> None:
    scores = [0.71, 0.74, 0.69]
    same = [run for name in ("fedavg", "fedprox(mu=0.0)") for run in trials(scores, algorithm=name)]
    (one,) = leaderboard(same).contests
    assert one.better == frozenset()
    assert [place.rank for place in one.places.values()] == [1.5, 1.5]


def test_a_real_effect_is_decided() -> None:
    """Eight points are a fourfold of the noise of one trial; a board of eight settings names the winner."""
    board = leaderboard(noisy(np.random.default_rng(4), 8, moon=0.15))
    best = of(board, "moon")
    assert (best.rank, best.settings) == (1, 8)
    assert best.alone >= 6
    assert all(standing.rank == 2 for standing in board.standings if standing is not best)
    assert board.standings[0] is best


def test_lower_errors_are_better() -> None:
    runs = [regression([9.0, error + seed / 100], seed, algorithm=name) for seed in range(3) for name, error in (
        ("fedavg", 8.0), ("scaffold", 5.0)
    )]  # fmt: skip
    (one,) = leaderboard(runs).contests
    assert one.better == {("scaffold", "fedavg")}
    assert one.listed == ["scaffold", "fedavg"]


def test_a_method_without_a_finite_score_is_last() -> None:
    runs = [
        regression([9.0, error], seed, algorithm=name)
        for seed in range(3)
        for name, error in (("fedavg", 8.0), ("moon", 11.0), ("scaffold", None if seed == 1 else 1.0))
    ]
    (one,) = leaderboard(runs).contests
    assert {("fedavg", "scaffold"), ("moon", "scaffold")} <= one.better
    assert one.listed[-1] == "scaffold"


def test_one_trial_has_no_rank() -> None:
    runs = [*trials([0.9], algorithm="fedavg"), *trials([0.5], algorithm="moon")]
    board = leaderboard(runs)
    assert (board.ranked, board.standings) == ([], [])
    (row,) = texts(contests_table(board))
    assert (row["fedavg"], row["moon"]) == ("90.0", "50.0")
    more = [*runs, *trials([0.5, 0.5], algorithm="scaffold"), *trials([0.4, 0.4], algorithm="bsp")]
    (one,) = leaderboard(more).contests
    assert one.places.keys() == {"scaffold", "bsp"}


def test_methods_without_a_shared_seed_tie() -> None:
    late = [replace_seed(run, run.seed + 10) for run in trials([0.9, 0.9, 0.9], algorithm="moon")]
    (one,) = leaderboard([*trials([0.1, 0.1, 0.1], algorithm="fedavg"), *late]).contests
    assert one.better == frozenset()


def replace_seed(run: StoredRun, seed: int) -> StoredRun:
    facts = run.facts
    return replace(run, facts=replace(facts, id=f"{facts.id}{seed}", config=facts.config.replace(seed=seed)))


def test_baselines_are_shown_and_not_ranked() -> None:
    runs = [run for name in ("fedavg", "moon", "solo", "combined") for run in trials([0.5, 0.6], algorithm=name)]
    board = leaderboard(runs)
    assert board.contests[0].places.keys() == {"fedavg", "moon"}
    assert board.contests[0].contest.baselines.keys() == {"solo", "combined"}
    assert {"solo", "combined"} <= texts(contests_table(board))[0].keys()


# --- settings and methods ------------------------------------------------------------------------------


@pytest.mark.parametrize("choice", [{"partition": "shards"}, {"parties": 5}, {"participation": 0.5}, {"model": "mlp"}])
def test_other_tasks_are_other_settings(choice: dict[str, Any]) -> None:
    runs = [*trials([0.5, 0.6], algorithm="fedavg"), *trials([0.9, 0.9], algorithm="moon", **choice)]
    assert len(leaderboard(runs).contests) == 2


def test_other_data_are_another_setting() -> None:
    runs = trials([0.5, 0.6], algorithm="fedavg")
    other = [replace_config(run, checksum="f" * 8) for run in trials([0.9, 0.9], algorithm="moon")]
    assert len(leaderboard([*runs, *other]).contests) == 2


def replace_config(run: StoredRun, **choices: Any) -> StoredRun:
    return replace(run, facts=replace(run.facts, id=run.facts.id + repr(choices), config=run.config.replace(**choices)))


def test_parties_with_other_rows_are_left_out() -> None:
    cut = {"partition_facts": {"fingerprint": "a"}}
    runs = [*trials([0.5, 0.6], algorithm="fedavg", **cut), *trials([0.5, 0.6], algorithm="moon", **cut)]
    other = trials([0.9, 0.9], algorithm="scaffold", partition_facts={"fingerprint": "b"})
    board = leaderboard([*runs, *other])
    assert board.contests[0].places.keys() == {"fedavg", "moon"}
    assert board.other_partition == 2
    assert "2 runs are left out: their parties have other rows" in contests_table(board).note


def test_what_is_measured_makes_no_other_setting() -> None:
    runs = [*trials([0.5, 0.6], algorithm="fedavg"), *trials([0.5, 0.6], algorithm="moon", measure="norm-divergence")]
    (one,) = leaderboard(runs).contests
    assert one.places.keys() == {"fedavg", "moon"}


def test_methods_have_the_shortest_names_that_differ() -> None:
    chain = "top-k(share=0.1)"
    runs = [
        *trials([0.5, 0.6], algorithm="fedavg"),
        *trials([0.5, 0.6], algorithm="fedavg", transforms=chain),
        *trials([0.5, 0.6], algorithm="moon"),
    ]
    (one,) = leaderboard(runs).contests
    assert one.places.keys() == {"fedavg", f"fedavg, {chain}", "moon"}


def test_another_learning_rate_is_another_method() -> None:
    rates = ("sgd(lr=0.1, epochs=1)", "sgd(lr=0.01, epochs=1)")
    (one,) = leaderboard([run for rate in rates for run in trials([0.5, 0.6], solver=rate)]).contests
    assert one.places.keys() == {"fedavg, lr=0.1", "fedavg, lr=0.01"}


def test_settings_without_a_method_do_not_hide_the_others() -> None:
    """A method that entered one of seven settings leaves the other six as they are."""
    runs = noisy(np.random.default_rng(5), 7, METHODS[:2], fednova=0.15)
    board = leaderboard([*runs, *trials([0.1, 0.1, 0.1], algorithm="bsp", parties=2)])
    assert (of(board, "fednova").settings, of(board, "bsp").settings) == (7, 1)
    assert [standing.method for standing in board.standings] == ["fednova", "fedavg", "bsp"]
    assert of(board, "fedavg").rank == 2


def test_the_standings_explain_the_order_of_rows_and_the_ranks() -> None:
    several = standings_table(leaderboard(noisy(np.random.default_rng(5), 7, METHODS[:2], fednova=0.15)))
    assert several.note.startswith(
        "rows are in the order of the mean share of rivals that are better, ties counting half, and a rank is 1 + the "
        "number of methods that are ahead where both entered six settings or more, so it need not follow the order of "
        "rows or of mean ranks; = shares its rank;"
    )
    single = standings_table(leaderboard([run for a in ("fedavg", "moon") for run in trials([0.5, 0.6], algorithm=a)]))
    assert single.note.startswith(
        "rows are in the order of the mean share of rivals that are better, ties counting half; = shares its rank;"
    )


# --- budgets ------------------------------------------------------------------------------------------


def rows(*accuracies: float | None) -> StoredRun:
    """Return a run that sends 20 bytes, takes half a second on the network and half to compute in each round."""
    spent = [
        {"clock": 0.5 * number, "seconds": {"train": 1.0, "slowest": 0.5}} for number in range(1, len(accuracies) + 1)
    ]
    return stored(accuracies, 0, spent)


@pytest.mark.parametrize(
    ("budget", "count"),
    [
        (Budget(), 5), (Budget(rounds=5), 5), (Budget(rounds=4), 3), (Budget(rounds=9), 5), (Budget(bytes=60), 3),
        (Budget(bytes=59), 1), (Budget(seconds=3.0), 3), (Budget(seconds=2.9), 1), (Budget(rounds=5, bytes=20), 1),
    ],
)  # fmt: skip
def test_a_budget_ends_at_the_last_tested_round_inside_it(budget: Budget, count: int) -> None:
    cut = within(rows(0.1, None, 0.3, None, 0.5), budget)
    assert cut is not None
    assert len(cut.rounds) == count
    assert cut.curve()[-1] == (count, count / 10)


def test_nothing_is_inside_a_budget_that_is_too_small() -> None:
    run = rows(None, 0.2)
    assert within(run, Budget(rounds=1)) is None
    assert within(run, Budget(bytes=1)) is None
    assert within(run, Budget(epsilon=100.0)) is None  # it has no privacy
    earlier = stored([0.1, 0.2])  # without the time of the slowest party
    assert within(earlier, Budget(seconds=1e9)) is None


def test_epsilon_counts_only_with_a_guarantee() -> None:
    def private(reason: str) -> StoredRun:
        facts = {"delta": 1e-5, "noise": [1.0], "accountant": "rdp", "reason": reason}
        return stored([0.1, 0.2, 0.3], 0, [{"privacy": {"example": {"epsilon": e, **facts}}} for e in (1.0, 2.0, 3.0)])

    cut = within(private(""), Budget(epsilon=2.5))
    assert cut is not None
    assert len(cut.rounds) == 2
    assert [spending.epsilon for spending in spendings(private(""))] == [1.0, 2.0, 3.0]
    assert within(private("sampling is not at random"), Budget(epsilon=2.5)) is None


def test_the_order_may_differ_by_budget() -> None:
    """One method is quick and ends low, the other is slow and ends high."""
    quick = [stored([0.6 + seed / 500, 0.6, 0.62], seed, algorithm="fedavg") for seed in range(3)]
    slow = [stored([0.2 + seed / 500, 0.5, 0.9], seed, algorithm="moon") for seed in range(3)]
    whole, early = (leaderboard([*quick, *slow], budget) for budget in (Budget(), Budget(rounds=1)))
    assert (whole.contests[0].better, early.contests[0].better) == ({("moon", "fedavg")}, {("fedavg", "moon")})
    assert "1 round" in standings_table(early).title


def test_a_method_outside_the_budget_is_named() -> None:
    costly = trials([0.9, 0.9], algorithm="moon", every={"bytes_up": 1000})
    cheap = [run for name in ("fedavg", "fednova") for run in trials([0.5, 0.5], algorithm=name)]
    board = leaderboard([*costly, *cheap], Budget(bytes=100))
    assert board.contests[0].contest.outside == ("moon",)
    assert texts(contests_table(board))[0]["moon"] == "over budget"
    assert board_json(board)["settings"][0]["outside_budget"] == ["moon"]


def test_of_very_many_methods_a_setting_without_a_score_is_counted_and_not_shown() -> None:
    usual = [run for parties in range(2, 7) for run in trials([0.5, 0.6], algorithm="fedavg", parties=parties)]
    usual += [run for parties in range(2, 7) for run in trials([0.5, 0.6], algorithm="moon", parties=parties)]
    rare = [run for mu in range(12) for run in trials([0.5, 0.6], algorithm=f"fedprox(mu={mu + 1}.0)", parties=9)]
    table = contests_table(leaderboard([*usual, *rare]))
    assert [row["parties"] for row in texts(table)] == ["2", "3", "4", "5", "6"]
    assert table.note.endswith("; 12 more methods, and 1 setting with no other, on the page and in --json")


# --- choices ------------------------------------------------------------------------------------------


def test_contests_are_chosen() -> None:
    runs = [
        run
        for name in ("fedavg", "moon")
        for partition in ("iid", "shards")
        for run in trials([0.5, 0.6], algorithm=name, partition=partition)
    ]
    settings = contests(runs)
    assert [one.skew for one in chosen(settings, Choice(skew="label"))] == ["label"]
    assert [list(one.methods) for one in chosen(settings, Choice(method="mo*"))] == [["moon"], ["moon"]]
    assert len(chosen(settings, Choice(dataset="mn*"))) == 2
    for choice, message in (
        (Choice(dataset="cifar"), "--dataset 'cifar' matches none of these runs: choose from mnist."),
        (Choice(skew="lable"), "--skew 'lable' matches none of these runs: did you mean label?"),
        (Choice(method="mon"), "--method 'mon' matches none of these runs: did you mean moon?"),
    ):
        with pytest.raises(ConfigError) as error:
            chosen(settings, choice)
        assert str(error.value) == message


def test_the_json_has_ranks_pairs_and_records() -> None:
    runs = [*trials([0.9, 0.91, 0.9], algorithm="moon"), *trials([0.5, 0.5, 0.51], algorithm="fedavg")]
    facts = board_json(leaderboard(runs))
    assert [(one["method"], one["rank"], one["wins"]) for one in facts["standings"]] == [
        ("moon", 1, 1), ("fedavg", 2, 0),
    ]  # fmt: skip
    (setting,) = facts["settings"]
    assert [(entry["method"], entry["rank"]) for entry in setting["entries"]] == [("moon", 1), ("fedavg", 2)]
    assert setting["better"] == [["moon", "fedavg"]]
    assert setting["entries"][0]["runs"] == [str(Path("runs") / str(seed)) for seed in range(3)]


def test_only_a_page_of_silobench_is_replaced(tmp_path: Path) -> None:
    board, page, notes = leaderboard(trials([0.9, 0.91])), tmp_path / "board.html", tmp_path / "notes.html"
    for _ in range(2):
        assert write_board([board], page) == page
    notes.write_text("<p>my notes</p>", encoding="utf-8")
    with pytest.raises(RecordError, match=r"notes\.html exists and is not a page of silobench"):
        write_board([board], notes)
    assert notes.read_text(encoding="utf-8") == "<p>my notes</p>"
