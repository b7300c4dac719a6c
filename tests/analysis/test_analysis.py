"""Tables, their files, and claims: from run directories that are written by hand, so that every number is known."""

import csv
import io
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from commands import call
from silobench.analysis import export
from silobench.analysis.bayes import Posterior
from silobench.analysis.cells import CellResult
from silobench.analysis.claims import Claim, Finding, Findings, claims_table, judge, judged
from silobench.analysis.details import details, details_table
from silobench.analysis.evidence import Evidence, Gap, has_learnt, if_learnt
from silobench.analysis.groups import Cells
from silobench.analysis.measured import measure_table
from silobench.analysis.methods import setting_name
from silobench.analysis.profile import profile_table
from silobench.analysis.ranking import ranking
from silobench.analysis.tables import Table, cost_table, entries, score_table
from silobench.loop.exchanges import exchange
from silobench.papers import FINDINGS
from silobench.papers.niid_bench.findings import _moves
from silobench.runs import facts
from silobench.runs.stored import StoredRun
from stored import cells, claim, noises, page, stored

MU = ("0.001", "0.1", "1.0")
COUNTS = [[30, 10], [10, 30], [20, 20], [25, 15]]


def run(
    accuracies: list[float | None], seed: int = 0, seconds: float = 1.0, sent: int = 100, **choices: Any
) -> StoredRun:
    """A finished run with these accuracies by round."""
    parties = choices.get("parties", 10)
    return stored(
        accuracies, seed, [{"class_accuracy": [accuracy, 0.5]} for accuracy in accuracies],
        every={
            "bytes_up": sent, "bytes_down": sent, "seconds": {"data": 5.0, "train": seconds, "evaluate": 0.1},
        },
        counts=None if "k=1" in choices.get("partition", "iid") else (COUNTS * parties)[:parties], **choices,
    )  # fmt: skip


def trials(last: float, rounds: int = 3, wobble: float = 0.0, noise: float = 0.002, **choices: Any) -> list[StoredRun]:
    """Three runs that end at about `last`, each cell with a noise of its own; the way there wobbles."""
    found = []
    for seed, off in enumerate(noises(noise, choices)):
        curve = [last + off + (wobble * (1 + 0.1 * seed) if number % 2 else 0) for number in range(rounds)]
        found.append(run([*curve[:-1], last + off], seed, **choices))
    return found


@pytest.fixture
def grid() -> list[CellResult]:
    """Three skews, four algorithms, FedProx over its grid, best at another mu in each."""
    groups = []
    for place, partition in enumerate(("label-dirichlet(beta=0.5)", "label-count(k=1)", "iid")):
        groups += [trials(0.80 + 0.01 * place, partition=partition)]
        for order, mu in enumerate(MU):
            groups += [trials(0.85 if order == place else 0.7, partition=partition, algorithm=f"fedprox(mu={mu})")]
        groups += [trials(0.60, partition=partition, algorithm="scaffold", sent=200)]
    return cells(*groups)


def test_table_3_has_skews_the_best_mu_the_paper_and_the_difference(grid: list[CellResult]) -> None:
    table = score_table(grid)
    assert table.columns == ["skew", "dataset", "partition", "fedavg", "fedprox (best mu)", "scaffold"]
    texts = [[entry.text for entry in row] for row in table.rows]
    assert [row[0] for row in texts] == ["label", "label", "homogeneous"]
    assert texts[0][3:] == ["80.0 ± 0.2", "85.0 ± 0.2 [mu=0.001]", "60.0 ± 0.2"]
    assert texts[1][4] == "85.0 ± 0.2 [mu=0.1]"
    (total,) = table.footer
    assert [entry.text for entry in total] == ["label", "times best of 2", "", "0", "2", "0"]
    first = table.rows[0]
    assert [entry.best for entry in first] == [False, False, False, False, True, False]
    assert first[3].paper == "paper 98.9 ± 0.1, -18.9"
    every = score_table(grid, every=True)
    assert every.columns[3:] == ["fedavg", *(f"fedprox(mu={mu})" for mu in MU), "scaffold"]


