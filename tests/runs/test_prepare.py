"""What is checked before any run starts, and how often its parts are built."""

from pathlib import Path
from typing import Any

import pytest

from silobench.engines import ENGINES
from silobench.errors import SilobenchError
from silobench.runs import horizontal as preparing
from silobench.runs.experiment import plan
from silobench.runs.prepare import check, prepare
from silobench.runs.sweep import sweep

GRID: dict[str, Any] = {
    "dataset": "breast-cancer", "algorithm": ["fedavg", "scaffold", "fedprox(mu=0.1)"], "trials": 2, "parties": 3,
    "partition": ["iid", "label-dirichlet(beta=0.5)"], "model": "linear", "rounds": 1, "solver": "sgd(epochs=1)",
}  # fmt: skip
GAIA = {"algorithm": "gaia", "solver": "sgd"}

WRONG = {
    "partition": ({"partition": "label-count(k=7)"}, "take k <= 2"),
    "parties": ({"parties": 5000}, "5000 parties cannot share"),
    "cohort": ({"participation": 4}, "above the 3 parties"),
    "lockstep": ({**GAIA, "participation": 2}, "leave participation at 1.0"),
    "model": ({"model": "cnn"}, "cnn needs images"),
    "memory": ({"model": "mlp(10000000000000)"}, "needs more memory than this machine has"),
    "algorithm and model": (
        {"dataset": "synthetic-faces", "model": "face-cnn", "algorithm": "moon"},
        "loss of its own",
    ),
    "controller": ({"controller": "skewscout"}, "skewscout"),
    "network": ({"network": "link(bandwidth=fast)"}, "100Mbps"),
    "measure": ({**GAIA, "measure": "weight-divergence"}, "needs one shared model"),
    "measure twice": ({"measure": ["replicas", "replicas(every=2)"]}, "replicas twice"),
    "engine": ({"algorithm": "moon"}, "cannot run this"),
}


@pytest.mark.parametrize("case", WRONG)
def test_an_error_of_one_run_comes_before_any_run_starts(case: str, tmp_path: Path) -> None:
    wrong, message = WRONG[case]
    single = {key: value for key, value in GRID.items() if key not in ("algorithm", "partition", "trials")}
    plans = plan({"grid": [GRID, {**single, **wrong}]})
    with pytest.raises(SilobenchError, match=message):
        check(plans, tmp_path / "runs", ENGINES.build("native" if case == "engine" else "auto"))
    assert not (tmp_path / "runs").exists()


def test_runs_that_share_a_part_have_it_checked_once_and_every_run_is_prepared_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = {"task": 0, "federate": 0}
    for name in calls:
        real = getattr(preparing, name)

        def counted(*args: Any, name: str = name, real: Any = real) -> Any:
            calls[name] += 1
            return real(*args)

        monkeypatch.setattr(preparing, name, counted)
    plans = plan(GRID)
    assert len(plans) == 12
    check(plans, tmp_path, ENGINES.build("inline"))
    assert calls == {"task": 1, "federate": 4}  # a model; two partitions, twice each
    list(sweep(plans, tmp_path, "inline"))
    assert calls == {"task": 1 + len(plans), "federate": 4 + len(plans)}


def test_a_check_leaves_the_prepared_runs_as_they_are(tmp_path: Path) -> None:
    plans = plan(GRID)
    before = [prepare(each).setting for each in plans]
    check(plans, tmp_path, ENGINES.build("auto"))
    after = [prepare(each).setting for each in plans]
    for one, other in zip(before, after, strict=True):
        assert one.federation.partition.fingerprint == other.federation.partition.fingerprint
        assert one.task.initial.equal(other.task.initial)
