"""Fill the table of devices: seconds per round, memory and repeatability on a GPU and on this machine's CPU.

    python benchmarks/devices.py --device cuda                    # or: make bench DEVICE=cuda; writes DEVICES.md
    python benchmarks/devices.py --device cpu --only mlp          # a part of it, printed only

Each row is measured in processes of its own, twice: bits are the same if both end with the same model. Rows are random,
so nothing has to be downloaded. The table keeps the rows of other machines.
"""

import argparse
import hashlib
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

PAGE = Path(__file__).parent / "DEVICES.md"
ROUNDS = 4  # the first is a warm-up
COLUMNS = (
    "machine", "device", "network", "engine", "s / round", "times the CPU's auto", "peak memory, MB",
    "same bits in two runs", "difference from the CPU",
)  # fmt: skip


@dataclass(frozen=True)
class Case:
    """A network and its random rows: FedAvg over parties of equal size, one epoch of SGD per round."""

    model: str
    shape: tuple[int, ...]
    parties: int
    rows: int  # of a party
    batch: int = 32


CASES = {
    "mlp": Case("mlp(64, 32)", (100,), parties=100, rows=128),
    "wide mlp": Case("mlp(512, 256)", (784,), parties=32, rows=128),
    "cnn": Case("cnn", (3, 32, 32), parties=16, rows=96),
    "lenet": Case("lenet(norm=group)", (3, 32, 32), parties=16, rows=64),
    "resnet": Case("resnet(depth=20, norm=group)", (3, 32, 32), parties=4, rows=32),
}


@dataclass(frozen=True)
class Outcome:
    """What one process measured."""

    machine: str
    seconds: float  # of the fastest round after the first
    memory: int  # peak bytes: of the GPU, or of the process
    digest: str


def main() -> None:
    options = arguments()
    if options.one:
        print(json.dumps(asdict(measured(CASES[options.only[0]], options.device, options.one, options.models))))
        return
    rows = list(table(options.device, options.only))
    text = page(rows) if set(options.only) == set(CASES) else "\n".join(map(line, [COLUMNS, *rows]))
    print(text)
    if set(options.only) == set(CASES):
        PAGE.write_text(text)
        print(f"wrote {PAGE}", file=sys.stderr)


def arguments() -> argparse.Namespace:
    assert __doc__ is not None
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", required=True, choices=("cpu", "cuda", "cuda-nondeterministic", "mps"))
    parser.add_argument("--only", nargs="+", choices=tuple(CASES), default=list(CASES))
    parser.add_argument("--one", help=argparse.SUPPRESS)  # the engine of a process of its own
    parser.add_argument("--models", type=Path, help=argparse.SUPPRESS)
    return parser.parse_args()


# --- all rows -----------------------------------------------------------------------------------------


def table(device: str, names: list[str]) -> Iterator[tuple[str, ...]]:
    """Yield the rows of the table: each network on the CPU, then on the device."""
    places = [("cpu", "auto"), ("cpu", "inline"), ("cpu", "vmap")]
    places += [] if device == "cpu" else [(device, "inline"), (device, "vmap")]
    for name in names:
        with tempfile.TemporaryDirectory(prefix="sb-") as scratch:
            models = Path(scratch)
            pairs = {place: tuple(in_process(name, *place, models) for _ in range(2)) for place in places}
            seconds = {place: min(outcome.seconds for outcome in pair) for place, pair in pairs.items()}
            for (where, engine), (first, second) in pairs.items():
                yield (
                    first.machine,
                    where,
                    CASES[name].model,
                    engine,
                    f"{seconds[where, engine]:.3g}",
                    f"{seconds['cpu', 'auto'] / seconds[where, engine]:.2f}",
                    f"{max(first.memory, second.memory) / 1e6:.0f}",
                    "yes" if first.digest == second.digest else "no",
                    f"{difference(models, where, engine):.1e}",
                )


def in_process(name: str, device: str, engine: str, models: Path) -> Outcome:
    """Measure in a new process, so that memory is its own and CUDA starts anew."""
    print(f"{name}: {engine} on {device}", file=sys.stderr)
    command = [sys.executable, __file__, "--device", device, "--only", name, "--one", engine, "--models", str(models)]
    answer = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    return Outcome(**json.loads(answer.splitlines()[-1]))


