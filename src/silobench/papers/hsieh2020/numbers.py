"""The numbers that the quagmire study prints (Hsieh and others, ICML 2020)."""

from functools import cache
from pathlib import Path
from typing import NamedTuple

from silobench.analysis.cells import Published
from silobench.analysis.specs import arguments, starts_at_random
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
from silobench.papers.published import fraction, is_usual, participation, published_tables
from silobench.runs.label import Label

FOLDER = Path(__file__).parent
_TABLES = {6: ("gaia", "five"), 7: ("fedavg", "five"), 8: ("dgc", "five"), 9: ("bsp", "two")}
_STATED = "; losses that the text states, of 79.2 (BatchNorm: of 78.9)"
_SETTINGS = {
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
_BASE = 0.792  # LeNet with GroupNorm under BSP, on iid data and on skewed data


class Range(NamedTuple):
    """A printed number: one value, or a range from the least to the most."""

    least: float
    most: float


def accuracy(label: Label, parties: int) -> Published | None:
    """Return the accuracy that the paper prints for a setting; None if it has no such setting."""
    usual = is_usual(label) and participation(label, parties) == 1
    return _accuracy(label, parties) if usual else None


def _accuracy(label: Label, parties: int) -> Published | None:
    """Return the paper's accuracy on CIFAR-10.

    Tables 6 to 8 for networks as they are, Table 9 for two parties, Figures 5 and 6 for LeNet with normalisation. SGD
    has a momentum of 0.9 and batches of 20. The learning rate and the epochs may differ: `Published.setting` has the
    paper's.
    """
    how = _published_exchange(label)
    skew = _SKEWS.get(label["partition"], "")
    if how is None:
        return None
    if parties == 2:
        return _published(_table9().get((_model_of_table9(label), skew)), "Table 9") if how.method == "bsp" else None
    if parties != 5:
        return None
    if model := _MODELS.get(label["model"]):
        return _published(_tables().get((model, skew, how.method, how.theta)), f"Table {_table_of(how)}")
    if plain_model(label) != "lenet" or how.theta != _CHOSEN[how.method]:
        return None
    if mean := _figure5().get((norm_of(label), skew, how.method)):
        return _published(mean, "Figure 5")
    lost = _figure6().get((percent_of(label), how.method)) if norm_of(label) == "group" else None
    return _published(None if lost is None else round(_BASE - lost, 6), "Figure 6")


def published_loss(label: Label, parties: int) -> float | None:
    """Return what the paper's cell loses against BSP on iid data."""
    if flickr := _flickr(label):
        return flickr
    cell, bsp = _accuracy(label, parties), _accuracy(label.replace(partition=IID, algorithm="bsp"), parties)
    if cell is None:
        return None
    if cell.table in ("quagmire Figure 5", "quagmire Figure 6") and norm_of(label) == "group":
        return round(_BASE - cell.mean, 6)
    return round(bsp.mean - cell.mean, 6) if bsp else None


def _published_exchange(label: Label) -> Exchange | None:
    """Return how parties communicate, if data and solver are the paper's."""
    solver = arguments(label.solver)
    usual = (solver.get("momentum", 0.9), solver.get("batch")) == (0.9, 20) and starts_at_random(label)
    how = exchange_of(label)
    known = how is not None and how.method in _CHOSEN and not how.controlled
    return how if usual and known and (label.solver.name, label.dataset.name) == ("sgd", "cifar-10") else None


def _published(mean: float | None, where: str) -> Published | None:
    table = f"quagmire {where}"
    return None if mean is None else Published(mean, None, table, _SETTINGS[table])


def _table_of(how: Exchange) -> int:
    return next((number for number, (method, _) in _TABLES.items() if method == how.method and number < 9), 6)


def _model_of_table9(label: Label) -> str:
    return f"{plain_model(label)}(norm={norm_of(label)})"


def _flickr(label: Label) -> float | None:
    how = exchange_of(label)
    papers = how and (label["model"], label.dataset.name) == ("googlenet", "flickr-mammal")
    lost = quantity(f"lost by {how.method} {label['partition']}") if how and papers else None
    return lost.least if lost and how and how.theta == _CHOSEN[how.method] else None


# --- tables -------------------------------------------------------------------------------------------


@cache
def _tables() -> dict[tuple[str, str, str, float | None], float]:
    """Read Tables 6 to 8, by network, iid or not, method and its setting."""
    numbers = {}
    for number, method in enumerate(METHODS, 6):
        (rows,) = published_tables(FOLDER, f"quagmire-table{number}")
        for row in rows:
            name, theta = _configuration(row["configuration"], method)
            for model in _MODELS.values():
                for skew in _SKEWS.values():
                    numbers[model, skew, name, theta] = fraction(row[f"{model}_{skew}"])
    return numbers


def _configuration(text: str, method: str) -> tuple[str, float | None]:
    """Read a row name such as "gaia T0=2%", "iter_local=5", "dgc E_warm=8" or "bsp"."""
    if text == "bsp":
        return "bsp", None
    value = text.split("=")[1]
    return method, fraction(value[:-1]) if value.endswith("%") else float(value)


@cache
def _table9() -> dict[tuple[str, str], float]:
    table9, _ = published_tables(FOLDER, "quagmire-norm")
    return {(row["model"], skew): fraction(row[skew]) for row in table9 for skew in ("iid", "noniid")}


@cache
def _figure5() -> dict[tuple[str, str, str], float]:
    """Read Figure 5, by normalisation, iid or not, and method."""
    _, figure5 = published_tables(FOLDER, "quagmire-norm")
    return {(row["norm"], row["partition"], row["algorithm"]): fraction(row["accuracy_percent"]) for row in figure5}


@cache
def _figure6() -> dict[tuple[float, str], float]:
    (rows,) = published_tables(FOLDER, "quagmire-skew")
    return {(float(row["percent"]), name): fraction(row[f"{name}_lost_percent"]) for row in rows for name in METHODS}


@cache
def _quantities() -> dict[str, Range]:
    (rows,) = published_tables(FOLDER, "quagmire-skewscout")
    return {row["quantity"]: Range(float(row["least"]), float(row["most"])) for row in rows}


def quantity(name: str) -> Range | None:
    """Return a number that the paper has in a figure or in its text; None if there is none of that name."""
    return _quantities().get(name)
