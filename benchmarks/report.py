"""What was measured, as tables and as RESULTS.md: machine, versions, times, targets met and not met."""

import json
import os
import platform
import statistics
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import metadata
from itertools import pairwise
from pathlib import Path

from harness import HERE, Measured
from workloads import Workload

OURS = "silobench"
QUIET = 0.05  # the share of the processors that others may take
PACKAGES = {"flower": ("flwr", "ray", "torch"), "pfl": ("pfl", "torch")}


@dataclass(frozen=True)
class Found:
    """One workload, measured."""

    workload: Workload
    stand_in: bool
    measured: dict[str, Measured]
    failed: tuple[str, ...] = ()  # contenders that ended too soon

    def ratios(self, name: str) -> list[float]:
        """A contender's time over silobench's, repeat by repeat: above 1, silobench is faster."""
        return ratios(self.measured, name, OURS)

    def same_round(self) -> int | None:
        """The last round whose accuracy is known of all contenders."""
        common = set.intersection(*(set(m.accuracy) for m in self.measured.values())) if self.measured else set()
        return max(common, default=None)


@dataclass(frozen=True)
class Scaling:
    """silobench against itself."""

    epochs: dict[str, Measured]  # by number of epochs
    workers: dict[str, dict[str, Measured]]  # by workload and number of workers
    algorithms: dict[str, dict[str, Measured]]  # by workload and algorithm

    def bend(self) -> float:
        """The largest deviation of a slope between neighbours from that between 1 and 8 epochs, as a share of it."""
        counts = sorted(self.epochs, key=int)
        deviations = []
        for pair in pairwise(counts):
            whole, part = self._slopes(counts[0], counts[-1]), self._slopes(*pair)
            deviations.append(statistics.median(p / w for p, w in zip(part, whole, strict=True)) - 1)
        return max(map(abs, deviations))

    def _slopes(self, few: str, many: str) -> list[float]:
        """Seconds for an epoch more, by repeat."""
        pairs = zip(self.epochs[few].seconds, self.epochs[many].seconds, strict=True)
        return [(longer - shorter) / (int(many) - int(few)) for shorter, longer in pairs]

    def gain(self, workload: str) -> list[float]:
        return ratios(self.workers[workload], "1", "2")

    def cost(self, workload: str, algorithm: str) -> list[float]:
        (name,) = (name for name in self.algorithms[workload] if name.startswith(algorithm))
        return ratios(self.algorithms[workload], name, "fedavg")

    def text(self) -> str:
        rows = [[f"{count} epochs", f"{m.median:.3f} s a round"] for count, m in self.epochs.items()]
        rows += [["largest deviation of the slope", f"{self.bend():.1%}"]]
        rows += [[f"{name}: 2 workers against 1", f"{spread(self.gain(name))} times as fast"] for name in self.workers]
        for workload, model in zip(self.algorithms, ("CNN", "MLP"), strict=True):
            for name in ("fedprox", "scaffold"):
                rows.append([f"{name} against fedavg, {model}", f"{spread(self.cost(workload, name))} of its time"])
        groups = [self.epochs, *self.workers.values(), *self.algorithms.values()]
        about = "silobench against itself; the model is not tested where epochs (of W6) or algorithms are compared."
        warnings = filter(None, map(unquiet, groups))
        return "\n".join(["## Scaling", "", about, "", markdown(["", "measured"], rows), "", *warnings])


def ratios(measured: dict[str, Measured], name: str, base: str) -> list[float]:
    pairs = zip(measured[name].seconds, measured[base].seconds, strict=True)
    return [seconds / of_base for seconds, of_base in pairs]


