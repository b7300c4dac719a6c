"""The published experiments: whole, at every scale, and honest about data that are not here."""

from pathlib import Path
from typing import Any

import pytest

from commands import call, write
from silobench.analysis.cells import PublishedCost
from silobench.data import load
from silobench.errors import ConfigError
from silobench.federation import federate
from silobench.papers import FINDINGS, PAPERS, published_accuracy, published_cost, suites
from silobench.papers.published import published_tables
from silobench.partitions import bind_sum
from silobench.runs.experiment import at_scale, bind, expand, read_experiment
from silobench.runs.label import Label
from silobench.vertical.federation import federate_columns

PUBLISHED = [name for name in suites.names() if name != "demo"]
EMBEDDED = {"digits", "breast-cancer", "fcube", "synthetic-faces", "synthetic-reviews"}


def suite(name: str, scale: str) -> list[dict[str, Any]]:
    return expand(at_scale(read_experiment(suites.path(name)), scale))


def partition_of(cell: dict[str, Any]) -> str:
    return " + ".join(str(term.short) for term in bind_sum(str(cell["partition"])))


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_suite_says_where_it_is_from_and_what_its_scales_are(name: str) -> None:
    (about,) = [row for row in suites.describe() if row["name"] == name]
    assert all(about[key] for key in ("title", "paper", "table"))
    assert list(about["scales"]) == ["smoke", "paper", "laptop"]
    assert all(about["scales"].values())
    (paper,) = [paper for paper in PAPERS if name in paper.suites]
    assert all(published_tables(paper.folder, name))
    assert bool(published_tables(paper.folder, name)) == bool(about["numbers"])


@pytest.mark.parametrize("name", PUBLISHED)
def test_every_cell_of_a_suite_can_be_bound_on_embedded_data(name: str) -> None:
    """Datasets of the larger scales are not here: everything else that their cells say is checked all the same."""
    for scale in ("smoke", "laptop", "paper"):
        cells = suite(name, scale)
        pictures = {"mnist", "fmnist", "cifar-10", "svhn", "femnist", "digits", "kws", "flickr-mammal"}
        for cell in {repr({**cell, "seed": 0}): cell for cell in cells}.values():
            data = cell["dataset"].split("(")[0]
            assert scale != "smoke" or data in EMBEDDED
            stand_in = "digits" if data in pictures else {"identities": "synthetic-faces"}.get(data, "breast-cancer")
            bind(cell if data in EMBEDDED else {**cell, "dataset": stand_in})


@pytest.mark.parametrize("name", PUBLISHED)
def test_the_federations_of_a_smoke_scale_can_be_cut(name: str) -> None:
    for cell in {repr([c["dataset"], c["partition"], c.get("parties")]): c for c in suite(name, "smoke")}.values():
        for seed in range(3):
            arguments = load(cell["dataset"]), cell["partition"], cell.get("parties"), seed
            if cell["partition"].startswith("columns"):
                assert federate_columns(*arguments).names
            else:
                assert federate(*arguments).parties


def test_table_3_is_whole() -> None:
    cells = suite("niid-table3", "paper")
    table, _ = published_tables(PAPERS[0].folder, "niid-table3")
    settings = {(cell["dataset"], partition_of(cell)) for cell in cells}
    assert settings == {(row["dataset"], row["partition"]) for row in table}
    assert len(settings) == 44
    assert len(cells) == 44 * 7 * 3
    assert {cell["rounds"] for cell in cells} == {50}


def test_the_papers_numbers_stand_beside_the_papers_setting_alone() -> None:
    plain = {"participation": 1.0, "transforms": "", "server": "step", "model": "cnn", "solver": "sgd(epochs=2)"}
    mine = {"dataset": "cifar-10", "partition": "label-dirichlet(beta=0.5)", "algorithm": "fedprox(mu=0.1)", **plain}

    def number(parties: int, **choices: Any) -> tuple[float, float | None, str] | None:
        found = published_accuracy(Label({**mine, **choices}), parties)
        return (found.mean, found.std, found.table) if found else None

    assert number(10) == (0.679, 0.007, "Table III")
    assert number(10, partition="label-dirichlet(beta=0.5) + noise(sigma=0.1)") == (0.648, None, "Table V")
    sampled = number(100, algorithm="scaffold", participation=0.1)
    assert sampled == (0.1, None, "leaderboard")
    assert number(100, algorithm="scaffold", participation=10) == sampled
    assert number(10, participation=1) is None
    assert published_cost(Label(mine), 10) == PublishedCost(seconds=233.0, bytes=2.73e6)
    for other in ({"model": "mlp"}, {"server": "adam"}, {"buffers": "local"}, {"solver": "sgd(lr=5.0)"}):
        assert number(10, **other) is None
    assert number(10, start="centralised(rounds=7)") is None
    assert number(20) is None
    assert number(10, algorithm="fedprox(mu=0.5)") is None


