"""Regions of the Earth by the UN's M49 standard, and the dataset of geotagged species.

M49 assigns whole countries: all of Russia belongs to Eastern Europe, Hawaii to Northern America, Sinai to Africa and
the Indonesian half of New Guinea to Asia. Here the regions are boxes of latitude and longitude (m49.csv), which is
coarse: of 171,075 towns of GeoNames, 99.9 % get the right continent and 99.4 % the right subcontinent; the errors are
near borders.
"""

import csv
import io
from collections.abc import Sequence
from contextlib import suppress
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from silobench.data.dataset import Dataset, Split, encode_labels, hold_out
from silobench.data.store.archives import members, read_limited, size_limit
from silobench.data.store.cache import stored
from silobench.data.store.directory import Files
from silobench.errors import DataError

# The second-level regions of M49 and their first-level regions (subcontinents and continents in Hsieh et al., 2020).
CONTINENT_OF = {
    "Northern Africa": "Africa",
    "Sub-Saharan Africa": "Africa",
    "Latin America and the Caribbean": "Americas",
    "Northern America": "Americas",
    "Central Asia": "Asia",
    "Eastern Asia": "Asia",
    "South-eastern Asia": "Asia",
    "Southern Asia": "Asia",
    "Western Asia": "Asia",
    "Eastern Europe": "Europe",
    "Northern Europe": "Europe",
    "Southern Europe": "Europe",
    "Western Europe": "Europe",
    "Australia and New Zealand": "Oceania",
    "Melanesia": "Oceania",
    "Micronesia": "Oceania",
    "Polynesia": "Oceania",
}

# The second-level regions by their codes.
M49 = {
    "15": "Northern Africa",
    "202": "Sub-Saharan Africa",
    "419": "Latin America and the Caribbean",
    "3": "Northern America",
    "143": "Central Asia",
    "30": "Eastern Asia",
    "35": "South-eastern Asia",
    "34": "Southern Asia",
    "145": "Western Asia",
    "151": "Eastern Europe",
    "154": "Northern Europe",
    "39": "Southern Europe",
    "155": "Western Europe",
    "53": "Australia and New Zealand",
    "54": "Melanesia",
    "57": "Micronesia",
    "61": "Polynesia",
}


def _read_boxes() -> tuple[tuple[str, ...], NDArray[np.float64]]:
    """Read m49.csv: the region of every box, and the boxes ``[n, 4]`` as south, north, west, east in degrees.

    A point belongs to the first box that contains it, so a large box may overlap smaller boxes before it.
    """
    text = resources.files("silobench.data.readers").joinpath("m49.csv").read_text(encoding="utf-8")
    rows = list(csv.DictReader(io.StringIO(text)))
    boxes = [[float(row[side]) for side in ("south", "north", "west", "east")] for row in rows]
    return tuple(row["region"] for row in rows), np.array(boxes)


_REGIONS, _BOXES = _read_boxes()


def regions(latitude: NDArray[Any], longitude: NDArray[Any]) -> dict[str, NDArray[np.str_]]:
    """Return the `continent` and `subcontinent` of points in degrees; a point in no box gets the nearest box."""
    box = np.full(len(latitude), -1)
    for number in reversed(range(len(_BOXES))):  # in reverse, so that the first box that contains a point wins
        south, north, west, east = _BOXES[number]
        box[(latitude >= south) & (latitude <= north) & (longitude >= west) & (longitude <= east)] = number
    for row in np.flatnonzero(box < 0):
        box[row] = _nearest(float(latitude[row]), float(longitude[row]))
    subcontinents = np.array(_REGIONS)[box]
    return {"continent": np.array([CONTINENT_OF[name] for name in _REGIONS])[box], "subcontinent": subcontinents}


