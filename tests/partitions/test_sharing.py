"""Data sharing: who holds what, what it costs, and where the model begins."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from commands import call, write
from laws import bits, close
from precision import bound, bound_of_steps
from silobench.data import Dataset, digits
from silobench.data.dataset import Split
from silobench.engines import inline
from silobench.errors import ConfigError, PartitionError
from silobench.federation import federate
from silobench.loop.rounds import rounds
from silobench.measures import measured
from silobench.measures.divergence import weight_divergence
from silobench.measures.measure import Course
from silobench.method.algorithms import ALGORITHMS, fedavg
from silobench.method.method import Method
from silobench.method.solvers import SOLVERS, sgd
from silobench.partitions import partition, sharing
from silobench.partitions.measures import count, emd, emd_weighted
from silobench.rng import stream, torch_seed
from silobench.runs.checkpoint import load_state
from silobench.runs.execute import execute
from silobench.runs.experiment import bind, plan
from silobench.runs.prepare import prepare
from silobench.runs.starts import warmed_up
from silobench.runs.stored import read_json, read_run
from silobench.tasks.task import task as task_of
from silobench.training.setting import Setting

DIGITS = digits()
SGD = "sgd(lr=0.05, momentum=0, weight_decay=0, epochs=1, batch=20)"
CELL = {"dataset": "digits", "parties": 10, "model": "linear", "solver": SGD, "rounds": 2}


def counts_of(spec: str, seed: int = 0, parties: int = 10, dataset: Dataset = DIGITS) -> np.ndarray:
    return count(partition(dataset, spec, parties, seed), dataset.train.y, len(dataset.classes))


def balanced(rows: int = 1000, classes: int = 10) -> Dataset:
    y = np.arange(rows, dtype=np.int64) % classes
    split = Split(np.zeros((rows, 3), np.float32), y)
    return Dataset("balanced", split, split, tuple(map(str, range(classes))), "none")


def run(directory: Path, engine: str = "auto", **changed: Any) -> list[dict[str, Any]]:
    (planned,) = plan({**CELL, **changed})
    list(execute(prepare(planned), directory, engine))
    return read_json(directory / planned.id)[1]


# --- who holds what ----------------------------------------------------------------------------------


def test_a_party_of_one_class_of_ten_has_an_emd_of_1_8() -> None:
    for spec in ("shards(per_party=1)", "target-emd(1.8)", "label-count(k=1)"):
        held = counts_of(spec, dataset=balanced())
        assert (held > 0).sum(1).tolist() == [1] * 10
        np.testing.assert_allclose(emd(held), 1.8, rtol=1e-12)


def test_no_share_changes_nothing() -> None:
    for spec in ("shards(per_party=1)", "label-dirichlet(0.5)", "iid", "quantity-dirichlet(0.5)"):
        plain, shared = partition(DIGITS, spec, 10, 3), partition(DIGITS, f"{spec} + share(beta=0)", 10, 3)
        assert plain.fingerprint == shared.fingerprint
        assert sharing(shared, DIGITS) is None


def test_no_share_trains_the_same_model_and_sends_as_many_bytes(tmp_path: Path) -> None:
    plain, shared = (run(tmp_path, partition=f"shards(1){more}") for more in ("", " + share(beta=0, warmup=3)"))
    assert [{**row, "seconds": 0, "time": 0} for row in plain] == [{**row, "seconds": 0, "time": 0} for row in shared]


@settings(max_examples=60, deadline=None)
@given(
    beta=st.floats(0.01, 0.5),
    alpha=st.floats(0, 1),
    holdout=st.none() | st.floats(0.05, 0.5),
    seed=st.integers(0, 2**32),
    classes=st.integers(1, 6),
)
def test_laws_of_sharing(beta: float, alpha: float, holdout: float | None, seed: int, classes: int) -> None:
    data = balanced(600, classes)
    spec = f"label-dirichlet(0.5, min_size=1) + share(beta={beta}, alpha={alpha}, holdout={holdout})"
    try:
        cut = partition(data, spec, 5, seed)
    except PartitionError:
        assert holdout is not None
        assert beta * (1 - holdout) > holdout * 0.9
        return
    shared, own = set(cut.shared.tolist()), [set(rows.tolist()) for rows in cut.rows]
    private = [rows - shared for rows in own]
    assert all(len(set(rows)) == len(rows) and (np.diff(rows) > 0).all() for rows in cut.rows)
    assert sum(map(len, private)) == len(set.union(*private))  # nobody's own row is anyone else's
    aside = 600 - sum(map(len, private))
    assert aside == (len(shared) if holdout is None else round(holdout * 600))
    assert len(shared) == pytest.approx(beta * (600 - aside), abs=1.1)
    by_class = np.bincount(data.train.y[cut.shared], minlength=classes)
    assert by_class.max() - by_class.min() <= 1
    assert {len(rows & shared) for rows in own} == {round(alpha * len(shared))}
    if 0.2 < alpha < 0.8 and len(shared) > 40:
        assert len({tuple(sorted(rows & shared)) for rows in own}) > 1  # each its own random part


def test_the_federation_of_the_paper() -> None:
    """CIFAR-10: 40,000 rows of the parties, 10,000 held out, and at beta = 25% all of those are shared."""
    data = balanced(50_000)
    own = counts_of("shards(1) + share(beta=0.1, holdout=0.2)", dataset=data)
    assert sorted(own[0].tolist()) == [400] * 9 + [4400]
    assert emd_weighted(own) == pytest.approx(0.9)
    everything = partition(data, "shards(1) + share(beta=0.25, holdout=0.2)", 10)
    assert len(everything.shared) == 10_000
    report = sharing(everything, data)
    assert report
    assert report.emd_weighted_before == pytest.approx(1.8)
    assert report.bytes == 10 * 10_000 * (3 * 4 + 8)
    with pytest.raises(PartitionError, match=r"needs 1040 rows of each class, but only 1000"):
        partition(data, "shards(1) + share(beta=0.26, holdout=0.2)", 10)


def test_bytes_of_sparse_rows_are_those_of_their_entries() -> None:
    x = sparse.csr_matrix(np.eye(40, 7, dtype=np.float32))
    split = Split(x, np.arange(40) % 2)
    data = Dataset("sparse", split, split, ("a", "b"), "none")
    cut = partition(data, "iid + share(beta=0.25)", 2)
    entries = sum(int(x[rows].nnz) for rows in (cut.shared, cut.shared))
    report = sharing(cut, data)
    assert report
    assert report.bytes == entries * 8 + 2 * len(cut.shared) * (4 + 8)


def test_impossible_combinations_are_refused() -> None:
    for spec, reason in [
        ("share(beta=0.1) + noise(0.1)", "share must be the last term"),
        ("shards(1) + share(beta=0.1) + noise(0.1)", "share must be the last term"),
        ("iid + share(beta=0.1) + quantity-dirichlet(0.5)", "share must be the last term"),
        ("shards(1) + share(beta=0.1) + share(beta=0.1)", "share must be the last term of a sum, and only once"),
        ("iid + share(beta=0.00001)", "less than one of 1438 rows"),
        ("noise(0.1) + share(beta=0.1)", "the noise of every party"),
        ("shards(1) + share(beta=300)", "needs 144 rows of each class, but only 142"),
        ("shards(1) + share(beta=1, holdout=0.999)", "leaves 1 rows"),
    ]:
        with pytest.raises(PartitionError, match=reason):
            partition(DIGITS, spec, 10)


def test_validation_rows_are_never_trained_on() -> None:
    federation = federate(DIGITS, "shards(1) + share(beta=0.2)", 10, 0, validation=0.2)
    kept = set(torch.cat([party.validation for party in federation.parties]).tolist())
    assert len(kept) == pytest.approx(0.2 * len(DIGITS.train) / 1.2, abs=10)
    assert not kept & set(torch.cat([party.rows for party in federation.parties]).tolist())
    assert not kept & set(federation.shared_rows.tolist())


def test_all_in_one_place_a_shared_row_is_there_once() -> None:
    federation = federate(DIGITS, "shards(1) + share(beta=0.1)", 10)
    rows = federation.pooled().parties[0].rows
    assert len(rows) == len(rows.unique()) == len(DIGITS.train)


# --- what it costs -----------------------------------------------------------------------------------


def test_shared_rows_are_sent_once_before_the_first_round(tmp_path: Path) -> None:
    plain, shared = (run(tmp_path, partition=f"shards(1){more}") for more in ("", " + share(beta=0.1, alpha=0.5)"))
    rows = round(0.5 * round(len(DIGITS.train) / 11))
    size = rows * (DIGITS.train.x[:1].nbytes + 8)
    assert [b["bytes_down"] - a["bytes_down"] for a, b in zip(plain, shared, strict=True)] == [10 * size, 0]
    assert [b["clock"] - a["clock"] for a, b in zip(plain, shared, strict=True)] == pytest.approx([8 * size / 1e8] * 2)
    facts = read_run(next(path for path in tmp_path.iterdir() if "share(" in (path / "run.json").read_text())).facts
    report = facts.partition.shared
    assert (report.each, report.bytes, report.warmup) == (rows, 10 * size, 0)
    assert report.emd_weighted_before > facts.partition.emd_weighted


def test_what_is_pooled_is_not_sent(tmp_path: Path) -> None:
    rows = run(tmp_path, partition="shards(1) + share(beta=0.1)", algorithm="combined")
    assert [(row["bytes_down"], row["clock"]) for row in rows] == [(0, 0.0)] * 2


# --- the warm-up -------------------------------------------------------------------------------------


def test_a_warm_up_is_plain_sgd_on_the_shared_rows(tmp_path: Path) -> None:
    """By hand: five epochs over G alone."""
    spec = "shards(1) + share(beta=0.2, warmup=5)"
    cell = {**CELL, "partition": spec, "rounds": 1}
    ready = prepare(plan(cell)[0])
    task, federation, solver = ready.setting.task, ready.setting.federation, sgd(0.05, 0.0, 0.0, 5, batch=20)
    network = task.network
    network.params.copy_(task.initial)
    order = stream(torch_seed(0, "warmup"), "order", 0, 0)
    for _ in range(solver.epochs):
        for rows in torch.from_numpy(order.permutation(federation.partition.shared)).split(20):
            network.grad.zero_()
            task.loss(*federation.batch(rows)).backward()
            network.params.add_(network.grad, alpha=-0.05)
    by_hand = network.params.clone()
    warm, report = warmed_up(ready.setting, inline().settled(ready.setting))
    steps = 5 * -(-len(federation.partition.shared) // 20)
    assert close(warm.task.initial, by_hand, bound_of_steps(steps, 20 + 64))
    assert report["warm-up"]["rows"] == len(federation.partition.shared)
    first = run(tmp_path, partition=spec)[0]["measures"]["warm-up"]
    assert first["epochs"] == 5
    assert first["accuracy"] == pytest.approx(report["warm-up"]["accuracy"])


def test_a_warmed_up_run_resumes_to_the_same_bits(tmp_path: Path) -> None:
    cell = {**CELL, "partition": "shards(1) + share(beta=0.1, warmup=2)", "rounds": 4, "algorithm": "moon"}
    (planned,) = plan({**cell, "model": "mlp"})
    list(execute(prepare(planned), tmp_path / "whole"))
    begun = execute(prepare(planned), tmp_path / "cut")
    next(begun)
    begun.close()
    list(execute(prepare(planned), tmp_path / "cut"))
    whole, cut = (read_run(tmp_path / name / planned.id) for name in ("whole", "cut"))
    assert whole.facts.state_sha256 == cut.facts.state_sha256
    assert whole.rounds[0].measures == cut.rounds[0].measures
    assert not cut.rounds[1].measures


# --- from Python -------------------------------------------------------------------------------------


@pytest.mark.parametrize("algorithm", ["fedavg", "solo", "combined"])
def test_rounds_from_python_share_and_warm_up_like_a_run_from_a_plan(tmp_path: Path, algorithm: str) -> None:
    spec = "shards(1) + share(beta=0.1, alpha=0.5, warmup=2)"
    choices = {"partition": spec, "algorithm": algorithm, "rounds": 3, "participation": 0.5}
    stored = run(tmp_path, "inline", **choices)
    federation, task = federate(DIGITS, spec, 10, 0), task_of("linear", DIGITS)
    method = Method(ALGORITHMS.build(algorithm), SOLVERS.build(SGD))
    records = list(rounds(method, federation, task, rounds=3, participation=0.5))
    assert [_numbers(record.as_json()) for record in records] == list(map(_numbers, stored))
    assert stored[0]["measures"]["warm-up"]["epochs"] == 2
    resumed = rounds(method, federation, task, rounds=3, participation=0.5, state=records[0].state)
    assert [bits(record) for record in resumed] == [bits(record) for record in records[1:]]


def test_divergence_from_python_starts_from_the_warmed_up_model(tmp_path: Path) -> None:
    spec = "shards(1) + share(beta=0.1, warmup=2)"
    stored = run(tmp_path, "inline", partition=spec, measure="weight-divergence")
    method, federation, task = (
        Method(fedavg(), SOLVERS.build(SGD)),
        federate(DIGITS, spec, 10, 0),
        task_of("linear", DIGITS),
    )
    records = rounds(method, federation, task, rounds=2)
    course = Course(Setting(method, federation, task, 0), rounds=2)
    seen = measured(records, {"weight-divergence": weight_divergence()}, course)
    assert [record.measures for record in seen] == [row["measures"] for row in stored]


def _numbers(row: dict[str, Any]) -> dict[str, Any]:
    """Return a round's line as JSON reads it back, without wall-clock seconds."""
    return json.loads(json.dumps({**row, "seconds": None, "time": None}))