@pytest.mark.parametrize(
    "other",
    [
        {"exchange": "gossip(degree=2)"}, {"aggregate": "median"}, {"pace": "buffered"}, {"availability": "random"},
        {"split": "10:1:1"}, {"objective": "hinge"}, {"adversary": "sign-flip"}, {"transforms": "top-k"},
    ],
    ids=str,
)  # fmt: skip
def test_training_that_no_paper_has_has_no_number(other: dict[str, str]) -> None:
    """A ring of parties, a median or other test rows are not what a paper's number is about."""
    plain = {"participation": 1.0, "transforms": "", "server": "step"}
    bench = {"dataset": "mnist", "partition": "iid", "algorithm": "fedavg", "model": "cnn", "solver": "sgd", **plain}
    zhao = {**bench, "model": "mcmahan-mnist", "solver": "sgd(momentum=0.0, weight_decay=0.0, epochs=1, batch=100)"}
    minibatch = {
        **plain, "dataset": "cifar-10", "partition": "iid", "algorithm": "bsp", "model": "lenet",
        "solver": "sgd(momentum=0.9, batch=20)",
    }  # fmt: skip
    for label, parties in ((bench, 10), (zhao, 10), (minibatch, 5)):
        assert published_accuracy(Label(label), parties)
        assert published_accuracy(Label({**label, **other}), parties) is None
    assert published_cost(Label(bench), 10)
    assert published_cost(Label({**bench, **other}), 10) is None
    assert published_accuracy(Label({**bench, "objective": "cross-entropy"}), 10)  # what "auto" is here


def test_rcv1_has_a_learning_rate_of_its_own() -> None:
    plain = {"participation": 1.0, "transforms": "", "server": "step", "model": "mlp", "partition": "iid"}
    for solver, there in (("sgd(lr=0.1, epochs=2)", True), ("sgd(lr=0.1)", True), ("sgd(lr=0.2)", False)):
        label = Label({"dataset": "rcv1", "algorithm": "fedavg", "solver": solver, **plain})
        assert bool(published_accuracy(label, 10)) == there


def test_claims_are_numbered_without_gaps_and_name_suites_that_there_are() -> None:
    for paper in PAPERS:
        prefix, _, last = paper.findings[-1].id.rpartition("-")
        numbered = [f"{prefix}-{number}" for number in range(1, int(last) + 1)]
        assert [finding.id for finding in paper.findings] == numbered
    ids = [finding.id for finding in FINDINGS]
    assert len(set(ids)) == len(ids)
    assert {finding.suite.split()[0] for finding in FINDINGS} <= set(suites.names())


def test_a_scale_replaces_grids_or_overrides_them() -> None:
    whole = {"rounds": 50, "grid": [{"dataset": "mnist"}, {"dataset": "adult", "rounds": 9}]}
    scales = {"small": {"note": "n", "rounds": 2}, "other": {"note": "n", "grid": [{"dataset": "digits"}]}}
    choices = {**whole, "scale": scales}
    assert [(c["dataset"], c["rounds"]) for c in expand(at_scale(choices, "small"))] == [("mnist", 2), ("adult", 2)]
    assert [(c["dataset"], c["rounds"]) for c in expand(at_scale(choices, "other"))] == [("digits", 50)]
    with pytest.raises(ConfigError, match="there is no scale 'smal': did you mean small"):
        at_scale(choices, "smal")
    with pytest.raises(ConfigError, match="this experiment has no scales"):
        at_scale(whole, "smoke")


MIXED = """
algorithm = "fedavg"
solver = "sgd(epochs=1)"
rounds = 1
[[grid]]
dataset = "fcube"
partition = "octants"
[[grid]]
dataset = ["mnist", "adult"]
"""


