"""Regions by boxes, on cities that everyone knows; and the table of species, made up and real."""

import os
import zipfile
from pathlib import Path

import numpy as np
import pytest

from silobench.data import Dataset
from silobench.data.readers import geo
from silobench.data.readers.geo import CONTINENT_OF, regions
from silobench.data.store.catalog import Entry, File
from silobench.data.store.directory import Files
from silobench.errors import DataError
from silobench.federation import federate
from silobench.loop.rounds import rounds
from silobench.method.algorithms import fedavg
from silobench.method.method import Method
from silobench.method.solvers import sgd
from silobench.tasks.task import task

# City, latitude, longitude; by the region that the UN has them in.
TOWNS = """
Northern Africa: Cairo 30.04 31.24; Sharm el-Sheikh 27.91 34.33; Casablanca 33.57 -7.59; Tunis 36.81 10.18;
    Algiers 36.75 3.06; Tripoli 32.89 13.19; Khartoum 15.5 32.56; Port Sudan 19.62 37.22
Sub-Saharan Africa: Lagos 6.52 3.38; Dakar 14.69 -17.45; Nairobi -1.29 36.82; Addis Ababa 9.03 38.74; Cape Town
    -33.92 18.42; Kinshasa -4.33 15.31; Antananarivo -18.88 47.51; Juba 4.85 31.6; Djibouti 11.59 43.15; Port
    Louis -20.16 57.5; Praia 14.93 -23.51; Asmara 15.32 38.93
Latin America and the Caribbean: Mexico City 19.43 -99.13; Tijuana 32.51 -117.02; Ciudad Juarez 31.69 -106.42;
    Monterrey 25.69 -100.32; Havana 23.11 -82.37; Nassau 25.05 -77.36; San Juan 18.47 -66.11; Panama City 8.98
    -79.52; Guatemala City 14.63 -90.51; Bogota 4.71 -74.07; Lima -12.05 -77.04; Sao Paulo -23.55 -46.63; Buenos
    Aires -34.6 -58.38; Ushuaia -54.8 -68.3; Cayenne 4.92 -52.33; Puerto Ayora -0.75 -90.31
Northern America: New York 40.71 -74.01; Miami 25.76 -80.19; Key West 24.56 -81.78; San Diego 32.72 -117.16;
    Brownsville 25.93 -97.48; Anchorage 61.22 -149.9; Honolulu 21.31 -157.86; Vancouver 49.28
    -123.12; St. John's 47.56 -52.71; Nuuk 64.18 -51.72; Hamilton 32.29 -64.78
Central Asia: Tashkent 41.3 69.24; Almaty 43.24 76.89; Astana 51.17 71.43; Ashgabat 37.96 58.33; Dushanbe 38.56
    68.79; Bishkek 42.87 74.59; Samarkand 39.65 66.96
Eastern Asia: Beijing 39.9 116.41; Hong Kong 22.32 114.17; Taipei 25.03 121.57; Tokyo 35.68 139.69; Sapporo
    43.06 141.35; Naha 26.21 127.68; Seoul 37.57 126.98; Ulaanbaatar 47.89 106.91; Lhasa 29.65 91.12; Urumqi
    43.83 87.62; Kashgar 39.47 75.99; Harbin 45.8 126.53; Haikou 20.04 110.34; Kunming 25.04 102.72
South-eastern Asia: Bangkok 13.76 100.5; Singapore 1.35 103.82; Jakarta -6.21 106.85; Denpasar -8.65 115.22;
    Manila 14.6 120.98; Hanoi 21.03 105.85; Ho Chi Minh City 10.82 106.63; Yangon 16.87 96.2; Jayapura -2.53
    140.7; Dili -8.56 125.57; Kota Kinabalu 5.98 116.07
Southern Asia: Delhi 28.61 77.21; Mumbai 19.08 72.88; Colombo 6.93 79.86; Dhaka 23.81 90.41; Kathmandu 27.72
    85.32; Leh 34.15 77.58; Karachi 24.86 67; Kabul 34.56 69.21; Tehran 35.69 51.39; Tabriz 38.08 46.29; Thimphu
    27.47 89.64; Male 4.18 73.51; Port Blair 11.62 92.73
Western Asia: Istanbul 41.01 28.98; Izmir 38.42 27.14; Ankara 39.93 32.86; Nicosia 35.19 33.38; Tbilisi 41.72
    44.79; Yerevan 40.18 44.51; Baku 40.41 49.87; Jerusalem 31.77 35.21; Gaza 31.5 34.47; Baghdad 33.31 44.37;
    Riyadh 24.71 46.68; Dubai 25.2 55.27; Muscat 23.59 58.41; Aden 12.79 45.02; Mecca 21.39 39.86
Eastern Europe: Moscow 55.76 37.62; Saint Petersburg 59.93 30.36; Kaliningrad 54.71 20.45; Vladivostok 43.12
    131.89; Irkutsk 52.29 104.3; Novosibirsk 55.03 82.92; Petropavlovsk 53.02 158.65; Sochi 43.6 39.73;
    Yuzhno-Sakhalinsk 46.96 142.73; Kyiv 50.45 30.52; Minsk 53.9 27.57; Warsaw 52.23 21.01; Prague 50.08 14.44;
    Bratislava 48.15 17.11; Budapest 47.5 19.04; Bucharest 44.43 26.1; Sofia 42.7 23.32; Chisinau 47.01 28.86
Northern Europe: London 51.51 -0.13; Dublin 53.35 -6.26; Reykjavik 64.15 -21.94; Oslo 59.91 10.75; Stockholm
    59.33 18.07; Helsinki 60.17 24.94; Copenhagen 55.68 12.57; Vilnius 54.69 25.28; Riga 56.95 24.11; Tallinn
    59.44 24.75; Longyearbyen 78.22 15.65; Torshavn 62.01 -6.77
Southern Europe: Madrid 40.42 -3.7; Barcelona 41.39 2.17; Lisbon 38.72 -9.14; Ponta Delgada 37.74 -25.67; Las
    Palmas 28.12 -15.43; Rome 41.9 12.5; Milan 45.46 9.19; Palermo 38.12 13.36; Valletta 35.9 14.51; Athens
    37.98 23.73; Heraklion 35.34 25.14; Rhodes 36.43 28.22; Belgrade 44.79 20.45; Zagreb 45.81 15.98; Ljubljana
    46.06 14.51; Gibraltar 36.14 -5.35
Western Europe: Paris 48.86 2.35; Nice 43.7 7.27; Ajaccio 41.92 8.74; Brussels 50.85 4.35; Berlin 52.52 13.41;
    Munich 48.14 11.58; Hamburg 53.55 9.99; Dresden 51.05 13.74; Vienna 48.21 16.37; Zurich 47.37 8.54; Geneva
    46.2 6.14; Amsterdam 52.37 4.9; Innsbruck 47.27 11.39
Australia and New Zealand: Sydney -33.87 151.21; Perth -31.95 115.86; Darwin -12.46 130.84; Cairns -16.92
    145.77; Hobart -42.88 147.33; Auckland -36.85 174.76; Invercargill -46.41 168.35
Melanesia: Port Moresby -9.44 147.18; Suva -18.12 178.45; Noumea -22.26 166.45; Honiara -9.43 159.96
Micronesia: Hagatna 13.48 144.75; Tarawa 1.33 173.01; Majuro 7.1 171.38; Koror 7.34 134.48
Polynesia: Apia -13.83 -171.77; Papeete -17.54 -149.57; Nuku'alofa -21.14 -175.2; Funafuti -8.52 179.2
"""