def table(found: Found) -> str:
    """A workload's section."""
    workload, measured = found.workload, found.measured
    at = found.same_round()
    rows = []
    for name, m in measured.items():
        ratio = "1" if name == OURS else spread(found.ratios(name)) if OURS in measured else ""
        accuracy = f"{m.accuracy[at]:.4f}" if at else ""
        rows.append([name, f"{m.median:.4g}", ratio, f"{m.memory / 1e6:,.0f}", f"{m.start_up:.1f}", accuracy])
    head = ["contender", f"s / {workload.per}", "by silobench's", "MB", "start-up, s", f"accuracy, round {at}"]
    lines = [f"## {workload.name}: {workload.title}", ""]
    if found.stand_in:
        lines += ["Random rows of the same shape stand in for the dataset.", ""]
    lines += [markdown(head, rows), ""]
    lines += [f"**{name} failed** and was left out." for name in found.failed]
    if OURS in measured and (overhead := measured[OURS].overhead) is not None:
        lines += [f"Of silobench's time {overhead:.1%} is neither training nor testing.", ""]
    return "\n".join(lines) + unquiet(measured)


def unquiet(measured: dict[str, Measured]) -> str:
    """A warning, where there is reason for one."""
    most = max((m.disturbed for m in measured.values()), default=0)
    if most <= QUIET:
        return ""
    return f"**The machine was not quiet**: others took up to {most:.0%} of it during a repeat.\n"


def spread(values: Sequence[float]) -> str:
    return f"{statistics.median(values):.2f} ({min(values):.2f} to {max(values):.2f})"


def markdown(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] + ["---:"] * (len(head) - 1), *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


# --- targets -----------------------------------------------------------------------------------------

FASTER = {  # than a contender by so many times, at least
    "torch": {"W1": 3},
    "plain": {"W1": 4, "W2": 20, "W3": 12, "W4": 3, "W5": 20, "W6": 10},
    "tuned": {"W1": 0.9, "W2": 0.9, "W3": 0.9, "W4": 0.9, "W5": 0.9, "W6": 0.9},
    "flower": {"W1": 1, "W2": 8, "W3": 80, "W4": 1},
    "pfl": {"W1": 1, "W2": 6, "W3": 8, "W4": 1},
}
OVERHEAD = {"W1": 0.03, "W3": 0.10}
START_UP = 6.0  # seconds to the end of the first round
MEMORY = {"W1": 0.7e9}
BEND, GAIN, COST = 0.10, 1.5, 1.10


def targets(found: Sequence[Found], scaling: Scaling | None) -> str:
    """Every target with what was measured; what was not measured is not there."""
    rows: list[list[str]] = []

    def row(what: str, bound: str, seen: str, met: bool) -> None:
        rows.append([what, bound, seen, "met" if met else "**not met**"])

    for one in found:
        name, own = one.workload.name, one.measured.get(OURS)
        if own is None:
            continue
        for other, bounds in FASTER.items():
            if other in one.measured and name in bounds:
                seen = statistics.median(one.ratios(other))
                row(f"{name}, time of {other} by silobench's", f"≥ {bounds[name]}", f"{seen:.2f}", seen >= bounds[name])
        if name in OVERHEAD and own.overhead is not None:
            row(f"{name}, overhead", f"≤ {OVERHEAD[name]:.0%}", f"{own.overhead:.1%}", own.overhead <= OVERHEAD[name])
        row(f"{name}, start-up", f"≤ {START_UP:.0f} s", f"{own.start_up:.1f} s", own.start_up <= START_UP)
        if name in MEMORY:
            bound, seen = (f"{size / 1e6:,.0f} MB" for size in (MEMORY[name], own.memory))
            row(f"{name}, memory", f"≤ {bound}", seen, own.memory <= MEMORY[name])
    if scaling is not None:
        row("epochs, deviation of the slope", f"≤ {BEND:.0%}", f"{scaling.bend():.1%}", scaling.bend() <= BEND)
        for name in scaling.workers:
            seen = statistics.median(scaling.gain(name))
            row(f"{name}, 2 workers against 1", f"≥ {GAIN}", f"{seen:.2f}", seen >= GAIN)
        for workload in scaling.algorithms:
            for algorithm in ("fedprox", "scaffold"):
                seen = statistics.median(scaling.cost(workload, algorithm))
                row(f"{workload}, {algorithm} against fedavg", f"≤ {COST:.2f}", f"{seen:.2f}", seen <= COST)
    return markdown(["target", "bound", "measured", ""], rows)


