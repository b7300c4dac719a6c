"""Write measurements as tables and as RESULTS.md: machine, versions, times, targets met and not met."""

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

from harness import ROOT, Measured
from silobench.processes import cpu_info
from workloads import Workload

OURS = "silobench"
QUIET = 0.05  # share of the processors that other programs may use without a warning
PACKAGES = {"flower": ("flwr", "ray", "torch"), "pfl": ("pfl", "torch")}


@dataclass(frozen=True)
class Result:
    """The measurements of one workload."""

    workload: Workload
    stand_in: bool
    measured: dict[str, Measured]
    failed: tuple[str, ...] = ()  # contenders that ended too soon

    def ratios(self, name: str) -> list[float]:
        """Return a contender's time divided by silobench's, by repeat: above 1, silobench is faster."""
        return ratios(self.measured, name, OURS)

    def same_round(self) -> int | None:
        """Return the last round for which the accuracy of all contenders is known."""
        common = set.intersection(*(set(m.accuracy) for m in self.measured.values())) if self.measured else set()
        return max(common, default=None)


@dataclass(frozen=True)
class Scaling:
    """silobench compared with itself."""

    epochs: dict[str, Measured]  # by number of epochs
    workers: dict[str, dict[str, Measured]]  # by workload and number of workers
    algorithms: dict[str, dict[str, Measured]]  # by workload and algorithm

    def bend(self) -> float:
        """Return the largest relative deviation of a slope between neighbours from the slope between 1 and 8 epochs."""
        counts = sorted(self.epochs, key=int)
        deviations = []
        for pair in pairwise(counts):
            whole, part = self._slopes(counts[0], counts[-1]), self._slopes(*pair)
            deviations.append(statistics.median(p / w for p, w in zip(part, whole, strict=True)) - 1)
        return max(map(abs, deviations))

    def _slopes(self, few: str, many: str) -> list[float]:
        """Return the seconds per additional epoch, by repeat."""
        pairs = zip(self.epochs[few].seconds, self.epochs[many].seconds, strict=True)
        return [(longer - shorter) / (int(many) - int(few)) for shorter, longer in pairs]

    def gain(self, workload: str) -> list[float]:
        return ratios(self.workers[workload], "1", "2")

    def cost(self, workload: str, algorithm: str) -> list[float]:
        (name,) = (name for name in self.algorithms[workload] if name.startswith(algorithm))
        return ratios(self.algorithms[workload], name, "fedavg")

    def text(self) -> str:
        rows = [[f"{count} epochs", f"{m.median:.3f} s per round"] for count, m in self.epochs.items()]
        rows += [["largest deviation of the slope", f"{self.bend():.1%}"]]
        rows += [[f"{name}: 2 workers vs 1", f"{spread(self.gain(name))} times as fast"] for name in self.workers]
        for workload, model in zip(self.algorithms, ("CNN", "MLP"), strict=True):
            for name in ("fedprox", "scaffold"):
                rows.append([f"{name} vs fedavg, {model}", f"{spread(self.cost(workload, name))} times as long"])
        groups = [self.epochs, *self.workers.values(), *self.algorithms.values()]
        about = "silobench compared with itself. Epochs (of W6) and algorithms are compared without testing the model."
        warnings = filter(None, map(unquiet, groups))
        return "\n".join(["## Scaling", "", about, "", markdown(["", "measured"], rows), "", *warnings])


def ratios(measured: dict[str, Measured], name: str, base: str) -> list[float]:
    pairs = zip(measured[name].seconds, measured[base].seconds, strict=True)
    return [seconds / of_base for seconds, of_base in pairs]


def table(result: Result) -> str:
    """Return the section of a workload."""
    workload, measured = result.workload, result.measured
    at = result.same_round()
    rows = []
    for name, m in measured.items():
        ratio = "1" if name == OURS else spread(result.ratios(name)) if OURS in measured else ""
        accuracy = f"{m.accuracy[at]:.4f}" if at else ""
        rows.append([name, f"{m.median:.4g}", ratio, f"{m.memory / 1e6:,.0f}", f"{m.start_up:.1f}", accuracy])
    head = ["contender", f"s / {workload.per}", "/ silobench", "MB", "start-up, s", f"accuracy, round {at}"]
    lines = [f"## {workload.name}: {workload.title}", ""]
    if result.stand_in:
        lines += ["Random rows of the same shape replace the dataset.", ""]
    lines += [markdown(head, rows), ""]
    lines += [f"**{name} failed** and was left out." for name in result.failed]
    if OURS in measured and (overhead := measured[OURS].overhead) is not None:
        lines += [f"Of silobench's time {overhead:.1%} is neither training nor testing.", ""]
    return "\n".join(lines) + unquiet(measured)


def unquiet(measured: dict[str, Measured]) -> str:
    """Return a warning if other programs disturbed a measurement, else nothing."""
    most = max((m.disturbed for m in measured.values()), default=0)
    if most <= QUIET:
        return ""
    return f"**The machine was not quiet**: other programs used up to {most:.0%} of it during a repeat.\n"


def spread(values: Sequence[float]) -> str:
    return f"{statistics.median(values):.2f} ({min(values):.2f} to {max(values):.2f})"


def markdown(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] + ["---:"] * (len(head) - 1), *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


# --- targets -----------------------------------------------------------------------------------------