# --- pre-trained starts -------------------------------------------------------------------------------


def test_a_run_starts_from_centralised_sgd_which_runs_first(tmp_path: Path) -> None:
    choices = {**CELL, "partition": "shards(1)", "start": "centralised(rounds=3, batch=200)"}
    origin, planned = plan(choices)
    assert planned.origin is not None
    assert origin.id == planned.origin.id
    assert origin.label["algorithm"] == "combined"
    assert "batch=200" in origin.label["solver"]
    assert (origin.cell.rounds, origin.cell.partition, origin.cell.parties) == (3, "iid", 10)
    list(execute(prepare(origin), tmp_path))
    still = {**choices, "solver": SGD.replace("0.05", "1e-12")}
    (first,) = list(plan({**still, "start": f"run(path={tmp_path / origin.id})", "rounds": 1}))
    list(execute(prepare(first), tmp_path))
    before, after = (load_state(tmp_path / p.id).server.params for p in (origin, first))
    assert close(after, before, bound(10))  # a mean of ten parties
    list(execute(prepare(planned), tmp_path))
    assert not torch.equal(load_state(tmp_path / planned.id).server.params, before)


def test_the_command_line_makes_what_a_run_begins_at(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = 'start = "centralised(rounds=2, batch=100)"\npartition = ["shards(1)", "iid"]\ntrials = 2'
    file = write(tmp_path / "x.toml", f'dataset = "digits"\nmodel = "linear"\nrounds = 2\nsolver = "{SGD}"\n{lines}')
    assert call(capsys, "run", file, "--out", tmp_path / "a", "--only", "*shards*").code == 0
    planned = [json.loads(path.read_text()) for path in (tmp_path / "a").glob("*/run.json")]
    assert sorted(run["label"]["algorithm"] for run in planned) == ["combined"] * 2 + ["fedavg"] * 2
    assert call(capsys, "run", file, "--out", tmp_path / "a", "--workers", "1").code == 0
    assert len(list((tmp_path / "a").glob("*/run.json"))) == 6


def test_another_model_to_begin_at_is_another_run(tmp_path: Path) -> None:
    paths = []
    for seed in (0, 1):
        (planned,) = plan({**CELL, "seed": seed})
        list(execute(prepare(planned), tmp_path))
        paths.append(tmp_path / planned.id)
    begun = [bind({**CELL, "start": f"run(path={path})"}) for path in paths]
    assert begun[0].config["start_model"] != begun[1].config["start_model"]
    assert len({planned.id for planned in begun} | {bind(CELL).id}) == 3


def test_a_model_that_is_not_there_or_does_not_fit_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (planned,) = plan(CELL)
    list(execute(prepare(planned), tmp_path))
    with pytest.raises(ConfigError, match=r"has 650 numbers, and this one 2\d+: both must be the same model"):
        prepare(bind({**CELL, "model": "mlp", "start": f"run(path={tmp_path / planned.id})"}))
    file = write(tmp_path / "x.toml", 'dataset = "digits"\nstart = "run(path=nowhere)"')
    gone = call(capsys, "run", file, "--out", tmp_path / "b")
    assert gone.code == 2
    assert "nowhere" in gone.err
    assert "there is no run at nowhere" in gone.err
    for choices in ({"algorithm": "solo"}, {"buffers": "local"}):
        (own,) = plan({**CELL, **choices})
        list(execute(prepare(own), tmp_path))
        with pytest.raises(ConfigError, match="every party has a model of its own"):
            bind({**CELL, "start": f"run(path={tmp_path / own.id})"})
    begun = execute(prepare(bind({**CELL, "seed": 5})), tmp_path / "c")
    next(begun)
    begun.close()
    with pytest.raises(ConfigError, match="is not finished"):
        bind({**CELL, "start": f"run(path={next((tmp_path / 'c').iterdir())})"})


def test_a_model_that_other_runs_may_start_from_is_stored(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = f'dataset = "digits"\nmodel = "linear"\nrounds = 1\nsolver = "{SGD}"\nstart = "centralised(rounds=2)"'
    file, out = write(tmp_path / "x.toml", lines), tmp_path / "runs"
    assert call(capsys, "run", file, "--out", out, "--records-only").code == 0
    (kept,) = out.glob("*/checkpoint")
    assert read_run(kept.parent).label["algorithm"] == "combined"
    assert call(capsys, "run", file, "--out", out, "--set", "partition=shards(1)").code == 0
    shutil.rmtree(kept)
    gone = call(capsys, "run", file, "--out", out, "--set", "partition=shards(2)")
    assert gone.code == 2
    assert "delete that run to make it anew" in gone.err


def test_a_run_does_not_begin_at_one_that_is_not_finished(tmp_path: Path) -> None:
    origin, planned = plan({**CELL, "start": "centralised(rounds=3)"})
    begun = execute(prepare(origin), tmp_path)
    next(begun)
    begun.close()
    with pytest.raises(ConfigError, match="is not finished"):
        list(execute(prepare(planned), tmp_path))


def test_runs_that_differ_in_their_partition_begin_at_one_model(tmp_path: Path) -> None:
    counts = tmp_path / "counts.csv"
    counts.write_text("\n".join(["1,2,3,4,5,6,7,8,9,10"] * 12))
    cells = [{**CELL, "partition": p, "start": "centralised(rounds=2)"} for p in ("iid", f"like(reference={counts})")]
    first, second = (bind(cell).origin for cell in cells)
    assert first
    assert second
    assert first.id == second.id


def test_statistics_of_the_model_a_run_begins_at_come_with_it(tmp_path: Path) -> None:
    cell = {**CELL, "model": "resnet(depth=20)", "buffers": "local", "start": "centralised(rounds=1)", "rounds": 1}
    origin, planned = plan({**cell, "solver": "sgd(lr=0.01, steps=1, batch=8)", "parties": 2})
    assert "buffers" not in origin.label
    list(execute(prepare(origin), tmp_path))
    list(execute(prepare(planned), tmp_path))
    before, after = (load_state(tmp_path / p.id).server.buffers for p in (origin, planned))
    torch.testing.assert_close(after, before)
    assert not torch.equal(before, prepare(origin).setting.task.buffers)
