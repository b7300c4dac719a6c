"""Where on Earth a row is from: the regions of the UN's M49 standard, and the table of geotagged species.

M49 places whole countries: all of Russia lies in Eastern Europe, Hawaii in Northern America, Sinai in Africa and the
Indonesian half of New Guinea in Asia. Here its borders are boxes of latitude and longitude, which is coarse: of 171,075
towns of GeoNames 99.9 % get their continent and 99.4 % their subcontinent, and near a border one may not.
"""

import csv
import io
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from silobench.data.dataset import Dataset, Split, encode_labels, hold_out
from silobench.data.store.archives import allowance, blocks, members
from silobench.data.store.cache import stored
from silobench.data.store.store import Files
from silobench.errors import DataError

# The second-level regions of M49, each with its first-level one: subcontinents and continents in Hsieh et al. (2020).
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

# Their codes, as tables write them.
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

# Boxes as south north west east, in degrees with both ends; the first that holds a point is its region. A large box may
# so cover what smaller ones before it have taken.
_TABLE = """
# islands and coasts that a larger box would take
Northern America: 18.5 29 -179 -154, 51 54 172 180  # Hawaii, the western Aleutians
Eastern Europe: 64.2 72 -180 -169  # Chukotka
Northern America: 31.8 33 -65.5 -64  # Bermuda
Northern Europe: 62.8 67.5 -25 -12, 70.5 71.5 -10 -7  # Iceland, Jan Mayen
Southern Europe: 36.5 40 -32 -24, 32 33.5 -18 -15.5, 27 29.6 -18.5 -13.3  # Azores, Madeira, Canary Islands
# the Americas: Mexico by steps along its border, the Bahamas beside Florida
Latin America and the Caribbean: 20.5 27.4 -79.3 -70, 24 32.54 -118.5 -116, 24 32.67 -116 -114.73  # Bahamas
Latin America and the Caribbean: 24 32.1 -114.73 -113, 24 31.4 -113 -111.1, 24 31.33 -111.1 -108.2
Latin America and the Caribbean: 24 31.75 -108.2 -106.4, 24 30.9 -106.4 -105, 24 29.5 -105 -103.3
Latin America and the Caribbean: 24 29.1 -103.3 -100.65, 24 27.9 -100.65 -99.51, 24 26.4 -99.51 -99
Latin America and the Caribbean: 24 26.08 -99 -98.2, 24 25.9 -98.2 -97, 7 24 -118.5 -59, -60 13 -93 -26
Latin America and the Caribbean: -30 -24 -110 -79  # Easter Island
Northern America: 24 84 -170 -50, 50 72 -180 -169, 59 84 -74 -10  # Alaska, Greenland
# Africa with Sinai
Northern Africa: 27.5 31.25 32 34.25, 28 30.3 34.2 34.6  # Sinai
Southern Europe: 35.95 43.9 -10 -1.76, 36.9 42.8 -1.76 0.7, 38 42.66 0.7 1.8, 38 42.45 1.8 4.5  # Iberia
Southern Europe: 35.4 40 11.9 25.6, 38.7 41.3 8 10  # Sardinia
Western Europe: 41.3 43.2 8.4 9.7  # Corsica
Northern Africa: 27.3 37.6 -13.4 11.9, 21.3 27.7 -17.3 -13, 26 27.3 -13 -8.7, 24.5 27.3 -4 12, 21.5 24.5 1 9.5
Northern Africa: 19.5 21.5 2.5 7.5, 23 34 11.5 24.9, 21 23 20 25, 22 31.7 24.9 34.2, 22 25.8 34.5 36.6
Northern Africa: 16.5 22 24 38.1, 14.2 16.5 22.8 36.6, 12.1 14.2 22.2 36
Sub-Saharan Africa: 9 12.1 32.3 33.2  # South Sudan's Renk
Northern Africa: 10.2 12.1 24.5 34.3
Western Asia: 12.2 12.8 52 54.6, 12.55 13.4 43.2 54, 13.4 15 42.7 54, 15 17.5 41.7 56  # Socotra
Sub-Saharan Africa: -36 17.6 -26 43.2, -36 12.5 43.2 52, -30 -2 52 64  # Mauritius, Réunion, Seychelles
Sub-Saharan Africa: 15 27.3 -18 24
# Greek islands, then Turkey, Cyprus, the Caucasus
Southern Europe: 34.7 36.55 23 28.3, 36.55 37 25.6 27.36, 37 37.82 25.6 27.07  # Crete, Rhodes, Kos, Samos
Southern Europe: 38.1 38.65 25.6 26.18, 38.9 39.42 25.6 26.62  # Chios, Lesbos
Western Asia: 35.8 40.65 25.6 44.4, 40.4 41.05 26.3 44, 41.05 41.95 26.65 40, 41.05 43.4 40 43.8  # Turkey
Western Asia: 38.85 42.6 43.8 46.6, 38.4 41.85 47.9 51, 39.3 41.85 46.6 48
# Iran, then Arabia, the Levant and Iraq
Southern Asia: 36.5 38.95 44.8 54.2, 35.6 36.5 46 61.2, 32.9 35.6 46 60, 31.9 32.9 47.6 60, 30.2 31.9 48 60  # Iran
Southern Asia: 28.6 30.2 49.8 60, 26.5 28.6 51.3 60, 25 26.5 57 60
Western Asia: 29.4 37.5 34.2 48.1, 32 37.4 32 46, 25.8 29.4 34.6 51, 22 26.5 36.6 60.5, 16 22 38.6 60.5
# Central Asia by steps along Afghanistan, China and Russia
Central Asia: 37.4 45 52.2 59, 36.6 45 59 61.2, 35.3 45 61.2 63.5, 36.3 45 63.5 65, 37.25 45 65 67.8
Central Asia: 37.1 43.5 67.8 69.4, 37.6 43.5 69.4 70.8, 37.45 43.5 71.5 73.5, 38.4 43.5 70.8 71.5
Central Asia: 37.45 39.4 73.5 74.8, 39.4 43.5 73.5 74, 40.4 45 74 76, 41.2 45 76 80.2, 42.5 47 49.5 80.2
Central Asia: 45 47 80.2 82.4, 47 49.9 48.2 85.4, 49.9 51.4 50.6 56.5, 49.9 50.7 56.5 81.2, 50.7 53.9 62 76.8
Central Asia: 53.9 55.1 66 71
# Southern Asia beside Tibet and Burma
Southern Asia: 5 37.1 60 75, 37.1 38.4 66 71.6, 5 35.6 75 78.8, 5 30.5 78.8 81, 5 29.4 81 84, 5 28 84 92.2
Southern Asia: 6 14.2 92 94.2, 22 28.6 92 93.2, 23.9 28.9 93.2 94.3  # Andaman and Nicobar Islands
Southern Asia: 26 29.2 94.3 95.2, 27.1 29 95.2 97, -1 8 72 74  # Maldives
# South-eastern Asia beside China, with Indonesia up to 141 degrees east
Eastern Asia: 18 20.3 108.5 111.3  # Hainan
South-eastern Asia: 23.9 28.3 92 97.6, 21.9 24.1 92 98.8, 5 21.9 92 101.2, 5 21.2 101.2 102, 5 22.5 101.8 103.9
South-eastern Asia: 5 22.75 103.9 106.5, 5 21.55 106.5 108.05, 5 18 108 112, 4 21 112 127, -9 6 94.5 131
South-eastern Asia: -11.05 -8 114 129, -9.3 2 129 141
# Oceania
Micronesia: 0 21 130 175, -1 4 165 177, -5 6 -176 -150  # Nauru, the Gilbert Islands, Kiribati's east
Polynesia: -11 -5 175 180  # Tuvalu
Melanesia: -10.5 0 140.9 149, -12 0 149 157, -23.5 -5 156 180, -21 -15.4 -180 -178  # Fiji's east
Polynesia: -30 -5 -178 -120
Australia and New Zealand: -11 -10 105 106, -13 -11.5 96 97.5, -56 -9 112 170  # Christmas Island, Cocos Islands
Australia and New Zealand: -53 -25 165 180, -46 -29 -180 -175  # Chatham and Kermadec Islands
# Eastern Asia beside Russia
Eastern Europe: 42.4 43.5 130.65 138, 43.5 45.2 131.3 139, 43.4 50 145.4 157  # Primorye, Kurils
Eastern Asia: 20 45.6 111 131.3, 24 45.6 131 145.7, 18 49 87.3 119, 18 47 82.4 87.3, 18 45 73.5 82.4
Eastern Asia: 49 50.3 88.5 116.5, 50.3 51.8 98.5 101.8, 45 49.5 117 130.7, 45.2 48.3 130.5 134.7
Eastern Asia: 49.5 53.2 119.8 126.2
# Northern Europe
Northern Europe: 49.15 49.76 -2.8 -1.96, 49.8 50.8 -11 0.95  # Channel Islands, Great Britain and Ireland
Northern Europe: 50.8 51.25 -11 1.48, 51.25 62 -11 2, 54.84 58 8.35 10, 54.54 58 10.4 12.7, 54.95 72 4 20.5
Northern Europe: 74 81.5 8 35  # Svalbard
Eastern Europe: 54.3 55.2 19.6 22.75  # Kaliningrad
Northern Europe: 53.95 54.4 23.5 25.1, 54.4 55.15 22.7 25.75, 55.15 55.7 20.5 26.65, 55.7 56.4 20.5 28.1
Northern Europe: 56.4 57.5 20.5 27.8, 57.5 59.8 20.5 27.45, 58.9 59.7 27.4 28.18, 59.7 61 19 27.8, 61 61.8 19 29.2
Northern Europe: 61.8 63.8 19 30.9, 63.8 69.3 19 29.7, 69.3 72 19 31.3
# Western Europe beside Italy and the east
Southern Europe: 43.78 44.2 7.55 14, 44.2 45.85 6.95 14, 45.85 46.3 8.1 8.7, 45.85 46.15 9.05 14  # Italy
Southern Europe: 46.15 46.35 9.25 14, 46.35 46.55 10.1 16.4, 46.55 46.92 10.45 12.5, 46.92 47.08 11.2 12.2
Southern Europe: 46.55 46.7 15 16.2
Western Europe: 46.35 48.55 9 16.1, 46.95 48.55 16.1 16.4, 47.75 48.75 15.5 17.05, 48.5 49 4 13.8  # Austria
Western Europe: 48.5 48.75 13.8 16.9, 49 49.3 4 13.1, 49.3 50.25 4 12.4, 50.25 50.55 4 12.9, 50.55 50.95 4 13.9
Western Europe: 50.95 51.5 2 15, 51.5 52.9 2 14.66, 52.9 55 2 14.35, 41 51.2 -6 9.1
# Southern Europe beside the east
Eastern Europe: 45.9 49 16.6 23, 45.5 46.2 20.75 23, 46.6 47.6 16.1 17, 44.6 48 21.5 30  # Hungary
Eastern Europe: 41.3 44.6 22.75 28.8  # Bulgaria
Southern Europe: 35 46.6 12 22.8, 39 41.75 22 26.6
Eastern Europe: 40 82 12 180
"""


