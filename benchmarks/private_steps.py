"""Measure what a step of dp_sgd costs, next to a plain step of PyTorch and to Opacus, on one core.

python benchmarks/private_steps.py                              # 40 repeats of 25 steps each
python benchmarks/private_steps.py --repeats 10 --batch 64

A step is all that happens between two batches: drawing and reading the rows, the gradients, the noise and the move.
`plain` is a loop with torch.optim.SGD over shuffled batches. Repeats alternate between all of them, and a ratio is the
median over repeats of the core-seconds divided by those of `plain` in the same repeat. `dp_sgd` is meant to stay below
2.5 on the CNN and below 2 on the MLP. Opacus is measured where it can be imported, on the same layers as modules,
because its hooks do not see functions, and without its data loader, so that only its step counts.
"""

import argparse
import statistics
import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import silobench as sb
from silobench.method.solvers import SOLVERS, Problem
from silobench.method.types import Pull, Server

GOALS = {"cnn": 2.5, "mlp": 2.0}
SHAPES = {"cnn": (1, 28, 28), "mlp": (123,)}
ROWS, CLASSES = 2000, 10
Work = Callable[[int], object]  # (steps)


def data(shape: tuple[int, ...]) -> sb.Dataset:
    generator = np.random.default_rng(0)
    x = generator.normal(size=(ROWS, *shape)).astype(np.float32)
    split = sb.Split(x, generator.integers(0, CLASSES, ROWS))
    return sb.Dataset("noise", split, split, tuple(map(str, range(CLASSES))), "none")


def by_solver(spec: str, model: str, dataset: sb.Dataset) -> Work:
    """Return the training of one party by a solver of silobench."""
    federation, task = sb.federate(dataset, "iid", parties=1), sb.task(model, dataset)
    problem, server = Problem(task, federation, federation.parties[0], 0), Server(task.initial, {}, {}, 0, 1, {})
    solver = SOLVERS.build(spec)

    def work(steps: int) -> None:
        replace(solver, steps=steps).train(problem, task.initial, server, None, Pull(), {})

    return work


def layers(model: str) -> nn.Module:
    """Return a network of silobench as modules of torch."""
    if model == "mlp":
        widths = (*SHAPES["mlp"], 32, 16, 8, CLASSES)
        hidden = [layer for pair in pairwise(widths) for layer in (nn.Linear(*pair), nn.ReLU())]
        return nn.Sequential(*hidden[:-1])
    images = [layer for pair in ((1, 6), (6, 16)) for layer in (nn.Conv2d(*pair, 5), nn.ReLU(), nn.MaxPool2d(2))]
    dense = [layer for pair in pairwise((256, 120, 84, CLASSES)) for layer in (nn.Linear(*pair), nn.ReLU())]
    return nn.Sequential(*images, nn.Flatten(), *dense[:-1])


def by_torch(module: nn.Module, x: Tensor, y: Tensor, batch: int) -> Work:
    """Return a plain loop of torch."""
    optimizer = torch.optim.SGD(module.parameters(), lr=0.01)

    def work(steps: int) -> None:
        order = torch.randperm(len(x))
        for rows in order.split(batch)[:steps]:
            optimizer.zero_grad()
            F.cross_entropy(module(x[rows]), y[rows]).backward()
            optimizer.step()

    return work


def by_opacus(model: str, x: Tensor, y: Tensor, batch: int, ghost: bool) -> Work:
    """Return a loop of Opacus, by its hooks or by ghost clipping."""
    from opacus import GradSampleModule
    from opacus.grad_sample import GradSampleModuleFastGradientClipping
    from opacus.optimizers import DPOptimizer, DPOptimizerFastGradientClipping
    from opacus.utils.fast_gradient_clipping_utils import DPLossFastGradientClipping

    module = layers(model)
    plain, options = torch.optim.SGD(module.parameters(), lr=0.01), {"noise_multiplier": 1.0, "max_grad_norm": 1.0}
    options["expected_batch_size"] = batch
    if ghost:
        wrapped = GradSampleModuleFastGradientClipping(module, max_grad_norm=1.0, use_ghost_clipping=True)
        optimizer = DPOptimizerFastGradientClipping(plain, **options)
        criterion = DPLossFastGradientClipping(wrapped, optimizer, nn.CrossEntropyLoss())
    else:
        wrapped, optimizer, criterion = GradSampleModule(module), DPOptimizer(plain, **options), F.cross_entropy

    def work(steps: int) -> None:
        for _ in range(steps):
            rows = (torch.rand(len(x)) < batch / len(x)).nonzero().squeeze(1)
            optimizer.zero_grad()
            criterion(wrapped(x[rows]), y[rows]).backward()
            optimizer.step()

    return work


def contenders(model: str, batch: int) -> dict[str, Work]:
    dataset = data(SHAPES[model])
    x, y = torch.from_numpy(dataset.train.x), torch.from_numpy(dataset.train.y)
    works = {
        "plain": by_torch(sb.task(model, dataset).network.module, x, y, batch),
        "plain, torch's layers": by_torch(layers(model), x, y, batch),
        "sgd": by_solver(f"sgd(lr=0.01, batch={batch})", model, dataset),
        "dp_sgd": by_solver(f"dp_sgd(lr=0.01, noise=1, clip=1, batch={batch})", model, dataset),
        "dp_sgd, no noise": by_solver(f"dp_sgd(lr=0.01, noise=0, clip=1, batch={batch})", model, dataset),
    }
    try:
        for name, ghost in (("Opacus, hooks", False), ("Opacus, ghost", True)):
            works[name] = by_opacus(model, x, y, batch, ghost)
    except ImportError as error:
        print(f"Opacus is left out: {error}.")
    return works


def measured(works: dict[str, Work], repeats: int, steps: int) -> dict[str, list[float]]:
    """Return the core-seconds of a step, by repeat."""
    for work in works.values():
        work(steps)  # allocates memory, and chooses how gradients of single rows are computed
    seconds: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(repeats):
        for name, work in works.items():
            began = time.process_time()
            work(steps)
            seconds[name].append((time.process_time() - began) / steps)
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=40)
    parser.add_argument("--steps", type=int, default=25, help="of a repeat")
    parser.add_argument("--batch", type=int, default=64)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore", "Full backward hook")  # of Opacus, once per step
    for model, goal in GOALS.items():
        seconds = measured(contenders(model, arguments.batch), arguments.repeats, arguments.steps)
        print(f"{model}, batch {arguments.batch}, goal {goal}")
        for name, each in seconds.items():
            ratio = statistics.median(a / b for a, b in zip(each, seconds["plain"], strict=True))
            print(f"  {name:22} {1e3 * statistics.median(each):8.3f} ms  {ratio:6.2f}")


if __name__ == "__main__":
    main()