def test_a_best_is_marked_only_beside_an_error() -> None:
    single = cells([run([0.8])], [run([0.9], algorithm="scaffold")])
    assert not any(entry.best for row in score_table(single).rows for entry in row)
    tied = score_table(cells(trials(0.8), trials(0.80004, algorithm="fednova"), trials(0.7, algorithm="scaffold")))
    assert [entry.best for entry in tied.rows[0][3:]] == [True, True, False]  # the same at the precision that is shown


def test_an_equal_best_counts_for_each_algorithm() -> None:
    pairs = {"iid": (0.8, 0.8), "shards": (0.8, 0.7), "label-count(k=1)": (0.8, 0.8), "label-count(k=2)": (0.7, 0.8)}
    groups = [
        trials(mean, partition=partition, algorithm=name)
        for partition, means in pairs.items()
        for name, mean in zip(("fedavg", "scaffold"), means, strict=True)
    ]
    table = score_table(cells(*groups))
    (total,) = table.footer
    assert [entry.text for entry in total][-3:] == ["", "2", "2"]
    assert total[1].text == "times best of 3"
    assert "equal means are all marked and all counted as best" in table.note


def test_tables_as_csv_markdown_and_latex(grid: list[CellResult]) -> None:
    rows = list(csv.DictReader(io.StringIO(export.scores_csv(grid))))
    assert len(rows) == 9
    assert rows[0] == {
        "skew": "label", "dataset": "mnist", "partition": "label-dirichlet(beta=0.5)", "algorithm": "fedavg",
        "accuracy": "80.00", "std": "0.20", "best": "80.00", "trials": "3", "rounds": "3", "paper": "98.90",
        "paper_std": "0.10", "difference": "-18.90", "paper_table": "Table III", "metric": "accuracy", "unit": "%",
        "score": "80.00", "score_std": "0.20", "score_best": "80.00", "balanced-accuracy": "65.00",
        "balanced-accuracy_std": "0.10", "flower_replication": "98.90",
    }  # fmt: skip
    assert len(export.scores_csv(grid, every=True).splitlines()) == 16
    markdown = export.markdown(score_table(grid)).splitlines()
    assert markdown[2] == "| skew | dataset | partition | fedavg | fedprox (best mu) | scaffold |"
    assert "| **85.0 ± 0.2 [mu=0.001]** (paper 98.9 ± 0.1, -13.9; Flower 99.0) |" in markdown[4]
    assert markdown[7:9] == ["|  |  |  |  |  |  |", "| label | times best of 2 |  | 0 | 2 | 0 |"]
    latex = export.latex(score_table(grid)).splitlines()
    assert latex[8:10] == [r"\midrule", r"label & times best of 2 &  & 0 & 2 & 0 \\"]
    assert latex[1] == r"\begin{tabular}{llllll}"
    assert r"\textbf{85.0 $\pm$ 0.2 [mu=0.001]} {\scriptsize (paper 98.9 $\pm$ 0.1, -13.9; Flower 99.0)}" in latex[5]
    assert latex[-2:] == [r"\end{tabular}", "% " + score_table(grid).note]


def test_latex_has_the_marks_of_tables_in_any_font() -> None:
    """In text, < | > are printed as other marks, and LaTeX stops at characters that it has no letter for."""
    texts = ["clip | noise", "< 1e-6", ">60", "≥ 0.2", "∞", "a → b", "0.5 ≈", "R²"]
    row = export.latex(Table("", ["text"] * 8, [entries(*texts)])).splitlines()[-3]
    assert row == r"clip $|$ noise & $<$ 1e-6 & $>$60 & $\geq$ 0.2 & $\infty$ & a $\to$ b & 0.5 $\approx$ & R$^2$ \\"
    columns = export.latex(Table("", ["|Δw / w|", "‖Δw‖ / ‖w‖", "μ"], [entries("1", "2", "3")])).splitlines()
    assert r"$|$$\Delta$w / w$|$ & $\Vert$$\Delta$w$\Vert$ / $\Vert$w$\Vert$ & $\mu$ \\" in columns


def test_a_record_without_seconds_has_no_shares() -> None:
    (row,) = profile_table(cells([stored([0.8], every={"seconds": {}})])).rows
    assert {entry.text for entry in row[-9:]} == {"-"}


