"""Measure the networks that run on PyTorch: rows per second of one core, before and after what makes them faster.

    python benchmarks/networks.py                  # all cases, a few minutes
    python benchmarks/networks.py --only lstm --repeats 10

Both sides of a case take turns in one process, and times are those of the processor, so that the ratio is fair on a
busy machine. `--compile` adds torch.compile, which takes a minute or more to start.
"""

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from silobench.loop.loop import one_thread
from silobench.models import MODELS, Sizes
from silobench.models.lstm import row_lengths
from silobench.processes import keep_memory

VOCABULARY = 10_000


class Plain(nn.Module):
    """The network of `lstm` as one writes it with torch's layers: all steps of all rows, padding too."""

    def __init__(self, vectors: Tensor, hidden: int, dropout: float = 0.5):
        super().__init__()
        self.register_buffer("vectors", vectors, persistent=False)
        self.lstm = nn.LSTM(vectors.shape[1], hidden, 2, batch_first=True, dropout=dropout)
        self.out = nn.Linear(hidden, 2)

    def forward(self, x: Tensor) -> Tensor:
        states, _ = self.lstm(F.embedding(x, self.vectors))
        last = states[torch.arange(len(x)), row_lengths(x) - 1]
        return self.out(F.dropout(last, 0.3, self.training))


@dataclass(frozen=True)
class Case:
    """Two networks that compute the same, and the rows that they are trained on, batch by batch, and tested on."""

    name: str
    before: nn.Module
    after: nn.Module
    rows: Tensor
    batch: int


def texts(
    name: str, words: int, hidden: int, numbers: int, batch: int, share: tuple[float, float], rows_of_test: int = 1000
) -> Case:
    """Return a case of texts with lengths spread evenly between two shares of `words`, and words by Zipf's law."""
    rng = np.random.default_rng(0)
    shares = 1 / np.arange(1, VOCABULARY)
    x = rng.choice(VOCABULARY - 1, (rows_of_test, words), p=shares / shares.sum()) + 1
    x[np.arange(words) >= np.linspace(share[0] * words, share[1] * words, len(x))[:, None].round()] = 0
    rows = torch.from_numpy(rng.permutation(x).astype(np.int32))
    after = MODELS.build(f"lstm(hidden={hidden}, vectors=random-{numbers}d)").build(Sizes((words,), 2, VOCABULARY), 0)
    padding = "no padding" if share[0] == 1 else f"{(rows == 0).float().mean():.0%} padding"
    title = f"{name}: {words} words, {padding}, vectors of {numbers}, hidden {hidden}, batch {batch}"
    return Case(title, Plain(after.get_buffer("vectors"), hidden), after, rows, batch)


def images(depth: int, batch: int) -> Case:
    """Return a case of CIFAR's images: channels first, as in networks of former versions, and channels last."""
    networks = [MODELS.build(f"resnet(depth={depth}, norm=batch-stats)").build(Sizes((3, 32, 32), 10), 0) for _ in "12"]
    networks[0].channels_last = False  # type: ignore[assignment]
    rows = torch.rand(2 * batch, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    return Case(f"resnet(depth={depth}, norm=batch-stats), batch {batch}", *networks, rows, batch)


CASES: dict[str, Callable[[], Case]] = {
    "lstm-full": lambda: texts("lstm", 100, 64, 50, 64, (1, 1)),
    "lstm-full-128": lambda: texts("lstm", 100, 64, 50, 128, (1, 1)),
    "lstm-half": lambda: texts("lstm", 100, 64, 50, 64, (0.01, 1)),
    "lstm-short": lambda: texts("lstm", 100, 64, 50, 64, (0.05, 0.35)),
    "lstm-quarter": lambda: texts("lstm", 200, 64, 50, 64, (0.5, 1)),
    "lstm-oarf": lambda: texts("lstm", 200, 200, 300, 64, (0.5, 1), 192),
    "resnet20": lambda: images(20, 64),
    "resnet18": lambda: images(18, 32),
}


def step(network: nn.Module, rows: Tensor) -> None:
    network.zero_grad()
    network.train()(rows).square().sum().backward()


@torch.no_grad()
def test(network: nn.Module, rows: Tensor) -> None:
    network.eval()(rows)


def seconds(action: Callable[[nn.Module, Tensor], None], network: nn.Module, rows: Tensor) -> float:
    began = time.process_time()
    action(network, rows)
    return time.process_time() - began


def measure(case: Case, repeats: int, compiled: bool) -> str:
    """Return the lines of a case: rows per second of training and of a test."""
    networks = {"before": case.before, "after": case.after}
    if compiled:
        networks["compiled"] = torch.compile(case.after)
    batches = [rows for rows in case.rows.split(case.batch) if len(rows) == case.batch]
    lines = [case.name]
    for title, action, parts in (("training", step, batches), ("test", test, [case.rows])):
        first = {name: seconds(action, network, parts[0]) for name, network in networks.items()}
        turns = [
            {name: seconds(action, network, parts[turn % len(parts)]) for name, network in networks.items()}
            for turn in range(repeats)
        ]
        rates = {name: len(parts[0]) / float(np.median([turn[name] for turn in turns])) for name in networks}
        ratio = float(np.median([turn["before"] / turn["after"] for turn in turns]))
        text = ", ".join(f"{name} {rate:,.0f}" for name, rate in rates.items())
        start = f", first call of compiled {first['compiled']:.0f} s" if compiled else ""
        lines.append(f"  {title:9} {text} rows/s; ratio {ratio:.2f}{start}")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="cases whose name begins like this")
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--compile", action="store_true", help="also measure torch.compile")
    options = parser.parse_args()
    keep_memory()
    with one_thread():
        for name, case in CASES.items():
            if name.startswith(options.only):
                print(measure(case(), options.repeats, options.compile), flush=True)


if __name__ == "__main__":
    main()
