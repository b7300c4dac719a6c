"""What a run costs in time and messages: convergence, throughput, overhead, compression ratios, and where time went.

The definitions are those of OARF (Hu et al., 2022, section 4.3), in round time, where parties work side by side.
Records of earlier versions lack the fields that some of these numbers need: the number is then None.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from silobench.analysis.cells import CellResult
from silobench.analysis.groups import Cells
from silobench.analysis.statistics import deviation
from silobench.runs.label import Label
from silobench.runs.stored import StoredRun

SERVER, PARTIES = "server", "parties"  # the two bars of a decomposition
PARTS = ("train", "test", "encode", "encrypt", "communicate", "aggregate", "idle")  # of a bar, in the order shown
_WORK = ((PARTIES, "train"), (PARTIES, "test"), (SERVER, "test"))  # what is not overhead
_COMPRESSION = ("transforms", "broadcast")
PHASE_NUMBERS = ("up", "down", "messages", "seconds")  # of a phase of a secure sum: bytes, a count, and measured time
_PHASES = ("keys", "shares", "replies", "unmasking")  # in the order shown; those of other transforms come after them


# --- one run ------------------------------------------------------------------------------------------


def convergence(run: StoredRun) -> int | None:
    """Return the rounds until the schedule of a run ended it; None if it had all its rounds, or a budget ended it.

    Earlier runs do not record it, but a finished run with fewer rounds than planned was ended by its schedule.
    """
    last = run.rounds[-1]
    has_converged = last.converged or (len(run.rounds) < run.label.rounds and "ended" not in last.privacy)
    return len(run.rounds) if has_converged else None


def can_converge(run: StoredRun) -> bool:
    """Whether a run has a schedule that may end it."""
    return convergence(run) is not None or "plateau(" in str(run.config["solver"])


def throughput(run: StoredRun) -> float | None:
    """Return the rows that all parties trained on, per second of round time."""
    return _ratio(run.totals.rows, run.totals.time)


def core_throughput(run: StoredRun) -> float | None:
    """Return the rows that all parties trained on, per core-second of all work of parties and server."""
    return _ratio(run.totals.rows, run.totals.core)


def overhead(run: StoredRun) -> float | None:
    """Return the share of time in which the mean party does not train and no model is tested."""
    parts = run.totals.parts
    busy = _ratio(sum(parts.get(bar, {}).get(part, 0.0) for bar, part in _WORK), run.totals.time)
    return None if busy is None else max(0.0, 1 - busy)  # parts are rounded, and may exceed the total by that


def uplink_ratio(run: StoredRun) -> float | None:
    """Return how many times longer the parties' messages would be without transforms; None if nothing was sent."""
    return _ratio(run.totals.dense_up, run.totals.bytes_up)


def downlink_ratio(run: StoredRun) -> float | None:
    """Return how many times longer the server's messages would be without compression; None if nothing was sent."""
    return _ratio(run.totals.dense_down, run.totals.bytes_down)


def decomposition(run: StoredRun) -> dict[str, dict[str, float]]:
    """Return the seconds of round time by bar (server, mean party) and part; empty if they are not recorded."""
    parts = run.totals.parts
    return {bar: {part: parts[bar].get(part, 0.0) for part in PARTS} for bar in (SERVER, PARTIES) if bar in parts}


def mean_phases(run: StoredRun) -> dict[str, dict[str, float]]:
    """Return the bytes, messages and seconds of a mean round by phase of a secure sum; empty if it has none."""
    if not run.totals.has_phases:
        return {}
    named = dict.fromkeys(name for row in run.rounds for name in row.phases)
    return {
        name: {key: fmean(row.phases.get(name, {}).get(key, 0.0) for row in run.rounds) for key in PHASE_NUMBERS}
        for name in (*filter(named.__contains__, _PHASES), *(name for name in named if name not in _PHASES))
    }


def _ratio(over: float | None, under: float | None) -> float | None:
    return None if over is None or not under else over / under


NUMBERS: Mapping[str, Callable[[StoredRun], float | None]] = {
    "throughput": throughput,
    "throughput-core": core_throughput,
    "overhead": overhead,
    "uplink-ratio": uplink_ratio,
    "downlink-ratio": downlink_ratio,
}