def test_fedprox_is_one_rival_in_ranks(grid: list[CellResult]) -> None:
    found = ranking(grid)
    assert [standing.algorithm for standing in found.standings] == ["fedprox (best mu)", "fedavg", "scaffold"]
    assert found.standings[0].won == 3
    assert len(ranking(grid, every=True).standings) == 5


def test_costs_of_a_round_are_counted_as_in_table_4() -> None:
    (row,) = cost_table(cells(trials(0.8, seconds=2.0, sent=1000))).rows
    assert row[-2].text == "1.1 kB"  # ten messages of 100 bytes, and one of the ten copies that the server sends
    assert (row[-2].paper, row[-1].paper) == ("paper 1.95 MB", "paper 73 s")
    assert row[-1].text == "2 s"  # neither loading nor tests


def test_costs_are_by_the_number_of_parties_that_the_data_decided() -> None:
    groups = [
        [
            run([0.5], sent=sent, dataset="h", partition=partition, parties=count, algorithm=algorithm)
            for count, partition, sent in ((7, "by-group", 700), (10, "iid", 1000))
        ]
        for algorithm in ("fedavg", "scaffold")
    ]
    undecided = [replace(cell, label=cell.label.replace(parties=None)) for cell in cells(*groups)]
    table = cost_table(undecided)
    columns = [table.columns.index(name) for name in ("parties", "algorithm", "sent up")]
    assert [[row[place].text for place in columns] for row in table.rows] == [
        ["7", "fedavg", "700 B"], ["10", "fedavg", "1 kB"], ["7", "scaffold", "700 B"], ["10", "scaffold", "1 kB"],
    ]  # fmt: skip


def test_captions_and_data_in_words(tmp_path: Path) -> None:
    found = [replace(cell, label=cell.label.without("parties")) for cell in cells([run([0.5], parties=7)])]
    assert setting_name(found[0], ["dataset", "partition", "parties"], found) == "mnist · iid · 7 parties"
    assert "6000 training rows, 1000 test rows" in page(found, tmp_path / "report.html")


def test_details_of_a_cell() -> None:
    (cell,) = cells([run([0.2, 0.9, 0.8], 0), run([0.2, 0.3, 0.8], 1)])
    found = details(cell, target=0.85)
    assert found["last"]["mean"] == pytest.approx(0.8)
    assert found["best"]["mean"] == pytest.approx(0.85)
    assert found["stability"] is None  # three rounds: it would be the rise of the curve
    assert found["class_accuracy"] == [0.8, 0.5]
    expected = [(a * 0.8 + b * 0.5) / 40 for a, b in (COUNTS * 3)[:10]]
    assert found["party_accuracy"]["mean"] == pytest.approx(sum(expected) / 10)
    assert found["party_accuracy"]["worst"] == pytest.approx(min(expected))
    assert found["rounds_to_target"] == [2, None]
    assert found["bytes_to_target"] == [400, None]
    (row,) = details_table([cell], 0.85).rows
    assert "2 (1 of 2)" in [entry.text for entry in row]


@pytest.mark.parametrize(("rounds", "every", "text"), [(14, 1, "-"), (15, 1, "0.0 ± 0.0"), (18, 2, "-")])
def test_steadiness_is_shown_for_runs_with_enough_rounds_and_tests(rounds: int, every: int, text: str) -> None:
    curve = [0.8 if number % every == 0 else None for number in range(1, rounds + 1)]
    settled = [run([0.7] * 15, seed, algorithm="fednova") for seed in range(2)]
    table = details_table(cells([run(curve, 0), run(curve, 1)], settled))
    assert table.rows[0][table.columns.index("std of last 10 tests")].text == text


def test_steadiness_is_left_out_with_its_note_if_no_run_has_settled() -> None:
    table = details_table(cells([run([0.8] * 14, 0), run([0.8] * 14, 1)]))
    assert "std of last" not in " ".join([*table.columns, table.note])


def test_steadiness_is_the_deviation_of_the_last_tests() -> None:
    (cell,) = cells([run([0.1] * 10 + [0.7, 0.9] * 5, 0), run([0.1] * 10 + [0.8] * 10, 1)])
    assert details(cell)["stability"]["mean"] == pytest.approx(0.1 * (10 / 9) ** 0.5 / 2)


# --- claims -------------------------------------------------------------------------------------------


def verdicts(*groups: list[StoredRun]) -> dict[str, str]:
    return {claim.finding.id: claim.verdict for claim in judge(cells(*groups), FINDINGS)}


