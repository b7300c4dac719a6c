"""OARF's tasks and its way of training, from the label of a run."""

import math
from typing import Any

from silobench.analysis.cells import CellResult
from silobench.analysis.groups import Cells
from silobench.analysis.specs import arguments
from silobench.loop.network import NETWORKS
from silobench.papers.published import is_usual, participation
from silobench.runs.label import LATER, Label

NAME = "OARF"
OBJECT, SENTIMENT = "object", "sentiment"
SOLO, COMBINED, FEDERATED = "solo", "combined", "fedavg"
SAMPLED = ("fedavg", "fednova", "fedprox")  # the algorithms of Table 6
_USUAL = ("exchange", "aggregate", "availability", "pace")  # keys that stay at their defaults
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


def is_papers_training(label: Label, epochs: int = 1) -> bool:
    """Whether parties train as in the paper, whatever the learning rate, the batch and the patience.

    Object classification has SGD with a momentum of 0.9, sentiment has Adam; both have a weight decay of 0.0005 and
    optimizers that last. A sixth of the rows is held out, half of it to follow the learning rate.
    """
    solver = arguments(label.solver)
    keeps = solver.get("keep_momentum", solver.get("keep_moments", False))
    stated = (solver.get("weight_decay"), solver.get("epochs"), keeps, label.split)
    usual = all(label.text(key) == LATER[key] for key in _USUAL)
    has_momentum = solver.get("momentum", 0.9) == 0.9 and "steps" not in solver
    is_plain = is_usual(label.replace(transforms="")) and not label.text("broadcast")
    return stated == (0.0005, epochs, True, "10:1:1") and usual and has_momentum and is_plain


def is_fast(label: Label) -> bool:
    """Whether the parties' links and the server's limit hardly anything: 10 Gbps or more."""
    if label.network.name != "link":  # a plugin's network is not known where runs are read
        return False
    network = NETWORKS.build(label.text("network"))
    return min(network.bits_per_second, network.server or math.inf) >= _FAST


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
