"""What reads runs for the quagmire study: its numbers, tables, findings and figures, from runs written by hand."""

import json
from pathlib import Path
from typing import Any

import pytest

from commands import call, write
from silobench.analysis.claims import judge
from silobench.analysis.tables import score_table, shown
from silobench.papers import FINDINGS, paper_facts, paper_sections, paper_tables, published_accuracy
from silobench.papers.hsieh2020.bsp_loss import bsp_loss_table, bsp_losses
from silobench.papers.hsieh2020.communication import Exchange, exchange_of, norm_of, percent_of, plain_model
from silobench.papers.hsieh2020.decisions import decisions, decisions_table, steering_table
from silobench.papers.hsieh2020.diagnostics import channels, class_accuracies, home_classes, norms_table, replicas_table
from silobench.papers.hsieh2020.numbers import published_loss
from silobench.papers.hsieh2020.savings import oracle, savings, savings_table
from silobench.runs.label import Label
from silobench.runs.stored import StoredRun
from stored import cells, claim, dealt_by_label, noises, page, stored, texts

SPLIT = "label-percent(percent=100.0)"
SOLVER = "sgd(lr=step(start=0.002, at=[1500, 2250]), weight_decay=0.0005, steps=1, batch=20, keep_momentum=True)"
SCOUT = "skewscout(period=25, sample=100)"
IDS = [
    *(f"niid-{n}" for n in range(1, 12)),
    *(f"zhao-{n}" for n in range(1, 9)),
    *(f"quagmire-{n}" for n in range(1, 17)),
    *(f"oarf-{n}" for n in range(1, 32)),
]


def run(last: float, seed: int = 0, rounds: list[dict[str, Any]] | None = None, **choices: Any) -> StoredRun:
    """A finished run that ends at this accuracy; `sent` bytes up in all, and what else its rounds say."""
    sent, parties = choices.pop("sent", 1000), choices.get("parties", 5)
    plain = {
        "dataset": "cifar-10", "model": "lenet", "algorithm": "bsp", "solver": SOLVER, "controller": "fixed",
        "parties": 5, "rounds": 2, "partition": "iid",
    }  # fmt: skip
    label = {**plain, **choices}
    percent = percent_of(Label(label))
    told = rounds or [{}, {}]
    return stored(
        [last] * len(told), seed, told, every={"bytes_up": sent / len(told), "bytes_down": 0},
        dataset_facts={"classes": [str(place) for place in range(2 * parties)]},
        counts=dealt_by_label(parties, percent), partition_facts={"emd_weighted": 1.6 * percent / 100}, **label,
    )  # fmt: skip


def trials(last: float, noise: float = 0.002, **choices: Any) -> list[StoredRun]:
    """Three runs that end at about `last`, each cell with a noise of its own."""
    return [run(last + off, seed, **choices) for seed, off in enumerate(noises(noise, choices))]


def measured(name: str, finding: Any, noise: float = 0.01, **choices: Any) -> list[StoredRun]:
    """Three runs that measured in their second round: `finding` makes it of a number a little off 0."""
    offs = noises(noise, choices)
    rounds = [[{"measures": {name: {}}}, {"measures": {name: finding(off)}}] for off in offs]
    return [run(0.5, seed, told, measure=name, **choices) for seed, told in enumerate(rounds)]


def verdict(number: int, *groups: list[StoredRun]) -> str:
    return claim(f"quagmire-{number}", *groups).verdict


# --- labels -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("label", "found"),
    [
        ({"algorithm": "bsp"}, Exchange("bsp")),
        ({"algorithm": "gaia"}, Exchange("gaia", "threshold", 0.1)),
        ({"algorithm": "dgc(warmup=8.0)"}, Exchange("dgc", "warmup", 8.0)),
        ({"algorithm": "fedavg(iter_local=20)"}, Exchange("fedavg", "iter_local", 20.0)),
        ({"algorithm": "fedavg"}, None),
        ({"algorithm": "scaffold"}, None),
        ({"algorithm": "bsp", "transforms": "top-k(fraction=0.1)"}, Exchange("top-k", "fraction", 0.1)),
        ({"algorithm": "bsp", "transforms": "clip(norm=1.0)"}, None),
        ({"algorithm": "gaia", "transforms": "top-k"}, None),
        ({"algorithm": "gaia", "controller": SCOUT}, Exchange("gaia", "threshold", 0.1, "skewscout")),
        (
            {"algorithm": "dgc", "controller": "skewscout(knob=sparsity)"},
            Exchange("dgc", "sparsity", None, "skewscout"),
        ),
    ],
)
def test_how_a_label_says_parties_exchange(label: dict[str, str], found: Exchange | None) -> None:
    assert exchange_of(Label(label)) == found


