"""The rows of flat tables: what runs say, one dictionary per row. Numbers are those of the records, unchanged."""

import math
from collections.abc import Iterator, Sequence
from typing import Any

from silobench.analysis.flat.columns import CHOICES, Column, TableName, value_of
from silobench.runs.stored import RoundRow, StoredRun


def rows_of(table: TableName, run: StoredRun, columns: Sequence[Column]) -> Iterator[dict[str, Any]]:
    """Yield the rows of a run in a table."""
    varying = [column.name for column in columns if "." in column.name]
    if table == "runs":
        yield _run_row(run, varying)
    elif table == "rounds":
        for row in run.rounds:
            yield _round_row(run, row, varying)
    else:
        for row in run.rounds:
            if row.party_accuracy or row is run.rounds[-1]:
                yield from _party_rows(run, row)


def _run_row(run: StoredRun, varying: Sequence[str]) -> dict[str, Any]:
    facts, label = run.facts, run.label
    last = run.tested[-1] if run.tested else None
    scores = [value for _, value in run.curve()]
    end = run.rounds[-1] if run.rounds else None
    return {
        "run": facts.id,
        "status": facts.status,
        "created": facts.created or None,
        **{name: _text(label.get(name, default)) for name, default in CHOICES.items()},
        "participation": _text(label.participation),
        "planned_rounds": label.get("rounds"),
        "eval_every": label.eval_every,
        "validation": label.validation,
        "seed": run.seed,
        "task": run.dataset.task,
        "kind": "vertical" if facts.vertical else "horizontal",
        "party_count": run.partition.party_count,
        "train_rows": run.dataset.train,
        "test_rows": run.dataset.test,
        "class_count": len(run.dataset.classes) or None,
        **({} if facts.vertical else _skewness(run)),
        "parameters": facts.parameters or None,
        "main_metric": run.metric.name,
        "higher_is_better": run.metric.higher_is_better,
        "unit": run.metric.unit,
        "score": _finite(scores[-1]) if scores else None,
        "best_score": _finite(run.metric.best(scores)) if scores else None,
        "loss": last.loss if last else None,
        "diverged": last.loss is None if last else None,
        "rounds": len(run.rounds),
        "lost_rounds": run.lost_rounds,
        "bytes_up": sum(row.bytes_up for row in run.rounds),
        "bytes_down": sum(row.bytes_down for row in run.rounds),
        "seconds": sum(row.total_seconds for row in run.rounds),
        "clock_seconds": end.clock if end else None,
        **{name: value_of(row, name) for name in varying if (row := last if name.startswith("metric.") else end)},
    }


def _skewness(run: StoredRun) -> dict[str, float]:
    partition = run.partition
    return {
        "emd_weighted": partition.emd_weighted, "jensen_shannon": partition.jensen_shannon, "gini": partition.gini,
    }  # fmt: skip


def _round_row(run: StoredRun, row: RoundRow, varying: Sequence[str]) -> dict[str, Any]:
    return {
        "run": run.facts.id,
        "round": row.round,
        "tested": row.tested,
        "score": row.score(run.metric.name),
        "score_std": row.accuracy_std,
        "loss": row.loss,
        "train_loss": row.train_loss,
        "validation_score": row.validation,
        "validation_loss": row.validation_loss,
        "cohort": len(row.cohort),
        "replied": len(row.cohort if row.replied is None else row.replied),
        "lost": row.is_lost,
        "steps": row.steps,
        "rows": row.rows,
        "bytes_up": row.bytes_up,
        "bytes_down": row.bytes_down,
        "dense_up": row.dense_up,
        "dense_down": row.dense_down,
        "clock_seconds": row.clock,
        "seconds": row.total_seconds,
        "engine": row.engine or None,
        "workers": row.workers,
        **{name: value_of(row, name) for name in varying},
    }


def _party_rows(run: StoredRun, row: RoundRow) -> Iterator[dict[str, Any]]:
    """Yield a row per party. A run of all rows at one place has no parties of its own."""
    partition, vertical = run.partition, run.facts.vertical
    names = partition.parties or tuple(map(str, range(partition.party_count)))
    cohort = set(row.cohort)
    for number, name in enumerate(names):
        columns = vertical.parties.get(name) if vertical else None
        result = row.final.parties.get(name)
        yield {
            "run": run.facts.id,
            "round": row.round,
            "party": name,
            "number": number,
            "in_cohort": number in cohort,
            "malicious": number in run.facts.malicious,
            "train_rows": columns.rows if columns else _at(partition.sizes, number),
            "test_rows": columns.test_rows if columns else result.rows if result else None,
            "columns": columns.columns if columns else None,
            "emd": _at(partition.emd, number),
            "score": result.score if result else None,
            "score_on_all": result.score_on_all if result else None,
            "validation_score": _at(row.party_accuracy or (), number),
        }


def _at(values: Sequence[Any], place: int) -> Any:
    return values[place] if place < len(values) else None


def _text(value: Any) -> str:
    return " + ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
