"""The columns of flat tables: names, types and units. docs/export.md lists them."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from silobench.runs.label import LATER
from silobench.runs.stored import RoundRow, StoredRun

Kind: TypeAlias = Literal["text", "choice", "whole", "number", "truth"]
TableName: TypeAlias = Literal["runs", "rounds", "parties"]
TABLES: tuple[TableName, ...] = ("runs", "rounds", "parties")
# Choices of an experiment with a fixed place; parts that were added later have the values that earlier runs imply.
CHOICES = {
    "dataset": "", "partition": "", "model": "", "algorithm": "", "solver": "", "transforms": "", "server": "step",
    "controller": "fixed", "network": "", **LATER,
}  # fmt: skip


@dataclass(frozen=True)
class Column:
    """A column of a flat table. A `choice` is text of which few values occur; `unit` is empty for a plain number."""

    name: str
    kind: Kind
    unit: str
    about: str


def _column(name: str, kind: Kind, unit: str, about: str) -> Column:
    return Column(name, kind, unit, about)


RUN = _column("run", "text", "", "id of the run, which is the name of its directory")

RUN_COLUMNS: tuple[Column, ...] = (
    RUN,
    _column("status", "choice", "", "complete, or running for a run that is not finished"),
    _column("created", "text", "", "when the run was planned, in UTC"),
    *(_column(name, "choice", "", f"choice of {name}") for name in CHOICES),
    _column("participation", "choice", "", "parties per round: a fraction, or a count if it is a whole number"),
    _column("planned_rounds", "whole", "rounds", "rounds that the experiment asks for"),
    _column("eval_every", "whole", "rounds", "rounds between two tests"),
    _column("validation", "number", "", "share of its rows that each party holds out"),
    _column("seed", "whole", "", "seed of the run"),
    _column("task", "choice", "", "classification, regression or verification"),
    _column("kind", "choice", "", "horizontal (parties hold rows) or vertical (parties hold columns)"),
    _column("party_count", "whole", "parties", "number of parties"),
    _column("train_rows", "whole", "rows", "training rows of all parties"),
    _column("test_rows", "whole", "rows", "rows that the run is scored on"),
    _column("class_count", "whole", "classes", "classes; empty for a numeric target"),
    _column("emd_weighted", "number", "", "weighted earth mover's distance of labels, 0 to 2"),
    _column("jensen_shannon", "number", "", "Jensen-Shannon divergence of labels"),
    _column("gini", "number", "", "Gini coefficient of the numbers of rows"),
    _column("parameters", "whole", "numbers", "numbers of the model"),
    _column("main_metric", "choice", "", "name of the metric that the run is judged by"),
    _column("higher_is_better", "truth", "", "direction of the main metric"),
    _column("unit", "choice", "", "unit in which tables show the main metric; values are stored without it"),
    _column("score", "number", "main metric", "main metric in the last tested round; empty if it is not finite"),
    _column("best_score", "number", "main metric", "main metric in its best tested round"),
    _column("loss", "number", "", "loss in the last tested round; empty if it is not finite"),
    _column("diverged", "truth", "", "whether that loss is not finite"),
    _column("rounds", "whole", "rounds", "rounds that are recorded"),
    _column("lost_rounds", "whole", "rounds", "rounds that left the model as it was"),
    _column("bytes_up", "whole", "bytes", "bytes that parties sent, whole run"),
    _column("bytes_down", "whole", "bytes", "bytes that parties received, whole run"),
    _column("seconds", "number", "seconds", "computing time, whole run"),
    _column("clock_seconds", "number", "virtual seconds", "virtual clock after the last round"),
)

ROUND_COLUMNS: tuple[Column, ...] = (
    RUN,
    _column("round", "whole", "", "number of the round, from 1"),
    _column("tested", "truth", "", "whether the model was tested after this round"),
    _column("score", "number", "main metric", "main metric on test rows; empty if it is not finite"),
    _column("score_std", "number", "main metric", "standard deviation over the parties' own models"),
    _column("loss", "number", "", "loss on test rows; empty if it is not finite"),
    _column("train_loss", "number", "", "loss on training rows"),
    _column("validation_score", "number", "main metric", "main metric on the parties' validation rows"),
    _column("validation_loss", "number", "", "loss on the parties' validation rows"),
    _column("cohort", "whole", "parties", "parties that took part"),
    _column("replied", "whole", "parties", "parties that answered"),
    _column("lost", "truth", "", "whether too few parties answered, so that the model stayed as it was"),
    _column("steps", "whole", "steps", "minibatches of all parties"),
    _column("rows", "whole", "rows", "row visits of training"),
    _column("bytes_up", "whole", "bytes", "bytes that parties sent"),
    _column("bytes_down", "whole", "bytes", "bytes that parties received"),
    _column("dense_up", "whole", "bytes", "bytes_up without transforms"),
    _column("dense_down", "whole", "bytes", "bytes_down without transforms"),
    _column("clock_seconds", "number", "virtual seconds", "virtual clock after the round, since the start"),
    _column("seconds", "number", "seconds", "computing time of the round, all phases"),
    _column("engine", "choice", "", "how parties were trained"),
    _column("workers", "whole", "processes", "worker processes"),
)

PARTY_COLUMNS: tuple[Column, ...] = (
    RUN,
    _column("round", "whole", "", "number of the round"),
    _column("party", "choice", "", "name of the party"),
    _column("number", "whole", "", "number of the party, from 0"),
    _column("in_cohort", "truth", "", "whether it took part in this round"),
    _column("malicious", "truth", "", "whether it did what the adversary of the run wants"),
    _column("train_rows", "whole", "rows", "its training rows, with those that it holds out"),
    _column("test_rows", "whole", "rows", "its own test rows"),
    _column("columns", "whole", "columns", "its columns, in a vertical run"),
    _column("emd", "number", "", "earth mover's distance of its labels from all labels"),
    _column("score", "number", "main metric", "main metric on its own test rows; in the last round only"),
    _column("score_on_all", "number", "main metric", "main metric of its own model on all test rows; last round only"),
    _column("validation_score", "number", "main metric", "main metric on its validation rows"),
)

_FIXED: dict[TableName, tuple[Column, ...]] = {
    "runs": RUN_COLUMNS, "rounds": ROUND_COLUMNS, "parties": PARTY_COLUMNS,
}  # fmt: skip


def columns_of(table: TableName, runs: Iterable[StoredRun]) -> tuple[Column, ...]:
    """Return the columns of a table of runs: the fixed ones, then those of metrics, phases, knobs and budgets.

    `runs` is read once, and none of them is kept.
    """
    columns = Columns()
    for run in runs:
        columns.add(run)
    return columns.of(table)


class Columns:
    """The columns of all tables of runs, from runs that are added one by one and not kept."""

    def __init__(self) -> None:
        self._names: dict[TableName, dict[str, set[str]]] = {
            table: {prefix: set() for prefix in _VARYING} for table in ("runs", "rounds")
        }

    def add(self, run: StoredRun) -> None:
        for table, names in self._names.items():
            names["metric"] |= {metric.name for metric in run.metrics}
            rows = run.rounds if table == "rounds" else run.rounds[-1:]
            for prefix in names if table == "rounds" else ("epsilon", "delta"):
                names[prefix].update(*(_VARYING[prefix].names(row) for row in rows))

    def of(self, table: TableName) -> tuple[Column, ...]:
        """Return the columns of a table; those of parties are the same for all runs."""
        names = self._names.get(table, {})
        varying = (_VARYING[prefix].column(prefix, name) for prefix in names for name in sorted(names[prefix]))
        return (*_FIXED[table], *varying)


@dataclass(frozen=True)
class _Varying:
    """Columns that depend on the runs: what each round has of them."""

    unit: str
    about: str
    names: Callable[[RoundRow], Sequence[str]]

    def column(self, prefix: str, name: str) -> Column:
        return Column(f"{prefix}.{name}", "number", self.unit, self.about.format(name))


_VARYING = {
    "metric": _Varying("", "{}: a fraction, or in the unit of the target", lambda row: ()),
    "seconds": _Varying("seconds", "computing time of the phase {}", lambda row: list(row.seconds)),
    "knob": _Varying("", "the knob {} in this round", lambda row: list(row.knobs)),
    "epsilon": _Varying("", "privacy spent until now, by {}; infinite without protection", lambda row: units(row)),
    "delta": _Varying("", "delta of that epsilon, by {}", lambda row: units(row)),
}


def units(row: RoundRow) -> list[str]:
    """Return the units whose privacy a round states: example and party."""
    return [unit for unit, facts in row.privacy.items() if isinstance(facts, dict) and "epsilon" in facts]


def value_of(row: RoundRow, name: str) -> Any:
    """Return the value of a column that depends on the runs, such as seconds.train or epsilon.example."""
    prefix, _, name = name.partition(".")
    if prefix == "metric":
        return row.score(name)
    if prefix == "seconds":
        return row.seconds.get(name)
    if prefix == "knob":
        return row.knobs.get(name)
    facts = row.privacy.get(name) or {}
    value = facts.get(prefix)
    return float("inf") if prefix == "epsilon" and facts and value is None else value
