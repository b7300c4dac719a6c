"""Where the rows of a silo are: a table or a folder of pictures, as the silo's own people write it."""

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias

from silobench.data.encoder import FeatureColumn, NumberColumn
from silobench.data.readers.checks import file_path
from silobench.data.readers.image_files import list_pictures, match_pattern, match_table
from silobench.data.readers.user_tables import separator_of
from silobench.data.table.cells import Decimal, Thousands
from silobench.data.table.files import PARQUET, Table, read_csv, read_parquet
from silobench.errors import DataError
from silobench.spec import Registry


@dataclass(frozen=True)
class TableSource:
    """A table of a silo. Its numbers may have other marks than those of the agreement."""

    path: Path
    sep: str = "auto"
    encoding: str = "auto"
    decimal: Decimal = "auto"
    thousands: Thousands = ""

    def read(self, wanted: tuple[str, ...], only: tuple[str, ...] = (), drop: tuple[str, ...] = ()) -> Table:
        """Return the columns in `only`, default all; the separator is the one that finds the `wanted` columns.

        Columns to `drop` may have any type.
        """
        if self.path.suffix.lower() in PARQUET:
            return read_parquet(self.path, only, drop)
        return read_csv(self.path, wanted, sep=self.sep, encoding=self.encoding, only=only)

    def marked(self, part: FeatureColumn) -> FeatureColumn:
        """Return a column with the marks of this table."""
        if not isinstance(part, NumberColumn) or (self.decimal == "auto" and not self.thousands):
            return part
        return replace(part, decimal=self.decimal.replace("auto", "."), thousands=self.thousands)


@dataclass(frozen=True)
class PictureSource:
    """A folder of pictures of a silo."""

    path: Path
    pattern: str = "{label}/*"
    table: str = ""

    def labels(self, name: str) -> tuple[list[str], list[str]]:
        """Return the pictures that have a label, and the label of each; `name` is its field or column."""
        pictures = list_pictures(self.path)
        if self.table:
            names, fields = match_table(file_path(self.table), self.path, pictures, self.pattern, [name])
        else:
            names, fields = match_pattern(self.path, pictures, self.pattern, [name])
        return names, fields[name]


SiloSource: TypeAlias = TableSource | PictureSource
SOURCES: Registry[SiloSource] = Registry("form of silo data")


@SOURCES.register
def csv(
    path: str, sep: str = "auto", encoding: str = "auto", decimal: Decimal = "auto", thousands: Thousands = ""
) -> SiloSource:
    """A CSV table with a header. The arguments are those of the dataset `csv`."""
    if thousands and thousands == decimal:
        raise DataError(f"decimal and thousands of {path} are both '{decimal}': they need different marks.")
    return TableSource(file_path(path), separator_of(path, sep), encoding, decimal, thousands)


@SOURCES.register
def parquet(path: str) -> SiloSource:
    """A Parquet table."""
    file = file_path(path)
    if file.suffix.lower() not in PARQUET:
        raise DataError(f"{path} does not end in {' or '.join(PARQUET)}: rename it, or write csv(path={path}).")
    return TableSource(file)


@SOURCES.register
def images(path: str, pattern: str = "{label}/*", table: str = "") -> SiloSource:
    """A folder of pictures. The arguments are those of the dataset `images`."""
    return PictureSource(file_path(path), pattern, table)


def source_of(text: str) -> SiloSource:
    """Return the source of a spec such as ``csv(path=north.csv, sep=tab)``, or of a path.

    >>> source_of("north.csv").path.name, source_of("parquet(path=south.parquet)").path.name
    ('north.csv', 'south.parquet')
    """
    path = file_path(text.strip())
    if text.strip().endswith(")") and not os.path.exists(path):  # unlike `Path.exists`, for a text of any length
        return SOURCES.build(text)
    return PictureSource(path) if os.path.isdir(path) else TableSource(path)
