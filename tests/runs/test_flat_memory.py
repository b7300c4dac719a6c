"""Memory does not grow with the number of rounds: what a round leaves behind is on disk."""

import gc
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest

from silobench.runs.execute import execute
from silobench.runs.experiment import bind
from silobench.runs.prepare import prepare
from silobench.runs.writer import RunWriter
from silobench.training.state import RoundRecord

WARM, ROUNDS = 40, 140
LEAST_LEAK = 100  # bytes a round: a record, a tuple of a cohort or a line of rounds.jsonl takes several times as much


def growth(out: Path, **choices: str) -> float:
    """Return by how many bytes a round the objects of a run grow, once every party has taken part."""
    whole = {"dataset": "fcube", "model": "linear", "parties": 4, "participation": 2, "rounds": ROUNDS}
    records = execute(
        prepare(bind({**whole, "solver": "sgd(steps=1, batch=8)", "eval_every": 20, **choices})),
        out,
        "inline",
        commit_each=True,
    )
    tracemalloc.start()
    try:
        sizes = {}
        for record in records:
            number = record.round
            del record  # the generator has the last state anyway
            if number in (WARM, ROUNDS - 1):
                gc.collect()
                sizes[number] = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    return (sizes[ROUNDS - 1] - sizes[WARM]) / (ROUNDS - 1 - WARM)


@pytest.mark.parametrize(
    "choices",
    [
        {"algorithm": "fedavg"},
        {"algorithm": "scaffold", "selection": "round_robin"},
        {"algorithm": "fedavg", "transforms": "top-k(fraction=0.5, feedback=true)", "selection": "round_robin"},
    ],
    ids=["fedavg", "scaffold", "error feedback"],
)
def test_a_round_leaves_nothing_in_memory(tmp_path: Path, choices: dict[str, str]) -> None:
    assert growth(tmp_path, **choices) < LEAST_LEAK


def test_a_run_that_keeps_its_records_would_be_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept: list[RoundRecord] = []
    real: Callable[[RunWriter, RoundRecord], None] = RunWriter.append

    def keeping(writer: RunWriter, record: RoundRecord) -> None:
        kept.append(record)
        real(writer, record)

    monkeypatch.setattr(RunWriter, "append", keeping)
    assert growth(tmp_path, algorithm="fedavg") > LEAST_LEAK


def test_a_commit_writes_only_new_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Were all lines written again with each commit, a run would take time with the square of its rounds."""
    lengths: list[int] = []
    real: Callable[[RunWriter, bytes], None] = RunWriter._write_lines

    def counting(writer: RunWriter, lines: bytes) -> None:
        lengths.append(len(lines))
        real(writer, lines)

    monkeypatch.setattr(RunWriter, "_write_lines", counting)
    plan = bind({"dataset": "fcube", "model": "linear", "parties": 2, "rounds": 20, "solver": "sgd(steps=1)"})
    list(execute(prepare(plan), tmp_path, "inline", commit_each=True))
    (file,) = tmp_path.glob("*/rounds.jsonl")
    assert len(lengths) == 20
    assert sum(lengths) == file.stat().st_size