def _read_boxes(table: str) -> tuple[tuple[str, ...], NDArray[np.float64]]:
    """The region of every box, and the boxes ``[n, 4]``, in their order."""
    names, boxes = [], []
    for line in table.splitlines():
        region, _, rest = line.partition("#")[0].partition(":")
        for box in rest.split(",") if rest else ():
            names.append(region)
            boxes.append([float(side) for side in box.split()])
    return tuple(names), np.array(boxes)


_REGIONS, _BOXES = _read_boxes(_TABLE)


def regions(latitude: NDArray[Any], longitude: NDArray[Any]) -> dict[str, NDArray[np.str_]]:
    """The `continent` and the `subcontinent` of points in degrees; one in no box, at sea, has those of the nearest."""
    box = np.full(len(latitude), -1)
    for number in reversed(range(len(_BOXES))):  # so that the first box is written last
        south, north, west, east = _BOXES[number]
        box[(latitude >= south) & (latitude <= north) & (longitude >= west) & (longitude <= east)] = number
    for row in np.flatnonzero(box < 0):
        box[row] = _nearest(float(latitude[row]), float(longitude[row]))
    subcontinents = np.array(_REGIONS)[box]
    return {"continent": np.array([CONTINENT_OF[name] for name in _REGIONS])[box], "subcontinent": subcontinents}