def test_what_sends_more_is_tighter() -> None:
    tight, loose = (exchange_of(Label({"algorithm": f"dgc(warmup={epochs})"})) for epochs in (8, 1))
    assert tight
    assert loose
    assert tight.looseness < loose.looseness
    assert [norm_of(Label({"model": m})) for m in ("lenet", "lenet(norm=group)", "resnet(depth=20)")] == [
        "none",
        "group",
        "batch",
    ]
    assert plain_model(Label({"model": "lenet(norm=batch-renorm, renorm_from=30)"})) == "lenet"


# --- the paper's numbers ------------------------------------------------------------------------------


def label(**choices: Any) -> Label:
    return run(0.5).label.replace(**{"partition": SPLIT, **choices})


@pytest.mark.parametrize(
    ("choices", "parties", "mean", "lost", "table"),
    [
        ({"algorithm": "gaia(threshold=0.02)"}, 5, 0.526, 0.248, "Table 6"),
        ({"algorithm": "bsp"}, 5, 0.766, 0.008, "Table 6"),
        ({"algorithm": "fedavg(iter_local=20)", "model": "resnet(depth=20)"}, 5, 0.281, 0.556, "Table 7"),
        ({"algorithm": "dgc(warmup=8.0)", "model": "googlenet", "partition": "iid"}, 5, 0.783, 0.008, "Table 8"),
        ({"algorithm": "gaia", "dataset": "cifar-10(augment=False)", "model": "alexnet"}, 5, 0.1, 0.649, "Table 6"),
        ({"algorithm": "bsp", "model": "lenet(norm=batch)"}, 2, 0.654, 0.134, "Table 9"),
        ({"algorithm": "bsp", "model": "lenet(norm=batch-renorm)"}, 2, 0.753, 0.028, "Table 9"),
        ({"algorithm": "bsp", "model": "lenet(norm=group)"}, 5, 0.792, 0.0, "Figure 5"),
        ({"algorithm": "gaia", "model": "lenet(norm=group)"}, 5, 0.648, 0.144, "Figure 5"),
        ({"algorithm": "dgc(warmup=8.0)", "model": "lenet(norm=batch)"}, 5, 0.1, 0.689, "Figure 5"),
        (
            {"algorithm": "gaia", "model": "lenet(norm=group)", "partition": "label-percent(percent=40.0)"},
            5, 0.762, 0.03, "Figure 6",
        ),
    ],
)  # fmt: skip
def test_the_papers_numbers(choices: dict[str, Any], parties: int, mean: float, lost: float, table: str) -> None:
    published = published_accuracy(label(**choices), parties)
    assert published is not None
    assert published.as_json() == {"mean": mean, "std": None, "table": f"quagmire {table}"}
    assert "128 epochs" in published.setting
    assert published_loss(label(**choices), parties) == pytest.approx(lost)


@pytest.mark.parametrize(
    ("choices", "parties"),
    [
        ({"algorithm": "gaia(threshold=0.03)"}, 5),
        ({"algorithm": "gaia"}, 4),
        ({"algorithm": "gaia", "solver": "sgd(momentum=0.0, weight_decay=0.0005, steps=1, batch=20)"}, 5),
        ({"algorithm": "gaia", "solver": "sgd(steps=1, batch=64)"}, 5),
        ({"algorithm": "gaia", "dataset": "mnist"}, 5),
        ({"algorithm": "gaia", "controller": SCOUT}, 5),
        ({"algorithm": "bsp", "transforms": "top-k"}, 5),
        ({"algorithm": "gaia", "model": "cnn"}, 5),
        ({"algorithm": "gaia", "partition": "label-percent(percent=50.0)"}, 5),
        ({"algorithm": "gaia(threshold=0.2)", "model": "lenet(norm=group)"}, 5),
        ({"algorithm": "gaia", "model": "lenet(norm=batch)"}, 2),
        ({"algorithm": "bsp", "start": "centralised(rounds=9, batch=20)"}, 5),
    ],
)
def test_other_settings_have_none(choices: dict[str, Any], parties: int) -> None:
    assert published_accuracy(label(**choices), parties) is None