# --- several runs -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Mean:
    """A mean over runs with its deviation, or a bound of it.

    `bound` is ">" if the true value is larger and "<" if it is smaller, because some run did not converge.
    """

    mean: float
    std: float | None = None
    bound: str = ""

    def as_json(self) -> dict[str, Any]:
        return {"mean": self.mean, "std": self.std, "bound": self.bound or None}


def mean_of(runs: Sequence[StoredRun], number: Callable[[StoredRun], float | None]) -> Mean | None:
    """Return a number over runs; None if some run does not have it."""
    known = [value for value in map(number, runs) if value is not None]
    return Mean(fmean(known), deviation(known)) if known and len(known) == len(runs) else None


def rounds_to_convergence(runs: Sequence[StoredRun]) -> Mean | None:
    """Return the rounds to convergence; None if no run has a schedule that may end it.

    A run that did not converge counts with all its rounds, so the mean is then a lower bound.
    """
    if not any(map(can_converge, runs)):
        return None
    rounds = [float(len(run.rounds)) for run in runs]
    censored = any(convergence(run) is None for run in runs)
    return Mean(fmean(rounds), None if censored else deviation(rounds), ">" if censored else "")


def uncompressed(cells: Cells) -> Callable[[CellResult], CellResult | None]:
    """Return a function from a cell to the one that differs only in that nothing is compressed; None without one."""

    def others(cell: CellResult) -> Label:
        return cell.label.without(*_COMPRESSION)

    plain = {others(cell): cell for cell in cells if not any(map(cell.label.text, _COMPRESSION))}
    return lambda cell: plain.get(others(cell))


def end_to_end_ratio(runs: Sequence[StoredRun], baseline: Sequence[StoredRun]) -> Mean | None:
    """Return the uplink ratio, times the rounds of the uncompressed baseline over the rounds that these runs took.

    None if it is unknown: nothing was sent, there is no convergence to count to, or neither side converged.
    """
    ratio = mean_of(runs, uplink_ratio)
    if ratio is None or list(map(id, runs)) == list(map(id, baseline)):
        return ratio
    own, other = rounds_to_convergence(runs), rounds_to_convergence(baseline)
    if own is None or other is None or (own.bound and other.bound):
        return None
    bound = other.bound or ("<" if own.bound else "")
    return Mean(ratio.mean * other.mean / own.mean, None, bound)


def mean_decomposition(runs: Sequence[StoredRun]) -> dict[str, dict[str, float]]:
    """Return the seconds of a run by bar and part, as a mean over runs; empty if some run does not have them."""
    each = [decomposition(run) for run in runs]
    if not all(each):
        return {}
    return {
        bar: {part: fmean(one[bar][part] for one in each) for part in PARTS}
        for bar in each[0]
        if all(bar in one for one in each)
    }


def phases_of_runs(runs: Sequence[StoredRun]) -> dict[str, dict[str, float]]:
    """Return the numbers of a mean round by phase of a secure sum, as a mean over runs; empty if some run has none."""
    each = list(map(mean_phases, runs))
    if not all(each):
        return {}
    names, nothing = dict.fromkeys(name for one in each for name in one), dict.fromkeys(PHASE_NUMBERS, 0.0)
    return {name: {key: fmean(one.get(name, nothing)[key] for one in each) for key in PHASE_NUMBERS} for name in names}


def costs_json(cell: CellResult, baseline: CellResult | None) -> dict[str, Any]:
    """Return the costs of a cell as plain values; None where its runs do not record them.

    `baseline` is the cell that differs only in that nothing is compressed, if there is one.
    """
    means = {
        "convergence": rounds_to_convergence(cell.runs),
        **{name: mean_of(cell.runs, number) for name, number in NUMBERS.items()},
        "end-to-end-ratio": end_to_end_ratio(cell.runs, baseline.runs) if baseline else None,
    }
    return {
        **{name: mean and mean.as_json() for name, mean in means.items()},
        "converged": [convergence(run) for run in cell.runs],
        "time": mean_decomposition(cell.runs) or None,
        **({"phases": phases} if (phases := phases_of_runs(cell.runs)) else {}),
    }
