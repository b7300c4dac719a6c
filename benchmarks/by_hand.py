"""Measure what silobench writes by hand against the library that could replace it, in turns, as ratios.

    python benchmarks/by_hand.py        # about a minute; docs/decisions.md quotes the figures

The native step and the stacked engine have their own scripts, bench.py and engines.py.
"""

import statistics
import time
from collections.abc import Callable

import numpy as np
import torch
import torch.nn.functional as F
from joblib import Parallel, delayed
from torch import Tensor

import silobench as sb
from report import markdown, spread
from silobench.data.dataset import Dataset, Split
from silobench.engines.workers import Job, Workers
from silobench.models.mcmahan import _ALPHA, _BETA, _RADIUS, local_response_norm
from silobench.models.pooling import relu_of_pool

REPEATS = 7
BATCH = 64


def with_backward(function: Callable[[Tensor], Tensor], *shape: int) -> Callable[[], None]:
    """Return a call that runs a function on random input, forward and backward."""
    x = torch.rand(shape, requires_grad=True)

    def call() -> None:
        for _ in range(20):
            function(x).sum().backward()

    return call


def pool() -> tuple[Callable[[], None], Callable[[], None]]:
    shape = (BATCH, 6, 28, 28)
    return with_backward(relu_of_pool, *shape), with_backward(lambda x: F.relu(F.max_pool2d(x, 2)), *shape)


def response_norm() -> tuple[Callable[[], None], Callable[[], None]]:
    shape, width = (BATCH, 64, 12, 12), 2 * _RADIUS + 1

    def library(x: Tensor) -> Tensor:
        return F.local_response_norm(x, width, _ALPHA * width, _BETA, 1.0)

    x = torch.rand(shape)
    torch.testing.assert_close(local_response_norm(x), library(x))
    return with_backward(local_response_norm, *shape), with_backward(library, *shape)


def jobs() -> tuple[Callable[[], None], Callable[[], None]]:
    """Ten short jobs over one shared array of 60 MB, as a round of ten parties has them."""
    shared, workers = np.random.default_rng(0).random((60_000, 125)), Workers(2)

    def work(rows: np.ndarray, number: int) -> float:
        return float(rows[number::1000].sum())

    def ours() -> None:
        for _ in range(10):
            list(workers.results([Job(work, (shared,), (number,)) for number in range(10)]))

    def library() -> None:
        with Parallel(n_jobs=2) as parallel:
            for _ in range(10):
                parallel(delayed(work)(shared, number) for number in range(10))

    return ours, library


def stacked() -> tuple[Callable[[], None], Callable[[], None]]:
    """A round of ten equal parties of mlp(32, 16, 8): the stacked engine against torch.func.vmap, both on one core."""
    parties, rows, inputs = 10, 20 * BATCH, 123
    rng = np.random.default_rng(0)
    split = Split(rng.random((parties * rows, inputs), np.float32), rng.integers(0, 2, parties * rows))
    dataset = Dataset("random", split, Split(split.x[:10], split.y[:10]), ("a", "b"), "none")
    federation, task = sb.federate(dataset, "iid", parties), sb.task("mlp(32, 16, 8)", dataset)
    method = sb.Method(sb.fedavg(), sb.sgd(lr=0.01, epochs=1, batch=BATCH))
    module, x, y = task.network.module, torch.from_numpy(split.x), torch.from_numpy(split.y)

    def loss(params: dict[str, Tensor], x: Tensor, y: Tensor) -> Tensor:
        return F.cross_entropy(torch.func.functional_call(module, params, (x,)), y)

    gradients = torch.func.vmap(torch.func.grad(loss))

    def ours() -> None:
        list(sb.rounds(method, federation, task, rounds=1, engine=sb.stacked(workers=1)))

    def library() -> None:
        torch.set_num_threads(1)
        params = {name: p.detach().expand(parties, *p.shape).clone() for name, p in module.named_parameters()}
        velocity = {name: torch.zeros_like(p) for name, p in params.items()}
        orders = torch.stack([party.rows[torch.randperm(rows)] for party in federation.parties])
        for step in orders.split(BATCH, 1):
            for name, gradient in gradients(params, x[step], y[step]).items():
                velocity[name].mul_(0.9).add_(gradient)
                params[name].sub_(velocity[name], alpha=0.01)

    return ours, library


CASES = {
    "ReLU of 2 x 2 max-pool / torch": pool,
    "local response norm / torch": response_norm,
    "jobs in worker processes / joblib (loky)": jobs,
    "stacked engine / torch.func.vmap": stacked,
}


def main() -> None:
    torch.set_num_threads(1)
    print(
        markdown(["by hand / library", "times as fast"], [[name, spread(gains(case))] for name, case in CASES.items()])
    )


def gains(case: Callable[[], tuple[Callable[[], None], Callable[[], None]]]) -> list[float]:
    """Time both versions in turns; return the ratio of their times in each repeat."""
    ours, library = case()
    for warm_up in (ours, library):
        warm_up()
    return [seconds(library) / seconds(ours) for _ in range(REPEATS)]


def seconds(call: Callable[[], None]) -> float:
    return statistics.median(_timed(call) for _ in range(3))


def _timed(call: Callable[[], None]) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


if __name__ == "__main__":
    main()
