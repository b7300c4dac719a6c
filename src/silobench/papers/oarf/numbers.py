"""The numbers that OARF prints (Hu and others, TIST 2022)."""

from functools import cache
from pathlib import Path

from silobench.analysis.cells import Published
from silobench.analysis.specs import arguments
from silobench.papers.oarf.chains import NONE, compression_of
from silobench.papers.oarf.settings import (
    COMBINED,
    FEDERATED,
    OBJECT,
    SENTIMENT,
    SOLO,
    is_fast,
    is_papers_setting,
    papers_task,
    task_of,
)
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

    The batch, the patience and the rounds may differ: `Published.setting` has the paper's.
    """
    task = papers_task(label, parties)
    if task is None or not is_papers_setting(label, task):
        return None
    table, row = accuracy_row(label, parties)
    if row is None:
        return None
    setting = f"OARF, {table}: {_TRAINED[task]}, until the 4th drop of the learning rate"
    return Published(fraction(row["accuracy_percent"]), fraction(row["std_percent"]), f"OARF {table}", setting)


def accuracy_row(label: Label, parties: int) -> tuple[str, dict[str, str] | None]:
    """Return a table and its row with the accuracy of a setting, for any size of the network; None without a number.

    Table 4 for each party by itself, combined and federated, Table 6 for sampled parties, Table 8 for compression. That
    one states in place of some numbers that training cannot converge.
    """
    task, how = papers_task(label, parties), compression_of(label)
    per_round = round(participation(label, parties) * parties)
    if task is None or how is None or not how.is_papers:
        return "", None
    if how.method != NONE:
        is_plain = label["algorithm"] == FEDERATED and per_round == parties
        table, row = "Table 8", table8(task).get(how.name) if is_plain else None
    elif per_round < parties:
        table, row = "Table 6", table6(task).get((_algorithm(label), per_round))
    else:
        table, row = "Table 4", table4(task).get((_NAMES.get(label["algorithm"], ""), "all"))
    return table, row if row and row["accuracy_percent"] else None


def published_cost(label: Label, parties: int) -> dict[str, str] | None:
    """Return the row of Table 5 or 6 with the rounds, throughput and overhead of a setting; None if it has none.

    The paper's sockets have no limit, so a run needs fast links. The overheads of sampled parties are means over all
    algorithms.
    """
    task = papers_task(label, parties)
    if task is None or label.text("transforms") or not is_fast(label):
        return None
    per_round = round(participation(label, parties) * parties)
    if per_round < parties:
        return table6(task).get((_algorithm(label), per_round))
    return table5(task).get(_NAMES.get(label["algorithm"], ""))


def compression_row(label: Label, parties: int) -> dict[str, str] | None:
    """Return the row of Table 8 of a setting, for any size of the network; None if it has none."""
    task, how = papers_task(label, parties), compression_of(label)
    is_plain = label["algorithm"] == FEDERATED and participation(label, parties) == 1
    return table8(task).get(how.name) if task and how and how.is_papers and is_plain else None


def sharing_row(label: Label, parties: int, splits: int) -> dict[str, str] | None:
    """Return the row of Table 7 for a number of shares, for any size of the network; None if it has none."""
    task = papers_task(label, parties)
    is_plain = label["algorithm"] == FEDERATED and participation(label, parties) == 1
    return table7(task).get(splits) if task and is_plain and is_fast(label) else None


def privacy_row(label: Label, parties: int, epsilon: float | None) -> dict[str, str] | None:
    """Return the accuracy that the paper states for an epsilon, for any network of the task; None if it states none."""
    task = _private_task(label, parties)
    return None if task is None or epsilon is None else figure5(task).get(epsilon)


def privacy_cost(label: Label, parties: int) -> dict[str, str] | None:
    """Return the throughput and the overhead of private training, which are means over all of the paper's epsilons."""
    task = _private_task(label, parties)
    return privacy_costs(task) if task and is_fast(label) else None


def _private_task(label: Label, parties: int) -> str | None:
    """Return the paper's task of a run; its solver is another one, because the paper's guarantees nothing."""
    task = task_of(label, parties)
    return task if task and (task == SENTIMENT or label["partition"] == "iid") and label.split == "10:1:1" else None


def _algorithm(label: Label) -> str:
    """Return the algorithm as the table has it: FedProx with its mu, also where that is the default."""
    if label.algorithm.name != "fedprox":
        return str(label["algorithm"])
    return f"fedprox(mu={arguments(label.algorithm).get('mu', 0.01)})"


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
def table7(task: str) -> dict[int, dict[str, str]]:
    """Return the rows of Table 7 by the number of splits."""
    (rows,) = published_tables(FOLDER, "oarf-encryption")
    return {int(row["splits"]): row for row in _of_task(rows, task)}


@cache
def figure5(task: str) -> dict[float, dict[str, str]]:
    """Return the accuracies that the text states of Figure 5, by epsilon; it states none for sentiment."""
    accuracies, _ = published_tables(FOLDER, "oarf-privacy")
    return {float(row["epsilon"]): row for row in _of_task(accuracies, task)}


@cache
def privacy_costs(task: str) -> dict[str, str]:
    """Return throughput and overhead of private training, over 17 runs of all epsilons."""
    _, costs = published_tables(FOLDER, "oarf-privacy")
    (row,) = _of_task(costs, task)
    return row


@cache
def model_sizes() -> dict[str, float]:
    """Return the sizes of the paper's models in MB, by task."""
    (rows,) = published_tables(FOLDER, "oarf-hybrid")
    return {row["task"]: float(row["model_megabytes"]) for row in rows}


@cache
def table8(task: str) -> dict[str, dict[str, str]]:
    """Return the rows of Table 8 by method."""
    (rows,) = published_tables(FOLDER, "oarf-compression")
    return {row["method"]: row for row in _of_task(rows, task)}


@cache
def table10(task: str) -> dict[str, dict[str, str]]:
    """Return the rows of Table 10(a) or (b) by training: a party by itself, combined, split."""
    results, _ = published_tables(FOLDER, "oarf-vertical")
    return {row["training"]: row for row in _of_task(results, task)}


@cache
def table10_odds(task: str) -> Rows:
    """Return the rows of Table 10(c), in which p_A is the probability that A is larger."""
    _, rows = published_tables(FOLDER, "oarf-vertical")
    return _of_task(rows, task)


@cache
def table11() -> dict[str, dict[str, str]]:
    """Return the rows of Table 11 by training: combined, split, encrypted."""
    (rows,) = published_tables(FOLDER, "oarf-he")
    return {row["training"]: row for row in rows}


def _of_task(rows: Rows, task: str) -> Rows:
    return [row for row in rows if row["task"] == task]