def test_runs_whose_data_are_not_here_are_skipped_and_the_rest_is_run(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file, nowhere = write(tmp_path / "e.toml", MIXED), tmp_path / "data"
    result = call(capsys, "run", file, "--out", tmp_path / "runs", "--trials", "2", "--data-dir", nowhere)
    assert result.code == 0
    for name in ("mnist", "adult"):
        sentence = f"skipped 2 runs: the dataset {name} is not in {nowhere}: run `silobench data fetch {name}"
        assert sentence in result.err
    assert "[2/2] fcube / octants" in result.err
    assert "skipped 4 runs: their datasets are not on this machine" in result.err
    assert "fcube" in result.out


def test_an_experiment_of_which_nothing_is_here_is_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = write(tmp_path / "e.toml", 'dataset = "mnist"\n')
    result = call(capsys, "run", file, "--out", tmp_path / "runs", "--data-dir", tmp_path / "data")
    assert result.code == 2
    assert "the dataset mnist is not in" in result.err
    only = call(capsys, "run", write(file, MIXED), "--only", "adult*", "--out", tmp_path, "--data-dir", tmp_path / "d")
    assert only.code == 2
    assert "the dataset adult is not in" in only.err
    for pattern in ("*quantity*", "*zzz*"):
        options = ["--scale", "laptop", "--only", pattern, "--out", tmp_path, "--data-dir", tmp_path / "d"]
        result = call(capsys, "run", "niid-curves", *options)
        assert result.code == 2
        said = "the dataset cifar-10 is not in" if "q" in pattern else "--only '*zzz*' matches none of 32 runs"
        assert said in result.err


def test_the_scale_is_said(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    options = ["--only", "fcube*fedavg*seed 0", "--set", "rounds=1", "--out", tmp_path]
    result = call(capsys, "run", "niid-table3", *options)
    assert result.code == 0
    assert "scale smoke: the same skews on embedded data" in result.err
    assert call(capsys, "run", "niid-table3", "--scale", "big", *options).code == 2


def test_records_alone_are_enough_for_tables(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    options = ["--only", "fcube*fedavg*seed 0", "--set", "rounds=1", "--records-only", "--out", tmp_path]
    assert call(capsys, "run", "niid-table3", *options).code == 0
    assert {file.name for file in tmp_path.glob("[!.]*/*")} - {".lock"} == {"rounds.jsonl", "run.json"}
    assert "fcube" in call(capsys, "show", tmp_path).out
    assert "2 of 2 runs are already finished" in call(capsys, "run", "niid-table3", *options).err


@pytest.mark.parametrize("scale", ['scale = "smoke"', "scale = 3", "[scale]\nsmoke = 3"])
def test_a_scale_that_is_no_table_is_refused(scale: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = write(tmp_path / "e.toml", f'dataset = "fcube"\nrounds = 1\n{scale}\n')
    result = call(capsys, "run", file, "--out", tmp_path / "runs")
    assert result.code == 2
    assert "write [scale.smoke] above" in result.err


def test_a_scale_needs_no_note(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = write(tmp_path / "e.toml", 'dataset = "fcube"\nsolver = "sgd(epochs=1)"\n[scale.smoke]\nrounds = 1\n')
    result = call(capsys, "run", file, "--out", tmp_path / "runs")
    assert result.code == 0, result.err
    assert "scale smoke\n" in result.err


PLUGIN = """
import numpy as np
import silobench as sb
from silobench.data import DATASETS, Split

@DATASETS.register
def coins() -> sb.Dataset:
    "Coins."
    rng = np.random.default_rng(0)
    split = Split(rng.normal(size=(40, 2)).astype(np.float32), rng.integers(0, 2, 40))
    return sb.Dataset("coins", split, split, ("heads", "tails"), "none")
"""


def test_a_plugin_may_bring_its_dataset(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    plugin = write(tmp_path / "coins.py", PLUGIN)
    file = write(tmp_path / "e.toml", 'dataset = "coins"\nparties = 2\nsolver = "sgd(epochs=1)"\nrounds = 1\n')
    result = call(capsys, "run", file, "--plugin", plugin, "--workers", "1", "--out", tmp_path / "runs")
    assert result.code == 0, result.err
