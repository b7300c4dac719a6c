"""What runs of every kind state about their data and metrics."""

from dataclasses import replace
from typing import Any

from silobench.data import Dataset
from silobench.errors import DataError
from silobench.runs.plan import Cell, Plan
from silobench.tasks.metric_functions import extra_metrics
from silobench.tasks.objectives import Objective, uneven_metrics
from silobench.tasks.row_format import RowFormat


def dataset_facts(plan: Plan, dataset: Dataset) -> dict[str, Any]:
    """Return the field `dataset` of run.json."""
    return {
        "name": dataset.name,
        "task": dataset.task,
        "checksum": plan.config["checksum"],  # of the files, also where the rows are split in another way
        "train": len(dataset.train),
        "test": len(dataset.test),
        "classes": list(dataset.classes),
        "licence": dataset.licence,
        "notes": list(dataset.notes),
        **RowFormat.of(dataset).as_json(),
    }


def with_metrics(objective: Objective, cell: Cell, dataset: Dataset) -> Objective:
    """Return the objective with the metrics that the cell adds; those that it has already are not added.

    A model with its own loss, such as an estimator, brings its objective: it gets the metrics for uneven classes here.
    """
    reported = [metric.name for metric in objective.metrics] + [extra.metric.name for extra in objective.extra]
    implied = uneven_metrics(dataset) if cell.objective == "auto" else ()
    chosen = extra_metrics(cell.metric, dataset, getattr(objective, "positive", 1), objective.has_probabilities)
    added = {each.metric.name: each for each in (*implied, *chosen) if each.metric.name not in reported}
    return replace(objective, extra=(*objective.extra, *added.values())) if added else objective


def need_same_data(plan: Plan, dataset: Dataset) -> None:
    """Refuse a dataset that is not the one that was planned."""
    if dataset.checksum != plan.config["checksum"]:
        raise DataError(
            f"{plan.cell.dataset} has changed since this experiment was planned: run it again to use it as it is."
        )