def _nearest(latitude: float, longitude: float) -> int:
    """The box with the least distance to a point, where a degree of longitude is as long as it is at that latitude."""
    south, north, west, east = _BOXES.T
    up = np.maximum(np.maximum(south - latitude, latitude - north), 0)
    inside = (west <= longitude) & (longitude <= east)
    aside = np.where(inside, 0, np.minimum((west - longitude) % 360, (longitude - east) % 360))
    return int(np.argmin(np.hypot(up, aside * np.cos(np.radians(latitude)))))


# --- geo-species -------------------------------------------------------------------------------------

_NEEDED = ("label", "latitude", "longitude")


def geo_species() -> Dataset:
    """36,143 geotagged photographs of 4,472 species as a table: latitude and longitude in degrees, and the species.

    There are no pictures; it is a real table of region x class, by `continent` and by `subcontinent` (M49, by boxes). A
    fifth of each species is held out, none of one with fewer than three rows.
    """
    return stored("geo-species", _read_geo_species)


def _read_geo_species(files: Files) -> Dataset:
    path = files["yfcc100m_geolocated_inat2017species.csv.zip"]
    table, lines = _table(path)
    points = read_points(path, table["latitude"], table["longitude"], lines)
    y, classes = encode_labels("geo-species", np.array(table["label"]))
    train, test = hold_out(Split(points.astype(np.float32), y, regions(points[:, 0], points[:, 1])), 0.2)
    return Dataset(
        "geo-species",
        train,
        test,
        classes,
        files.entry.licence,
        ("continents and subcontinents are those of M49, by coarse boxes of latitude and longitude",),
        defaults={"partition": "by-group"},
        columns=("latitude", "longitude"),
    )


