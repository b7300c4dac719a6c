"""Runs in an SQLite database of MLflow, one MLflow run per run. Exported again, only what is new is added."""

import logging
import os
import re
import warnings
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from silobench.analysis.flat.needed import needed
from silobench.analysis.flat.scalars import began, choices, readable_name, scalars
from silobench.analysis.flat.tables import Runs
from silobench.runs.folders import need_no_link
from silobench.runs.stored import StoredRun

DATABASE = "mlflow.db"
_RUN, _ROUNDS = "silobench.run", "silobench.rounds"  # tags
_AT_ONCE = 1000  # metrics of a message, which MLflow limits
_LONGEST = 6000  # characters of a parameter, which MLflow limits


def write_tracking(runs: Runs, folder: Path, experiment: str) -> list[Path]:
    """Write runs into FOLDER/mlflow.db: choices as parameters, numbers by round as metrics, and the id as a tag."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # MLflow uses what its database library calls deprecated
        client = _client(folder)
        number = _experiment(client, experiment, folder)
        for run in runs:
            _write(client, number, run)
    return [folder / DATABASE]


def _client(folder: Path) -> Any:
    """Return a client of the database. Nothing is sent over the network, and MLflow counts no use of it."""
    os.environ |= {"MLFLOW_DISABLE_TELEMETRY": "true", "DO_NOT_TRACK": "true"}
    for package in ("sqlalchemy", "alembic"):
        needed(package, package, "mlflow")
    tracking = needed("mlflow.tracking", "mlflow-skinny", "mlflow")
    for name in ("mlflow", "alembic"):  # they announce each step of making a database
        logging.getLogger(name).setLevel(logging.ERROR)
    folder.mkdir(parents=True, exist_ok=True)
    return tracking.MlflowClient(tracking_uri=f"sqlite:///{need_no_link(folder / DATABASE).resolve()}")


def _experiment(client: Any, name: str, folder: Path) -> str:
    known = client.get_experiment_by_name(name)
    if known:
        return str(known.experiment_id)
    return str(client.create_experiment(name, artifact_location=(folder / "artifacts").resolve().as_uri()))


def _write(client: Any, experiment: str, run: StoredRun) -> None:
    """Add a run, or what it has more than when it was exported before."""
    known = client.search_runs([experiment], f"tags.`{_RUN}` = '{run.facts.id}'", max_results=1)
    start = round(1000 * began(run))
    if known:
        id, done = known[0].info.run_id, int(known[0].data.tags[_ROUNDS])
    else:
        tags = {_RUN: run.facts.id, _ROUNDS: "0", "silobench.path": str(run.path)}
        id, done = client.create_run(experiment, start, tags, readable_name(run)).info.run_id, 0
        entities = needed("mlflow.entities", "mlflow-skinny", "mlflow")
        client.log_batch(id, params=[entities.Param(name, text[:_LONGEST]) for name, text in choices(run).items()])
    metrics = _metrics(run, done, start)
    while some := list(islice(metrics, _AT_ONCE)):
        client.log_batch(id, metrics=some)
    client.set_tag(id, _ROUNDS, str(len(run.rounds)))
    end = start + round(1000 * sum(row.total_seconds for row in run.rounds))
    if run.complete:
        client.set_terminated(id, "FINISHED", end)


def _metrics(run: StoredRun, done: int, start: int) -> Iterator[Any]:
    """Yield the numbers of the rounds after the first `done`; times are those of the records."""
    entities, spent = needed("mlflow.entities", "mlflow-skinny", "mlflow"), 0.0
    for place, (number, values) in enumerate(scalars(run)):
        spent += values.get("seconds", 0.0)
        if place >= done:
            for name, value in values.items():
                yield entities.Metric(metric_name(name), float(value), start + round(1000 * spent), number)


def metric_name(column: str) -> str:
    """Return a name that MLflow accepts for a metric.

    >>> metric_name("metric.recall@5 = yes")
    'metric.recall_5 _ yes'
    """
    return re.sub(r"[^\w.: /-]", "_", column, flags=re.ASCII)