def test_regions_have_their_losses() -> None:
    place = {"dataset": "flickr-mammal", "model": "googlenet", "algorithm": "fedavg(iter_local=20)"}
    assert published_loss(label(**place, partition="by-group(level=continent)"), 5) == 0.032
    assert published_loss(label(**place, partition="by-group(level=subcontinent)"), 13) == 0.055
    assert published_loss(label(**{**place, "model": "lenet"}, partition="by-group(level=continent)"), 5) is None


# --- tables -------------------------------------------------------------------------------------------


def test_what_is_lost_stands_beside_the_paper() -> None:
    found = cells(trials(0.77), trials(0.76, algorithm="gaia"), trials(0.5, algorithm="gaia", partition=SPLIT))
    assert [(str(one.how), round(one.lost, 3), one.paper) for one in bsp_losses(found)] == [
        ("gaia 0.1", 0.01, 0.007),
        ("gaia 0.1", 0.27, 0.674),
    ]
    row = texts(bsp_loss_table(found))[1]
    assert (row["method"], row["BSP on iid data"], row["accuracy"], row["lost"]) == (
        "gaia 0.1", "77.0 ± 0.2", "50.0 ± 0.2", "27.0",
    )  # fmt: skip
    assert bsp_loss_table(found).rows[1][-1].paper == "paper 67.4"
    assert not bsp_losses(cells(trials(0.7), trials(0.6, algorithm="gaia", model="alexnet")))
    assert not bsp_losses(cells(trials(0.7), trials(0.6, algorithm="gaia", partition=SPLIT, parties=10)))


