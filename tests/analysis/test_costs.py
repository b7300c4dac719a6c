"""Costs of hand-made runs: rounds to convergence, throughput, overhead, ratios, and comparisons by them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from scipy import stats

from commands import call
from silobench.analysis import costs
from silobench.analysis.cells import CellResult
from silobench.analysis.compare import Comparison, Ropes, checked_question, compare
from silobench.analysis.comparison_table import comparison_table
from silobench.errors import ConfigError, SilobenchError
from silobench.runs.stored import StoredRun
from stored import cells, stored

SERVER = {"test": 0.5, "aggregate": 0.5, "communicate": 1.0, "idle": 2.0, "encode": 0.0}
PARTIES = {"train": 2.0, "test": 0.0, "encode": 0.25, "encrypt": 0.25, "communicate": 1.0, "idle": 0.5}
TIME = {"total": 4.0, "core": 2.5, "server": SERVER, "parties": PARTIES}
ROUND = {"rows": 600, "dense_up": 1000, "dense_down": 30, "bytes_up": 10, "bytes_down": 20, "time": TIME}
PLATEAU = "sgd(lr=plateau(start=0.1), epochs=1)"


def timed(
    count: int = 2, seed: int = 0, *, most: int = 300, every: Any = ROUND, converged: bool = False, **more: Any
) -> StoredRun:
    """Return a run of which every round has the same costs. It has `count` rounds of `most` that were planned."""
    last = [{}] * (count - 1) + [{"converged": True}] if converged else []
    return stored([0.5] * count, seed, last, every=every, **{"solver": PLATEAU, "rounds": most, **more})


def censored(count: int = 300, seed: int = 0, **more: Any) -> StoredRun:
    """Return a run that had all its rounds and did not converge."""
    return timed(count, seed, most=count, **more)


def pairs(a: Sequence[StoredRun], b: Sequence[StoredRun], **question: Any) -> Comparison:
    collected = cells(a, b)
    return compare(collected, "fedavg", "scaffold", checked_question(cells=collected, **question))


# --- one run ------------------------------------------------------------------------------------------


def test_numbers_of_a_run_by_hand() -> None:
    run = timed(3)
    assert costs.throughput(run) == 1800 / 12
    assert costs.core_throughput(run) == 1800 / 7.5
    assert costs.overhead(run) == 1 - (2.0 + 0.5) / 4.0  # a mean party that trains, and a server that tests
    assert costs.uplink_ratio(run) == 100
    assert costs.downlink_ratio(run) == 1.5


def test_without_a_server_parties_test() -> None:
    parties = {**PARTIES, "test": 0.5, "idle": 0.0}
    run = timed(every={**ROUND, "time": {"total": 4.0, "core": 2.5, "parties": parties}})
    assert costs.overhead(run) == 1 - 2.5 / 4.0
    assert list(costs.decomposition(run)) == [costs.PARTIES]


def test_the_parts_of_each_bar_add_up_to_the_time_of_the_run() -> None:
    run = timed(5)
    for parts in costs.decomposition(run).values():
        assert sum(parts.values()) == 5 * 4.0
    assert costs.decomposition(run)[costs.SERVER]["idle"] == 5 * 2.0
    assert costs.decomposition(run)[costs.PARTIES]["aggregate"] == 0


def test_nothing_is_divided_by_zero() -> None:
    still = {"total": 0.0, "core": 0.0, "server": dict.fromkeys(SERVER, 0.0), "parties": dict.fromkeys(PARTIES, 0.0)}
    none = {"rows": 0, "dense_up": 0, "dense_down": 0, "bytes_up": 0, "bytes_down": 0, "time": still}
    run = timed(every=none)
    assert [number(run) for number in costs.NUMBERS.values()] == [None] * 5
    assert set(costs.decomposition(run)[costs.SERVER].values()) == {0.0}
    (cell,) = cells([run])
    assert costs.costs_json(cell, cell)["throughput"] is None
    with pytest.raises(ConfigError, match="throughput is not defined for these runs, because they sent or took noth"):
        checked_question("throughput", cells=[cell])


def test_records_of_an_earlier_version_lack_costs() -> None:
    run = timed(every={})
    assert [number(run) for number in costs.NUMBERS.values()] == [None] * 5
    assert costs.decomposition(run) == {}
    with pytest.raises(ConfigError, match="from an earlier version, which did not record overhead: run the exp"):
        checked_question("overhead", cells=cells([run]))


def test_a_round_without_the_fields_leaves_the_whole_number_out() -> None:
    """A run that an earlier version began and this one continued."""
    run = stored([0.5, 0.5], 0, [{}, ROUND])
    assert costs.throughput(run) is None
    assert costs.uplink_ratio(run) is None
    assert costs.decomposition(run) == {}


# --- convergence --------------------------------------------------------------------------------------


def test_rounds_to_convergence() -> None:
    assert costs.convergence(timed(7, converged=True)) == 7
    assert costs.convergence(timed(7, converged=True, most=7)) == 7  # in the last round that was allowed
    assert costs.convergence(timed(7)) == 7  # a schedule of an earlier version ended it
    assert costs.convergence(censored(7)) is None


def test_one_run_that_did_not_converge_makes_the_mean_a_bound() -> None:
    both = [timed(10, 0, converged=True, most=20), timed(14, 1, converged=True, most=20)]
    assert costs.rounds_to_convergence(both) == costs.Mean(12, 8**0.5)
    assert costs.rounds_to_convergence([both[0], censored(20, 1)]) == costs.Mean(15, None, ">")
    assert costs.rounds_to_convergence([stored([0.5] * 20)]) is None  # nothing could have ended it


def compressed(rounds: int, **more: Any) -> StoredRun:
    return timed(rounds, transforms="top_k(fraction=0.01)", **more)


@pytest.mark.parametrize(
    ("baseline", "ours", "expected"),
    [
        (timed(100, every={**ROUND, "bytes_up": 1000}), compressed(150), costs.Mean(100 * 100 / 150)),
        (timed(100), timed(300, transforms="sign", most=300), costs.Mean(100 * 100 / 300, None, "<")),
        (censored(300), compressed(200), costs.Mean(100 * 300 / 200, None, ">")),
        (censored(300), timed(300, transforms="sign", most=300), None),
    ],
)
def test_the_end_to_end_ratio_counts_the_rounds(
    baseline: StoredRun, ours: StoredRun, expected: costs.Mean | None
) -> None:
    collected = cells([baseline], [ours])
    own = next(cell for cell in collected if cell.label["transforms"])
    plain = costs.uncompressed(collected)(own)
    assert plain is not None
    assert plain.label["transforms"] == ""
    assert costs.end_to_end_ratio(own.runs, plain.runs) == expected


def test_a_baseline_differs_in_compression_only() -> None:
    near, far = timed(100), timed(100, model="mlp")
    both = cells([far], [compressed(150, broadcast="quantize(bits=8)")])
    assert costs.uncompressed(both)(both[1]) is None
    three = [*both, *cells([near])]
    assert costs.uncompressed(three)(both[1]) == three[2]
    assert costs.uncompressed(three)(three[2]) == three[2]


# --- comparing ----------------------------------------------------------------------------------------


def rates(algorithm: str, seconds: Sequence[float]) -> list[StoredRun]:
    """Return trials of which each round trains 600 rows in this time."""
    return [
        timed(seed=seed, algorithm=algorithm, every={**ROUND, "time": {**TIME, "total": total}})
        for seed, total in enumerate(seconds)
    ]


FAST, SLOW = rates("fedavg", [1.0, 1.2, 1.25]), rates("scaffold", [2.0, 2.4, 3.0])
RATES = ([600, 500, 480], [300, 250, 200])


def test_throughput_is_compared_relatively_by_default() -> None:
    found = pairs(FAST, SLOW, metric="throughput")
    differences = [2 * (a - b) / (a + b) for a, b in zip(*RATES, strict=True)]
    assert found.settings[0].differences == pytest.approx(differences)
    posterior = stats.t(2, sum(differences) / 3, stats.tstd(differences) / 3**0.5)  # test rows do not affect it
    assert found.odds is not None
    assert found.odds.better_a == pytest.approx(posterior.sf(0.1))
    assert found.verdict == "fedavg is better"
    assert "training rows per second of round time, more is better" in comparison_table(found).title


def test_the_rope_of_a_study_is_a_difference_in_the_unit_of_the_metric() -> None:
    found = pairs(FAST, SLOW, metric="throughput", rope=Ropes("OARF", {"throughput": 100}))
    assert found.settings[0].differences == pytest.approx([300, 250, 280])
    posterior = stats.t(2, 830 / 3, stats.tstd([300, 250, 280]) / 3**0.5)
    assert found.odds is not None
    assert found.odds.equal == pytest.approx(posterior.cdf(100) - posterior.cdf(-100))
    table = comparison_table(found)
    assert table.columns[2] == "A - B, rows/s [95%]"
    assert table.note.startswith("equal: within ±100 rows/s, as in OARF; ")
    assert (found.as_json()["relative"], found.as_json()["rope_of"]) == (False, "OARF")


def test_less_overhead_is_better() -> None:
    """(2 + 0.5) / 4 and 2.5 / 3.2 of the time are work."""
    wasteful = [timed(seed=seed, algorithm="fedavg") for seed in range(3)]
    lean = rates("scaffold", [3.2, 3.2, 3.2])
    found = pairs(wasteful, lean, metric="overhead")
    assert found.settings[0].mean == pytest.approx(2.5 / 3.2 - 2.5 / 4)
    assert (found.question.rope, found.verdict) == (0.1, "scaffold is better")
    assert comparison_table(found).rows[0][2].text.startswith("+15.6")  # percentage points


def test_more_compression_is_better() -> None:
    sparse = [timed(seed=seed, algorithm="fedavg") for seed in range(2)]
    plain = [timed(seed=seed, algorithm="scaffold", every={**ROUND, "bytes_up": 1000}) for seed in range(2)]
    found = pairs(sparse, plain, metric="uplink-ratio")
    assert found.settings[0].differences == pytest.approx([2 * 99 / 101] * 2)
    assert found.verdict == "fedavg is better"
    assert pairs(sparse, plain, metric="throughput-core").verdict == "practically equal"


def test_an_algorithm_that_sends_nothing_has_no_ratio() -> None:
    silent = {**ROUND, "bytes_up": 0, "dense_up": 0}
    both = [
        [timed(seed=seed) for seed in range(2)],
        [timed(seed=seed, algorithm="solo", every=silent) for seed in (0, 1)],
    ]
    found = cells(*both)
    with pytest.raises(SilobenchError, match="no finished run of solo has a value of uplink-ratio: choose another"):
        compare(found, "fedavg", "solo", checked_question("uplink-ratio", cells=found))


def test_a_trial_without_the_number_is_left_out_and_never_better() -> None:
    late = [*FAST, timed(seed=3, every={})]
    other = [*SLOW, timed(seed=3, algorithm="scaffold")]
    found = pairs(late, other, metric="throughput")
    assert (found.settings[0].seeds, found.settings[0].failed) == ([0, 1, 2], (1, 0))
    assert found.verdict == "undecided"
    assert pairs([*FAST, timed(seed=3)], [*SLOW, timed(seed=3, algorithm="scaffold", every={})], metric="throughput"
                 ).verdict == "fedavg is better"  # fmt: skip


def arrivals(algorithm: str, rounds: Sequence[int], most: int = 60) -> list[StoredRun]:
    """Return trials that converge after these rounds; those with `most` rounds do not converge."""
    return [
        timed(count, seed, algorithm=algorithm, most=most, converged=count < most) for seed, count in enumerate(rounds)
    ]


def test_fewer_rounds_to_convergence_are_better() -> None:
    found = pairs(arrivals("fedavg", [20, 22, 21]), arrivals("scaffold", [50, 51, 54]), metric="convergence")
    assert found.settings[0].differences == [-30, -29, -33]
    assert (found.question.rope, found.verdict) == (10, "fedavg is better")
    assert "rounds to convergence, less is better" in comparison_table(found).title


@pytest.mark.parametrize(
    ("a", "b", "verdict"),
    [
        ([55, 55, 55], [60, 60, 60], "undecided"),  # as far as is known; B may need any number of rounds
        ([20, 20, 20], [60, 60, 60], "fedavg is better"),  # B needs even more than it counts with
        ([60, 20, 20, 21, 20, 20, 20, 21], [55] * 8, "undecided"),  # one that never converged shows no superiority
        ([55, 56, 60, 60], [55, 56, 60, 60], "undecided"),  # in half of the pairs nothing is known
        ([55, 56, 55], [55, 56, 55], "practically equal"),
    ],
)
def test_a_run_that_did_not_converge_is_no_evidence_of_equality(a: list[int], b: list[int], verdict: str) -> None:
    found = pairs(arrivals("fedavg", a), arrivals("scaffold", b), metric="convergence", rho=0)
    assert found.verdict == verdict
    assert found.settings[0].verdict("fedavg", "scaffold") == verdict


def test_what_is_said_of_runs_that_did_not_converge() -> None:
    found = pairs(arrivals("fedavg", [20, 22, 60]), arrivals("scaffold", [60, 60, 60]), metric="convergence")
    note = comparison_table(found).note
    assert "runs that never converged count with all their rounds, which is too few: 2" in note
    assert "pairs of which no run converged are left out: 1" in note
    facts = found.as_json()["settings"][0]
    assert (facts["never_reached"], facts["neither_reached"], facts["n"]) == ({"a": 0, "b": 2}, 1, 2)
    with pytest.raises(SilobenchError, match="no run of fedavg or scaffold converged: rounds to convergence need"):
        pairs(arrivals("fedavg", [60, 60]), arrivals("scaffold", [60, 60]), metric="convergence")


def test_settings_in_which_nothing_converged_speak_against_equality() -> None:
    def setting(k: int, rounds: Sequence[int]) -> list[CellResult]:
        partition = f"label-count(k={k})"
        return cells(*(
            [timed(count, seed, algorithm=name, partition=partition, most=60, converged=count < 60)
             for seed, count in enumerate(rounds)]
            for name in ("fedavg", "scaffold")
        ))  # fmt: skip

    equal = [cell for k in range(2, 8) for cell in setting(k, [30, 31])]
    question = checked_question("convergence", cells=equal)
    assert compare(equal, "fedavg", "scaffold", question).verdict == "practically equal"
    more = [*equal, *setting(8, [60, 60])]
    assert compare(more, "fedavg", "scaffold", question).verdict == "undecided"


def test_a_rope_that_no_relative_difference_exceeds_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"--rope of throughput is a share of the mean of the two, .* but 100 was"):
        pairs(FAST, SLOW, metric="throughput", rope=100)


def test_a_study_without_a_rope_for_the_metric() -> None:
    ropes = Ropes("OARF", {"overhead": 0.1, "accuracy": 0.02})
    with pytest.raises(ConfigError, match="OARF states no region of practical equivalence for bytes, only for acc"):
        pairs(FAST, SLOW, metric="bytes", target=0.5, rope=ropes)
    assert pairs(FAST, SLOW, metric="best", rope=ropes).question.rope == 0.02


# --- the command --------------------------------------------------------------------------------------


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    out = tmp_path / "runs"
    for algorithm, seconds in (("fedavg", (1.0, 1.2, 1.25)), ("scaffold", (2.0, 2.4, 3.0))):
        for seed, total in enumerate(seconds):
            timed(seed=seed, algorithm=algorithm, every={**ROUND, "time": {**TIME, "total": total}}, out=out)
    return out


def test_the_ropes_of_papers_are_differences() -> None:
    from silobench.papers import PAPERS

    assert all(0 < rope < float("inf") for paper in PAPERS for rope in paper.ropes.values())


def test_the_rope_of_a_paper_by_its_name(
    runs: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from dataclasses import replace

    from silobench import papers

    study = replace(papers.PAPERS[0], name="A Study", folder=Path("studies/other"), ropes={"throughput": 100})
    monkeypatch.setattr(papers, "PAPERS", (*papers.PAPERS, study))
    for name in ("other", "a study", "Other"):
        shown = call(capsys, "compare", runs, "fedavg", "scaffold", "--metric", "throughput", "--rope", name)
        assert shown.code == 0, shown.err
        assert "equal: within ±100 rows/s, as in A Study" in " ".join(shown.out.split())
    wrong = call(capsys, "compare", runs, "fedavg", "scaffold", "--rope", "many")
    assert wrong.code == 2
    assert "--rope must be a number, or the name of a paper that states differences (" in wrong.err
    assert "other), but 'many' was given." in wrong.err


@pytest.mark.parametrize(("rows", "is_small"), [(600, False), (6_000_000, True)])
def test_a_region_of_another_machine_is_called_so(rows: int, is_small: bool) -> None:
    """The rope of the study, 100 rows/s, is a percent of 10,000 rows/s."""
    rates = ({**ROUND, "rows": rows + 7 * seed} for seed in range(6))
    groups = [
        [stored([0.5], seed, algorithm=name, every=next(rates)) for seed in range(3)] for name in ("fedavg", "fednova")
    ]
    found = cells(*groups)
    question = checked_question("throughput", Ropes("OARF", {"throughput": 100}), cells=found)
    comparison = compare(found, "fedavg", "fednova", question)
    table = comparison_table(comparison)
    assert ("less than 1% of the values compared: it suits the machines of OARF" in table.note) == is_small
    assert comparison.as_json()["unit"] == "rows/s"
    assert checked_question("throughput", cells=found).json_unit == "fraction of their mean"
