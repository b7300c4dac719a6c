"""A kind of learning besides horizontal training: it is planned, run, stored, resumed and shown like any other."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from commands import call
from silobench.data import Dataset, load
from silobench.engines import Engine
from silobench.errors import ConfigError
from silobench.method.types import Server
from silobench.partitions import PARTITIONS, Partition, Skew
from silobench.runs import prepare as kinds
from silobench.runs.execute import execute
from silobench.runs.experiment import bind
from silobench.runs.plan import Plan
from silobench.runs.runnable import Kind
from silobench.runs.stored import read_run
from silobench.tasks.metrics import ACCURACY, Metric
from silobench.training.state import RoundRecord, State

CHOICES = {"dataset": "digits", "partition": "blocks-of-columns", "parties": 4, "rounds": 6, "model": "linear"}


@dataclass(frozen=True)
class RidgeByColumns:
    """Parties hold blocks of columns; in each round one of them fits the error that the others leave (backfitting)."""

    plan: Plan
    dataset: Dataset
    seconds: float = 0.0
    notes: tuple[str, ...] = ("parties hold columns",)
    metric: Metric = ACCURACY

    def facts(self) -> dict[str, Any]:
        data, plan = self.dataset, self.plan
        return {
            "id": plan.id, "config": plan.config, "label": plan.label, "created": plan.created,
            "dataset": {"name": data.name, "train": len(data.train), "test": len(data.test), "classes": data.classes},
            "partition": {"parties": [f"columns {party}" for party in range(4)], "fingerprint": "columns"},
            "parameters": 640,
        }  # fmt: skip

    def settled(self, engine: Engine, previous: str | None) -> Engine:
        return Engine(("inline",))

    def records(self, engine: Engine, out: Path, state: State | None) -> Iterator[RoundRecord]:
        weights = state.server.params if state else torch.zeros(640)
        for number in range(state.server.round if state else 0, self.plan.cell.rounds):
            weights, accuracy = self._fitted(weights.view(64, 10), number % 4)
            server = Server(weights, {}, {}, number + 1, 4, {})
            yield RoundRecord(
                round=number + 1, accuracy=accuracy, loss=1 - accuracy, train_loss=1 - accuracy, class_accuracy=None,
                accuracy_std=None, validation=None, party_accuracy=None, cohort=(number % 4,), steps=1, bytes_up=160,
                bytes_down=0, clock=float(number), knobs={}, engine="inline", workers=1, seconds={"train": 0.1},
                state=State(server),
            )  # fmt: skip

    def _fitted(self, weights: torch.Tensor, party: int) -> tuple[torch.Tensor, float]:
        rows = [split.x.reshape(len(split), -1) / 16 for split in (self.dataset.train, self.dataset.test)]
        block, after = slice(16 * party, 16 * party + 16), weights.double().numpy().copy()
        x, goals = rows[0][:, block].astype(np.float64), np.eye(10)[self.dataset.train.y] - 0.1
        left = goals - rows[0] @ after + x @ after[block]
        after[block] = np.linalg.solve(x.T @ x + np.eye(16), x.T @ left)
        hits = (rows[1] @ after).argmax(1) == self.dataset.test.y
        return torch.from_numpy(after.astype(np.float32)).reshape(-1), float(hits.mean())


def prepared(plan: Plan, dataset: Dataset | None) -> RidgeByColumns:
    if plan.cell.parties != 4:
        raise ConfigError(f"columns are dealt to 4 parties, not to {plan.cell.parties}: set parties = 4.")
    return RidgeByColumns(plan, dataset or load(plan.cell.dataset))


@pytest.fixture
def columns(monkeypatch: pytest.MonkeyPatch) -> None:
    def blocks_of_columns() -> Skew:
        """Parties hold columns, and all rows of them."""
        return Skew(lambda rows, parties, generator: Partition(()))

    monkeypatch.setattr(PARTITIONS, "factories", dict(PARTITIONS.factories))
    monkeypatch.setattr(PARTITIONS, "added_later", dict(PARTITIONS.added_later))
    PARTITIONS.register(blocks_of_columns)
    by_columns = Kind("by columns", lambda cell: cell.partition.startswith("blocks-of-columns"), prepared)
    monkeypatch.setattr(kinds, "KINDS", [by_columns, *kinds.KINDS])


def accuracies(path: Path) -> list[float | None]:
    return [row.accuracy for row in read_run(path).rounds]


@pytest.mark.usefixtures("columns")
def test_it_runs_resumes_and_stores_the_same_bits(tmp_path: Path) -> None:
    plan = bind(CHOICES)
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    list(execute(kinds.prepare(plan), whole))
    records = execute(kinds.prepare(plan), cut)
    next(records)
    records.close()
    assert len(accuracies(cut / plan.id)) == 1
    list(execute(kinds.prepare(plan), cut))
    first, second = (json.loads((out / plan.id / "run.json").read_text()) for out in (whole, cut))
    assert first["model_sha256"] == second["model_sha256"]
    assert accuracies(whole / plan.id) == accuracies(cut / plan.id)
    assert (accuracies(whole / plan.id)[-1] or 0) > 0.8 > 0.6 > (accuracies(whole / plan.id)[0] or 1)


@pytest.mark.usefixtures("columns")
def test_the_command_line_does_not_know_the_difference(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text = "\n".join(f"{key} = {json.dumps(value)}" for key, value in CHOICES.items())
    Path("columns.toml").write_text(
        text.replace('"blocks-of-columns"', '["iid", "blocks-of-columns"]') + "\ntrials = 2"
    )
    for command in (
        ["run", "columns.toml", "--out", "runs", "--workers", "1"],
        ["show", "runs"],
        ["show", "runs", "--details"],
        ["show", "runs", "--json"],
        ["claims", "runs"],
        ["report", "runs"],
    ):
        result = call(capsys, *command)
        assert result.code == 0, (command, result.err)
        if command[-1] == "--json":
            cells = {cell["partition"]: cell for cell in json.loads(result.out)["cells"]}
            assert cells["blocks-of-columns"]["parties"] == 4
            assert cells["blocks-of-columns"]["accuracy"]["mean"] > 0.8


@pytest.mark.usefixtures("columns")
def test_its_errors_come_before_the_first_round(tmp_path: Path) -> None:
    plans = [bind(CHOICES), bind({**CHOICES, "parties": 5})]
    kinds.check(plans[:1], tmp_path, Engine(("inline",)))
    with pytest.raises(ConfigError, match="set parties = 4"):
        kinds.check(plans, tmp_path, Engine(("inline",)))
