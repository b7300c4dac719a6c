"""The tables of docs/scale.md, computed from measurements. Nothing in them is typed by hand."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from scaling.cluster import Machines, round_on
from scaling.model import Case, Spread, Term
from scaling.study import Study
from scaling.terms import COSTS
from silobench.analysis.units import duration, size

_ROUNDS = ("native round", "inline round")
_MILLION = Case(parties=1_000_000, cohort=1_000, rows=20, parameters=330, tested=2_000)
_SMALL, _LARGE = 4_522, 42_634  # parameters of mlp(64, 32) and mlp(256, 128) on 32 features
_MADE = {"s": duration, "B": size}


def tables(study: Study) -> dict[str, str]:
    """Return every table by its name on the page."""
    return {
        "machine": _machine(study),
        "seconds": _prices(study, _ROUNDS),
        "start": _prices(study, ("prepare", "open", "end", "commit")),
        "memory": _prices(study, ("resident", "peak")),
        "disk": _prices(study, ("run.json", "line", "last line", "checkpoint")),
        "fit": _fit(study),
        "beyond": _beyond(study),
        "million": _million(study),
        "limits": _limits(study),
        "setting": _prices(study, ("setting", "unpack")),
        "ray": _prices(study, ("ray start", "ray driver", "ray workers")),
        "nodes": _nodes(study),
    }


def markdown(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def amount(value: float, unit: str) -> str:
    """Return a cost with its unit, also one below a millisecond or a byte."""
    if value == 0:
        return "0"
    if unit == "s" and value < 1e-3:
        return f"{value * 1e6:.3g} µs" if value >= 1e-6 else f"{value * 1e9:.3g} ns"
    return _MADE[unit](value)


def _machine(study: Study) -> str:
    machine = study.machine
    return (
        f"{machine['cpu']}, {machine['cores']} cores, {size(machine['memory'])} of memory; Python {machine['python']}, "
        f"torch {machine['torch']}, NumPy {machine['numpy']}; {len(study.points)} measurements."
    )


def _prices(study: Study, names: Sequence[str]) -> str:
    """Return the prices of several costs: one row per term, one column per cost that has it."""
    terms: dict[tuple[str, str], Term] = {(term.name, term.per): term for name in names for term in COSTS[name].terms}
    rows = []
    for (name, per), term in terms.items():
        cells = [_price(study, cost, name, per) for cost in names]
        rows.append([f"per {per}", *cells, term.assumption])
    return markdown(["price", *(COSTS[name].title for name in names), "assumption"], rows)


def _price(study: Study, cost: str, name: str, per: str) -> str:
    fit = study.fits[cost]
    for term, price in zip(fit.terms, fit.prices, strict=True):
        if (term.name, term.per) == (name, per):
            return amount(price, COSTS[cost].unit)
    return ""


def _fit(study: Study) -> str:
    rows = []
    for name in study.fits:
        spread, further = study.spread(name), study.extrapolation(name)
        rows.append([COSTS[name].title, str(spread.count), _share(spread), _share(further) if further else ""])
    head = ["cost", "points", "error of the fit: median, largest", "fit to 1,000 parties, error at 10,000"]
    return markdown(head, rows)


def _share(spread: Spread) -> str:
    return f"{spread.median:.1%}, {spread.largest:.1%}"


def _beyond(study: Study) -> str:
    rows = []
    for point in study.beyond:
        case, unit, cost = point.case, COSTS[point.cost].unit, study.cost(point.cost, point.case)
        method = "SCAFFOLD" if case.vectors == 2 else "FedAvg"
        rows.append(
            [
                f"{case.parties:,}",
                f"{case.cohort:,}",
                method,
                COSTS[point.cost].title,
                amount(cost, unit),
                amount(point.value, unit),
                f"{cost / point.value:.2f}",
            ]
        )
    return markdown(["parties", "cohort", "method", "cost", "predicted", "measured", "ratio"], rows)


def _million(study: Study) -> str:
    """Return predictions for a million parties: a column for each of two models and two methods."""
    memory = {"vectors": 2, "remembered": _MILLION.parties}
    cases = {
        "linear, FedAvg": _MILLION,
        "mlp, FedAvg": replace(_MILLION, parameters=_SMALL),
        "linear, SCAFFOLD": replace(_MILLION, **memory),
        "mlp, SCAFFOLD": replace(_MILLION, parameters=_SMALL, **memory),
    }
    rows = []
    for cohort in (1_000, 10_000):
        of_cohort = [replace(case, cohort=cohort) for case in cases.values()]
        sums = [amount(case.bytes_up + case.bytes_down, "B") for case in of_cohort]
        rows.append([f"bytes of a round, cohort {cohort:,}", *sums])
        rows += [[f"{COSTS[name].title}, cohort {cohort:,}", *_costs(study, name, of_cohort)] for name in _ROUNDS]
    names = ("prepare", "open", "end", "commit", "resident", "peak", "run.json", "line", "last line", "checkpoint")
    rows += [[COSTS[name].title, *_costs(study, name, cases.values())] for name in names]
    return markdown(["cost", *cases], rows)


def _costs(study: Study, name: str, cases: Iterable[Case]) -> list[str]:
    return [amount(study.cost(name, case), COSTS[name].unit) for case in cases]


def _limits(study: Study) -> str:
    """Return how many parties fit the memory of this machine, and what then takes most of it."""
    memory, rows = study.machine["memory"], []
    for title, case in (
        ("linear, FedAvg, 2 rows per party", replace(_MILLION, rows=2)),
        ("linear, FedAvg, 20 rows per party", _MILLION),
        ("linear, SCAFFOLD, 20 rows per party", replace(_MILLION, vectors=2, remembered=_MILLION.parties)),
        ("mlp, SCAFFOLD, 20 rows per party", replace(_MILLION, parameters=_SMALL, vectors=2, remembered=1_000_000)),
    ):
        parts = study.fits["peak"].parts(case)
        fixed = parts.pop("process")
        most = (memory - fixed) / sum(parts.values()) * case.parties
        largest = max(parts, key=lambda name: parts[name])
        rows.append([title, f"{most / 1e6:.2g} million", f"{largest}: {parts[largest] / sum(parts.values()):.0%}"])
    return markdown(["run", f"parties that fit {size(memory)}", "largest part"], rows)


def _nodes(study: Study) -> str:
    """Return predictions for clusters of machines like this one."""
    rows = []
    for title, case in (
        ("linear, 20 rows", replace(_MILLION, parties=100_000, cohort=10_000)),
        ("mlp, 200 rows", replace(_MILLION, parties=100_000, cohort=10_000, rows=200, parameters=_SMALL)),
        ("mlp(256, 128), 2,000 rows", replace(_MILLION, parties=10_000, cohort=1_000, rows=2_000, parameters=_LARGE)),
    ):
        run, one = f"{title}, cohort {case.cohort:,}", round_on(study, case, Machines(1, study.machine["cores"]))
        native = study.cost("native round", replace(case, tested=0))
        alone = [amount(native, "s"), f"{one.seconds / native:.1f}"]
        rows.append([run, "one core, native, without Ray", "", amount(native, "s"), "", "", *alone, "", ""])
        for nodes in (1, 2, 10, 100):
            cluster = round_on(study, case, Machines(nodes, study.machine["cores"]))
            rows.append(
                [
                    run,
                    f"{nodes}",
                    f"{cluster.tasks:,}",
                    amount(cluster.parallel, "s"),
                    amount(cluster.driver, "s"),
                    amount(cluster.network, "s"),
                    amount(cluster.seconds, "s"),
                    f"{one.seconds / cluster.seconds:.1f}",
                    f"{amount(cluster.traffic / cluster.seconds, 'B')}/s",
                    f"{one.parallel / (one.driver + one.network):.1f}",
                ]
            )
    head = [
        "run",
        "nodes",
        "tasks",
        "training",
        "driver",
        "network",
        "round",
        "speed-up",
        "through the driver",
        "saturated at",
    ]
    return markdown(head, rows)