def read_points(
    path: Path, latitude: Sequence[str], longitude: Sequence[str], lines: Sequence[int]
) -> NDArray[np.float64]:
    """Latitudes and longitudes ``[n, 2]`` from a table's cells; a cell that is none is refused, with its line."""
    points = np.full((len(lines), 2), np.nan)
    for row, cells in enumerate(zip(latitude, longitude, strict=True)):
        with suppress(ValueError):
            points[row] = [float(cell) for cell in cells]
    good = (np.abs(points) <= (90, 180)).all(1)
    if not good.all():
        bad = int(np.flatnonzero(~good)[0])
        raise DataError(
            f"{path} has the latitude '{latitude[bad]}' and longitude '{longitude[bad]}' in line {lines[bad]}: "
            "degrees up to 90 and up to 180 are needed, so correct or remove that line."
        )
    return points


def _table(path: Path) -> tuple[dict[str, list[str]], list[int]]:
    """The columns of the archive's one table, and the line where each row ends; a Mac's own files are no tables."""
    tables = []
    for member in members(path):
        if member.name.endswith(".csv") and not member.name.startswith("__MACOSX/"):
            content = b"".join(blocks(member.stream, allowance(path), f"{member.name} in {path}"))
            tables.append(_columns(path, content))
    if len(tables) != 1:
        raise DataError(f"{path} has {len(tables)} tables (.csv): exactly one is needed, so fetch the file again.")
    return tables[0]


def _columns(path: Path, content: bytes) -> tuple[dict[str, list[str]], list[int]]:
    lines, rows = [], []
    try:
        reader = csv.DictReader(io.StringIO(content.decode("utf-8-sig"), newline=""), restval="")
        missing = sorted(set(_NEEDED) - set(reader.fieldnames or ()))
        if missing:
            raise DataError(f"{path} has a table without the column '{missing[0]}': {', '.join(_NEEDED)} are needed.")
        for row in reader:
            lines.append(reader.line_num)
            rows.append([row[name].strip() for name in _NEEDED])
    except (UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"{path} has a table that cannot be read as CSV ({error}): fetch the file again.") from error
    for line, (label, *_) in zip(lines, rows, strict=True):
        if not label:
            raise DataError(f"{path} has no label in line {line} of its table: fill it, or remove that line.")
    if not rows:
        raise DataError(f"{path} has a table without rows: at least one is needed, so fetch the file again.")
    return {name: [row[place] for row in rows] for place, name in enumerate(_NEEDED)}, lines