def cities() -> list[tuple[str, str, float, float]]:
    """Region, city, latitude and longitude."""
    found = []
    for line in TOWNS.replace("\n    ", " ").strip().splitlines():
        region, _, towns = line.partition(": ")
        for town in towns.split("; "):
            name, latitude, longitude = town.rsplit(" ", 2)
            found.append((region, name, float(latitude), float(longitude)))
    return found


def region_of(latitude: float, longitude: float) -> tuple[str, str]:
    found = regions(np.array([latitude]), np.array([longitude]))
    return str(found["continent"][0]), str(found["subcontinent"][0])


@pytest.mark.parametrize(("region", "city", "latitude", "longitude"), cities())
def test_well_known_cities_lie_where_the_un_has_them(region: str, city: str, latitude: float, longitude: float) -> None:
    assert region_of(latitude, longitude) == (CONTINENT_OF[region], region), city


def test_there_are_many_cities_in_all_regions() -> None:
    assert {region for region, *_ in cities()} == set(CONTINENT_OF)
    assert len(cities()) == 185
    assert sorted(set(CONTINENT_OF.values())) == ["Africa", "Americas", "Asia", "Europe", "Oceania"]


def test_points_at_sea_go_to_the_nearest_land() -> None:
    assert region_of(50, -14) == ("Europe", "Northern Europe")  # west of Ireland
    assert region_of(35, -76)[0] == "Americas"
    assert region_of(-65, -60) == (
        "Americas",
        "Latin America and the Caribbean",
    )  # Antarctica is of no continent of M49
    assert region_of(40, 179.9)[0] in CONTINENT_OF.values()
    assert region_of(-3, 70)[0] in ("Asia", "Africa")


def test_the_nearest_is_found_across_the_date_line_too() -> None:
    assert region_of(-60, 179.9) == region_of(-60, -179.9) == ("Oceania", "Australia and New Zealand")


def test_no_point_of_the_globe_is_lost() -> None:
    latitude, longitude = (side.ravel() for side in np.meshgrid(np.arange(-90, 91, 6.0), np.arange(-180, 181, 6.0)))
    found = regions(latitude, longitude)
    assert set(found["subcontinent"].tolist()) <= set(CONTINENT_OF)
    assert [CONTINENT_OF[name] for name in found["subcontinent"].tolist()] == found["continent"].tolist()


def test_every_box_has_its_ends_in_order() -> None:
    south, north, west, east = geo._BOXES.T
    assert (south < north).all()
    assert (west < east).all()
    assert np.abs(geo._BOXES).max() == 180
    assert set(geo._REGIONS) == set(CONTINENT_OF)


