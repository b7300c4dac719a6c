"""Tables that two or more owners share: games, songs of the Billboard charts, credit default, and flights."""

import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from silobench.data.alignment.keys import Places, places_of, title_key
from silobench.data.dataset import Dataset
from silobench.data.readers.checks import bad_line
from silobench.data.readers.joined import Owner, Rows, Target, join, numbers_of, read_owner, texts_of
from silobench.data.store.cache import stored
from silobench.data.store.directory import Files
from silobench.data.table.cells import RawColumn, text_column
from silobench.data.table.files import read_csv
from silobench.errors import DataError

# --- games -------------------------------------------------------------------------------------------


def games(rows: Rows = "all") -> Dataset:
    """The score (0 to 10) of 12,536 games by the magazine IGN, from facts of IGN, Steam's store and SteamSpy.

    The owners are joined by title, of which the letters a to z in lower case and digits are compared. Letters of other
    alphabets are dropped, which joins nine more games of IGN and SteamSpy than all letters do (1,446, not 1,437). IGN
    has the genre; its words for the score are left out. `rows` is all, or aligned: the games that all three owners
    have. Groups are the first genre and the owners that have a game. A twelfth is held out.
    """
    return stored("games", _read_games, rows=rows)


def _read_games(files: Files, rows: Rows) -> Dataset:
    ign = read_owner(files["ign_game_clean.csv"], ("score",), ("title", "genre"))
    steam = read_owner(
        files["steam_game_clean.csv"], ("price", "release_year", "required_age", "is_multiplayer"), ("title", "type")
    )
    spy = read_owner(
        files["steamspy.csv"],
        ("price", "average_playtime", "median_playtime", "metascore"),
        ("game", "owners", "release_date"),
    )
    years = [re.findall(r"\d{4}", date)[-1:] for date in texts_of(spy.pop("release_date"))]
    spy["release_year"] = RawColumn("number", np.array([float(year[0]) if year else np.nan for year in years]))
    titles = _keys(ign.pop("title"))
    score = ign.pop("score").values
    if np.isnan(score).any():
        raise DataError(f"{files['ign_game_clean.csv']} has a game without a score: use the published file.")
    genres = [text.partition(",") for text in texts_of(ign.pop("genre"))]
    ign["genre"] = text_column([first.strip() for first, _, _ in genres], True)
    ign["second_genre"] = text_column([second.strip() for _, _, second in genres], True)
    genre = np.array([first.strip() or "unknown" for first, _, _ in genres])
    owners = [
        Owner("ign", ign, np.arange(len(titles))),
        Owner("steam", steam, places_of(titles, _keys(steam.pop("title")))),
        Owner("steamspy", spy, places_of(titles, _keys(spy.pop("game")))),
    ]
    target = Target("score", score.astype(np.float32), "points")
    return join(files, owners, target, {"genre": genre}, rows, "normalised")


def _keys(titles: RawColumn) -> list[str]:
    return [title_key(title) or title for title in texts_of(titles)]


# --- billboard ---------------------------------------------------------------------------------------

_AUDIO = (
    "bpm", "energy", "danceability", "happiness", "loudness_d_b", "acousticness", "length_sec", "instrumental",
    "instrumental_length_sec", "intro_length_sec", "vocal_introduction", "free_time_vocal_introduction", "fade_out",
    "live",
)  # fmt: skip
_AUDIO_TEXTS = ("time_signature", "simplified_key")
_INSTRUMENTS = (
    "vocally_based", "bass_based", "guitar_based", "piano_keyboard_based", "orchestral_strings", "horns_winds",
    "accordion", "banjo", "bongos", "clarinet", "cowbell", "falsetto_vocal", "flute_piccolo", "handclaps_snaps",
    "harmonica", "human_whistling", "kazoo", "mandolin", "pedal_lap_steel", "ocarina", "saxophone", "sitar", "trumpet",
    "ukulele", "violin",
)  # fmt: skip
_PEOPLE = (
    "artist_structure", "multiple_lead_vocalists", "group_named_after_non_lead_singer", "posthumous",
    "front_person_age", "artist_male", "artist_white", "artist_black", "songwriter_male", "songwriter_white",
    "artist_is_a_songwriter", "artist_is_only_songwriter", "producer_male", "producer_white", "artist_is_a_producer",
    "artist_is_only_producer", "songwriter_is_a_producer",
)  # fmt: skip
_CHART = (
    "weeks_at_number_one", "non_consecutive", "rating_1", "rating_2", "rating_3", "overall_rating", "divisiveness",
    "rap_verse_in_a_non_rap_song", "cover", "sample", "interpolation", "inspired_by_a_different_song",
    "lyrical_narrative", "spoken_word", "explicit", "foreign_language", "written_for_a_play", "written_for_a_film",
    "written_for_a_t_v_show", "associated_with_dance", "topped_the_charts_by_multiple_artist", "eurovision_entry",
)  # fmt: skip


def billboard() -> Dataset:
    """The year (1958 to 2025) of 1,177 number ones of the Billboard charts, from facts about the song.

    The columns have four owners: audio (tempo, loudness and the like), instruments, people and chart. Names, lyrics and
    other free texts are left out. The first genre is the group. A twelfth is held out.
    """
    return stored("billboard", _read_billboard)


