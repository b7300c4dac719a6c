"""The numbers of the quagmire study (Hsieh and others, ICML 2020), to stand beside ours."""

from collections.abc import Mapping
from functools import cache
from typing import Any, NamedTuple

from silobench.analysis.choices import begins_at_random, solver_of
from silobench.papers.hsieh2020.communication import (
    IID,
    METHODS,
    NONIID,
    Exchange,
    exchange_of,
    norm_of,
    percent_of,
    plain_model,
)
from silobench.papers.published import fraction, rows
from silobench.spec import parse

_TABLES = {6: ("gaia", "five"), 7: ("fedavg", "five"), 8: ("dgc", "five"), 9: ("bsp", "two")}
_STATED = "; what the text says is lost, of 79.2 (BatchNorm: of 78.9)"
SETTINGS = {
    **{
        f"quagmire Table {number}": f"the quagmire study, Table {number}: {parties} parties, 128 epochs"
        for number, (_, parties) in _TABLES.items()
    },
    **{
        f"quagmire Figure {number}": f"the quagmire study, Figure {number}: five parties, 128 epochs{_STATED}"
        for number in (5, 6)
    },
}
_MODELS = {"alexnet": "alexnet", "googlenet": "googlenet", "lenet": "lenet", "resnet(depth=20)": "resnet20"}
_CHOSEN = {"bsp": None, "gaia": 0.1, "fedavg": 20.0, "dgc": 8.0}  # the paper's settings, but in Tables 6 to 8
_SKEWS = {IID: "iid", NONIID: "noniid"}
_BASE = 0.792  # GN-LeNet under BSP, on iid data and not


class Range(NamedTuple):
    """What the paper gives of a number: one value, or from the least to the most."""

    least: float
    most: float


def quagmire_accuracy(label: Mapping[str, Any], parties: int) -> dict[str, Any] | None:
    """The paper's accuracy on CIFAR-10; None if it has no such cell.

    Tables 6 to 8 for networks as they are, Table 9 for two parties, Figures 5 and 6 for LeNet with normalisation. SGD
    has a momentum of 0.9 and batches of 20; its learning rate and the epochs may be others: `SETTINGS` has the paper's.
    """
    how = _papers(label)
    skew = _SKEWS.get(str(label["partition"]), "")
    if how is None:
        return None
    if parties == 2:
        return _number(_table9().get((_renormed(label), skew)), "Table 9") if how.method == "bsp" else None
    if parties != 5:
        return None
    if model := _MODELS.get(str(label["model"])):
        return _number(_tables().get((model, skew, how.method, how.theta)), f"Table {_table_of(how)}")
    if plain_model(label) != "lenet" or how.theta != _CHOSEN[how.method]:
        return None
    if found := _figure5().get((norm_of(label), skew, how.method)):
        return _number(found, "Figure 5")
    lost = _figure6().get((percent_of(label), how.method)) if norm_of(label) == "group" else None
    return _number(None if lost is None else round(_BASE - lost, 6), "Figure 6")


def quagmire_loss(label: Mapping[str, Any], parties: int) -> float | None:
    """What the paper's cell loses to BSP on iid data."""
    if flickr := _flickr(label):
        return flickr
    own = quagmire_accuracy(label, parties)
    iid = quagmire_accuracy({**label, "partition": IID, "algorithm": "bsp"}, parties)
    if own is None:
        return None
    if own["table"] in ("quagmire Figure 5", "quagmire Figure 6") and norm_of(label) == "group":
        return round(float(_BASE - own["mean"]), 6)
    return round(float(iid["mean"] - own["mean"]), 6) if iid else None


def _papers(label: Mapping[str, Any]) -> Exchange | None:
    """How its parties exchange, if data and solver are the paper's."""
    solver = solver_of(label)
    usual = (solver.get("momentum", 0.9), solver.get("batch")) == (0.9, 20) and begins_at_random(label)
    how = exchange_of(label)
    known = how is not None and how.method in _CHOSEN and not how.controlled
    return how if usual and known and parse(str(label["dataset"])).name == "cifar-10" else None


def _number(mean: float | None, where: str) -> dict[str, Any] | None:
    return None if mean is None else {"mean": mean, "std": None, "table": f"quagmire {where}"}


def _table_of(how: Exchange) -> int:
    return next((number for number, (method, _) in _TABLES.items() if method == how.method and number < 9), 6)


def _renormed(label: Mapping[str, Any]) -> str:
    return f"{plain_model(label)}(norm={norm_of(label)})"


def _flickr(label: Mapping[str, Any]) -> float | None:
    how = exchange_of(label)
    papers = how and (label["model"], parse(str(label["dataset"])).name) == ("googlenet", "flickr-mammal")
    found = quantity(f"lost by {how.method} {label['partition']}") if how and papers else None
    return found.least if found and how and how.theta == _CHOSEN[how.method] else None


# --- tables -------------------------------------------------------------------------------------------


@cache
def _tables() -> dict[tuple[str, str, str, float | None], float]:
    """Tables 6 to 8, by network, iid or not, method and its setting."""
    files = [f"quagmire_table{number}_{method}_cifar10.csv" for number, (method, _) in _TABLES.items() if number < 9]
    found = {}
    for method, file in zip(METHODS, files, strict=True):
        for row in rows(file):
            name, theta = _configuration(row.pop("configuration"), method)
            for column, percent in row.items():
                model, skew = column.split("_")
                found[model, skew, name, theta] = fraction(percent)
    return found


def _configuration(text: str, method: str) -> tuple[str, float | None]:
    """As "gaia T0=2%", "iter_local=5", "dgc E_warm=8" or "bsp"."""
    if text == "bsp":
        return "bsp", None
    value = text.split("=")[1]
    return method, fraction(value[:-1]) if value.endswith("%") else float(value)


@cache
def _table9() -> dict[tuple[str, str], float]:
    read = rows("quagmire_table9_normalisation.csv")
    return {(row["model"], skew): fraction(row[skew]) for row in read for skew in ("iid", "noniid")}


@cache
def _figure5() -> dict[tuple[str, str, str], float]:
    """By normalisation, iid or not, and method."""
    return {
        (row["norm"], row["partition"], row["algorithm"]): fraction(row["accuracy_percent"])
        for row in rows("quagmire_figure5_normalisation.csv")
    }


@cache
def _figure6() -> dict[tuple[float, str], float]:
    read = rows("quagmire_figure6_skew.csv")
    return {(float(row["percent"]), name): fraction(row[f"{name}_lost_percent"]) for row in read for name in METHODS}


@cache
def _quantities() -> dict[str, Range]:
    return {row["quantity"]: Range(float(row["least"]), float(row["most"])) for row in rows("quagmire_figures.csv")}


def quantity(name: str) -> Range | None:
    """A number that the paper has in a figure or its text; None if it has none of that name."""
    return _quantities().get(name)