def test_a_table_of_claims_names_the_parts_without_runs() -> None:
    finding = Finding("a-1", "A", "It is so.", {"first": "most", "second": "all", "third": "all"}, iter, "suite")
    pieces = [Evidence("first", "", "", "", True), Evidence("second", "", "", "", True, counts=False)]
    (partly,), (never,) = (claims_table([Claim(finding, evidence)]).rows for evidence in (pieces, []))
    lacking = "no runs test it, and the claim needs it too (silobench run suite)"
    assert partly[-1].text == f"first: for in 1 comparison; second: {lacking}; third: {lacking}"
    assert partly[1].text == "undecided: 1 of 3 parts tested"
    assert never[-1].text == "no runs for it yet: silobench run suite"


def test_rules_make_a_verdict_of_pieces() -> None:
    def pieces(*holds: bool | None) -> list[Evidence]:
        return [Evidence("", "", "", "", one) for one in holds]

    assert judged("all", []) == judged("most", pieces(None)) == "undecided"
    assert judged("all", pieces(True, None)) == "undecided"
    assert judged("all", pieces(True, None, False)) == "contradicted"
    assert judged("all", pieces(None, None, False)) == "undecided"  # one of many is not enough
    assert judged("most", pieces(True, None)) == judged("most", pieces(False, None)) == "undecided"
    assert judged("most", pieces(True, True, None)) == "supported"
    assert judged("most", pieces(False, False, None)) == "contradicted"
    assert judged("most", pieces(True, *[None] * 11)) == judged("most", pieces(False, *[None] * 11)) == "undecided"
    assert judged("most", pieces(True, False)) == "undecided"
    assert judged("most", pieces(False, False, False, True)) == "contradicted"
    aside = Evidence("", "", "", "", False, counts=False)
    assert judged("all", [*pieces(True), aside]) == "supported"


def test_parts_make_a_verdict_of_a_claim() -> None:
    finding = Finding("x", "p", "s", {"a": "all", "b": "all"}, lambda _: iter(()), "demo")

    def verdict(**holds: bool | None) -> str:
        return Claim(finding, [Evidence(part, "", "", "", one) for part, one in holds.items()]).verdict

    assert verdict(a=True, b=True) == "supported"
    assert verdict(a=True, b=None) == "undecided"
    assert verdict(a=None, b=False) == "contradicted"


def test_what_can_be_told_of_a_difference() -> None:
    scattered = Posterior(0.1, 1.0, 2, 3, 0.0)
    clear, wide, unknown = Gap(Posterior(0.1, 0.001, 2, 3, 0.0)), Gap(scattered), Gap(None)
    assert (clear.more_than(0.05), clear.more_than(0.2), wide.more_than(0.05)) == (True, False, None)
    assert (clear.at_most(0.05), clear.at_most(0.2), wide.at_most(0.05)) == (False, True, None)
    assert (clear.within(0.2), clear.within(0.05), wide.within(0.2)) == (True, False, None)
    assert (unknown.more_than(0), unknown.at_most(1), unknown.within(1)) == (None, None, None)
    assert scattered.odds(0.01).equal < 0.05
    assert wide.within(0.01) is None  # outside, perhaps, but on which side?
    assert (clear.more_than(0.097), clear.more_than(0.097, looks=100)) == (True, None)


@pytest.mark.parametrize(
    ("constant", "facts"),
    [
        (0.75, {"counts": [[30, 0], [0, 10]]}),  # no party has both classes
        (0.5, {"counts": [[30, 0], [0, 10]], "dataset_facts": {"task": "verification"}}),
        (0.25, {"partition_facts": {"counts": []}, "dataset_facts": {"classes": list("abcd")}}),  # an older run
    ],
)
def test_a_model_has_learnt_if_it_is_better_than_a_constant_answer(constant: float, facts: dict[str, Any]) -> None:
    below, above = (cells([stored([constant + more], parties=2, **facts)])[0] for more in (0.04, 0.06))
    assert (has_learnt(below), has_learnt(above)) == (False, True)
    assert [if_learnt(holds, above, below) for holds in (True, False, None)] == [True, False, None]
    assert [if_learnt(holds, below) for holds in (True, False, None)] == [None, None, None]