def _read_billboard(files: Files) -> Dataset:
    path = files["billboard.csv"]
    audio = read_owner(path, _AUDIO, _AUDIO_TEXTS)
    others = {"instruments": _INSTRUMENTS, "people": _PEOPLE, "chart": _CHART}
    facts = read_owner(path, (), ("date", "discogs_genre"))
    years = [re.match(r"(\d{4})-\d\d-\d\d", date) for date in texts_of(facts["date"])]
    if None in years:
        raise bad_line(path, years.index(None) + 2, "no date", "a date such as 1958-08-04 is needed")
    y = np.array([float(year[1]) for year in years if year], dtype=np.float32)
    genre = np.array([text.partition(";")[0] or "unknown" for text in texts_of(facts["discogs_genre"])])
    all_rows = np.arange(len(y))
    owners = [Owner("audio", audio, all_rows)]
    owners += [Owner(name, read_owner(path, columns), all_rows) for name, columns in others.items()]
    return join(files, owners, Target("year", y, "years"), {"genre": genre}, match="order")


# --- credit default ----------------------------------------------------------------------------------


def credit_default() -> Dataset:
    """UCI's credit default of 30,000 clients, as FATE divides it: 13 columns of the guest and 10 of the host.

    The guest has the label, 1 for a client who did not pay. The owners are joined by the client's number. The columns
    are standardised in the published files. A fifth of each class is held out.
    """
    return stored("credit-default", _read_credit_default)


def _read_credit_default(files: Files) -> Dataset:
    guest = read_owner(files["guest.csv"], ("id", "y", *(f"x{i}" for i in range(13))))
    host = read_owner(files["host.csv"], ("id", *(f"x{i}" for i in range(10))))
    keys, known, y = guest.pop("id").values.tolist(), host.pop("id").values.tolist(), guest.pop("y").values
    if not np.isin(y, (0, 1)).all():
        raise DataError(f"{files['guest.csv']} has a label that is not 0 or 1: use the published file.")
    owners = [Owner("guest", guest, np.arange(len(keys))), Owner("host", host, places_of(keys, known))]
    return join(files, owners, Target("default", y.astype(np.int64), classes=("paid", "default")), {})


# --- flights -----------------------------------------------------------------------------------------


def flights(rows: Rows = "all") -> Dataset:
    """The arrival delay, in minutes, of 327,346 flights from New York in 2013, by what is known before departure.

    The airline has the schedule, and other owners have the weather at the airport of departure in that hour, the plane
    and the airport of arrival. `rows` is all, or aligned: the flights that all owners have. Groups are the carrier, the
    airport of departure, and the owners that have a flight. A twelfth is held out.
    """
    return stored("flights", _read_flights, rows=rows)


def _read_flights(files: Files, rows: Rows) -> Dataset:
    path = files["flights.csv"]
    table = read_csv(path, ["arr_delay"], sep=",").columns
    delay = numbers_of(path, "arr_delay", table["arr_delay"])
    landed = np.flatnonzero(~np.isnan(delay))  # the others were cancelled or diverted

    def texts(name: str) -> list[str]:
        cells = texts_of(table[name])
        return [cells[row] for row in landed.tolist()]

    carrier, origin = texts("carrier"), texts("origin")
    airline = {
        name: RawColumn("number", numbers_of(path, name, table[name])[landed])
        for name in ("month", "day", "hour", "minute", "distance")
    }
    airline |= {"carrier": text_column(carrier, True), "origin": text_column(origin, True)}
    hours = list(zip(origin, texts("time_hour"), strict=True))
    weather, weather_places = _weather(files, hours)
    planes, plane_places = _keyed(
        files, "planes.csv", "tailnum", ("year", "engines", "seats"), ("type", "engine"), texts("tailnum")
    )
    airports, airport_places = _keyed(files, "airports.csv", "faa", ("lat", "lon", "alt"), (), texts("dest"))
    owners = [
        Owner("airline", airline, np.arange(len(landed))),
        Owner("weather", weather, weather_places),
        Owner("plane", planes, plane_places),
        Owner("airport", airports, airport_places),
    ]
    groups: dict[str, NDArray[np.str_]] = {"carrier": np.array(carrier), "origin": np.array(origin)}
    return join(files, owners, Target("arr_delay", delay[landed].astype(np.float32), "minutes"), groups, rows)


def _weather(files: Files, hours: Sequence[tuple[str, str]]) -> tuple[dict[str, RawColumn], Places]:
    """Return the columns of the weather, and its row for each airport and hour."""
    numbers = ("temp", "dewp", "humid", "wind_dir", "wind_speed", "wind_gust", "precip", "pressure", "visib")
    columns = read_owner(files["weather.csv"], numbers, ("origin", "time_hour"))
    known = list(zip(texts_of(columns.pop("origin")), texts_of(columns.pop("time_hour")), strict=True))
    return columns, places_of(hours, known)


def _keyed(
    files: Files, name: str, key: str, numbers: Sequence[str], categories: Sequence[str], keys: Sequence[str]
) -> tuple[dict[str, RawColumn], Places]:
    """Return columns of an owner with a key, and its row for each of `keys`."""
    columns = read_owner(files[name], numbers, (key, *categories))
    return columns, places_of(keys, texts_of(columns.pop(key)))