def contest(partition: str = SPLIT, scout: float = 0.769, sent: int = 100, **choices: Any) -> list[list[StoredRun]]:
    """BSP, three thresholds of which the middle is Oracle's, and SkewScout."""
    shared = {"partition": partition, **choices}
    told = [{}, {"control": control(0.2, 0.1, 0.3, travelled=sent // 10)}]
    return [
        trials(0.77, sent=1000, **shared),
        trials(0.768, algorithm="gaia(threshold=0.02)", sent=200, **shared),
        trials(0.762, algorithm="gaia(threshold=0.05)", sent=80, **shared),
        trials(0.4, algorithm="gaia(threshold=0.5)", sent=10, **shared),
        trials(scout, algorithm="gaia", controller=SCOUT, sent=sent, rounds=told, **shared),
    ]


def control(theta: float, then: float, loss: float, travelled: int = 10) -> dict[str, Any]:
    return {
        "knob": "threshold", "theta": theta, "accuracy_loss": loss, "home": 0.9, "away": 0.9 - loss, "cost": 0.25,
        "objective": 12.75, "travelled": travelled, "next": then, "reason": "why not",
    }  # fmt: skip


def test_oracle_is_the_cheapest_that_keeps_the_accuracy() -> None:
    found = cells(*contest())
    settings = dict(zip((0.02, 0.05, 0.5), found[1:4], strict=True))
    assert oracle(found[0], settings) == 0.05
    assert oracle(found[0], settings, tolerance=0.005) == 0.02
    assert oracle(found[0], settings, tolerance=0.5) == 0.5
    assert oracle(found[0], settings, tolerance=0.001) is None
    assert oracle(found[0], {}) is None


def test_what_is_saved_by_hand() -> None:
    (one,) = savings(cells(*contest()))
    assert (one.best, one.saved_by(one.chosen), one.saved_by(one.scout)) == (0.05, 12.5, 10.0)
    assert one.ratio == 1.25
    assert one.travelling == pytest.approx(0.1)
    (row,) = texts(savings_table(cells(*contest())))
    assert {key: row[key] for key in ("Oracle", "Oracle saves", "SkewScout saves", "vs Oracle", "travelling")} == {
        "Oracle": "threshold 0.05", "Oracle saves": "12.5x", "SkewScout saves": "10.0x", "vs Oracle": "1.2x",
        "travelling": "10.0%",
    }  # fmt: skip
    papers = [entry.paper for entry in savings_table(cells(*contest())).rows[0] if entry.paper]
    assert papers == ["paper 9.6 to 34.1x", "paper 1.1 to 1.5x"]
    told = paper_facts(cells(*contest()))["savings"][0]
    assert (told["oracle"]["theta"], told["skewscout"]["saving"], told["bsp"]["bytes"]) == (0.05, 10.0, 1000)
    json.dumps(paper_facts(cells(*contest())))


def test_contests_are_kept_apart_and_need_bsp() -> None:
    both = cells(*contest(), *contest("label-percent(percent=20.0)", model="alexnet"))
    assert [one.bsp.label["model"] for one in savings(both)] == ["lenet", "alexnet"]
    assert not savings(cells(*contest()[1:]))
    assert not savings(cells(*contest()[:2]))  # one setting is no choice
    (alone,) = savings(cells(*contest()[:4]))
    assert (alone.scout, alone.ratio, alone.travelling) == (None, None, None)
    (lost,) = texts(savings_table(cells(*contest(scout=0.6))))
    assert lost["SkewScout"].endswith("(not kept)")
    hopeless = [contest()[0], contest()[3], trials(0.3, algorithm="gaia(threshold=0.4)", sent=20, partition=SPLIT)]
    assert texts(savings_table(cells(*hopeless)))[0]["Oracle"] == "none keeps it"


def test_a_setting_that_never_sends_is_not_oracles_choice(tmp_path: Path) -> None:
    """Its parties have trained alone; how much less than BSP it sends is no number."""
    silent = trials(0.771, algorithm="gaia(threshold=0.9)", sent=0, partition=SPLIT)
    found = cells(*contest(), silent)
    (one,) = savings(found)
    assert (one.best, one.saved_by(one.chosen), one.ratio) == (0.05, 12.5, 1.25)
    assert one.saved_by(one.settings[0.9]) is None
    (row,) = texts(savings_table(found))
    assert row["Oracle"] == "threshold 0.05"
    only = cells(contest()[0], silent, trials(0.77, algorithm="gaia(threshold=0.8)", sent=0, partition=SPLIT))
    assert texts(savings_table(only))[0]["Oracle"] == "none keeps it"
    scout = cells(*contest()[:4], trials(0.77, algorithm="gaia", controller=SCOUT, sent=0, partition=SPLIT))
    (quiet,) = savings(scout)
    assert (quiet.saved_by(quiet.scout), quiet.travelling, quiet.ratio) == (None, None, 0.0)
    for each in (found, only, scout):
        assert {one.verdict for one in judge(each, FINDINGS)} <= {"supported", "contradicted", "undecided"}
        page(each, tmp_path / "report.html")
        json.dumps(paper_facts(each))


def test_decisions_are_told_in_short_and_one_by_one() -> None:
    steps = [control(0.2, 0.1, 0.3), control(0.1, 0.05, 0.1), *[control(0.05, 0.05, 0.02)] * 3]
    found = cells([run(0.7, 0, [{}, *({"control": one} for one in steps)], algorithm="gaia", controller=SCOUT)])
    assert [(one.round, one.theta, one.then) for one in decisions(found[0].runs[0])][:2] == [
        (2, 0.2, 0.1),
        (3, 0.1, 0.05),
    ]
    (row,) = texts(steering_table(found))
    assert (row["decisions"], row["the knob"]) == ("5", "threshold 0.2 > 0.1 > 0.05 (x4)")
    assert row["accuracy loss"] == "9.2 (2.0 to 30.0)"
    assert [row["round"] for row in texts(decisions_table(found))] == ["2", "3", "6"]
    assert len(paper_facts(found)["decisions"]) == 5
    other = cells([run(0.7, 0, [{"control": {"mine": 1.0}}] * 3, algorithm="gaia", controller="mine")])
    assert not steering_table(other).rows  # a controller of a plugin reports what it likes
    assert not steering_table(cells(trials(0.7))).rows


def test_of_controllers_a_table_shows_what_differs() -> None:
    other = "skewscout(period=25, sample=100, search=annealing)"
    found = cells(trials(0.7), *(trials(0.7, algorithm="gaia", controller=which) for which in (SCOUT, other)))
    assert [shown(cell, "controller", found) for cell in found] == ["fixed", "skewscout", "skewscout(search=annealing)"]
    assert shown(found[1], "controller", found[:2]) == "skewscout"
    assert "skewscout(search=annealing)" in [row["controller"] for row in texts(score_table(found))]


# --- what was measured --------------------------------------------------------------------------------


def by_class(own: float, others: float, parties: int = 2) -> Any:
    """Replicas that know their own classes so well, and all others so."""

    def finding(off: float) -> dict[str, Any]:
        known = {
            str(party): {str(place): own + off if place % parties == party else others for place in range(2 * parties)}
            for party in range(parties)
        }
        return {"accuracy": dict.fromkeys(known, 0.5), "by_class": known}

    return finding


def test_a_party_owns_the_classes_of_which_it_has_most() -> None:
    (first, *_) = measured("replicas", by_class(0.9, 0.1), partition=SPLIT, parties=2)
    assert home_classes(first) == {"0": {"0", "2"}, "1": {"1", "3"}}
    assert [others for _, others in class_accuracies(first).values()] == pytest.approx([0.1, 0.1])
    found = cells(measured("replicas", by_class(0.9, 0.1), partition=SPLIT, parties=2, algorithm="gaia"))
    rows = texts(replicas_table(found))
    assert [(row["model of party"], row["its own classes"], row["all others"]) for row in rows] == [
        ("0", "90.0 ± 1.0", "10.0 ± 0.0"),
        ("1", "90.0 ± 1.0", "10.0 ± 0.0"),
    ]


def norms(*values: float | None) -> Any:
    return lambda off: {"mean": {"conv1": [v if v is None else v + off for v in values]}, "variance": {"conv1": [0.5]}}


def test_channels_of_zeros_are_left_out() -> None:
    runs = measured("norm-divergence", norms(0.06, None, 0.6), noise=0.0, model="lenet(norm=batch)", parties=2)
    assert channels(runs[0]) == [0.06, 0.6]
    (row,) = texts(norms_table(cells(runs)))
    assert (row["means"], row["variances"]) == ("6 to 60", "50 to 50")
    assert row["middle channel"].startswith("33.0")  # halfway between the middle two, as in the claim
    assert norms_table(cells(runs)).rows[0][-3].paper == "paper 1 to 5"


def nothing_known(name: str) -> list[list[StoredRun]]:
    """Runs that measured numbers of which none is known, as after a divergence, or of no layer at all."""
    empty: dict[str, Any] = {
        "norm-divergence": {"mean": {}, "variance": {}},
        "update-delta": {"mean": None, "ratio": None},
        "accuracy-loss": {"loss": None, "home": None, "away": None},
        "replicas": {"accuracy": {}, "by_class": {str(p): {str(c): None for c in range(4)} for p in range(2)}},
    }
    shared = {"parties": 2, "algorithm": "gaia"}
    return [measured(name, lambda _: empty[name], partition=partition, **shared) for partition in ("iid", SPLIT)]


@pytest.mark.parametrize("name", ["norm-divergence", "update-delta", "accuracy-loss", "replicas"])
def test_a_measure_without_numbers_does_not_make_a_directory_unreadable(name: str, tmp_path: Path) -> None:
    found = cells(*nothing_known(name), *contest())
    assert len(paper_tables(found)) >= 2
    json.dumps(paper_facts(found))
    assert {one.verdict for one in judge(found, FINDINGS)} <= {"supported", "contradicted", "undecided"}
    assert "</html>" in page(found, tmp_path / "report.html")


# --- findings -----------------------------------------------------------------------------------------


def test_all_findings_are_registered() -> None:
    assert [finding.id for finding in FINDINGS] == IDS
    assert not any(one.evidence for one in judge(cells(trials(0.8)), FINDINGS))


def test_findings_1_and_2_compare_with_bsp_on_iid_data() -> None:
    def runs(iid: float, split: float, noise: float = 0.002) -> tuple[str, str]:
        groups = [trials(0.77, noise)]
        for algorithm in ("gaia", "fedavg(iter_local=20)", "dgc(warmup=8.0)"):
            groups += [trials(iid, noise, algorithm=algorithm)]
            groups += [trials(split, noise, algorithm=algorithm, partition=SPLIT)]
        return verdict(1, *groups), verdict(2, *groups)

    assert runs(0.765, 0.5) == runs(0.79, 0.5) == ("supported", "supported")
    assert runs(0.6, 0.76) == ("contradicted", "contradicted")
    assert runs(0.75, 0.75, noise=0.1) == ("undecided", "undecided")


def test_findings_3_and_4_ask_whether_there_is_batch_norm() -> None:
    def runs(split: float, model: str) -> list[list[StoredRun]]:
        return [trials(0.77, model=model), trials(split, model=model, partition=SPLIT)]

    assert verdict(3, *runs(0.765, "lenet")) == "supported"
    assert verdict(3, *runs(0.6, "lenet")) == "contradicted"
    assert verdict(4, *runs(0.4, "resnet(depth=20)")) == "supported"
    assert verdict(4, *runs(0.765, "lenet(norm=batch)")) == "contradicted"
    assert verdict(3, *runs(0.4, "resnet(depth=20)")) == verdict(4, *runs(0.6, "lenet")) == "undecided"


def test_findings_5_and_6_compare_normalisations() -> None:
    def bsp(group: float) -> str:
        other = [trials(0.78, model="lenet(norm=batch)"), trials(0.65, model="lenet(norm=batch)", partition=SPLIT)]
        own = [trials(0.79, model="lenet(norm=group)"), trials(group, model="lenet(norm=group)", partition=SPLIT)]
        return verdict(5, *other, *own)

    assert bsp(0.785) == "supported"
    assert bsp(0.7) == "contradicted"  # better, but not as good as on iid data
    assert bsp(0.6) == "contradicted"

    def gaia(group: float) -> str:
        models = {"batch": 0.54, "group": group}
        runs = [trials(a, model=f"lenet(norm={n})", algorithm="gaia", partition=SPLIT) for n, a in models.items()]
        return verdict(6, *runs)

    assert (gaia(0.64), gaia(0.5)) == ("supported", "contradicted")


def test_finding_7_follows_the_share_that_is_dealt_by_label() -> None:
    def runs(*accuracies: float) -> str:
        steps = zip((20.0, 40.0, 60.0, 80.0), accuracies, strict=True)
        return verdict(7, *[trials(a, algorithm="gaia", partition=f"label-percent(percent={p})") for p, a in steps])

    assert runs(0.78, 0.76, 0.74, 0.73) == "supported"
    assert runs(0.78, 0.7, 0.75, 0.73) == "contradicted"  # a step rises
    assert runs(0.7, 0.7, 0.7, 0.75) == "contradicted"


def test_finding_8_knows_which_way_a_knob_is_tighter() -> None:
    def runs(tight: str, loose: str, better: float, worse: float) -> str:
        return verdict(
            8, trials(better, algorithm=tight, partition=SPLIT), trials(worse, algorithm=loose, partition=SPLIT)
        )

    for tight, loose in (
        ("gaia(threshold=0.02)", "gaia(threshold=0.3)"),
        ("fedavg(iter_local=5)", "fedavg(iter_local=200)"),
        ("dgc(warmup=8.0)", "dgc(warmup=1.0)"),
    ):
        assert runs(tight, loose, 0.7, 0.5) == "supported"
        assert runs(tight, loose, 0.5, 0.7) == "contradicted"


def test_findings_9_and_10_are_about_minibatches() -> None:
    def apart(split: float) -> str:
        shared = {"model": "lenet(norm=batch)", "parties": 2}
        pair = (("iid", 0.03), (SPLIT, split))
        return verdict(9, *[measured("norm-divergence", norms(0.01, m, 0.9), partition=p, **shared) for p, m in pair])

    assert (apart(0.3), apart(0.0)) == ("supported", "contradicted")

    def renormed(split: float) -> str:
        numbers = {"batch": (0.788, 0.654), "batch-renorm": (0.781, split)}
        return verdict(
            10,
            *[trials(i, model=f"lenet(norm={n})", parties=2) for n, (i, _) in numbers.items()],
            *[trials(s, model=f"lenet(norm={n})", parties=2, partition=SPLIT) for n, (_, s) in numbers.items()],
        )

    assert renormed(0.753) == "supported"
    assert renormed(0.78) == renormed(0.6) == "contradicted"  # loses nothing; is no better


def test_finding_11_compares_losses_to_bsp_with_few_and_many_parties() -> None:
    def runs(many: float, partition: str = "label-pair(major=0.8)", few: str = SPLIT) -> str:
        five = [trials(0.44, partition=few), trials(0.4, algorithm="gaia", partition=few)]
        ten = [
            trials(0.6, partition=partition, parties=10),
            trials(many, algorithm="gaia", partition=partition, parties=10),
        ]
        return verdict(11, *five, *ten)

    assert runs(0.5) == "supported"
    assert runs(0.59) == "contradicted"
    regions = "by-group(level=subcontinent)", "by-group(level=continent)"
    assert runs(0.5, *regions) == "supported"
    assert runs(0.5, "label-dirichlet(beta=0.3)") == "undecided"  # another kind


def test_finding_12_needs_a_gulf_that_traffic_narrows() -> None:
    def runs(iid: float, tight: float, loose: float) -> str:
        def lost(loss: float) -> Any:
            return lambda off: {"loss": loss + off, "home": 0.9, "away": 0.5}

        settings = {"gaia(threshold=0.02)": tight, "gaia(threshold=0.2)": loose}
        groups = [measured("accuracy-loss", lost(a), algorithm=g, partition=SPLIT) for g, a in settings.items()]
        return verdict(12, *groups, *[measured("accuracy-loss", lost(iid), algorithm=g) for g in settings])

    assert runs(0.01, 0.1, 0.7) == "supported"
    assert runs(0.01, 0.7, 0.1) == "contradicted"  # more traffic loses more
    assert runs(0.01, 0.03, 0.08) == "contradicted"  # hardly more than iid


def test_finding_13_wants_every_method_to_move_further() -> None:
    def runs(dgc: float, fedavg: float) -> str:
        def delta(mean: float) -> Any:
            return lambda off: {"mean": mean + off, "ratio": 0.1}

        methods = {"dgc(warmup=8.0)": dgc, "fedavg(iter_local=20)": fedavg}
        groups = [measured("update-delta", delta(0.3), algorithm=name) for name in methods]
        split = [measured("update-delta", delta(m), algorithm=n, partition=SPLIT) for n, m in methods.items()]
        return verdict(13, *groups, *split)

    assert runs(2.8, 0.5) == "supported"
    assert runs(2.8, 0.1) == "contradicted"


MILD = "label-percent(percent=20.0)"


def test_finding_14_asks_for_accuracy_traffic_and_order() -> None:
    assert verdict(14, *contest(sent=100), *contest(MILD, sent=40)) == "supported"
    assert verdict(14, *contest(sent=100), *contest(MILD, sent=102)) == "contradicted"  # less skew, less saved
    assert verdict(14, *contest(sent=120), *contest(MILD, sent=40)) == "contradicted"  # 8.3 times
    assert verdict(14, *contest(scout=0.7, sent=100), *contest(MILD, scout=0.7, sent=40)) == "contradicted"
    assert verdict(14, *contest(sent=100)) == "undecided"  # one skew
    shared = {"algorithm": "fedavg(iter_local=20)", "partition": SPLIT}
    told = [{}, {"control": control(50.0, 20.0, 0.3)}]
    other = claim("quagmire-14", *contest(sent=100)[:1], trials(0.2, controller=SCOUT, sent=500, rounds=told, **shared))
    assert other.verdict == "undecided"
    assert not any(piece.counts for piece in other.evidence)  # the paper has Gaia alone


def test_finding_15_says_nothing_where_the_accuracy_is_lost() -> None:
    assert verdict(15, *contest(sent=100)) == "supported"  # 1.25 times
    assert verdict(15, *contest(sent=200)) == "contradicted"
    assert verdict(15, *contest(scout=0.5, sent=20)) == "undecided"


def test_finding_16_looks_at_own_and_other_classes() -> None:
    def runs(split: tuple[float, float], iid: tuple[float, float] = (0.7, 0.7)) -> str:
        shared = {"algorithm": "gaia(threshold=0.4)", "parties": 2}
        pairs = ((SPLIT, split), ("iid", iid))
        return verdict(16, *[measured("replicas", by_class(*known), partition=p, **shared) for p, known in pairs])

    assert runs((0.9, 0.0)) == "supported"
    assert runs((0.7, 0.6)) == "contradicted"
    assert runs((0.9, 0.0), iid=(0.9, 0.3)) == "contradicted"


# --- the page -----------------------------------------------------------------------------------------


def test_a_page_has_its_sections(tmp_path: Path) -> None:
    travelling = [
        measured(
            "accuracy-loss", lambda off: {"loss": 0.3 + off, "home": 0.9, "away": 0.6}, algorithm="gaia", partition=p
        )
        for p in ("iid", SPLIT)
    ]
    delta = measured("update-delta", lambda off: {"mean": 2.8 + off, "ratio": 0.1}, algorithm="dgc(warmup=8.0)")
    replicas = measured("replicas", by_class(0.9, 0.1), partition=SPLIT, parties=2, algorithm="gaia(threshold=0.4)")
    divergence = measured("norm-divergence", norms(0.06, 0.6), model="lenet(norm=batch)", parties=2)
    found = cells(trials(0.77), *contest(), *travelling, delta, replicas, divergence)
    titles = [
        "Loss against BSP on iid data", "Savings of BSP's traffic", "Decisions of the controller",
        "Loss of models on other parties' data", "Local changes of parties", "Each party's model by class",
        "Differences between minibatches",
    ]  # fmt: skip
    made = paper_sections(found)
    assert [section.title for section in made] == titles
    assert all(section.drawings for section in made)
    text = page(found, tmp_path / "report.html")
    assert all(f"<h3>{title.replace(chr(39), '&#39;')}</h3>" in text for title in titles)
    assert "quagmire-14" in text
    assert len(paper_tables(found)) == 7
    json.dumps(paper_facts(found))


# --- real runs ----------------------------------------------------------------------------------------

DIGITS = """
dataset = "digits"
model = "linear"
parties = 5
solver = "sgd(lr=0.05, momentum=0.9, weight_decay=0.0005, batch=20)"
rounds = 30
eval_every = 15
[[grid]]
partition = ["iid", "label-percent(percent=100)"]
algorithm = "gaia"
controller = ["skewscout(period=10, sample=50)", "oracle(grid=[0.02, 0.2])"]
[[grid]]
partition = ["iid", "label-percent(percent=100)"]
algorithm = "gaia(threshold=0.3)"
measure = ["accuracy-loss(every=10, sample=50)", "replicas(every=10)", "update-delta(every=10)"]
"""


def test_real_runs_are_shown_judged_and_reported(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    out = tmp_path / "runs"
    done = call(capsys, "run", write(tmp_path / "e.toml", DIGITS), "--workers", "1", "--out", out)
    assert done.code == 0, done.err
    for title in (
        "Loss against BSP", "Savings of BSP's traffic", "Decisions of the controller",
        "Loss of models on other parties' data", "Local changes of parties", "Each party's model by class",
    ):  # fmt: skip
        assert title in done.out
    told = json.loads(call(capsys, "show", out, "--json").out)
    assert {one["method"] for one in told["savings"]} == {"gaia"}
    assert all(one["skewscout"]["travelling"] > 0 for one in told["savings"])
    assert len(told["decisions"]) == 4
    assert {one["measure"] for one in told["causes"]} == {"accuracy-loss", "replicas", "update-delta"}
    judged = json.loads(call(capsys, "claims", out, "--only", "quagmire-1[456]", "--json").out)
    assert all(one["evidence"] for one in judged)
    assert call(capsys, "report", out).code == 0
