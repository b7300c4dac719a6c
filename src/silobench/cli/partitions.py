"""``silobench partition``: split a dataset among parties and measure the skew, without training."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from silobench.cli.busy import waiting
from silobench.cli.options import DataDir, Json, LoadedPlugins
from silobench.cli.output import print
from silobench.errors import ConfigError

if TYPE_CHECKING:
    from silobench.data import Dataset
    from silobench.partitions import Partition, Sharing, Skewness

_Parties = Annotated[
    int | None, typer.Option(min=1, help="Number of parties. Default: what the dataset suggests, else 10.")
]
_Plot = Annotated[Path | None, typer.Option(help="Write the party x class heatmap to this .pdf, .svg or .png file.")]
_Export = Annotated[
    Path | None, typer.Option(help="Write each party's training row numbers to this directory, as CSV and npz.")
]


def partition(
    dataset: Annotated[str, typer.Argument(help='Dataset spec, such as digits or "csv(path=my.csv, label=y)".')],
    spec: Annotated[str, typer.Argument(help='Partition spec, such as "label-dirichlet(beta=0.5)" or "#C=2".')],
    parties: _Parties = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the random split.")] = 0,
    plot: _Plot = None, export: _Export = None, json_: Json = False, plugin: LoadedPlugins = None,
    data_dir: DataDir = None,
) -> None:  # fmt: skip
    """Partition a dataset among parties and measure the skew. Nothing is trained."""
    from silobench.partitions import deals_columns

    if deals_columns(spec):
        if plot or export:
            raise ConfigError(
                f"{'--plot' if plot else '--export'} is about the rows of parties, but this partition divides columns: "
                "leave it out, and use --json for the columns of each party."
            )
        _show_deal(dataset, spec, parties, seed, json_)
        return
    with waiting("reading and partitioning the dataset"):
        cut = _cut(dataset, spec, parties, seed)
    if plot:
        from silobench.report.partition_chart import partition_chart, plot_partition

        title, label = f"{cut.data.name}: {cut.spec}", "class" if cut.data.classes else cut.data.target or "bin"
        plot_partition(partition_chart(cut.skew.counts, cut.names, cut.classes, label), plot, title)
    if export:
        from silobench.partitions.export import export_partition

        export_partition(cut.partition, cut.skew.counts, cut.names, cut.classes, export)
    if json_:
        print(json.dumps(cut.as_json()))
        return
    from silobench.cli.terminal import print_partition

    print_partition(cut.facts, cut.skew, cut.data, cut.notes, cut.partition.fingerprint, cut.shared)
    for path in filter(None, (plot, export)):
        print(f"wrote {path}")


def _show_deal(dataset: str, spec: str, parties: int | None, seed: int, json_: bool) -> None:
    """Print the columns and the rows of each party."""
    from silobench.data import load
    from silobench.partitions import bind_sum, deal_columns
    from silobench.partitions.columns import notes_for_columns

    with waiting("reading the dataset and dealing its columns"):
        data = load(dataset)
        deal = deal_columns(data, spec, parties, seed)
    facts = {
        "dataset": data.name,
        "spec": str(bind_sum(spec)[0].short),
        "parties": len(deal),
        "seed": seed,
        "names": list(deal.names),
        "label": deal.names[deal.label],
        "absent": deal.absent,
        "columns": [_column_names(data, features.tolist()) for features in deal.columns],
        "features": [features.tolist() for features in deal.columns],
        **{f"{side}_rows": rows.sum(1).tolist() for side, rows in (("train", deal.train), ("test", deal.test))},
        **{f"{side}_aligned": int(rows.all(0).sum()) for side, rows in (("train", deal.train), ("test", deal.test))},
        "fingerprint": deal.fingerprint,
        "notes": [*notes_for_columns(data), *deal.notes],
    }
    if json_:
        print(json.dumps(facts))
        return
    from silobench.cli.terminal import print_deal

    print_deal(facts)


def _column_names(data: "Dataset", features: list[int]) -> list[str]:
    """Return the columns of features; without names, numbers of features as ranges such as 0-31."""
    from silobench.data.feature_names import columns_of

    names = columns_of(data)
    if names:
        return list(dict.fromkeys(names[feature] for feature in features))
    known = set(features)
    starts = [feature for feature in features if feature - 1 not in known]
    stops = [feature for feature in features if feature + 1 not in known]
    return [f"{first}-{last}" if first < last else str(first) for first, last in zip(starts, stops, strict=True)]


@dataclass(frozen=True)
class _Cut:
    """A partitioned dataset and the measures of its skew."""

    data: "Dataset"
    partition: "Partition"
    spec: str  # in canonical form
    seed: int
    skew: "Skewness"
    shared: "Sharing | None"

    @property
    def names(self) -> list[str]:
        return list(self.partition.names or map(str, range(len(self.partition))))

    @property
    def classes(self) -> tuple[str, ...]:
        return self.data.label_names

    @property
    def notes(self) -> tuple[str, ...]:
        return (*self.data.notes, *self.partition.notes)

    @property
    def facts(self) -> dict[str, Any]:
        return {
            "dataset": self.data.name,
            "spec": self.spec,
            "parties": len(self.partition),
            "seed": self.seed,
            "names": self.names,
        }

    def as_json(self) -> dict[str, Any]:
        bins = {} if self.data.classes else {"bins": list(self.data.bins.edges)}
        return {
            **self.facts,
            **self.skew.as_json(),
            **bins,
            **({"shared": self.shared.as_json()} if self.shared else {}),
            "fingerprint": self.partition.fingerprint,
            "noise": list(self.partition.noise),
            "classes": list(self.data.classes),
            "notes": list(self.notes),
        }


def _cut(dataset: str, spec: str, parties: int | None, seed: int) -> _Cut:
    from silobench.data import load
    from silobench.partitions import bind_sum, measure, sharing
    from silobench.partitions import partition as split

    data = load(dataset)
    result = split(data, spec, parties, seed)
    canonical = " + ".join(str(term.short) for term in bind_sum(spec))
    return _Cut(data, result, canonical, seed, measure(result, data), sharing(result, data))
