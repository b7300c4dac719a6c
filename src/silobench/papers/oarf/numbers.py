"""The numbers that OARF prints (Hu and others, TIST 2022)."""

from functools import cache
from pathlib import Path

from silobench.analysis.cells import Published
from silobench.analysis.specs import arguments
from silobench.papers.oarf.chains import NONE, compression_of
from silobench.papers.oarf.settings import COMBINED, FEDERATED, OBJECT, SENTIMENT, SOLO, is_papers_training, task_of
from silobench.papers.published import Rows, fraction, participation, published_tables
from silobench.runs.label import Label

FOLDER = Path(__file__).parent
_TRAINED = {
    OBJECT: "ResNet-18, SGD, batches of 128",
    SENTIMENT: "79,116 Amazon reviews, GloVe of 300 dimensions, 2-layer LSTM of 200, Adam",
}
_NAMES = {FEDERATED: "federated", COMBINED: "combined", SOLO: "solo"}


def accuracy(label: Label, parties: int) -> Published | None:
    """Return the accuracy on all test rows that the paper prints for a setting; None if it has no such setting.

    Table 4 for each party by itself, combined and federated, Table 6 for sampled parties, Table 8 for compression. The
    convolutional network, the learning rate, the batch and the rounds may differ: `Published.setting` has the paper's.
    """
    task = task_of(label, parties)
    if task is None or not is_papers_training(label) or (task == OBJECT and label["partition"] != "iid"):
        return None
    per_round = round(participation(label, parties) * parties)
    compression = compression_of(label)
    if compression is None or not compression.is_papers:
        return None
    if compression.method != NONE:
        is_plain = label["algorithm"] == FEDERATED and per_round == parties
        return _published(table8(task).get(compression.name) if is_plain else None, "Table 8", task)
    if per_round < parties:
        return _published(table6(task).get((_algorithm(label), per_round)), "Table 6", task)
    name = _NAMES.get(label["algorithm"], "")
    return _published(table4(task).get((name, "all")), "Table 4", task)


def published_cost(label: Label, parties: int) -> dict[str, str] | None:
    """Return the row of Table 5 or 6 with the rounds, throughput and overhead of a setting; None if it has none."""
    task = task_of(label, parties)
    is_iid = label["partition"] == ("iid" if task == OBJECT else "by-group")
    if task is None or not is_iid or not is_papers_training(label) or label.text("transforms"):
        return None
    per_round = round(participation(label, parties) * parties)
    if per_round < parties:
        return table6(task).get((_algorithm(label), per_round))
    return table5(task).get(_NAMES.get(label["algorithm"], ""))


def _algorithm(label: Label) -> str:
    """Return the algorithm as the table has it: FedProx with its mu, also where that is the default."""
    if label.algorithm.name != "fedprox":
        return str(label["algorithm"])
    return f"fedprox(mu={arguments(label.algorithm).get('mu', 0.01)})"


def _published(row: dict[str, str] | None, table: str, task: str) -> Published | None:
    """Return the accuracy of a row; None where it states that training cannot converge."""
    if row is None or not row["accuracy_percent"]:
        return None
    setting = f"OARF, {table}: {_TRAINED[task]}, until the 4th drop of the learning rate"
    return Published(fraction(row["accuracy_percent"]), fraction(row["std_percent"]), f"OARF {table}", setting)


# --- tables -------------------------------------------------------------------------------------------


@cache
def table4(task: str) -> dict[tuple[str, str], dict[str, str]]:
    """Return the rows of Table 4 by training and test rows: (federated, all), (imdb, amazon), ..."""
    accuracies, _, _ = published_tables(FOLDER, "oarf-baseline")
    return {(row["training"], row["tested_on"]): row for row in _of_task(accuracies, task)}


@cache
def table5(task: str) -> dict[str, dict[str, str]]:
    """Return the rows of Table 5 by training: rounds, throughput and overhead."""
    _, costs, _ = published_tables(FOLDER, "oarf-baseline")
    return {row["training"]: row for row in _of_task(costs, task)}


@cache
def odds(task: str) -> Rows:
    """Return what Tables 4 and 5 print of the correlated t-test.

    The paper reads p_A as "A is superior". It is the probability that A is larger: more rounds and more overhead too.
    """
    _, _, rows = published_tables(FOLDER, "oarf-baseline")
    return _of_task(rows, task)


@cache
def table6(task: str) -> dict[tuple[str, int], dict[str, str]]:
    """Return the rows of Table 6 by algorithm and parties per round."""
    (rows,) = published_tables(FOLDER, "oarf-algorithms")
    return {(row["algorithm"], int(row["parties_per_round"])): row for row in _of_task(rows, task)}


@cache
def table8(task: str) -> dict[str, dict[str, str]]:
    """Return the rows of Table 8 by method."""
    (rows,) = published_tables(FOLDER, "oarf-compression")
    return {row["method"]: row for row in _of_task(rows, task)}


def _of_task(rows: Rows, task: str) -> Rows:
    return [row for row in rows if row["task"] == task]
