"""A first draft of what silos agree on, from a sample file: one silo's rows, or invented ones of the same form."""

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from silobench.data.agreed.columns import AgreedScale, Columns, Label, Pictures
from silobench.data.agreed.sources import PictureSource, TableSource, source_of
from silobench.data.agreed.summary import Moments, moments_of
from silobench.data.dataset import TaskKind
from silobench.data.encoder import NumericColumn
from silobench.data.readers.image_files import Colour, picture_targets
from silobench.data.readers.targets import LabelTask
from silobench.data.readers.user_tables import (
    Names,
    PlannedTable,
    Source,
    as_names,
    label_form,
    label_targets,
    plan_table,
)
from silobench.data.table.choices import Choices, Many, write_spec
from silobench.data.table.dates import DateOrder
from silobench.data.table.files import PARQUET
from silobench.data.table.scaling import Scale, nonzero_scale

_CLASSES = "--task classification"


@dataclass(frozen=True)
class Sample:
    """Columns as a sample suggests them, and notes for those who edit them."""

    columns: Columns
    notes: tuple[str, ...]


def columns_of(source: str, label: str, **choices: Any) -> Columns:
    """Return the columns of `sample_of`, which has the arguments, without its notes."""
    return sample_of(source, label, **choices).columns


def sample_of(
    source: str,
    label: str,
    *,
    drop: Names = (),
    test: float = 0.2,
    scale: AgreedScale = "standard",
    task: LabelTask = "auto",
    unit: str = "",
    text: Names = (),
    text_features: int = 64,
    dates: Names | None = "auto",
    date_order: DateOrder = "auto",
    many: Many = "auto",
    size: int = 32,
    colour: Colour = "rgb",
) -> Sample:
    """Return what the columns of a sample become, as the dataset `csv` decides it, with the same arguments.

    `source` is a path, or a spec such as ``csv(path=sample.csv, sep=tab)``. With the scale stated, the means and
    deviations are those of the sample, rounded. `size` and `colour` are those of pictures.
    """
    place = source_of(source)
    draft = Columns(Label(label, (), unit), test=test, scale=scale)
    if isinstance(place, PictureSource):
        sample = _of_pictures(place, replace(draft, pictures=Pictures(size, colour)), task)
    else:
        choices = Choices(text_features=text_features, date_order=date_order, many=many)
        names = {"label": label, "drop": drop, "text": text, "dates": dates}
        sample = _of_table(place, names, choices, task, draft)
    return replace(sample, columns=Columns.of_text(sample.columns.text(), f"the agreement by {source}"))


def _of_pictures(place: PictureSource, draft: Columns, task: LabelTask) -> Sample:
    """Return `draft` with the classes of pictures."""
    names, cells = place.labels(draft.label.name)
    kind: TaskKind = "regression" if task == "regression" else "classification"
    _, classes = picture_targets(place.path, names, cells, kind)
    return Sample(replace(draft, label=_label(draft, classes)), ())


def _of_table(
    place: TableSource, names: dict[str, Names | None], choices: Choices, task: LabelTask, draft: Columns
) -> Sample:
    """Return `draft` with the columns and classes of a table."""
    path = str(place.path)
    table = place.read((draft.label.name,), drop=as_names(names["drop"] or ()))
    if place.path.suffix.lower() not in PARQUET:
        choices = replace(
            choices, decimal=place.decimal, thousands=place.thousands, detects_dates="large", is_csv=True,
            comma_separates=table.sep == ",",
        )  # fmt: skip
    source = Source(path, Path(path).stem, write_spec, _CLASSES)
    planned = plan_table(source, table, names, choices)
    targets = label_targets(source, draft.label.name, planned.label, task, planned.choices)
    form = None if targets.classes else label_form(planned.label, planned.choices)
    label = _label(draft, targets.classes)
    if form:
        label = replace(label, decimal=form.decimal, thousands=form.thousands)
    columns = replace(draft, label=label, parts=tuple(planned.plan.parts))
    stated = _stated(path, planned) if draft.scale == "stated" else {}
    return Sample(replace(columns, scales=stated), (*targets.notes, *planned.notes, *planned.plan.notes))


def _label(draft: Columns, classes: tuple[str, ...]) -> Label:
    return replace(draft.label, classes=classes, unit="" if classes else draft.label.unit)


def _stated(path: str, planned: PlannedTable) -> dict[str, Scale]:
    """Return the rounded mean and deviation of each numeric feature."""
    scales = {}
    for part in planned.plan.parts:
        if isinstance(part, NumericColumn):
            for name, values in zip(part.features, part.numbers(planned.plan.columns[part.name]), strict=True):
                scales[name] = _rounded_scale(moments_of(path, name, values))
    return scales


def _rounded_scale(moments: Moments) -> Scale:
    """Return a deviation with three digits, and a mean with the same decimals."""
    mean, deviation = moments.mean, math.sqrt(moments.squares / max(moments.known, 1))
    scale = float(nonzero_scale(np.float64(mean), np.float64(deviation)))
    decimals = 2 - math.floor(math.log10(scale))
    return Scale(round(mean, decimals), round(mean, decimals), round(scale, decimals))
