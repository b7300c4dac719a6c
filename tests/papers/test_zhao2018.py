"""What reads runs for Zhao et al.: the paper's numbers, tables, findings and figures, from runs written by hand."""

import json
from pathlib import Path
from typing import Any

import pytest

from commands import call, write
from silobench.analysis.cells import CellResult, Published
from silobench.analysis.claims import judge
from silobench.analysis.tables import score_table, shown, skew_of
from silobench.papers import FINDINGS, paper_facts, paper_sections, paper_tables, published_accuracy
from silobench.papers.zhao2018.divergence import divergence, divergence_table, layers_over_rounds, rounds_of
from silobench.papers.zhao2018.emd import emd_table
from silobench.papers.zhao2018.loss import losses
from silobench.papers.zhao2018.numbers import table2
from silobench.papers.zhao2018.sharing import sharing_table
from silobench.report.charts.page import markup
from silobench.report.drawing import Drawing
from silobench.runs.stored import StoredRun
from stored import cells, claim, noises, one_class_each, page, stored, texts

ONE = "shards(per_party=1)"
LAYERS = ("conv1", "conv2", "fc1", "out")


def solver(batch: int = 100, epochs: int = 1, momentum: float = 0.0, decay: float = 0.0) -> str:
    rate = "exponential(start=0.1, decay=0.992)"
    return f"sgd(lr={rate}, momentum={momentum}, weight_decay={decay}, epochs={epochs}, batch={batch})"


def run(
    accuracies: list[float], seed: int = 0, measures: dict[int, dict[str, Any]] | None = None, **choices: Any
) -> StoredRun:
    """A finished run with these accuracies by round, and what was measured after some of them."""
    each = one_class_each(10, classes=10) if choices.get("partition", "").startswith(ONE) else [[4] * 10] * 10
    plain = {"dataset": "cifar-10", "solver": solver(), "counts": each, **choices}
    told = [
        {"measures": {"weight-divergence": measures[number]}} if measures and number in measures else {}
        for number in range(1, len(accuracies) + 1)
    ]
    return stored(accuracies, seed, told, **plain)


def trials(last: float, noise: float = 0.002, rounds: int = 5, **choices: Any) -> list[StoredRun]:
    """Three runs that end at about `last`, each cell with a noise of its own."""
    return [run([last + off] * rounds, seed, **choices) for seed, off in enumerate(noises(noise, choices))]


def measure(layers: dict[str, float | None], bound: float | None = None) -> dict[str, Any]:
    known = {"layers": layers, "all": 0.02, "distance": 0.5, "sgd_accuracy": None, "estimated": bound is not None}
    return known | ({} if bound is None else {"bound": bound})


def measured(partition: str, means: dict[str, float], noise: float = 0.0005, **choices: Any) -> list[StoredRun]:
    """Three runs of two rounds; each layer's divergence has a noise, and is twice as large after the second."""
    found = []
    for seed, off in enumerate(noises(noise, {"partition": partition})):
        once = {layer: mean + off for layer, mean in means.items()}
        rows = {1: measure(dict(once)), 2: measure({layer: 2 * value for layer, value in once.items()})}
        found.append(run([0.3, 0.4], seed, rows, partition=partition, measure="weight-divergence", **choices))
    return found


def verdict(id: str, *groups: list[StoredRun]) -> str:
    return claim(id, *groups).verdict


# --- the paper's numbers ------------------------------------------------------------------------------


def published(partition: str = "iid", parties: int = 10, **choices: Any) -> Published | None:
    return published_accuracy(run([0.5]).label.replace(partition=partition, **choices), parties)


def paper(**choices: Any) -> tuple[float, str] | None:
    found = published(**choices)
    return (found.mean, found.table) if found else None