def test_a_decorator_adds_a_finding() -> None:
    findings = Findings("p")

    @findings.add("x", "s", {"a": "all"}, suite="demo")
    def look(cells: Cells) -> Iterator[Evidence]:
        yield Evidence("a", f"{len(cells)} cells", "", "", True)

    assert findings == [Finding("x", "p", "s", {"a": "all"}, look, "demo")]
    assert [(one.verdict, one.evidence[0].cells) for one in judge([], findings)] == [("supported", "0 cells")]


def test_finding_1_needs_one_class_to_be_worst_and_noise_to_be_harmless() -> None:
    def runs(one: float, noisy: float, **more: float) -> str:
        skews = {"iid": 0.9, "label-count(k=1)": one, "label-count(k=2)": 0.6, "noise(sigma=0.1)": noisy, **more}
        return verdicts(*[trials(value, partition=name) for name, value in skews.items()])["niid-1"]

    assert runs(0.3, 0.895) == "supported"
    assert runs(0.7, 0.895) == "contradicted"
    assert runs(0.3, 0.7) == "contradicted"
    assert runs(0.3, 0.895, **{"label-count(k=1) + noise(sigma=0.1)": 0.29}) == "supported"  # one class a party, too


def test_finding_1_does_not_take_runs_without_counts_for_one_class_per_party() -> None:
    """Older runs stored no counts. Their partition is a rival like the others, and a harder one here."""
    skews = {"iid": 0.9, "label-count(k=1)": 0.7, "label-count(k=2)": 0.8, "noise(sigma=0.1)": 0.895}
    groups = [trials(value, partition=name) for name, value in skews.items()]
    assert verdicts(*groups)["niid-1"] == "supported"
    older = trials(0.6, partition="label-count(k=3)", partition_facts={"counts": []})
    assert verdicts(*groups, older)["niid-1"] == "contradicted"


def test_finding_2_falls_with_an_algorithm_that_is_always_best() -> None:
    def runs(second: dict[str, float]) -> str:
        first = {"fedavg": 0.9, "fedprox": 0.8, "scaffold": 0.7, "fednova": 0.6}
        return verdicts(
            *[trials(value, algorithm=name) for name, value in first.items()],
            *[trials(value, algorithm=name, partition="label-count(k=2)") for name, value in second.items()],
        )["niid-2"]

    assert runs({"fedavg": 0.6, "fedprox": 0.5, "scaffold": 0.7, "fednova": 0.4}) == "supported"
    assert runs({"fedavg": 0.9, "fedprox": 0.5, "scaffold": 0.7, "fednova": 0.4}) == "contradicted"
    wide = [trials(0.7, noise=0.2, algorithm=name) for name in ("fedavg", "fedprox", "scaffold", "fednova")]
    assert verdicts(*wide)["niid-2"] == "undecided"


def test_finding_3_compares_tasks() -> None:
    four = {"fedavg": 0.97, "fedprox": 0.975, "scaffold": 0.97, "fednova": 0.968}
    skewed = "label-dirichlet(beta=0.5)"
    mnist = [trials(value, algorithm=name, partition=skewed) for name, value in four.items()] + [trials(0.98)]
    hard = {"dataset": "cifar-10"}
    assert verdicts(*mnist, trials(0.7, **hard), trials(0.6, partition=skewed, **hard))["niid-3"] == "supported"
    assert verdicts(*mnist, trials(0.7, **hard), trials(0.698, partition=skewed, **hard))["niid-3"] == "contradicted"


def test_finding_4_looks_at_speed_and_steadiness() -> None:
    skewed = {"partition": "label-count(k=2)", "rounds": 20}
    calm = [trials(0.8, **skewed), trials(0.8, algorithm="fedprox", **skewed)]
    rough = [trials(0.8, wobble=-0.2, algorithm=name, **skewed) for name in ("scaffold", "fednova")]
    assert verdicts(*calm, *rough)["niid-4"] == "supported"
    rough_average = [trials(0.8, wobble=-0.2, **skewed), trials(0.8, wobble=-0.2, algorithm="fedprox", **skewed)]
    calm_rest = [trials(0.8, algorithm=name, **skewed) for name in ("scaffold", "fednova")]
    assert verdicts(*rough_average, *calm_rest)["niid-4"] == "contradicted"


