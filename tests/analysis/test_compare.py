"""``silobench compare`` on real runs: two algorithms, twelve seeds, three settings."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from commands import call, write
from silobench.analysis.cells import collect
from silobench.analysis.compare import checked_question, compare, matching
from silobench.errors import SilobenchError
from silobench.runs.stored import StoredRun, read_runs
from stored import cells, stored

TWELVE = """
dataset = "fcube"
partition = ["octants", "iid", "quantity-dirichlet(beta=0.5)"]
parties = 4
algorithm = ["fedavg", "fedprox(mu=0.1)"]
solver = "sgd(epochs=1)"
rounds = 3
trials = 12
"""


def run(capsys: pytest.CaptureFixture[str], folder: Path, text: str, *options: str) -> Path:
    out = folder / "runs"
    done = call(capsys, "run", write(folder / "e.toml", text), "--workers", "1", "--out", out, *options)
    assert done.code == 0, done.err
    return out


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from silobench.runs import experiment
    from silobench.runs.execute import execute
    from silobench.runs.prepare import prepare

    folder = tmp_path_factory.mktemp("compare")
    plans = experiment.plan(experiment.read_experiment(write(folder / "e.toml", TWELVE)))
    for made in plans:
        for _ in execute(prepare(made), folder / "runs"):
            pass
    return folder / "runs"


def facts(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> dict[str, Any]:
    result = call(capsys, "compare", *arguments, "--json")
    assert result.code == 0, result.err
    found: dict[str, Any] = json.loads(result.out)
    return found


def last_accuracies(runs: Path, algorithm: str, partition: str) -> list[float]:
    """By seed, straight from the files."""
    found = {}
    for file in runs.glob("*/run.json"):
        label = json.loads(file.read_text())["label"]
        if (label["algorithm"], label["partition"]) == (algorithm, partition):
            lines = (file.parent / "rounds.jsonl").read_text().splitlines()
            found[label["seed"]] = json.loads(lines[-1])["accuracy"]
    return [found[seed] for seed in range(12)]


PARTITIONS = '["octants", "iid", "quantity-dirichlet(beta=0.5)"]'
ONE = ("fedavg", "fedprox(mu=0.1)", "--only", "* octants")


def test_one_setting_is_the_test_of_its_twelve_pairs(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = facts(capsys, runs, *ONE)
    differences = np.subtract(*(last_accuracies(runs, name, "octants") for name in ("fedavg", "fedprox(mu=0.1)")))
    scale = np.sqrt((1 / 12 + 0.2 / 0.8) * differences.var(ddof=1))  # a fifth of the rows are test rows
    posterior = stats.t(11, differences.mean(), scale)
    assert found["better_a"] == pytest.approx(posterior.sf(0.01))
    assert found["better_b"] == pytest.approx(posterior.cdf(-0.01))
    assert found["better_a"] + found["equal"] + found["better_b"] == pytest.approx(1, abs=1e-12)
    assert found["posterior"]["interval"] == pytest.approx(posterior.interval(0.95))
    assert found["mean_difference"] == pytest.approx(differences.mean())
    plain = facts(capsys, runs, *ONE, "--rho", "0", "--rope", "0")
    assert plain["better_b"] == pytest.approx(stats.ttest_1samp(differences, 0, alternative="greater").pvalue)


def test_the_json_is_what_the_design_promises(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one, both = facts(capsys, runs, *ONE), facts(capsys, runs, *ONE[:2])
    for found in (one, both):
        assert found.keys() >= {"a", "b", "metric", "rope", "better_a", "equal", "better_b", "method", "settings"}
        assert (found["a"], found["b"], found["metric"], found["rope"]) == (*ONE[:2], "accuracy", 0.01)
    assert (one["method"], len(one["settings"])) == ("Bayesian correlated t-test", 1)
    assert (both["method"], len(both["settings"])) == ("Bayesian signed-rank test over settings", 3)
    assert both["settings"][0].keys() >= {"setting", "n", "mean_difference", "better_a", "equal", "better_b"}
    assert [setting["setting"] for setting in both["settings"]] == [
        "fcube / octants", "fcube / iid", "fcube / quantity-dirichlet(beta=0.5)",
    ]  # fmt: skip
    assert both["settings"][0] == one["settings"][0]
    assert one["settings"][0]["seeds"] == list(range(12))


@pytest.mark.parametrize("only", ["*", "* octants"])
@pytest.mark.parametrize("metric", [(), ("--metric", "bytes", "--target", "0.7"), ("--metric", "seconds")])
def test_swapping_the_two_swaps_the_odds(
    runs: Path, capsys: pytest.CaptureFixture[str], metric: tuple[str, ...], only: str
) -> None:
    there = facts(capsys, runs, *ONE[:2], *metric, "--only", only)
    back = facts(capsys, runs, *ONE[1::-1], *metric, "--only", only)
    assert [there[key] for key in ("better_a", "equal", "better_b")] == pytest.approx(
        [back[key] for key in ("better_b", "equal", "better_a")], abs=1e-12
    )
    assert there["mean_difference"] == pytest.approx(-back["mean_difference"])


def test_other_spellings_are_the_same_algorithm(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert facts(capsys, runs, "FedAvg()", "fedprox( .1 )") == facts(capsys, runs, *ONE[:2])


def test_a_wide_region_makes_everything_equal(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = facts(capsys, runs, *ONE[:2], "--rope", "2")
    assert [found["equal"], *(setting["equal"] for setting in found["settings"])] == pytest.approx([1, 1, 1, 1])
    assert found["verdict"] == "practically equal"


def test_less_is_better_for_rounds(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """So strong a pull makes FedProx slow: some runs never get there."""
    slow = TWELVE.replace("mu=0.1", "mu=50").replace("trials = 12", "trials = 3").replace(PARTITIONS, '"iid"')
    out = run(capsys, tmp_path, slow.replace("rounds = 3", "rounds = 12"))
    found = facts(capsys, out, "fedavg", "fedprox(mu=50)", "--metric", "rounds", "--target", "0.9", "--rope", "1")
    assert found["better_a"] > 0.9
    assert found["mean_difference"] < 0
    assert sum(found["settings"][0]["never_reached"].values()) > 0
    wide = facts(capsys, out, "fedavg", "fedprox(mu=50)", "--metric", "rounds", "--target", "0.9", "--rope", "99")
    assert (wide["equal"] > 0.95, wide["verdict"]) == (True, "undecided")  # who never arrives is not known to be equal
    shown = call(
        capsys, "compare", out, "fedavg", "fedprox(mu=50)", "--metric", "rounds", "--target", "0.9", "--rope", "1"
    )
    assert "runs that never reached the target count with all their rounds" in shown.out


def test_what_a_person_reads(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shown = call(capsys, "compare", runs, *ONE[:2]).out
    assert "A = fedavg, B = fedprox(mu=0.1): test accuracy in the last round, more is better" in shown
    assert "all 3 settings" in shown
    assert "Bayesian correlated t-test with rho 0.20" in shown
    assert "equal: within ±1 percentage points" in shown


def test_few_settings_of_one_pair_each_decide_nothing(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    out = run(capsys, tmp_path, TWELVE.replace("trials = 12", "trials = 1"))
    found = facts(capsys, out, *ONE[:2])
    assert [setting["better_a"] for setting in found["settings"]] == [None] * 3
    assert [found[key] for key in ("better_a", "equal", "better_b", "verdict")] == [None, None, None, "undecided"]
    shown = call(capsys, "compare", out, *ONE[:2]).out
    assert "one pair, no spread" in shown
    assert "too few settings to decide, which takes 3 settings with two or more pairs each, or 6 settings" in shown
    refused = call(capsys, "compare", out, *ONE)
    assert refused.code == 2
    assert "share one trial only, in fcube / octants with seed 0" in refused.err


@pytest.mark.parametrize(
    ("settings", "trials", "verdict"),
    [
        (2, 1, "undecided"), (5, 1, "undecided"), (6, 1, "scaffold is better"), (2, 3, "undecided"),
        (3, 3, "scaffold is better"),
    ],
)  # fmt: skip
def test_a_verdict_over_settings_needs_enough_of_them(settings: int, trials: int, verdict: str) -> None:
    scores = {"fedavg": 0.5, "scaffold": 0.8}
    runs = [
        [stored([score], seed, algorithm=name, partition=f"label-count(k={kind})") for seed in range(trials)]
        for name, score in scores.items()
        for kind in range(2, settings + 2)
    ]
    found = cells(*runs)
    comparison = compare(found, *scores, checked_question(cells=found))
    assert comparison.verdict == verdict
    assert (comparison.odds is None) == (verdict == "undecided")


def test_settings_have_the_short_names_of_tables() -> None:
    spec = "csv(path=data/patients.csv, label=outcome)"
    runs = [
        [stored([score], seed, dataset=spec, algorithm=name, dataset_facts={"name": "patients"}) for seed in range(2)]
        for name, score in {"fedavg": 0.5, "scaffold": 0.8}.items()
    ]
    found = cells(*runs)
    question = checked_question(cells=found)
    for only in ("patients / iid", "csv(path=data/patients.csv*"):
        (setting,) = compare(found, "fedavg", "scaffold", question, only).settings
        assert setting.setting == "patients / iid"
        assert matching(found, only) == found
    with pytest.raises(SilobenchError, match="such as 'patients / iid'"):
        compare(found, "fedavg", "scaffold", question, "digits*")


def test_no_shared_seed(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    few = TWELVE.replace("trials = 12", "trials = 2")
    for algorithm, seed in (("fedavg", "0"), ("scaffold", "7")):
        out = run(capsys, tmp_path, few, "--set", f"algorithm={algorithm}", "--set", f"seed={seed}")
    refused = call(capsys, "compare", out, "fedavg", "scaffold")
    assert refused.code == 2
    assert "fedavg (seeds [0, 1]) and scaffold (seeds [7, 8]) share no seed" in refused.err


def test_no_shared_setting(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    few = TWELVE.replace("trials = 12", "trials = 2")
    for algorithm, cut in (("fedavg", "iid"), ("scaffold", "octants")):
        out = run(capsys, tmp_path, few, "--set", f"algorithm={algorithm}", "--set", f"partition={cut}")
    refused = call(capsys, "compare", out, "fedavg", "scaffold")
    assert refused.code == 2
    assert "no setting has finished runs of both fedavg and scaffold" in refused.err


def test_specs_in_arguments_are_named_as_they_were_written() -> None:
    def trials(label: str, full: str) -> list[StoredRun]:
        runs = [stored([accuracy], seed, algorithm=label) for seed, accuracy in enumerate((0.5, 0.6))]
        return [replace(run, facts=replace(run.facts, config=run.config.replace(algorithm=full))) for run in runs]

    label, plain = "split(noise(deviation=1.0, at=both))", "split(marvell)"
    defended = trials(label, "split(defence=noise(deviation=1.0, at=both), solvers=[], encryption='none')")
    other = trials(plain, "split(defence=marvell(power=4.0), solvers=[], encryption='none')")
    known = cells(defended, other)
    for name in (label, "split(defence=noise(at=both, deviation=1))", "Split(noise(1, both))"):
        assert compare(known, name, "split(defence=marvell)", checked_question()).a == label
    assert compare(known, label, "split(defence=marvell(power=4))", checked_question()).b == plain
    for wrong in ("split(defence=noise(deviation=1))", "split", "split(defence=max-norm)", "split(defence=marvell(3))"):
        with pytest.raises(SilobenchError, match="no finished run"):
            compare(known, wrong, plain, checked_question())


BAD = {
    "no algorithm": ([], "these runs have 'fedavg' and 'fedprox(mu=0.1)'; write two of them"),
    "one algorithm": (["fedavg"], "but one was given"),
    "unknown algorithm": (["fedavg", "fedprx"], "has algorithm fedprx: choose from fedavg, fedprox(mu=0.1)."),
    "absent algorithm": (
        ["fedavg", "scaffold"],
        "no finished run in this directory has algorithm scaffold",
    ),
    "absent argument": (["fedavg", "fedprox(mu=1)"], "has algorithm fedprox(mu=1): did you mean fedprox(mu=0.1)?"),
    "the same twice": (["fedavg", "fedavg()"], "name two different algorithms"),
    "unknown metric": (["fedavg", "x", "--metric", "acuracy"], "did you mean accuracy?"),
    "no target": (["fedavg", "x", "--metric", "rounds"], "--target 0.8"),
    "target for nothing": (["fedavg", "x", "--target", "0.8"], "accuracy has no target"),
    "target in percent": (["fedavg", "x", "--metric", "bytes", "--target", "80"], "up to 1, such as 0.8"),
    "target out of reach": ([*ONE[:2], "--metric", "rounds", "--target", "1"], "use a lower --target"),
    "region below zero": (["fedavg", "x", "--rope", "-1"], "--rope must be a difference"),
    "region of nan": (["fedavg", "x", "--rope", "nan"], "--rope must be a difference"),
    "correlation of one": (["fedavg", "x", "--rho", "1"], "below 1"),
    "glob": ([*ONE[:2], "--only", "mnist*"], "matches none of 3 settings, such as 'fcube / octants'"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_sentence(runs: Path, capsys: pytest.CaptureFixture[str], case: str) -> None:
    arguments, fragment = BAD[case]
    result = call(capsys, "compare", runs, *arguments)
    assert result.code == 2
    assert fragment in result.err
    assert result.err.startswith("error: ")
    assert len(result.err.splitlines()) == 1


CHAINS = {"": 0.9, "top-k": 0.8, "top-k(fraction=0.1) | quantize(bits=4)": 0.85}


@pytest.fixture
def chains(tmp_path: Path) -> Path:
    """Runs of two algorithms with three chains each; the second algorithm is worse by half."""
    for chain, accuracy in CHAINS.items():
        for algorithm, share in (("fedavg", 1.0), ("fednova", 0.5)):
            for seed, noise in enumerate((0.0, 0.004, 0.002)):
                score = share * (accuracy + noise * (chain == ""))
                stored([0.1, score], seed, algorithm=algorithm, transforms=chain, out=tmp_path)
    return tmp_path


def test_two_values_of_another_key(chains: Path, capsys: pytest.CaptureFixture[str]) -> None:
    by_chain = facts(capsys, chains, "", "top_k", "--by", "transforms")
    assert (by_chain["by"], by_chain["a"], by_chain["b"]) == ("transforms", "", "top-k")
    settings = {setting["setting"]: setting for setting in by_chain["settings"]}
    assert settings.keys() == {"mnist / iid / fedavg", "mnist / iid / fednova"}
    assert settings["mnist / iid / fedavg"]["differences"] == pytest.approx([0.1, 0.104, 0.102])
    assert settings["mnist / iid / fednova"]["differences"] == pytest.approx([0.05, 0.052, 0.051])
    assert settings["mnist / iid / fedavg"]["verdict"] == "no transforms is better"
    back = facts(capsys, chains, "top_k( )", "none", "--by", "transforms", "--only", "* fedavg")
    assert (back["mean_difference"], back["b"]) == (pytest.approx(-0.102), "")
    long = facts(capsys, chains, "top_k", "top_k(fraction=0.1)|quantize(bits=4)", "--by", "transforms")
    assert long["b"] == "top-k(fraction=0.1) | quantize(bits=4)"
    plain = facts(capsys, chains, "fedavg", "fednova")
    assert (plain["by"], len(plain["settings"])) == ("algorithm", 3)


def test_the_table_and_the_picture_name_the_key(chains: Path, capsys: pytest.CaptureFixture[str]) -> None:
    picture = chains / "chains.svg"
    shown = call(capsys, "compare", chains, "none", "top_k", "--by", "transforms", "--plot", picture)
    assert shown.out.startswith("transforms: A = no transforms, B = top-k: test accuracy in the last round")
    assert picture.exists()


@pytest.mark.parametrize(
    ("arguments", "fragment"),
    [
        (["fedavg", "top_k"], "has algorithm top_k, which is a value of transforms: compare two of its values with "
         "--by transforms ('none', 'top-k'"),
        (["fedavg", "top_k(fraction=0.1) | quantize(bits=4)"], "which is a value of transforms"),
        (["fedavg", "top_k |"], "is not a spec"),
        (["", "top-k"], 'has algorithm "", which is a value of transforms'),
        (["", "fedavg", "--by", "transforms"], "has transforms fedavg, which is a value of algorithm"),
        (["", "sign", "--by", "transforms"], "has transforms sign: its values are 'none', 'top-k' and 'top-k(fraction"),
        (["", "none", "--by", "transforms"], "both are no transforms: name two different values of transforms"),
        (["", "top-k", "--by", "transform"], "did you mean transforms?"),
        (["0", "1", "--by", "seed"], "--by seed finds no pair"),
        (["always", "never", "--by", "availability"], "has availability never: its values are 'always'."),
    ],
)  # fmt: skip
def test_an_absent_value_is_one_sentence(
    chains: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], fragment: str
) -> None:
    result = call(capsys, "compare", chains, *arguments)
    assert (result.code, len(result.err.splitlines())) == (2, 1)
    assert fragment in result.err


def test_runs_on_other_data_are_no_pairs(runs: Path) -> None:
    def elsewhere(run: StoredRun) -> StoredRun:
        """Return the run as if it had been made with other data."""
        data = replace(run.dataset, checksum="another")
        return replace(run, facts=replace(run.facts, dataset=data)) if run.label["algorithm"] == "fedavg" else run

    cells = collect(map(elsewhere, read_runs(runs)))
    with pytest.raises(SilobenchError, match="no setting has finished runs of both"):
        compare(cells, *ONE[:2], checked_question())