@pytest.mark.parametrize(
    ("choices", "mean", "table"),
    [
        ({"partition": "target-emd(emd=1.44)"}, 0.7379, "Zhao Table 2"),
        ({"partition": "target-emd(emd=0.0)", "dataset": "mnist"}, 0.9857, "Zhao Table 2"),
        ({"partition": "target-emd(emd=1.8)", "dataset": "kws", "solver": solver(50)}, 0.4475, "Zhao Table 2"),
        ({"algorithm": "combined", "solver": solver(1000)}, 0.8151, "Zhao Table 3"),
        ({"algorithm": "combined", "solver": solver(100)}, 0.8414, "Zhao Table 3"),
        ({"algorithm": "combined", "dataset": "kws", "solver": solver(500)}, 0.8446, "Zhao Table 3"),
        ({}, 0.8083, "Zhao Table 3"),
        ({"solver": solver(10), "dataset": "mnist"}, 0.9912, "Zhao Table 3"),
        ({"partition": "shards"}, 0.67, "Zhao Table 3"),
        ({"partition": "shards", "dataset": "cifar-10(augment=False)"}, 0.67, "Zhao Table 3"),
        ({"partition": ONE, "solver": solver(10), "dataset": "kws"}, 0.3178, "Zhao Table 3"),
        ({"partition": ONE, "solver": solver(epochs=5)}, 0.444, "Zhao Table 3"),
        ({"partition": ONE, "start": "centralised(rounds=100, batch=1000)"}, 0.6172, "Zhao Table 3"),
        ({"partition": f"{ONE} + share(beta=0.1, holdout=0.2)"}, 0.7412, "Zhao Figure 7"),
        ({"partition": f"{ONE} + share(beta=0.25, holdout=0.2)"}, 0.7872, "Zhao Figure 7"),
        ({"partition": f"{ONE} + share(beta=0.2, warmup=20, holdout=0.2)"}, 0.7708, "Zhao Figure 7"),
        ({"partition": f"{ONE} + share(beta=0.1, warmup=5, holdout=0.2)"}, 0.7312, "Zhao Figure 7"),
    ],
)
def test_the_papers_numbers(choices: dict[str, Any], mean: float, table: str) -> None:
    assert paper(**choices) == (mean, table)
    found = published(**choices)
    assert found is not None
    assert found.setting.startswith(table.replace("Zhao", "Zhao et al.,"))


def test_table_2_has_its_deviation_and_is_whole() -> None:
    found = published("target-emd(emd=1.44)")
    assert found is not None
    assert found.as_json() == {"mean": 0.7379, "std": 0.003383, "table": "Zhao Table 2"}
    assert [len(table2(name)) for name in ("mnist", "cifar-10", "kws", "digits")] == [8, 8, 8, 0]


@pytest.mark.parametrize(
    "choices",
    [
        {"partition": "target-emd(emd=1.5)"},  # not in the table
        {"partition": "target-emd(emd=1.44)", "solver": solver(10)},
        {"partition": "target-emd(emd=1.44)", "solver": solver(epochs=5)},
        {"partition": "target-emd(emd=1.44)", "algorithm": "scaffold"},
        {"partition": "target-emd(emd=1.44)", "start": "centralised(rounds=100, batch=1000)"},
        {"partition": "target-emd(emd=1.44) + noise(sigma=0.1)"},
        {"partition": "shards(per_party=3)"},
        {"dataset": "fmnist"},
        {"solver": solver(momentum=0.9)},
        {"solver": solver(decay=1e-05)},
        {"solver": "sgd(momentum=0.0, weight_decay=0.0, batch=100)"},  # ten local epochs
        {"server": "adam"},
        {"participation": 0.1},
        {"parties": 20},
        {"algorithm": "combined", "solver": solver(10)},  # SGD has batches of all ten
        {"start": "centralised(rounds=100, batch=1000)"},  # iid
        {"partition": f"{ONE} + share(beta=0.1, alpha=0.5, holdout=0.2)"},
        {"partition": f"{ONE} + share(beta=0.1)"},
        {"partition": f"{ONE} + share(beta=0.3, holdout=0.2)"},
        {"partition": "shards + share(beta=0.1, holdout=0.2)"},
        {"partition": f"{ONE} + share(beta=0.1, holdout=0.2)", "dataset": "mnist"},
        {"start": "run(path=runs/0123)"},
        {"partition": "target-emd(emd=0.0)", "start": "run(path=runs/0123)"},
        {"algorithm": "combined", "solver": solver(1000), "partition": "noise(sigma=0.1)"},
        {"model": "linear"},
    ],
)
def test_other_settings_have_none(choices: dict[str, Any]) -> None:
    assert paper(**choices) is None