FASTER = {  # least ratio of a contender's time to silobench's
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


def targets(results: Sequence[Result], scaling: Scaling | None) -> str:
    """Return a table of every target that was measured."""
    rows: list[list[str]] = []

    def row(what: str, bound: str, value: str, met: bool) -> None:
        rows.append([what, bound, value, "met" if met else "**not met**"])

    for result in results:
        name, ours = result.workload.name, result.measured.get(OURS)
        if ours is None:
            continue
        for other, bounds in FASTER.items():
            if other in result.measured and name in bounds:
                ratio = statistics.median(result.ratios(other))
                row(f"{name}, {other} / silobench", f"≥ {bounds[name]}", f"{ratio:.2f}", ratio >= bounds[name])
        if name in OVERHEAD and ours.overhead is not None:
            bound = OVERHEAD[name]
            row(f"{name}, overhead", f"≤ {bound:.0%}", f"{ours.overhead:.1%}", ours.overhead <= bound)
        row(f"{name}, start-up", f"≤ {START_UP:.0f} s", f"{ours.start_up:.1f} s", ours.start_up <= START_UP)
        if name in MEMORY:
            bound, value = (f"{size / 1e6:,.0f} MB" for size in (MEMORY[name], ours.memory))
            row(f"{name}, memory", f"≤ {bound}", value, ours.memory <= MEMORY[name])
    if scaling is not None:
        row("epochs, deviation of the slope", f"≤ {BEND:.0%}", f"{scaling.bend():.1%}", scaling.bend() <= BEND)
        for name in scaling.workers:
            gain = statistics.median(scaling.gain(name))
            row(f"{name}, 2 workers vs 1", f"≥ {GAIN}", f"{gain:.2f}", gain >= GAIN)
        for workload in scaling.algorithms:
            for algorithm in ("fedprox", "scaffold"):
                cost = statistics.median(scaling.cost(workload, algorithm))
                row(f"{workload}, {algorithm} vs fedavg", f"≤ {COST:.2f}", f"{cost:.2f}", cost <= COST)
    return markdown(["target", "bound", "measured", ""], rows)


# --- the page ----------------------------------------------------------------------------------------

ABOUT = """\
Times are medians over {repeats} repeats. In each repeat the contenders take turns: one runs while the others wait.
Ratios are of times of the same repeat: median (smallest to largest). Above 1, silobench is faster. Memory is the
largest proportional set size of all processes of a contender. Start-up is the time from the start of its process to the
start of its first round (the end of the first round minus the time of a later one). Memory and start-up are measured
while no other contender exists.

- **silobench**: a configuration is bound, prepared and executed into a run directory, with checkpoints.
- **torch**: silobench without the native step: PyTorch in worker processes, multilayer perceptrons stacked.
- **plain**: the loop that a competent user writes: torch.optim.SGD, resident float tensors, torch's default threads. On
  W5 it makes each batch of sparse rows dense.
- **tuned**: the best loop that we can write by hand for each workload, with the same maths (see `contenders/tuned`).
- **flower**: flwr's simulation in Ray, one core per client process.
- **pfl**: Apple's pfl in one process; for the CNN, one process of one thread per core.

All start from the same model and give each party the same rows (pixels as 0..1). All use SGD with rate 0.01, momentum
0.9 that restarts for every party and round, no weight decay, a new order of rows in each epoch, the last short batch,
averages weighted by rows, and the whole test set after each round (W3: after each 100). Cohorts are drawn uniformly
without replacement. To get this, some defaults were changed. In Flower: one core per client (instead of two), central
testing instead of testing by clients, the size of cohorts. In pfl: weights by rows, a central SGD with rate 1, a new
order of rows in each epoch, cohorts without replacement, no evaluation on users.
"""


def page(results: Sequence[Result], scaling: Scaling | None, repeats: int, pythons: dict[str, str]) -> str:
    lines = ["# Benchmark results", "", f"Written by `bench.py` on {datetime.now(UTC):%Y-%m-%d}.", ""]
    lines += [ABOUT.format(repeats=repeats), *(f"- {fact}" for fact in (*machine(), *versions(pythons))), ""]
    lines += ["## Targets", "", targets(results, scaling), "", *map(table, results)]
    lines += [scaling.text()] if scaling is not None else []
    return "\n".join(lines)


def machine() -> list[str]:
    processor = cpu_info("model name") or "unknown"
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 1024**3
    return [f"{processor}, {os.cpu_count()} cores, {memory:.0f} GiB", f"{platform.system()} {platform.release()}"]


def versions(pythons: dict[str, str]) -> list[str]:
    commit = _output("git", "-C", str(ROOT), "rev-parse", "--short", "HEAD")
    changed = " with changes" if _output("git", "-C", str(ROOT), "status", "--porcelain", "--", "../src") else ""
    packages = ", ".join(f"{name} {metadata.version(name)}" for name in ("torch", "numpy"))
    lines = [f"silobench {commit}{changed}, Python {platform.python_version()}, {packages}"]
    for name, side_packages in PACKAGES.items():
        if name in pythons:
            code = f"import importlib.metadata as m, json; print(json.dumps([m.version(p) for p in {side_packages!r}]))"
            numbers = json.loads(_output(pythons[name], "-c", code) or "[]")
            lines.append(", ".join(f"{p} {number}" for p, number in zip(side_packages, numbers, strict=False)))
    return lines


def _output(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