def _nearest(latitude: float, longitude: float) -> int:
    """Return the box nearest to a point; degrees of longitude are scaled by the cosine of the latitude."""
    south, north, west, east = _BOXES.T
    vertical = np.maximum(np.maximum(south - latitude, latitude - north), 0)
    inside = (west <= longitude) & (longitude <= east)
    horizontal = np.where(inside, 0, np.minimum((west - longitude) % 360, (longitude - east) % 360))
    return int(np.argmin(np.hypot(vertical, horizontal * np.cos(np.radians(latitude)))))


# --- geo-species -------------------------------------------------------------------------------------

_COLUMNS = ("label", "latitude", "longitude")


def geo_species() -> Dataset:
    """36,143 geotagged photographs of 4,472 species: the features are latitude and longitude, the class the species.

    There are no pictures. It serves as a real table of region x class, by `continent` and `subcontinent` (M49). A fifth
    of each species is held out, but nothing of a species with fewer than three rows.
    """
    return stored("geo-species", _read_geo_species)


def _read_geo_species(files: Files) -> Dataset:
    path = files["yfcc100m_geolocated_inat2017species.csv.zip"]
    table, lines = _read_archive(path)
    points = read_points(path, table["latitude"], table["longitude"], lines)
    y, classes = encode_labels("geo-species", np.array(table["label"]))
    train, test = hold_out(Split(points.astype(np.float32), y, regions(points[:, 0], points[:, 1])), 0.2)
    return Dataset(
        "geo-species",
        train,
        test,
        classes,
        files.entry.licence,
        ("continents and subcontinents follow M49, approximated by boxes of latitude and longitude",),
        defaults={"partition": "by-group"},
        columns=("latitude", "longitude"),
    )


def read_points(
    path: Path, latitude: Sequence[str], longitude: Sequence[str], lines: Sequence[int]
) -> NDArray[np.float64]:
    """Parse latitudes and longitudes as ``[n, 2]``; raise an error with the line of the first invalid pair."""
    points = np.full((len(lines), 2), np.nan)
    for row, cells in enumerate(zip(latitude, longitude, strict=True)):
        with suppress(ValueError):
            points[row] = [float(cell) for cell in cells]
    good = (np.abs(points) <= (90, 180)).all(1)
    if not good.all():
        bad = int(np.flatnonzero(~good)[0])
        raise DataError(
            f"{path} has the latitude '{latitude[bad]}' and longitude '{longitude[bad]}' in line {lines[bad]}: "
            "degrees from -90 to 90 and from -180 to 180 are needed, so correct or remove that line."
        )
    return points


def _read_archive(path: Path) -> tuple[dict[str, list[str]], list[int]]:
    """Return the columns of the only table in an archive, and the line where each row ends; skip files of macOS."""
    tables = []
    for member in members(path):
        if member.name.endswith(".csv") and not member.name.startswith("__MACOSX/"):
            content = read_limited(member.stream, size_limit(path), f"{member.name} in {path}")
            tables.append(_read_columns(path, content))
    if len(tables) != 1:
        raise DataError(f"{path} has {len(tables)} tables (.csv): exactly one is needed, so fetch the file again.")
    return tables[0]


def _read_columns(path: Path, content: bytes) -> tuple[dict[str, list[str]], list[int]]:
    lines, rows = [], []
    try:
        reader = csv.DictReader(io.StringIO(content.decode("utf-8-sig"), newline=""), restval="")
        missing = sorted(set(_COLUMNS) - set(reader.fieldnames or ()))
        if missing:
            raise DataError(f"{path} has a table without the column '{missing[0]}': {', '.join(_COLUMNS)} are needed.")
        for row in reader:
            lines.append(reader.line_num)
            rows.append([row[name].strip() for name in _COLUMNS])
    except (UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"{path} has a table that cannot be read as CSV ({error}): fetch the file again.") from error
    for line, (label, *_) in zip(lines, rows, strict=True):
        if not label:
            raise DataError(f"{path} has no label in line {line} of its table: add it, or remove that line.")
    if not rows:
        raise DataError(f"{path} has a table without rows: at least one is needed, so fetch the file again.")
    return {name: [row[place] for row in rows] for place, name in enumerate(_COLUMNS)}, lines
