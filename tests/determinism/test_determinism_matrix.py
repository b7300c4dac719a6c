"""The matrix: every part has a row, a few of its entries hold here, and it finds what is not deterministic."""

import itertools
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from determinism import comparison, runner
from determinism.examples import ELSEWHERE, KEYS, ROWS
from determinism.kinds import choices_of, is_built_in, kinds, parts
from determinism.matrix import Entry, Matrix, entry_of, made_column, markdown
from determinism.variations import VARIATIONS, Variation
from silobench.method.transforms import TRANSFORMS
from silobench.method.types import Context, Memory, Transform, Update
from silobench.runs.experiment import REGISTRIES, plan

FEW: dict[str, list[dict[str, Any]]] = {
    "algorithms": [choices_of("algorithms", name) for name in ("scaffold", "moon", "gaia")],
    "paces": [choices_of("paces", "buffered")],
    "transforms": [choices_of("transforms", "top-k"), choices_of("transforms", "secure-sum")],
    "vertical-algorithms": [choices_of("vertical-algorithms", "split")],
}


def here(variation: Variation, out: Path, rows: dict[str, list[dict[str, Any]]] = FEW) -> dict[str, dict[str, Any]]:
    """Make the runs of a column in this process."""
    runner.main({**variation.as_json(), "out": str(out), "rows": rows, "special": []})
    return {row: comparison.records(out / row) for row in rows}


def test_every_registry_has_a_row_or_a_reason() -> None:
    assert {*KEYS, *ELSEWHERE} == set(REGISTRIES)
    assert not {*KEYS} & {*ELSEWHERE}


def test_every_part_of_every_registry_has_a_run(tmp_path: Path) -> None:
    """A new part whose arguments have no defaults fails here, until it has an example."""
    rows = kinds(tmp_path)
    counts = {registry: sum(1 for name, _ in parts() if name == registry) for registry in KEYS}
    assert {row: len(rows[row]) for row in counts} == counts
    for row, (key, _) in KEYS.items():
        names = [name for name, factory in REGISTRIES[row].factories.items() if is_built_in(factory)]
        for name, choices in zip(sorted(names), rows[row], strict=True):
            assert name in choices[key].replace("_", "-"), f"{row}: {choices[key]} does not use {name}"
            assert plan(choices)


def test_shuffled_completion_and_other_surroundings_keep_the_bits(tmp_path: Path) -> None:
    expected = here(Variation("base", "inline"), tmp_path / "base")
    (shuffled,) = [each for each in VARIATIONS if each.name == "shuffled pool"]
    actual = here(shuffled, tmp_path / "shuffled")
    assert comparison.workers(tmp_path / "shuffled") == 3
    (elsewhere,) = [each for each in VARIATIONS if each.elsewhere]
    other_hash = {**elsewhere.environment, "PYTHONHASHSEED": "3", "OMP_NUM_THREADS": "2"}
    there = replace(elsewhere, base="inline", environment=other_hash, shuffle=5)
    (tmp_path / "there").mkdir()
    outside = made_column(there, tmp_path / "there", FEW, [], id)
    for row in FEW:
        assert entry_of(expected[row], actual[row]) == Entry(len(FEW[row]))
        assert entry_of(expected[row], outside[row]) == Entry(len(FEW[row]))


@pytest.fixture
def unstable() -> str:
    """Register a transform that depends on how many messages this process has seen; return its name."""
    calls = itertools.count(1)

    def unstable() -> Transform:
        """Scale each message a little more than the one before."""

        def encode(update: Update, memory: Memory, context: Context) -> tuple[Update, Memory]:
            scale = 1 + next(calls) / 1024
            return replace(update, total={name: part * scale for name, part in update.total.items()}), memory

        return Transform(encode=encode)

    TRANSFORMS.register(unstable)
    return "unstable"


def test_the_matrix_finds_what_depends_on_the_process(tmp_path: Path, unstable: Callable[[], str]) -> None:
    rows = {"transforms": [{**ROWS, "transforms": unstable}, {**ROWS, "transforms": "sign"}]}
    first, second = (here(Variation("base", "inline"), tmp_path / name, rows) for name in ("one", "two"))
    entry = entry_of(first["transforms"], second["transforms"])
    assert entry.text == "2 / 1"
    assert "differs in facts.model_sha256" in entry.problems[0]
    table = Matrix(["transforms"], {"again": {"transforms": entry}})
    assert Matrix.from_json(table.as_json()) == table
    assert "| transforms | 2 / 1 |" in markdown(table)
    assert len(table.problems) == 1


def test_a_run_that_is_missing_differs() -> None:
    entry = entry_of({"a": {"facts": 1}, "b": {"facts": 1}}, {"a": {"facts": 1}})
    assert entry.text == "2 / 1"
    assert "b differs" in entry.problems[0]
    assert comparison.difference(1, 1.0) == ": 1 and 1.0"