def test_finding_5_asks_whether_the_best_number_of_epochs_moves() -> None:
    def runs(best: dict[str, int]) -> str:
        return verdicts(
            *[
                trials(0.8 if epochs == top else 0.6, partition=name, solver=f"sgd(lr=0.01, epochs={epochs}, batch=64)")
                for name, top in best.items()
                for epochs in (10, 20)
            ]
        )["niid-5"]

    assert runs({"label-count(k=1)": 20, "label-count(k=3)": 10}) == "supported"
    assert runs({"label-count(k=1)": 10, "label-count(k=3)": 10}) == "contradicted"
    single = [
        [run([value], partition=name, solver=f"sgd(lr=0.01, epochs={epochs}, batch=64)")]
        for name, epochs, value in (("a", 10, 0.8), ("a", 20, 0.7), ("b", 10, 0.7), ("b", 20, 0.8))
    ]
    assert verdicts(*single)["niid-5"] == "undecided"
    flat = [
        trials(value, partition=name, solver=f"sgd(lr=0.01, epochs={epochs}, batch=64)")
        for name, epochs, value in (("a", 10, 0.8), ("a", 20, 0.799), ("b", 10, 0.6), ("b", 20, 0.8))
    ]
    (claim,) = [claim for claim in judge(cells(*flat), FINDINGS) if claim.finding.id == "niid-5"]
    (moved,) = [piece.holds for piece in claim.evidence if piece.part == "the best number depends on the skew"]
    assert moved  # the first hardly cares, and what is best for it is bad for the second


def test_cells_that_differ_in_more_than_one_choice_are_not_compared() -> None:
    skewed = "label-dirichlet(beta=0.5)"
    groups = [
        trials(value, partition=name, model=model, solver=f"sgd(lr=0.01, epochs=10, batch={size})")
        for model, name, size, value in (
            ("cnn", skewed, 16, 0.8), ("cnn", skewed, 256, 0.7), ("mlp", "iid", 16, 0.8), ("mlp", "iid", 256, 0.8),
        )
    ]  # fmt: skip
    assert verdicts(*groups)["niid-10"] == "undecided"
    crossed = [trials(0.8, solver="sgd(epochs=16, batch=16)"), trials(0.6, solver="sgd(epochs=32, batch=32)")]
    assert verdicts(*crossed)["niid-5"] == verdicts(*crossed)["niid-10"] == "undecided"


def test_a_number_of_epochs_that_is_best_twice_is_compared_with_smaller_and_larger_ones() -> None:
    accuracies = {5: 0.7, 10: 0.8, 20: 0.6}
    groups = [
        [stored([0.2, accuracy + 0.01 * seed], seed, solver=f"sgd(epochs={epochs})") for seed in range(3)]
        for epochs, accuracy in accuracies.items()
    ]
    family = dict(zip(accuracies, cells(*groups), strict=True))
    gaps = [gap.posterior.mean for gap in _moves(10, family, 10, family) if gap.posterior]
    assert gaps == pytest.approx([-0.1, -0.2, -0.1, -0.2])


def test_speed_is_not_asked_of_runs_that_learn_nothing_or_never_arrive() -> None:
    def evidence(*groups: list[StoredRun]) -> list[bool | None]:
        (claim,) = [claim for claim in judge(cells(*groups), FINDINGS) if claim.finding.id == "niid-4"]
        return [piece.holds for piece in claim.evidence if piece.part == "FedProx is as fast as FedAvg"]

    ten = {"rounds": 10}
    assert evidence(trials(0.8, **ten), trials(0.8, algorithm="fedprox", **ten)) == [True]
    assert evidence(trials(0.5, **ten), trials(0.5, algorithm="fedprox", **ten)) == []  # two classes
    late = [run([0.3] * 9 + [value], seed, algorithm="fedprox") for seed, value in enumerate((0.9, 0.9, 0.6))]
    assert evidence(trials(0.8, **ten), late) == [None]


