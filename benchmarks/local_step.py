"""What the framework costs: one round of silobench against the same training as a plain PyTorch loop.

    make bench

Both train the same network on the same rows with the same number of steps, alternately in one process; the ratio
of their times is what counts, because absolute times on a shared machine do not.
"""

import statistics
import time
from collections.abc import Callable

import torch
from torch import nn

import silobench as sb

REPEATS = 7
EPOCHS = 2
BATCH = 32


def plain_round(federation: sb.Federation, module: nn.Module) -> int:
    """FedAvg's local training as a competent user writes it."""
    steps = 0
    start = nn.utils.parameters_to_vector(module.parameters()).detach().clone()
    for party in federation.parties:
        nn.utils.vector_to_parameters(start.clone(), module.parameters())
        optimizer = torch.optim.SGD(module.parameters(), lr=0.01, momentum=0.9, weight_decay=1e-5)
        for _ in range(EPOCHS):
            for rows in party.rows[torch.randperm(party.samples)].split(BATCH):
                x, y = federation.batch(rows)
                optimizer.zero_grad()
                nn.functional.cross_entropy(module(x), y).backward()
                optimizer.step()
                steps += 1
    return steps


def silobench_round(federation: sb.Federation, task: sb.Task, algorithm: sb.Algorithm) -> int:
    method = sb.Method(algorithm, sb.sgd(epochs=EPOCHS, batch=BATCH))
    return next(sb.rounds(method, federation, task, rounds=2, eval_every=2)).steps


def measure(dataset: str, model: str) -> None:
    data = sb.load(dataset)
    federation, task = sb.federate(data, "iid", parties=10), sb.task(model, data)
    contenders: dict[str, Callable[[], int]] = {
        "plain": lambda: plain_round(federation, sb.task(model, data).network.module)
    }
    for name, algorithm in (("fedavg", sb.fedavg()), ("fedprox", sb.fedprox()), ("scaffold", sb.scaffold())):
        contenders[name] = lambda algorithm=algorithm: silobench_round(federation, task, algorithm)  # type: ignore[misc]
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(REPEATS):
        for name, work in contenders.items():
            began = time.perf_counter()
            steps = work()
            times[name].append((time.perf_counter() - began) / steps)
    plain = statistics.median(times["plain"])
    print(f"{dataset}, {model}: plain loop {1e3 * plain:.2f} ms a step")
    for name in ("fedavg", "fedprox", "scaffold"):
        ratios = [ours / base for ours, base in zip(times[name], times["plain"], strict=True)]
        print(
            f"  silobench {name:9s} {statistics.median(ratios):.2f} of it (from {min(ratios):.2f} to {max(ratios):.2f})"
        )


if __name__ == "__main__":
    torch.set_num_threads(1)
    measure("digits", "cnn")
    measure("digits", "mlp(32, 16, 8)")
    measure("breast-cancer", "mlp(32, 16, 8)")
