"""The page of partitions: who has which rows, as heatmaps, with their measures in words."""

from collections.abc import Sequence
from statistics import fmean

from silobench.analysis.cells import CellResult
from silobench.analysis.groups import grouped
from silobench.analysis.methods import setting_choices, setting_name
from silobench.analysis.tables import Table, entries, varying
from silobench.report.charts.values import Heatmap
from silobench.report.contents import Contents
from silobench.report.drawing import Drawing, Section
from silobench.report.page import Page
from silobench.report.partition_chart import partition_chart
from silobench.runs.stored import PartitionFacts, StoredRun

_AT_ONCE = 12  # heatmaps that a section shows
_OF_PARTITION = ("dataset", "partition", "parties")
_LARGEST = 4000  # fields of a heatmap; larger partitions are in the table only
_NOTE = (
    "mix of classes: how far the classes of a party are from those of all rows (total variation), on average; 0% is "
    "the same mix everywhere, 100% is no class in common; EMD: the same distance as a sum over classes, 0 to 2 "
    "(Zhao et al.); Jensen-Shannon: how much the class of a row says about its party, in bits, 0 is nothing; Gini: "
    "how uneven the sizes are, 0 is equal and near 1 is all rows at one party; feature shift: how far the mean "
    "features of parties are apart, in standard deviations; a random split has about the square root of parties / "
    "rows"
)


def partitions_page(contents: Contents) -> Page:
    """Return the page of partitions; parties that hold columns are on a page of their own."""
    cells = _each_partition([cell for cell in contents.cells if cell.runs[0].partition.sizes])
    others = [name for name in varying(cells) if name not in _OF_PARTITION] if cells else []
    names = setting_choices(cells, others) or ["partition"]
    drawn = [
        Drawing(setting_name(cell, names, contents.cells), chart, words(cell.runs[0]))
        for cell in cells
        if (chart := heatmap(cell.runs[0]))
    ]
    parts = [drawn[start : start + _AT_ONCE] for start in range(0, len(drawn), _AT_ONCE)]
    sections = [
        Section("Rows by party and class" if place == 0 else f"More partitions, from {1 + place * _AT_ONCE}", part,
                is_folded=place > 0)
        for place, part in enumerate(parts)
    ]  # fmt: skip
    if cells:
        sections.append(Section("Measures of skew", (), _table(cells, names, contents.cells)))
    lead = "Who has which rows. Each line of a heatmap is a party, each column a class; a stronger colour is more rows."
    return Page("partitions.html", "Partitions", sections, lead)


def _each_partition(cells: Sequence[CellResult]) -> list[CellResult]:
    """Return one cell per partition of a dataset."""
    return [group[0] for group in grouped(cells, lambda cell: tuple(map(cell.label.text, _OF_PARTITION)))]


def heatmap(run: StoredRun) -> Heatmap | None:
    """Return the rows by party and class, or by party and bin of a numeric target; None if they were not counted."""
    counts, target, parties = run.partition.counts, run.facts.objective.target, run.partition.parties
    columns = len(counts[0]) if counts else 0
    if not columns or columns * len(counts) > _LARGEST:
        return None
    if len(run.dataset.classes) == columns:
        labels, title = list(run.dataset.classes), "class"
    else:
        labels = bin_labels(target.bins if target else (), columns)
        title = target.name if target else "bin"
    rows = list(parties) if len(parties) == len(counts) else [str(place) for place in range(len(counts))]
    return partition_chart(counts, rows, labels, title)


def bin_labels(edges: Sequence[float], bins: int) -> list[str]:
    """Return the names of bins by their lower edges, or their numbers if the edges are not theirs.

    >>> bin_labels([0, 10, 20.5], 2), bin_labels([], 2)
    (['>=0', '>=10'], ['1', '2'])
    """
    known = len(edges) == bins + 1
    return [f">={edge:.4g}" for edge in edges[:-1]] if known else [str(place + 1) for place in range(bins)]


def words(run: StoredRun) -> str:
    """Return what the measures of a partition say, in words."""
    partition, classes = run.partition, len(run.dataset.classes)
    texts = [_sizes(partition)]
    if classes > 1 and partition.counts:
        texts.append(_classes(partition, classes))
    if partition.wasserstein is not None:
        texts.append(
            f"The target of a party is {partition.wasserstein:.2f} standard deviations away from that of all rows."
        )
    if partition.shared:
        texts.append(f"All parties share {partition.shared.each} rows.")
    return " ".join(texts)


def _sizes(partition: PartitionFacts) -> str:
    low, high = min(partition.sizes), max(partition.sizes)
    parties = partition.party_count
    some = f"{low} rows each" if low == high else f"{low} to {high} rows each"
    uneven = "" if partition.gini < 0.1 else f", unevenly (Gini {partition.gini:.2f}; 0 is equal)"
    return f"{parties} {'party' if parties == 1 else 'parties'} with {some}{uneven}."


def _classes(partition: PartitionFacts, classes: int) -> str:
    lacking = fmean(sum(count == 0 for count in line) for line in partition.counts)
    lacks = f"A party lacks {lacking:.1f} of {classes} classes on average" if lacking else "Every party has all classes"
    distance = f"{100 * partition.total_variation:.0f}%"
    return f"{lacks}, and its mix is {distance} away from that of all rows (0% = same mix everywhere)."


def _table(cells: Sequence[CellResult], names: Sequence[str], everything: Sequence[CellResult]) -> Table:
    columns = [
        "partition", "parties", "rows per party", "mix of classes", "EMD", "Jensen-Shannon, bit", "Gini of sizes",
        "feature shift, std", "Wasserstein, std",
    ]  # fmt: skip
    rows = []
    for cell in cells:
        facts = cell.runs[0].partition
        low, high = min(facts.sizes), max(facts.sizes)
        rows.append(entries(
            setting_name(cell, names, everything), str(facts.party_count),
            str(low) if low == high else f"{low} to {high}",
            f"{100 * facts.total_variation:.0f}%", f"{facts.emd_weighted:.3f}", f"{facts.jensen_shannon:.3f}",
            f"{facts.gini:.3f}", f"{facts.feature_shift:.3f}",
            "" if facts.wasserstein is None else f"{facts.wasserstein:.3f}",
        ))  # fmt: skip
    return Table("Measures of each partition", columns, rows, _NOTE)