def test_niid_bench_keeps_its_cells() -> None:
    assert paper(solver="sgd") == (0.704, "Table III")
    assert paper(solver="sgd(epochs=1, batch=100)") == (0.704, "Table III")
    assert paper(partition=ONE, solver="sgd(epochs=1, batch=100)") is None
    assert paper(solver="sgd", start="centralised(rounds=100, batch=1000)") is None


def test_the_table_of_accuracies_names_the_paper() -> None:
    table = score_table(cells(trials(0.7, partition="target-emd(emd=1.44)"), trials(0.6, partition="shards")))
    assert table.title.endswith(
        "; paper, and the difference to it: Zhao et al., Table 2: McMahan et al.'s CNN (KWS: a small CNN), 500 rounds, "
        "5 distributions; Zhao et al., Table 3: McMahan et al.'s CNN (KWS: a small CNN), 500 rounds)"
    )
    assert [row[3].paper for row in table.rows] == ["paper 73.8 ± 0.3, -3.8", "paper 67.0, -7.0"]


def test_rows_for_everyone_are_no_second_skew() -> None:
    (cell,) = cells(trials(0.5, partition=f"{ONE} + share(beta=0.1)"))
    assert skew_of(cell) == "label"


# --- tables -------------------------------------------------------------------------------------------


def sweep(*accuracies: float, **choices: Any) -> list[list[StoredRun]]:
    emds = ("0.0", "0.72", "1.44", "1.8")
    pairs = zip(emds, accuracies, strict=True)
    return [trials(accuracy, partition=f"target-emd(emd={emd})", **choices) for emd, accuracy in pairs]


def test_accuracy_by_emd_is_sorted_and_beside_the_paper() -> None:
    found = cells(*reversed(sweep(0.8, 0.79, 0.7, 0.4)), trials(0.78), trials(0.5, partition=ONE))
    rows = texts(emd_table(found))
    assert [row["EMD"] for row in rows] == ["0.000", "0.020", "0.720", "1.440", "1.800", "1.800"]
    assert rows[0] == {
        "dataset": "cifar-10", "partition": "target-emd(emd=0.0)", "EMD": "0.000", "accuracy": "80.0 ± 0.2",
        "trials": "3",
    }  # fmt: skip
    assert emd_table(found).rows[3][3].paper == "paper 73.8 ± 0.3, -3.8"
    told = paper_facts(found)["emd"]
    assert (told[3]["emd_weighted"], told[3]["trials"]) == (pytest.approx(1.44), 3)
    assert told[3]["accuracy"] == {"mean": pytest.approx(0.7), "std": pytest.approx(0.002)}
    assert told[3]["paper"]["mean"] == 0.7379
    json.dumps(paper_facts(found))


def test_one_emd_is_no_study() -> None:
    assert not paper_tables(cells(trials(0.8), trials(0.8, partition="target-emd(emd=0.0)")))
    assert not paper_tables(cells(*sweep(0.8, 0.7, 0.6, 0.5, algorithm="combined")))  # which has no parties
    other = cells(trials(0.8), trials(0.7, partition=ONE, model="mlp"))
    assert not any(paper_facts(other).values())


def test_the_divergence_of_a_round() -> None:
    (cell,) = cells(measured(ONE, {"conv1": 0.1, "out": 0.3}, noise=0.01))
    assert rounds_of(cell) == [1, 2]
    first = divergence(cell, 1)
    assert (first.layers["conv1"].mean, first.layers["conv1"].std) == pytest.approx((0.1, 0.01))
    assert [(at, over.mean) for at, over in layers_over_rounds(cell)["out"]] == [
        (1, pytest.approx(0.3)),
        (2, pytest.approx(0.6)),
    ]
    rows = texts(divergence_table([cell]))
    assert [row["round"] for row in rows] == ["1", "2"]
    assert (rows[0]["conv1"], rows[1]["conv1"], rows[0]["distance"]) == (
        "0.100 ± 0.010",
        "0.200 ± 0.020",
        "0.500 ± 0.000",
    )
    assert "bound" not in rows[0]
    (told, _) = paper_facts([cell])["divergence"]
    assert list(told["layers"]) == ["conv1", "out"]
    assert told["layers"]["out"]["mean"] == pytest.approx(0.3)
    assert (told["bound"], told["sgd_accuracy"], told["round"]) == (None, None, 1)