def difference(models: Path, device: str, engine: str) -> float:
    """Return how far a model is from inline's on the CPU, relative to what training has changed."""
    names = ("start", f"{device}-{engine}", "cpu-inline")
    start, ours, theirs = (np.load(models / f"{name}.npy") for name in names)
    return float(np.linalg.norm(ours - theirs) / np.linalg.norm(theirs - start))


def page(rows: list[tuple[str, ...]]) -> str:
    """Return the page with these rows, and those of other machines and devices that it has."""
    measured_now = {row[:2] for row in rows}
    before = [tuple(cell.strip() for cell in text.strip("|").split("|")) for text in _old_lines()]
    kept = [row for row in before if row[:2] not in measured_now]
    head = [line(COLUMNS), "|" + "---|" * len(COLUMNS)]
    return "\n".join([*_TEXT, *head, *map(line, [*kept, *rows]), ""])


def _old_lines() -> list[str]:
    lines = PAGE.read_text().splitlines() if PAGE.exists() else []
    return [text for text in lines if text.startswith("| ")][1:]  # without the head of the table


def line(cells: tuple[str, ...]) -> str:
    return "| " + " | ".join(cells) + " |"


_TEXT = (
    "# Devices",
    "",
    "Written by `make bench DEVICE=cuda` (or `cpu`, `mps`), which adds the rows of the machine that it runs on.",
    f"FedAvg on random rows: two runs of {ROUNDS} rounds, of which the first is a warm-up and the fastest counts.",
    "*Times the CPU's auto* compares with `--engine auto` on the same machine's CPU, measured minutes before.",
    "*Difference from the CPU* is that of the final model from inline's on the CPU, relative to what training changed.",
    "Memory is the peak of the GPU's, or of the first process on a CPU.",
    "",
)


# --- one row, in a process of its own -----------------------------------------------------------------


def measured(case: Case, device: str, engine: str, models: Path) -> Outcome:
    """Train a few rounds; write the first and the last model to `models`."""
    import torch

    from silobench.engines import ENGINES
    from silobench.federation import federate
    from silobench.loop.rounds import rounds
    from silobench.method.algorithms import fedavg
    from silobench.method.method import Method
    from silobench.method.solvers import sgd
    from silobench.models.devices import resolved, type_of
    from silobench.tasks.task import task

    resolved(device)
    dataset = random_rows(case)
    network = task(case.model, dataset).to(device)
    federation = federate(dataset, "iid", parties=case.parties).to(type_of(device))
    method = Method(fedavg(), sgd(0.01, epochs=1, batch=case.batch))
    np.save(models / "start.npy", network.initial.numpy())
    seconds, began = [], time.perf_counter()
    for record in rounds(method, federation, network, rounds=ROUNDS, engine=ENGINES.build(engine)):
        seconds.append(time.perf_counter() - began)
        params, began = record.state.server.params, time.perf_counter()
    np.save(models / f"{device}-{engine}.npy", params.numpy())
    digest = hashlib.sha256(params.numpy().tobytes()).hexdigest()
    if type_of(device) == "cuda":
        memory = torch.cuda.max_memory_allocated()
    else:
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return Outcome(machine(device), min(seconds[1:]), memory, digest)


def random_rows(case: Case):  # type: ignore[no-untyped-def]  # silobench is imported only in such a process
    from silobench.data import Dataset, Split

    rng = np.random.default_rng(0)

    def split(count: int) -> Split:
        return Split(rng.normal(size=(count, *case.shape)).astype(np.float32), rng.integers(0, 10, count))

    return Dataset("random", split(case.parties * case.rows), split(100), tuple("0123456789"), "none")


def machine(device: str) -> str:
    """Return the name of the processor or of the GPU."""
    import torch

    from silobench.cli.doctor import processor
    from silobench.models.devices import type_of
    from silobench.processes import cores

    return torch.cuda.get_device_name() if type_of(device) == "cuda" else f"{processor()}, {cores()} cores"


if __name__ == "__main__":
    main()