# --- the page ----------------------------------------------------------------------------------------

ABOUT = """\
Times are medians over {repeats} repeats; in each repeat all contenders take their turn, one at a time while the others
wait, and ratios are of times of the same repeat: median (smallest to largest). Above 1, silobench is faster. Memory is
the largest proportional set size of all processes of a contender; start-up is from the start of its process to the
beginning of its first round: to the end of that, less what a later round takes. Both are of a contender that runs
alone.

- **silobench**: a configuration bound, prepared and executed into a run directory, with its checkpoints.
- **torch**: the same without the native step: PyTorch in worker processes, multilayer perceptrons stacked.
- **plain**: the loop that a competent user writes: torch.optim.SGD, resident float tensors, torch's default threads. On
  W5 it makes each batch of sparse rows dense.
- **tuned**: the best that we know to write by hand for each workload, with the same maths; `contenders/tuned` says how.
- **flower**: flwr's simulation in Ray, one core for each client process.
- **pfl**: Apple's pfl, in one process; for the CNN in one a core, of one thread each.

All begin at the same model, over the same rows for each party (pixels as 0..1): SGD of rate 0.01 and momentum 0.9 that
begins anew in every party and round, no weight decay, a new order of rows in each epoch, the last short batch kept,
averages weighted by rows, the whole test set after each round (W3: after each 100). Cohorts are drawn uniformly without
replacement. To that end were set, where the frameworks' defaults are others: in Flower one core a client (instead of
two), central testing instead of the clients' own, the sizes of cohorts; in pfl weights by rows, a central SGD of rate
1, rows in a new order each epoch, cohorts without replacement, no evaluation on users.
"""


def page(found: Sequence[Found], scaling: Scaling | None, repeats: int, pythons: dict[str, str]) -> str:
    lines = ["# Benchmark results", "", f"Written by `bench.py` on {datetime.now(UTC):%Y-%m-%d}.", ""]
    lines += [ABOUT.format(repeats=repeats), *(f"- {fact}" for fact in (*machine(), *versions(pythons))), ""]
    lines += ["## Targets", "", targets(found, scaling), "", *(table(one) for one in found)]
    lines += [scaling.text()] if scaling is not None else []
    return "\n".join(lines)


def machine() -> list[str]:
    processor = _field("/proc/cpuinfo", "model name")
    gigabytes = int(_field("/proc/meminfo", "MemTotal").split()[0]) / 1024**2
    return [f"{processor}, {os.cpu_count()} cores, {gigabytes:.0f} GiB", f"{platform.system()} {platform.release()}"]


def _field(path: str, name: str) -> str:
    lines = Path(path).read_text().splitlines()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith(name)), "unknown")


def versions(pythons: dict[str, str]) -> list[str]:
    commit = _output("git", "-C", str(HERE), "rev-parse", "--short", "HEAD")
    changed = " with changes" if _output("git", "-C", str(HERE), "status", "--porcelain", "--", "../src") else ""
    own = ", ".join(f"{name} {metadata.version(name)}" for name in ("torch", "numpy"))
    found = [f"silobench {commit}{changed}, Python {platform.python_version()}, {own}"]
    for name, packages in PACKAGES.items():
        if name in pythons:
            code = f"import importlib.metadata as m, json; print(json.dumps([m.version(p) for p in {packages!r}]))"
            numbers = json.loads(_output(pythons[name], "-c", code) or "[]")
            found.append(", ".join(f"{p} {number}" for p, number in zip(packages, numbers, strict=False)))
    return found


def _output(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