def test_finding_6_is_judged_by_control_variates_that_begin_at_zero() -> None:
    tenth = {"parties": 100, "participation": 0.1, "rounds": 20}

    def runs(zeros: float) -> tuple[str, list[tuple[str, bool | None]]]:
        groups = [
            trials(0.6, **tenth),
            trials(0.55, wobble=-0.1, partition="label-count(k=2)", **tenth),
            trials(zeros, algorithm="scaffold", **tenth),
            trials(0.1, algorithm="scaffold(init=random)", **tenth),
        ]
        (claim,) = [claim for claim in judge(cells(*groups), FINDINGS) if claim.finding.id == "niid-6"]
        return claim.verdict, [(piece.part, piece.holds) for piece in claim.evidence]

    assert runs(0.1)[0] == "supported"
    verdict, evidence = runs(0.61)
    assert verdict == "contradicted"
    assert ("SCAFFOLD with random first control variates fails", True) in evidence


def test_findings_7_9_and_10() -> None:
    assert verdicts(trials(0.8), trials(0.7, parties=40))["niid-7"] == "supported"
    assert verdicts(trials(0.8), trials(0.9, parties=40))["niid-7"] == "contradicted"
    single, noise = "label-dirichlet(beta=0.5)", "noise(sigma=0.1)"
    alone = [trials(0.8, partition=single), trials(0.82, partition=noise)]
    assert verdicts(*alone, trials(0.7, partition=f"{single} + {noise}"))["niid-9"] == "supported"
    assert verdicts(*alone, trials(0.9, partition=f"{single} + {noise}"))["niid-9"] == "contradicted"

    def batches(large: float) -> str:
        return verdicts(
            *[
                trials(value, partition=name, solver=f"sgd(lr=0.01, epochs=10, batch={size})")
                for name, size, value in (("iid", 16, 0.8), ("iid", 256, 0.7), (single, 16, 0.6), (single, 256, large))
            ]
        )["niid-10"]

    assert batches(0.5) == "supported"
    assert batches(0.7) == "contradicted"
    other = [
        [run([value], seed, partition=name, solver=f"sgd(lr=0.01, epochs=10, batch={size})")]
        for name, size, seed, value in (
            ("iid", 16, 0, 0.8),
            ("iid", 256, 1, 0.7),
            (single, 16, 0, 0.6),
            (single, 256, 1, 0.5),
        )
    ]
    assert verdicts(*other)["niid-10"] == "undecided"  # no two of them have a seed in common


def test_finding_8_is_about_time_and_bytes() -> None:
    def runs(seconds: float, sent: int) -> str:
        prox = trials(0.8, algorithm="fedprox", seconds=seconds)
        return verdicts(trials(0.8), prox, trials(0.8, algorithm="scaffold", sent=sent))["niid-8"]

    assert runs(1.5, 200) == "supported"
    assert runs(1.01, 200) == "contradicted"
    assert runs(1.5, 100) == "contradicted"
    assert runs(0.01, 200) == "undecided"  # too short to be measured


def test_finding_11_compares_normalisations() -> None:
    def runs(averaged: float, grouped: float) -> str:
        shared = {"partition": "label-count(k=2)", "rounds": 20}
        return verdicts(
            trials(0.7, wobble=averaged, model="resnet(depth=20)", **shared),
            trials(0.7, wobble=grouped, model="resnet(depth=20, norm=group)", **shared),
        )["niid-11"]

    assert runs(-0.2, 0.0) == "supported"
    assert runs(0.0, -0.2) == "contradicted"


def test_steadiness_is_that_of_the_last_ten_tests_and_says_so() -> None:
    """Tested in every second of 40 rounds: the unrest of rounds 1 to 20 is forgotten, that of 21 to 40 is not."""

    def tested(first: float, second: float, **choices: Any) -> list[StoredRun]:
        swings = [first if place < 10 else second for place in range(20)]
        curve = [0.8 + swing * (-1) ** place for place, swing in enumerate(swings)]
        accuracies = [accuracy for each in curve for accuracy in (None, each)]
        return [run(accuracies, seed, partition="label-count(k=2)", **choices) for seed in range(3)]

    for first, second, holds in ((0.2, 0.01, False), (0.01, 0.2, True)):
        found = claim("niid-4", tested(0.01, 0.01), tested(first, second, algorithm="scaffold"))
        (piece,) = found.evidence
        assert piece.holds is holds
        assert "last 10 tests" in piece.test


