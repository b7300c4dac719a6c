"""Measure split learning against the same network in one place, trained by plain PyTorch on one thread.

    python benchmarks/split.py                     # all cases, a minute
    python benchmarks/split.py --only credit --repeats 10

Both sides take turns in one process, and times are those of the processor, so that the ratio is fair on a busy machine.
Plain PyTorch is one graph over all columns, `loss.backward()` and `torch.optim.Adam`; split learning adds messages,
byte counts and the clock. A dataset that is not stored is left out.
"""

import argparse
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from silobench.data import load
from silobench.errors import DataError
from silobench.loop.clocks import measured
from silobench.loop.loop import one_thread
from silobench.loop.network import link
from silobench.method.solvers import SOLVERS
from silobench.method.transforms import bind_chain
from silobench.processes import keep_memory
from silobench.tasks.objectives import OBJECTIVES
from silobench.vertical.federation import federate_columns
from silobench.vertical.methods import VERTICAL_ALGORITHMS, VerticalProblem
from silobench.vertical.networks import VERTICAL_MODELS

STEPS = 100  # in a turn


@dataclass(frozen=True)
class Case:
    """A dataset, how its columns are dealt, and a model."""

    dataset: str
    partition: str
    model: str
    transforms: str = ""

    @property
    def name(self) -> str:
        return f"{self.dataset} {self.model} {self.transforms}".strip()

    def problem(self) -> VerticalProblem:
        dataset = load(self.dataset)
        federation = federate_columns(dataset, self.partition, None, seed=0)
        chain = tuple(transform.build() for transform in bind_chain(self.transforms))
        return VerticalProblem(
            federation, VERTICAL_MODELS.build(self.model), SOLVERS.build(f"adam(batch=128, steps={STEPS})"),
            OBJECTIVES.build("auto")(dataset), link(), measured(), 0, 1, transforms=chain, broadcast=chain,
        )  # fmt: skip


CASES = (
    Case("credit-default", "columns", "linear"),
    Case("credit-default", "columns", "mlp"),
    Case("credit-default", "columns", "mlp", "quantize(bits=8)"),
    Case("adult", "columns(by=block)", "mlp"),
    Case("movielens-omdb", "columns", "mlp"),
    Case("movielens-omdb", "columns", "dlrm"),
    Case("movielens-omdb", "columns", "ncf"),
)


def in_one_place(problem: VerticalProblem, batches: Sequence[Tensor]) -> float:
    """Return the processor's seconds per batch of plain PyTorch."""
    network, x, y = problem.network(), problem.federation.x, problem.federation.y
    optimizer = torch.optim.Adam(network.parameters(), lr=0.001)
    since = time.process_time()
    for rows in batches:
        optimizer.zero_grad()
        problem.objective.loss(network(x.index_select(0, rows)), y.index_select(0, rows)).backward()
        optimizer.step()
    return (time.process_time() - since) / len(batches)


def split(problem: VerticalProblem) -> float:
    """Return the processor's seconds per batch of split learning."""
    trainer = VERTICAL_ALGORITHMS.build("split").trainer(problem)
    state = trainer.initial()
    since = time.process_time()
    trainer.round(state, {})
    return (time.process_time() - since) / STEPS


def measure(case: Case, repeats: int) -> str:
    """Return a line of the table: milliseconds per batch on both sides, at their fastest, and the ratio."""
    problem = case.problem()
    rows, sizes = problem.solver.visits(problem.federation.visitor, 0, 0)
    batches = rows.split(sizes)
    split(replace(problem, solver=replace(problem.solver, steps=5)))  # loads data, and fills caches
    turns = [(in_one_place(problem, batches), split(problem)) for _ in range(repeats)]
    plain, ours = (min(side) for side in zip(*turns, strict=True))
    parties = len(problem.federation.deal)
    return f"{case.name:42} {parties:7} {1e3 * plain:10.3f} {1e3 * ours:10.3f} {ours / plain:7.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="a part of the names of cases")
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_args()
    keep_memory()
    print(f"{'case':42} {'parties':>7} {'plain ms':>10} {'split ms':>10} {'ratio':>7}")
    for case in CASES:
        if arguments.only in case.name:
            try:
                with one_thread():
                    print(measure(case, arguments.repeats), flush=True)
            except DataError as error:
                print(f"{case.name:42} left out: {error}")


if __name__ == "__main__":
    main()