def test_a_bound_stands_beside_its_distance_and_a_layer_of_zeros_is_blank() -> None:
    layers: dict[str, float | None] = {"conv1": None, "out": 0.3}
    runs = [
        run([0.3], seed, {1: measure(layers, bound=3.2)}, measure="weight-divergence(bound=sampled)") for seed in (0, 1)
    ]
    (row,) = texts(divergence_table(cells(runs)))
    assert (row["conv1"], row["distance"], row["bound"]) == ("", "0.500 ± 0.000", "3.20 ± 0.00 (estimate)")
    exact = [run([0.3], 0, {1: measure(layers, bound=3.2) | {"estimated": False}})]
    (row,) = texts(divergence_table(cells(exact)))
    assert row["bound"] == "3.20"


def test_what_sharing_costs_and_brings() -> None:
    shared = trials(0.7, partition=f"{ONE} + share(beta=0.1, alpha=0.5, holdout=0.2)")
    found = cells(shared, trials(0.44, partition=ONE), trials(0.74, partition=f"{ONE} + share(beta=0.1, holdout=0.2)"))
    rows = texts(sharing_table(found))
    assert rows[0] == {
        "dataset": "cifar-10", "partition": ONE, "beta": "0.1", "alpha": "0.5", "warm-up": "0", "held out": "0.2",
        "shared": "40", "each gets": "20", "sent": "20 kB", "EMD": "1.800 to 1.100",
        "accuracy": "70.0 ± 0.2", "without": "44.0 ± 0.2", "gain": "+26.0",
    }  # fmt: skip
    table = sharing_table(found)
    assert table.rows[1][table.columns.index("accuracy")].paper == "paper 74.1, -0.1"
    (told, other) = paper_facts(found)["sharing"]
    assert (told["beta"], told["alpha"], told["shared_rows"], told["rows_each"], told["bytes"]) == (
        0.1,
        0.5,
        40,
        20,
        20000,
    )
    assert told["without"]["mean"] == pytest.approx(0.44)
    assert [told["emd_weighted_before"], told["emd_weighted"], other["paper"]["mean"]] == pytest.approx(
        [1.8, 1.1, 0.7412]
    )
    (alone,) = texts(sharing_table(cells(shared)))
    assert (alone["without"], alone["gain"]) == ("", "")


# --- findings -----------------------------------------------------------------------------------------


def test_all_findings_are_registered_with_their_suites() -> None:
    ids = [finding.id for finding in FINDINGS]
    assert [id for id in ids if id.startswith("zhao")] == [f"zhao-{n}" for n in range(1, 9)]
    made_by = {finding.id: finding.suite for finding in FINDINGS if finding.paper == "Zhao et al."}
    assert list(made_by.values()) == [
        "zhao-emd", "zhao-divergence", "zhao-divergence", "zhao-table3", "zhao-sharing", "zhao-sharing", "zhao-table3",
        "zhao-table3",
    ]  # fmt: skip


def test_without_runs_nothing_is_decided() -> None:
    found = judge(cells(trials(0.8)), FINDINGS)
    assert {one.verdict for one in found} == {"undecided"}
    assert not any(one.evidence for one in found)


def test_finding_1_needs_a_fall_without_rises_that_is_steeper_at_the_end() -> None:
    assert verdict("zhao-1", *sweep(0.8, 0.8, 0.74, 0.44)) == "supported"
    assert verdict("zhao-1", *sweep(0.8, 0.8, 0.74, 0.9)) == "contradicted"  # it rises
    assert verdict("zhao-1", *sweep(0.8, 0.85, 0.74, 0.44)) == "contradicted"  # a step rises
    assert verdict("zhao-1", *sweep(0.8, 0.6, 0.65, 0.3)) == "contradicted"  # a later one does
    assert verdict("zhao-1", *sweep(0.8, 0.6, 0.45, 0.44)) == "contradicted"  # the end is flat
    assert verdict("zhao-1", *sweep(0.8, 0.75, 0.7, 0.64)) == "supported"  # 6 points in 0.36 are more than 10 in 1.44
    assert verdict("zhao-1", *sweep(0.8, 0.8, 0.74, 0.44, noise=0.2)) == "undecided"
    assert verdict("zhao-1", *sweep(0.8, 0.8, 0.74, 0.44)[:3]) == "undecided"  # nothing beyond 1.44
    short = claim("zhao-1", *sweep(0.8, 0.8, 0.74, 0.44, rounds=1))
    assert not short.evidence  # after a round nothing is learnt yet


