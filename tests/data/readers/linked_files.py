"""Small files of the datasets that several owners share, in the published formats."""

import sqlite3
from pathlib import Path

from table_files import Contents

from silobench.data.readers import linked

GENRES = ("Platformer", "Action, Adventure", "")


def game_files(count: int = 36) -> Contents:
    """Steam has every second game of IGN's, and SteamSpy every third, under other spellings of the title."""
    ign = [f'Game: {i},Great,{i % 10}.5,"{GENRES[i // 6 % 3]}",N' for i in range(count)]
    steam = [f"GAME {i}!,{i},{('game', 'dlc')[i % 4 > 0]},9.99,20{i % 10:02d},0,1" for i in range(0, count, 2)]
    spy = [
        f'{i},game{i},"Nov {1 + i % 9}, 2004",{"NA" if i % 2 else 5},"0 .. 20,000",A,B,{i},{i},{60 + i}'
        for i in range(0, count, 3)
    ]
    return {
        "ign_game_clean.csv": _csv("title,score_phrase,score,genre,editors_choice", ign),
        "steam_game_clean.csv": _csv("title,appid,type,price,release_year,required_age,is_multiplayer", steam),
        "steamspy.csv": _csv(
            "number,game,release_date,price,owners,developer,publisher,average_playtime,median_playtime,metascore", spy
        ),
    }


def billboard_files(count: int = 36) -> Contents:
    numbers = (*linked._AUDIO, *linked._INSTRUMENTS, *linked._PEOPLE, *linked._CHART)
    header = ("song", "date", "discogs_genre", *linked._AUDIO_TEXTS, *numbers, "lyrics")
    rows = []
    for i in range(count):
        values = ["NA" if (i + place) % 11 == 0 else str((i * place) % 7) for place in range(len(numbers))]
        genre = ("Rock;Pop", "Funk/Soul", "NA")[i % 3]
        rows.append(",".join([f"Song {i}", f"{1960 + i}-08-04T00:00:00Z", genre, "4/4", "C", *values, '"la, la"']))
    return {"billboard.csv": _csv(",".join(header), rows)}


def credit_files(count: int = 40) -> Contents:
    """Client i has x0 = i at the guest and x0 = -i at the host, whose file is in the opposite order."""
    guest = [f"{i},{int(i % 4 == 0)},{i}{',0.5' * 12}" for i in range(count)]
    host = [f"{i},{-i}{',0.25' * 9}" for i in reversed(range(count))]
    return {
        "guest.csv": _csv(",".join(["id", "y", *(f"x{i}" for i in range(13))]), guest),
        "host.csv": _csv(",".join(["id", *(f"x{i}" for i in range(10))]), host),
    }


def flight_files(count: int = 48) -> Contents:
    """Every sixth flight was cancelled. The plane of every fourth is unknown, and so is the weather of one airport."""
    flights = []
    for i in range(count):
        delay, tail = ("NA" if i % 6 == 5 else str(i - 20)), ("NX" if i % 4 == 3 else f"N{i % 4}")
        origin, hour = ("EWR", "JFK", "LGA")[i % 3], f"2013-01-01T{10 + i % 2}:00:00Z"
        times, carrier = f"2013,1,{1 + i % 28},517,515,2,830,819", ("UA", "AA")[i % 2]
        flights.append(f"{times},{delay},{carrier},{i},{tail},{origin},IAH,227,{i},5,15,{hour}")
    weather = [
        f"{origin},2013,1,1,{hour},{hour},26,59,NA,10.3,NA,0,1012,10,2013-01-01T{hour}:00:00Z"
        for origin in ("EWR", "JFK")
        for hour in (10, 11)
    ]
    return {
        "flights.csv": _csv(
            "year,month,day,dep_time,sched_dep_time,dep_delay,arr_time,sched_arr_time,arr_delay,carrier,flight,tailnum,"
            "origin,dest,air_time,distance,hour,minute,time_hour",
            flights,
        ),
        "weather.csv": _csv(
            "origin,year,month,day,hour,temp,dewp,humid,wind_dir,wind_speed,wind_gust,precip,pressure,visib,time_hour",
            weather,
        ).replace(",NA,10.3,NA,", ",270,10.3,20,", 1),
        "planes.csv": _csv(
            "tailnum,year,type,manufacturer,model,engines,seats,speed,engine",
            [f"N{i},{2000 + i},Fixed wing,BOEING,7{i}7,2,{100 + i},NA,Turbo-fan" for i in range(3)],
        ),
        "airports.csv": _csv("faa,name,lat,lon,alt,tz,dst,tzone", ["IAH,Houston,29.9,-95.3,97,-6,A,America/Chicago"]),
    }


def film_rows() -> Contents:
    """Films of IMDB: the first and the last of MovieLens' four test films, and thirty others."""
    rows = ['"1","Café",1951,90,NA,7.5,348', '"2","2001",1968,149,10500000,8.4,100000']
    rows += [f'"{i}","Film {i}",{1940 + i},{80 + i},NA,{i % 9 + 1}.5,{i}' for i in range(3, 33)]
    header = ["", "title", "year", "length", "budget", "rating", "votes", *(f"r{i}" for i in range(1, 11)), "mpaa"]
    header += ["Action", "Animation", "Comedy", "Drama", "Documentary", "Romance", "Short"]
    ends = [f'{",4.5" * 10},"{("", "PG", "R")[i % 3]}"{",0" * 6},{i % 2}' for i in range(len(rows))]
    return {
        "movies.csv": _csv(",".join(f'"{name}"' for name in header), [r + e for r, e in zip(rows, ends, strict=True)])
    }


def write_film_database(path: Path, critics: int = 4) -> None:
    """Write OMDB's films 1 to 4, the first two of MovieLens', and critics' facts of them."""
    database = sqlite3.connect(path)
    database.execute("CREATE TABLE omdb (ID, Title TEXT, Year INTEGER, Runtime REAL, Genre TEXT, Oscars INTEGER)")
    database.execute("CREATE TABLE tomatoes (ID, Meter, Reviews, Fresh, Rotten, Rating)")
    films = [("Cafe", 1949, 90.0), ("Café", 1950, 91.0), ("2001", 1970, 149.0), ("2001", None, None)]
    for number, (title, year, runtime) in enumerate(films, 1):
        database.execute("INSERT INTO omdb VALUES (?, ?, ?, ?, ?, ?)", (number, title, year, runtime, "Drama, War", 1))
        if number <= critics:
            database.execute("INSERT INTO tomatoes VALUES (?, 90, 10, 9, 1, NULL)", (number,))
    database.execute("UPDATE tomatoes SET Rating = 7.5 WHERE ID = 2")
    database.commit()
    database.close()


def _csv(header: str, rows: list[str]) -> str:
    return "\n".join([header, *rows, ""])
