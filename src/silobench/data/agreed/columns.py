"""`Columns`: what silos agree on about their tables or pictures, before anybody counts or trains.

It is a TOML file that people read, edit and sign. With it, rows of all silos have the same features, and no silo shows
its cells to another one.
"""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Literal, TypeAlias

from silobench.data.agreed.form import AgreedFile, read_form
from silobench.data.dataset import TaskKind
from silobench.data.encoder import FeatureColumn, NumericColumn, part_facts, part_of
from silobench.data.readers.checks import unreadable
from silobench.data.readers.image_files import Colour
from silobench.data.table.scaling import Scale
from silobench.errors import DataError
from silobench.spec.toml import read_toml, toml_key, toml_value

AgreedScale: TypeAlias = Literal["standard", "stated", "none"]
_HEAD = (
    "# What the silos agree on about their rows. Each silo reads its own rows by this file; it may be edited until it",
    "# is signed.",
)


@dataclass(frozen=True)
class Label:
    """The column to predict: its classes in order, or a number if it has none."""

    name: str
    classes: tuple[str, ...] = ()
    unit: str = ""
    decimal: str = "."  # marks of a number
    thousands: str = ""

    @property
    def task(self) -> TaskKind:
        return "classification" if self.classes else "regression"


@dataclass(frozen=True)
class Pictures:
    """The form of every picture."""

    size: int
    colour: Colour


@dataclass(frozen=True)
class Columns:
    """How the rows of every silo become features and labels. `parts` is empty if rows are pictures.

    Each silo holds out the share `test` of its rows. `scale` is standard (mean and deviation of all silos' training
    rows, from sums that silos send), stated (those in `scales`, so that no sums are sent) or none.
    """

    label: Label
    parts: tuple[FeatureColumn, ...] = ()
    pictures: Pictures | None = None
    test: float = 0.2
    scale: AgreedScale = "standard"
    scales: Mapping[str, Scale] = field(default_factory=dict)  # by numeric feature, if they are stated

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the raw columns that every silo needs, the label first."""
        return (self.label.name, *(part.name for part in self.parts))

    @property
    def numeric_features(self) -> tuple[str, ...]:
        """The names of the features that are numbers."""
        numeric = (part for part in self.parts if isinstance(part, NumericColumn))
        return tuple(feature for part in numeric for feature in part.features)

    @property
    def summed_features(self) -> tuple[str, ...]:
        """The names of the features whose sums silos send before training."""
        return () if self.scale == "stated" else self.numeric_features

    @classmethod
    def read(cls, path: Path | str) -> "Columns":
        """Return the agreement of a file."""
        path = Path(path)
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise unreadable(path, error, "text in UTF-8", "write it with `silobench silo columns`") from error
        return cls.of_text(text, str(path))

    @classmethod
    def of_text(cls, text: str, source: str = "columns.toml") -> "Columns":
        """Return the agreement of a TOML text; refuse a text that states something wrong. `source` names the text."""
        try:
            facts = read_toml(text)
        except tomllib.TOMLDecodeError as error:
            raise DataError(f"{source} is not TOML ({error}): correct it.") from error
        return _columns_of_form(read_form(facts, source))

    def text(self) -> str:
        """Return the agreement as TOML; `of_text` returns an equal one."""
        kind = "images" if self.pictures else "table"
        lines = [*_HEAD, "version = 1", f'kind = "{kind}"', f"test = {toml_value(self.test)}"]
        if self.pictures:
            lines += [f"size = {self.pictures.size}", f'colour = "{self.pictures.colour}"']
        else:
            lines += [f'scale = "{self.scale}"']
        lines += ["", "[label]", *_lines(self._label_facts())]
        for part in self.parts:
            lines += ["", "[[column]]", *_lines(_stated_facts(part))]
        if self.scales:
            stated = {name: {"mean": scale.shift, "deviation": scale.scale} for name, scale in self.scales.items()}
            lines += ["", "[scales]", *_lines(stated)]
        return "\n".join(lines) + "\n"

    def _label_facts(self) -> dict[str, Any]:
        label = self.label
        if label.classes:
            return {"name": label.name, "task": label.task, "classes": label.classes}
        marks = (
            {"decimal": label.decimal, "thousands": label.thousands}
            if (label.decimal, label.thousands) != (".", "")
            else {}
        )
        return {"name": label.name, "task": label.task, **({"unit": label.unit} if label.unit else {}), **marks}


def _stated_facts(part: FeatureColumn) -> dict[str, Any]:
    """Return the facts about a column that are not its defaults, the name first."""
    defaults = {each.name: each.default for each in fields(part)}
    facts = {key: value for key, value in part_facts(part).items() if key == "kind" or value != defaults[key]}
    return {"name": facts.pop("name"), **facts}


def _lines(facts: Mapping[str, Any]) -> list[str]:
    return [f"{toml_key(key)} = {toml_value(value)}" for key, value in facts.items()]


def _columns_of_form(form: AgreedFile) -> Columns:
    stated_label = form.label.model_dump(exclude={"task", "classes"})
    label = Label(classes=tuple(form.label.classes), **stated_label)
    pictures = Pictures(form.size, form.colour) if form.kind == "images" else None
    parts = tuple(part_of(column.model_dump()) for column in form.column)
    stated = {name: Scale(one.mean, one.mean, one.deviation) for name, one in form.scales.items()}
    return Columns(label, parts, pictures, form.test, form.scale, stated)