# --- geo-species -------------------------------------------------------------------------------------

NAME = "yfcc100m_geolocated_inat2017species.csv.zip"
PLACES = {
    "Australia and New Zealand": "-33.87,151.21",
    "Northern Europe": "59.33,18.07",
    "Sub-Saharan Africa": "0,37",
    "Western Europe": "48.86,2.35",
}
HEADER = "yfcc100m ID,label,latitude,longitude"


def species(root: Path, *lines: str, header: str = HEADER, member: str = "table.csv") -> Dataset:
    """The dataset of a made-up archive."""
    with zipfile.ZipFile(root / NAME, "w") as archive:
        archive.writestr(member, "\n".join([header, *lines]))
        archive.writestr("__MACOSX/._table.csv", b"\0\5\26\7")
    entry = Entry(name="geo-species", summary="", licence="L", citation="", files={NAME: File()}, forms={"a": (NAME,)})
    return geo._read_geo_species(Files(entry, "a", root, (NAME,)))


def test_species_have_their_point_and_region(tmp_path: Path) -> None:
    made = species(tmp_path, *["1,Felis catus,48.86,2.35"] * 5, *["2,Vulpes vulpes,-33.87,151.21"] * 5, "3,Equus,0,37")
    assert (made.classes, made.columns) == (("Equus", "Felis catus", "Vulpes vulpes"), ("latitude", "longitude"))
    assert (len(made.train), len(made.test), made.licence) == (9, 2, "L")
    assert made.train.x.dtype == np.float32
    assert 0 not in made.test.y  # one row of Equus, and it stays in training
    where = dict(zip(made.train.y.tolist(), made.train.groups["subcontinent"].tolist(), strict=True))
    assert where == {0: "Sub-Saharan Africa", 1: "Western Europe", 2: "Australia and New Zealand"}
    assert set(made.train.groups["continent"].tolist()) == {"Africa", "Europe", "Oceania"}


@pytest.mark.parametrize(
    ("level", "least", "names"),
    [
        ("continent", 0, ["Africa", "Europe", "Oceania"]),
        ("subcontinent", 0, [*PLACES]),
        ("continent", 11, ["Europe"]),  # ten are of a place
    ],
)
def test_parties_are_regions_of_either_level_to_the_end_of_a_run(
    tmp_path: Path, level: str, least: int, names: list[str]
) -> None:
    points = [f"{n},{animal},{place}" for place in PLACES.values() for animal in ("Felis", "Vulpes") for n in range(5)]
    data = species(tmp_path, *points)
    federation = federate(data, f"by-group(level={level}, min_size={least})")
    assert [party.name for party in federation.parties] == names
    where = data.train.groups[level].tolist()
    assert [party.samples for party in federation.parties] == [where.count(name) for name in names]
    assert bool(federation.partition.notes) == bool(least)
    (record,) = rounds(Method(fedavg(), sgd(lr=0.01, epochs=1)), federation, task("linear", data), rounds=1)
    assert 0 <= record.accuracy <= 1


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("9,Felis,91,0", r"latitude '91' .* line 3"),
        ("9,Felis,0,200", r"longitude '200' in line 3"),
        ("9,Felis,north,0", r"latitude 'north' .* line 3"),
        ("9,Felis,nan,0", r"latitude 'nan' .* line 3"),
        ("9,Felis", "line 3"),
        ("9, ,1,1", "no label in line 3"),
    ],
)
def test_a_bad_row_is_refused_with_its_line(tmp_path: Path, line: str, words: str) -> None:
    with pytest.raises(DataError, match=words):
        species(tmp_path, "1,Vulpes,1,1", line)


def test_other_tables_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="without the column 'latitude'"):
        species(tmp_path, "Felis,1,1", header="label,lat,longitude")
    with pytest.raises(DataError, match="without rows"):
        species(tmp_path)
    with pytest.raises(DataError, match="0 tables"):
        species(tmp_path, "1,Felis,1,1", member="table.txt")
    with pytest.raises(DataError, match="cannot be read as CSV"):
        species(tmp_path, "1,Felis,1,1\0" + "x" * 200_000)
    (tmp_path / NAME).write_bytes(b"PK\3\4 torn")
    with pytest.raises(DataError, match="damaged"):
        geo._read_archive(tmp_path / NAME)


@pytest.mark.skipif("SILOBENCH_TEST_DATA" not in os.environ, reason="needs real files")
def test_the_real_table() -> None:
    root = Path(os.environ["SILOBENCH_TEST_DATA"]) / "inat_yfcc_geo"
    if not (root / NAME).is_file():
        pytest.skip("the file is not there")
    entry = Entry(name="geo-species", summary="", licence="L", citation="", files={NAME: File()}, forms={"a": (NAME,)})
    made = geo._read_geo_species(Files(entry, "a", root, (NAME,)))
    assert (len(made.train) + len(made.test), len(made.classes)) == (36_143, 4_472)
    assert set(np.unique(made.train.y).tolist()) == set(range(4_472))
    assert len(np.unique(made.train.groups["subcontinent"])) == 17
