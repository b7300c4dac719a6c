"""OARF's tasks and its way of training, from the label of a run."""

import functools
import math
from typing import Any

from silobench.analysis.cells import CellResult
from silobench.analysis.groups import Cells
from silobench.analysis.specs import arguments
from silobench.loop.network import NETWORKS
from silobench.papers.published import is_usual, participation
from silobench.runs.label import Label
from silobench.spec import Spec

NAME = "OARF"
OBJECT, SENTIMENT = "object", "sentiment"
SOLO, COMBINED, FEDERATED = "solo", "combined", "fedavg"
SAMPLED = ("fedavg", "fednova", "fedprox")  # the algorithms of Table 6
PAPERS_NETWORKS = {OBJECT: "resnet(depth=18, norm=batch-stats)", SENTIMENT: "lstm(hidden=200, layers=2)"}
_SHORT = {OBJECT: "resnet(norm=batch-stats)", SENTIMENT: "lstm(hidden=200)"}  # the same, as labels have them
_SOLVERS = {OBJECT: ("sgd", "keep_momentum"), SENTIMENT: ("adam", "keep_moments")}
_RATES = {OBJECT: 0.1, SENTIMENT: 0.001}
_FAST = 10e9  # bits per second: a link that hardly limits anything


def task_of(label: Label, parties: int) -> str | None:
    """Return the paper's task of a run; None if the data, the parties or the kind of network are others.

    Object classification is CIFAR-10 among five parties with a convolutional network. Sentiment is IMDB and Amazon's
    films, a party each, with an LSTM; of Amazon's reviews there are 2,000 here, and 79,116 in the paper.
    """
    if label.dataset.name == "cifar-10" and parties == 5 and label.model.name not in ("linear", "mlp", "bag"):
        return OBJECT
    is_films = label.dataset.name == "sentiment" and arguments(label.dataset).get("amazon") == "dvd"
    is_natural = is_films and parties == 2 and label["partition"] == "by-group"
    return SENTIMENT if is_natural and label.model.name == "lstm" else None


def papers_task(label: Label, parties: int) -> str | None:
    """Return the paper's task of a run that trains as the paper does; None for any other run.

    The network's size, the learning rate, the batch, the patience and the rounds may differ, and updates may be
    compressed: the tables of this paper show its numbers beside such runs, and name both networks.
    """
    task = task_of(label, parties)
    if task is None or (task == OBJECT and label["partition"] != "iid"):
        return None
    return task if _is_papers_training(label, task) else None


def _is_papers_training(label: Label, task: str) -> bool:
    """Whether parties train for an epoch per round with optimizers that last, until the validation loss stalls.

    Object classification has SGD with a momentum of 0.9, sentiment has Adam; both have a weight decay of 0.0005. A
    sixth of the rows is held out, half of it to follow the learning rate.
    """
    solver, (name, lasting) = arguments(label.solver), _SOLVERS[task]
    stated = (label.solver.name, solver.get("weight_decay"), solver.get("epochs"), solver.get(lasting), label.split)
    has_defaults = solver.keys() <= {"lr", "momentum", "weight_decay", "epochs", "batch", lasting}
    usual = is_usual(label.replace(transforms="", split="given"))
    momentum = solver.get("momentum", 0.9)
    has_plateau = _schedule(label).name == "plateau"
    return stated == (name, 0.0005, 1, True, "10:1:1") and momentum == 0.9 and has_defaults and has_plateau and usual


def _schedule(label: Label) -> Spec:
    """Return the schedule of the learning rate, after a warm-up if there is one; one without a name for a number."""
    rate = arguments(label.solver).get("lr")
    if isinstance(rate, Spec) and rate.name == "warmup":
        rate = arguments(rate).get("then")
    return rate if isinstance(rate, Spec) else Spec("")


def has_papers_network(label: Label, task: str) -> bool:
    """Whether a run has the paper's network, apart from the dimensions of its word vectors."""
    return label.text("model") == _SHORT[task]


def is_papers_setting(label: Label, task: str) -> bool:
    """Whether a run with the paper's training has its network, learning rate and rows too; rounds may differ."""
    data = arguments(label.dataset)
    has_rows = data.get("augment", True) and not data.get("rows") and data.get("length", 200) == 200
    has_rate = arguments(_schedule(label)).get("start") == _RATES[task]
    return has_papers_network(label, task) and has_rate and bool(has_rows)


def is_fast(label: Label) -> bool:
    """Whether the parties' links and the server's limit hardly anything: 10 Gbps or more."""
    if label.network.name != "link":  # a plugin's network is not known where runs are read
        return False
    return _is_fast(label.text("network"))


@functools.cache
def _is_fast(network: str) -> bool:
    built = NETWORKS.build(network)
    return min(built.bits_per_second, built.server or math.inf) >= _FAST


def solver_of(cell: CellResult) -> dict[str, Any]:
    """Return every argument of the solver, also those at their defaults."""
    return arguments(cell.config.solver)


def is_federated(cell: CellResult) -> bool:
    """Whether a cell is the paper's "FedSGD": FedAvg with all parties, and one local epoch per round."""
    return (
        cell.label["algorithm"] == FEDERATED
        and participation(cell.label, cell.parties) == 1
        and solver_of(cell).get("epochs") == 1
    )


def one_epoch(cells: Cells) -> list[CellResult]:
    """Return the cells in which all parties train for one epoch per round, and nothing is compressed."""
    return [
        cell
        for cell in cells
        if solver_of(cell).get("epochs") == 1
        and participation(cell.label, cell.parties) == 1
        and not cell.label.text("transforms")
        and not cell.label.text("broadcast")
    ]