def test_a_single_trial_decides_nothing() -> None:
    found = verdicts([run([0.9])], [run([0.1], partition="label-count(k=1)")], [run([0.5], parties=40)])
    assert found["niid-1"] == found["niid-7"] == "undecided"


def test_claims_of_a_directory(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    options = ["--only", "fcube*", "--set", "rounds=1", "--set", "solver=sgd(epochs=1)", "--out", tmp_path]
    assert call(capsys, "run", "niid-table3", *options).code == 0
    found = json.loads(call(capsys, "claims", tmp_path, "--json").out)
    assert len(found) == len(FINDINGS) == 66
    for one in found:
        assert one.keys() >= {"id", "paper", "statement", "verdict", "evidence"}
        assert one["verdict"] in ("supported", "contradicted", "undecided")
    assert found[0]["evidence"][0]["cells"] == "fcube: iid against octants"
    told = call(capsys, "claims", tmp_path, "--only", "niid-8").out
    assert "SCAFFOLD sends twice the bytes" in told
    assert "niid-1," not in told
    assert call(capsys, "claims", tmp_path, "--only", "niid-99").code == 2
    assert call(capsys, "claims", tmp_path / "nothing").code == 2
    assert "fcube" in call(capsys, "show", tmp_path, "--details", "--target", "0.5").out
    assert call(capsys, "show", tmp_path, "--format", "latex").out.startswith("% Test accuracy")
    assert call(capsys, "show", tmp_path, "--format", "word").code == 2
    refused = call(capsys, "show", tmp_path, "--format", "csv", "--details")
    assert refused.code == 2
    assert "leave out --details, --target and --time, or use --json" in refused.err
    assert "leave out --json" in call(capsys, "show", tmp_path, "--format", "markdown", "--json").err


@pytest.mark.parametrize(
    ("slowest", "clock", "text"),
    [([0.5, 0.25], "measured", "2.75 s"), ([None, 0.25], "measured", "2 s (network)"), ([9.0, 9.0], "device", "2 s")],
)
def test_virtual_time_is_that_of_the_network_and_the_slowest_party(
    slowest: list[float | None], clock: str, text: str
) -> None:
    """A run that began before parties were timed has the time of the network only."""
    seconds = [{"train": 9.0} | ({} if value is None else {"slowest": value}) for value in slowest]
    computing = {"computing": 0.5} if clock == "device" else {}
    records = [{"seconds": each, **computing} for each in seconds]
    table = cost_table(cells([stored([0.1, 0.2], records=records)]))
    assert table.rows[0][table.columns.index("virtual time")].text == text


def test_lost_rounds_are_noted_below_the_scores() -> None:
    assert facts.LOST == exchange.LOST
    lost = {"reports": {facts.LOST: 1.0}}
    runs = [
        stored([0.5, 0.5, 0.6], records=[{}, lost], transforms="secure_sum(range=1)"),
        stored([0.1, 0.1], every=lost, transforms="secure_sum(range=2)"),
        stored([0.5, 0.7]),
    ]
    note = score_table(cells(runs)).note
    assert "all rounds were lost, so the score is that of the initial model: mnist iid secure_sum(range=2)" in note
    assert "lost, because too few parties answered: 1 of 3 rounds of mnist iid secure_sum(range=1)" in note
    assert "lost" not in score_table(cells(runs[2:])).note


@pytest.mark.parametrize(
    "choices",
    [
        [{"transforms": ""}, {"transforms": "secure-sum(range=8.0)"}],
        [{"solver": "sgd(lr=0.1)"}, {"solver": "adam(lr=0.1)"}],
        [{"eval_every": 1}, {"eval_every": 2}],
        [{"transforms": "", "rounds": 1}, {"transforms": "clip(norm=1.0)", "rounds": 2}, {"rounds": 2}],
    ],
)
def test_no_two_lines_of_a_measure_look_alike(choices: list[dict[str, Any]]) -> None:
    every = {"measures": {"subtraction": {"error": 0.5, "parties": 2}}}
    table = measure_table(
        cells(*[[stored([0.5], every=every, measure="subtraction", **c)] for c in choices]), "subtraction"
    )
    lines = [tuple(entry.text for entry in row) for row in table.rows]
    assert len(set(lines)) == len(lines) == len(choices)
    assert ("transforms" in table.columns) == ("transforms" in choices[0])