def test_finding_1_keeps_two_kinds_of_partitions_apart() -> None:
    """The paper's own numbers: two classes a party (EMD 1.6) do worse than distributions drawn for 1.62."""
    papers = [trials(point.mean, partition=f"target-emd(emd={point.at})") for point in table2("cifar-10")]
    others = [trials(0.8083), trials(0.67, partition="shards"), trials(0.4385, partition=ONE)]
    found = claim("zhao-1", *papers, *others)
    assert found.verdict == "supported"
    assert len([piece for piece in found.evidence if piece.part == "accuracy falls"]) == 2


def divergences(*steps: tuple[float, ...], noise: float = 0.0005) -> list[list[StoredRun]]:
    """Each step of EMD with the divergence of each layer."""
    emds = ("0.0", "1.08", "1.8")
    return [
        measured(f"target-emd(emd={emd})", dict(zip(LAYERS, layers, strict=True)), noise)
        for emd, layers in zip(emds, steps, strict=True)
    ]


FLAT = (0.02, 0.02, 0.02, 0.02)


def test_finding_2_needs_every_layer_to_rise_at_every_step() -> None:
    rising = divergences(FLAT, (0.1, 0.05, 0.04, 0.1), (0.3, 0.1, 0.1, 0.3))
    assert verdict("zhao-2", *rising) == "supported"
    assert len(claim("zhao-2", *rising).evidence) == 4
    falling = divergences(FLAT, (0.1, 0.05, 0.04, 0.1), (0.3, 0.1, 0.01, 0.3))
    assert verdict("zhao-2", *falling) == "contradicted"  # a layer ends below
    dented = divergences(FLAT, (0.1, 0.2, 0.04, 0.1), (0.3, 0.1, 0.1, 0.3))
    assert verdict("zhao-2", *dented) == "contradicted"  # a layer falls on the way
    assert verdict("zhao-2", *divergences(FLAT, (0.1, 0.05, 0.04, 0.1), (0.3, 0.1, 0.1, 0.3), noise=0.2)) == "undecided"
    assert verdict("zhao-2", *rising[:1]) == "undecided"
    late = divergences(FLAT, (0.021, 0.021, 0.021, 0.021), (0.3, 0.1, 0.1, 0.3))
    assert verdict("zhao-2", *late) == "supported"  # the first step is less than a tenth, all steps are more
    unsure = divergences((0.02, 0.02, 0.021, 0.02), FLAT, (0.3, 0.1, 0.1, 0.3), noise=0.002)
    assert verdict("zhao-2", *unsure) == "undecided"  # a layer falls on the way by less than trials differ


def test_finding_3_needs_both_ends_to_rise_more_than_what_lies_between() -> None:
    def rise(*last: float, noise: float = 0.0005) -> str:
        return verdict("zhao-3", *divergences(FLAT, (0.04, 0.04, 0.04, 0.04), last, noise=noise))

    assert rise(0.3, 0.1, 0.1, 0.2) == "supported"
    assert rise(0.3, 0.1, 0.1, 0.05) == "contradicted"
    assert rise(0.3, 0.1, 0.25, 0.2) == "contradicted"
    two = [
        measured(f"target-emd(emd={emd})", {"conv1": mean, "out": mean}) for emd, mean in (("0.0", 0.1), ("1.8", 0.3))
    ]
    assert verdict("zhao-3", *two) == "undecided"  # nothing lies between two layers
    for middle, found in ((0.2, "supported"), (0.35, "contradicted")):
        grown = {"conv1": 0.3, "fc1": middle, "out": 0.3}
        three = [measured("target-emd(emd=0.0)", dict.fromkeys(grown, 0.1)), measured("target-emd(emd=1.8)", grown)]
        assert verdict("zhao-3", *three) == found
    one = [measured(f"target-emd(emd={emd})", {"out": mean}) for emd, mean in (("0.0", 0.1), ("1.8", 0.3))]
    assert (verdict("zhao-2", *one), verdict("zhao-3", *one)) == ("supported", "undecided")
    single = [runs[:1] for runs in divergences(FLAT, (0.04, 0.04, 0.04, 0.04), (0.3, 0.1, 0.1, 0.2))]
    assert verdict("zhao-2", *single) == verdict("zhao-3", *single) == "undecided"


