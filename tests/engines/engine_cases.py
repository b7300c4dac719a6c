"""Cases that several tests of engines share, and how two rounds are compared."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from torch import Tensor

from laws import BY_TORCH, EVERY, bits
from precision import bound, bound_of_steps
from silobench.data import digits
from silobench.engines import Engine
from silobench.loop.rounds import rounds
from silobench.method.algorithms import ALGORITHMS
from silobench.method.method import Method
from silobench.method.solvers import Solver, sgd
from silobench.method.types import Algorithm, Transform
from silobench.training.state import RoundRecord, State

DIGITS = digits()
AFFINE = [spec for spec in EVERY if spec not in BY_TORCH]
UNCORRECTED = [spec for spec in AFFINE if not any(name in spec for name in ("fedprox", "inside", "feddyn"))]
IN_STACKS, COMPILED = Engine(("stacked",)), Engine(("native",))


def run(spec: str | Algorithm, federated: Any, engine: Engine, solver: Solver, *transforms, **options):
    algorithm = ALGORITHMS.build(spec) if isinstance(spec, str) else spec
    return list(rounds(Method(algorithm, solver, transforms), *federated, engine=engine, **options))


def same(records: list[RoundRecord]) -> list[Any]:
    """All that two runs share to the bit: everything but the time it took, and where."""
    return [{k: v for k, v in bits(record).items() if k not in ("engine", "workers")} for record in records]


def inputs(kind: str, count: int, rng: np.random.Generator) -> Any:
    """Rows of nine numbers, images of nine pixels, or sparse rows, some of them empty."""
    if kind == "bytes":
        return rng.integers(0, 256, (count, 1, 3, 3), dtype=np.uint8)
    dense = rng.normal(size=(count, 9)).astype(np.float32)
    return sparse.csr_matrix(dense * (rng.random(dense.shape) < 0.2)) if kind == "sparse" else dense


def go_on(spec: str, federated: Any, engine: Engine, solver: Solver, state: State, *transforms) -> RoundRecord:
    """The second round, from the state after a first one."""
    (record,) = run(spec, federated, engine, solver, *transforms, rounds=2, state=state)
    return record


ROUNDING = bound_of_steps(40, 40)  # the longest of these rounds: two passes over 20 rows, one by one, by three layers


def near(ours: Tensor, theirs: Tensor, rel: float = ROUNDING) -> bool:
    """Whether two vectors are the same up to rounding: their own, and once that of the weights they were taken from."""
    ours, theirs = ours.double(), theirs.double()
    return bool((ours - theirs).norm() <= rel * theirs.norm() + bound(1))


def agree(ours: RoundRecord, theirs: RoundRecord, before: State) -> None:
    """Assert that two rounds from one state are the same up to rounding; a term left out is much more than that."""
    for fact in ("cohort", "steps", "bytes_up", "bytes_down", "clock"):
        assert getattr(ours, fact) == getattr(theirs, fact)
    assert ours.train_loss == pytest.approx(theirs.train_loss, rel=ROUNDING, abs=bound(1))
    moved, expected = (record.state.server.params - before.server.params for record in (ours, theirs))
    assert near(moved, expected)
    ours, theirs = ours.state, theirs.state
    assert ours.server.extras.keys() == theirs.server.extras.keys()
    assert all(near(ours.server.extras[name], extra) for name, extra in theirs.server.extras.items())
    assert ours.memory.keys() == theirs.memory.keys()
    for party, owners in theirs.memory.items():
        assert ours.memory[party].keys() == owners.keys()
        for owner, kept in owners.items():
            assert ours.memory[party][owner].keys() == kept.keys()
            assert all(near(ours.memory[party][owner][name], vector) for name, vector in kept.items())


@dataclass(frozen=True)
class Case:
    """A round of training: on what, by whom and how."""

    kind: str = "dense"
    spec: str = "fedavg"
    widths: tuple[int, ...] = ()
    sizes: tuple[int, ...] = (20, 1, 9)
    batch: int | str = 8
    passes: tuple[str, int] = ("epochs", 2)
    momentum: float = 0.9
    decay: float = 0.1
    keep: bool = False
    transforms: tuple[Transform, ...] = ()
    window: int = 1 << 19
    seed: int = 0

    @property
    def solver(self) -> Solver:
        return sgd(0.05, self.momentum, self.decay, batch=self.batch, keep_momentum=self.keep, **dict([self.passes]))

    @property
    def model(self) -> str:
        return f"mlp({', '.join(map(str, self.widths))})" if self.widths else "linear"

    def federated(self, silos) -> Any:
        rng, count = np.random.default_rng(self.seed), sum(self.sizes)
        return silos(inputs(self.kind, count, rng), rng.integers(0, 3, count), self.sizes, self.model)