def test_finding_4_allows_five_epochs_one_point() -> None:
    def runs(five: float, noise: float = 0.002) -> str:
        longer = trials(five, noise, partition=ONE, solver=solver(epochs=5))
        return verdict("zhao-4", trials(0.8, noise), trials(0.44, noise, partition=ONE), longer)

    assert runs(0.443) == runs(0.3) == "supported"
    assert runs(0.6) == "contradicted"
    assert runs(0.45, noise=0.1) == "undecided"
    assert verdict("zhao-4", trials(0.44), trials(0.6, solver=solver(epochs=5))) == "undecided"  # iid


def test_finding_5_asks_for_twenty_points() -> None:
    def runs(with_it: float, share: str = "beta=0.1, alpha=0.5, warmup=5", noise: float = 0.002) -> str:
        shared = trials(with_it, noise, partition=f"{ONE} + share({share})")
        return verdict("zhao-5", trials(0.44, noise, partition=ONE), shared)

    assert runs(0.74) == runs(0.74, "beta=0.05") == "supported"
    assert runs(0.5) == "contradicted"
    assert runs(0.64, noise=0.1) == "undecided"
    assert runs(0.74, "beta=0.1") == "undecided"  # that is 10%
    assert verdict("zhao-5", trials(0.74, partition=f"{ONE} + share(beta=0.05)")) == "undecided"


def test_finding_6_wants_all_and_half_within_a_point() -> None:
    def runs(half: float, more: float = 0.738, noise: float = 0.001) -> str:
        parts = {"": 0.74, ", alpha=0.5": half, ", alpha=0.75": more, ", alpha=0.1": 0.5}
        return verdict("zhao-6", *[trials(a, noise, partition=f"{ONE} + share(beta=0.1{p})") for p, a in parts.items()])

    assert runs(0.737) == "supported"
    assert runs(0.6, 0.6) == "contradicted"
    assert runs(0.737, noise=0.1) == "undecided"
    assert runs(0.737, 0.6) == "undecided"  # one for, one against
    warm, cold = f"{ONE} + share(beta=0.1, warmup=5)", f"{ONE} + share(beta=0.1, alpha=0.5)"
    other = [trials(0.74, partition=warm), trials(0.7, partition=cold)]
    assert not claim("zhao-6", *other).evidence  # one with a warm-up, one without
    held = [trials(0.74, partition=f"{ONE} + share(beta=0.1, holdout=0.2)"), trials(0.7, partition=cold)]
    assert not claim("zhao-6", *held).evidence  # one trains on fewer rows


def test_finding_7_compares_with_a_batch_of_all_parties() -> None:
    def runs(sgd: float, batch: int = 1000, noise: float = 0.001, **choices: Any) -> str:
        centralised = trials(sgd, noise, algorithm="combined", solver=solver(batch))
        return verdict("zhao-7", trials(0.8, noise, **choices), centralised)

    assert runs(0.803) == runs(0.803, measure="weight-divergence") == "supported"
    assert runs(0.85) == "contradicted"
    assert runs(0.8, noise=0.1) == "undecided"
    assert runs(0.803, batch=100) == runs(0.803, partition=ONE) == "undecided"


def test_finding_8_compares_with_the_model_that_it_began_with() -> None:
    def runs(after: float, rounds: int = 7, batch: int = 1000, noise: float = 0.002) -> str:
        began = trials(0.8, noise, rounds=rounds, algorithm="combined", solver=solver(batch))
        return verdict("zhao-8", trials(after, noise, partition=ONE, start="centralised(rounds=7, batch=1000)"), began)

    assert runs(0.6) == runs(0.801) == "supported"
    assert runs(0.9) == "contradicted"
    assert runs(0.81, noise=0.1) == "undecided"
    assert runs(0.6, rounds=8) == runs(0.6, batch=100) == "undecided"


# --- figures ------------------------------------------------------------------------------------------


def has(drawing: Drawing, *words: str) -> bool:
    """Whether each of some words is a whole text of a figure."""
    drawn = markup(drawing.chart)
    return all(f">{text}<" in drawn for text in words)


def sharing_runs() -> list[list[StoredRun]]:
    whole = {0.05: 0.68, 0.1: 0.74, 0.25: 0.78}
    groups = [trials(a, 0.01, partition=f"{ONE} + share(beta={beta}, holdout=0.2)") for beta, a in whole.items()]
    parts = {(0.1, "alpha=0.5, "): 0.72, (0.1, ""): 0.73, (0.2, "alpha=0.5, "): 0.76, (0.2, ""): 0.77}
    for (beta, alpha), accuracy in parts.items():
        groups += [trials(accuracy, 0.01, partition=f"{ONE} + share(beta={beta}, {alpha}warmup=5, holdout=0.2)")]
    return groups


def everything() -> list[CellResult]:
    emds = [
        *sweep(0.81, 0.79, 0.7, 0.4, noise=0.02),
        trials(0.8),
        trials(0.62, partition="shards"),
        trials(0.42, partition=ONE),
    ]
    layers = divergences(FLAT, (0.1, 0.05, 0.04, 0.1), (0.3, 0.1, 0.1, 0.3), noise=0.01)
    return cells(*emds, *layers, *sharing_runs())


def test_the_sections_of_a_page() -> None:
    found = {section.title: section for section in paper_sections(everything())}
    assert list(found) == ["Accuracy against EMD", "Weight divergence against EMD", "Sharing a little data"]
    (accuracy,) = found["Accuracy against EMD"].drawings  # what was measured for two rounds has learnt nothing yet
    assert has(accuracy, "target-emd", "iid and shards", "Zhao et al., Table 2", "Zhao et al., Table 3", "EMD")
    by_emd, by_round = found["Weight divergence against EMD"].drawings
    assert by_emd.name.endswith("target-emd, after the first measured round")
    assert accuracy.name == "cifar-10"
    assert by_round.name.endswith("target-emd(emd=1.8), over rounds")
    assert has(by_emd, *LAYERS)
    assert has(by_round, *LAYERS)
    by_beta, by_alpha = found["Sharing a little data"].drawings
    assert has(by_beta, "from scratch", "5 epochs of warm-up", "EMD", "beta", "Zhao et al., from scratch")
    assert has(by_alpha, "beta=0.1, 5 epochs of warm-up", "Zhao et al., beta=0.2")
    assert not paper_sections(cells(trials(0.8)))


def test_one_partition_of_a_kind_is_drawn_too() -> None:
    """Neither of the two is a ladder; together they are a study."""
    (only,) = paper_sections(
        cells(trials(0.8, dataset="mnist"), trials(0.7, dataset="mnist", partition="target-emd(emd=1.8)"))
    )
    (drawing,) = only.drawings
    assert has(drawing, "target-emd", "iid and shards")


def test_baselines_are_no_rivals_in_a_row() -> None:
    table = score_table(cells(trials(0.8), trials(0.82, algorithm="combined", solver=solver(1000))))
    assert not any(entry.best for row in table.rows for entry in row)
    assert table.note == "fedavg is the only algorithm beside baselines, so no best is marked"


def test_a_page_shows_them(tmp_path: Path) -> None:
    text = page(everything(), tmp_path / "report.html")
    for title in ("Accuracy against EMD", "Weight divergence against EMD", "Sharing a little data"):
        assert f"<h3>{title}</h3>" in text
    assert "zhao-2" in text
    plain = page(cells(trials(0.8)), tmp_path / "plain.html")
    assert "Accuracy against EMD" not in plain


# --- real runs ----------------------------------------------------------------------------------------

DIGITS = f"""
dataset = "digits"
partition = ["target-emd(emd=0)", "target-emd(emd=1.44)", "target-emd(emd=1.8)"]
model = "linear"
solver = "{solver()}"
rounds = 5
trials = 2
"""


def test_real_runs_are_shown_judged_and_reported(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    out = tmp_path / "runs"
    done = call(capsys, "run", write(tmp_path / "e.toml", DIGITS), "--workers", "1", "--out", out)
    assert done.code == 0, done.err
    assert "Accuracy against EMD, percent" in done.out
    shown = call(capsys, "show", out).out
    assert shown.index("Test accuracy") < shown.index("Accuracy against EMD") < shown.index("Cost of a run")
    assert "Weight divergence" not in shown
    told = json.loads(call(capsys, "show", out, "--json").out)
    assert told.keys() >= {"cells", "ranking", "unfinished", "emd", "divergence", "sharing"}
    assert [round(row["emd_weighted"], 1) for row in told["emd"]] == [0.0, 1.4, 1.8]
    found = json.loads(call(capsys, "claims", out, "--only", "zhao-1", "--json").out)
    assert {piece["part"] for piece in found[0]["evidence"]} == {
        "accuracy falls", "no step to a larger EMD raises accuracy", "accuracy falls faster at large EMDs",
    }  # fmt: skip
    assert call(capsys, "report", out).code == 0
    page = (out / "report/papers.html").read_text()
    assert "<h2>Accuracy against EMD</h2>" in page
    assert "Zhao et al., Table 2" not in page  # which has no digits


# --- what is lost against SGD -------------------------------------------------------------------------


def test_the_loss_is_table_1() -> None:
    """98.69 - 92.17 = 6.52 of MNIST with one class a party, and 6.77 with five local epochs."""
    sgd = trials(0.98, dataset="mnist", algorithm="combined", solver=solver(1000))
    one = trials(0.90, dataset="mnist", partition=ONE)
    five = trials(0.91, dataset="mnist", partition=ONE, solver=solver(epochs=5))
    small = trials(0.7, dataset="mnist", partition=ONE, solver=solver(batch=10))
    found = losses(cells(sgd, one, five, small))
    assert [(round(loss.lost, 4), round(loss.paper or 0, 4)) for loss in found] == [(0.08, 0.0652), (0.07, 0.0677)]
    (table,) = [table for table in paper_tables(cells(sgd, one, five)) if "lost" in table.columns]
    assert [(row[-1].text, row[-1].paper) for row in table.rows] == [("8.0", "paper 6.5"), ("7.0", "paper 6.8")]
    assert [row["lost"] for row in paper_facts(cells(sgd, one))["loss"]] == [pytest.approx(0.08)]


def test_sgd_with_as_many_epochs_is_the_nearer_rival_and_without_any_there_is_no_loss() -> None:
    five = trials(0.5, solver=solver(epochs=5), partition=ONE)
    rivals = [trials(0.8, algorithm="combined", solver=solver(1000, epochs)) for epochs in (1, 5)]
    (found,) = losses(cells(five, *rivals))
    assert "epochs=5" in found.reference.label["solver"]
    assert losses(cells(five)) == losses(cells(rivals[0])) == []
    assert not [table for table in paper_tables(cells(five)) if "lost" in table.columns]


def test_a_cell_that_sets_rows_aside_and_shares_none_is_what_sharing_is_compared_with() -> None:
    def shared(accuracy: float, beta: float) -> list[StoredRun]:
        facts = {"shared": None} if beta == 0 else {}
        return trials(accuracy, partition=f"{ONE} + share(beta={beta}, holdout=0.2)", partition_facts=facts)

    plain = trials(0.6, partition=ONE)
    rows = {row[1].text: row[-2].text for row in sharing_table(cells(plain, shared(0.44, 0.0), shared(0.74, 0.1))).rows}
    assert list(rows.values()) == ["44.0 ± 0.2"]
    assert [row[-2].text for row in sharing_table(cells(plain, shared(0.74, 0.1))).rows] == ["60.0 ± 0.2"]


def test_of_solvers_a_table_shows_what_differs() -> None:
    found = cells(trials(0.5), trials(0.6, solver=solver(epochs=5, batch=10)), trials(0.7, dataset="mnist"))
    assert [shown(cell, "solver", found) for cell in found] == ["epochs=1, batch=100", "epochs=5, batch=10", ""]
    other = cells(trials(0.5), trials(0.6, solver="adam(lr=0.1)"))
    assert [shown(cell, "solver", other) for cell in other] == [solver(), "adam(lr=0.1)"]
