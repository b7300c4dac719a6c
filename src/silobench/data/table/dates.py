"""Dates in text, in the forms that people write, and their features."""

import re
from collections.abc import Sequence
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

DateOrder: TypeAlias = Literal["auto", "day-first", "month-first"]

_CLOCK = r"(?P<hour>\d{1,2}):(?P<minute>\d{2})(?::(?P<second>\d{2})(?:[.,]\d+)?)?"
_TIME = rf"(?:[T ]\s*{_CLOCK}\s*(?P<zone>Z|[+-]\d{{2}}:?\d{{2}})?)?"
_YEAR_FIRST = re.compile(rf"(?P<year>\d{{4}})(?P<mark>[-/.])(?P<month>\d{{1,2}})(?P=mark)(?P<day>\d{{1,2}}){_TIME}")
_YEAR_LAST = re.compile(rf"(?P<day>\d{{1,2}})(?P<mark>[-/.])(?P<month>\d{{1,2}})(?P=mark)(?P<year>\d{{4}}){_TIME}")
_NAMED = re.compile(
    rf"(?:(?P<day>\d{{1,2}})[ -](?P<name>[A-Za-z]{{3,9}})[ -]|(?P<name2>[A-Za-z]{{3,9}}) (?P<day2>\d{{1,2}}), )"
    rf"(?P<year>\d{{4}}){_TIME}"
)
_MONTHS = (
    "january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november",
    "december",
)  # fmt: skip


class AmbiguousDatesError(ValueError):
    """Dates such as 03/04/2024 may be written day first or month first."""


def parse_dates(texts: Sequence[str], order: DateOrder = "auto") -> NDArray[np.datetime64] | None:
    """Return texts as dates, NaT for ""; None if some text is not a date.

    Forms are 2024-04-03, 2024/04/03, 03.04.2024, 03/04/2024, 03-04-2024, 3 Apr 2024 and Apr 3, 2024, each with or
    without a time. Dates with points are written day first. For the others that end with the year, `order` decides; by
    default, a number above 12 does, and without one `AmbiguousDatesError` is raised.

    >>> parse_dates(["2024-04-03", "", "2024-04-03 18:30"]).tolist()[2].hour
    18
    """
    matches = [_match(text) if text else None for text in texts]
    if any(text and match is None for text, match in zip(texts, matches, strict=True)):
        return None
    month_first = _is_month_first([match for match in matches if match], order)
    if month_first is None:
        return None
    try:
        return np.array([_date(match, month_first) for match in matches], "datetime64[s]")
    except ValueError:  # the 31st of April
        return None


def decided_order(texts: Sequence[str], order: DateOrder) -> DateOrder:
    """Return the order that dates are written in, so that other dates of the same column are read in the same way.

    >>> decided_order(["03/04/2024", "25/04/2024"], "auto")
    'day-first'
    """
    matches = [match for match in map(_match, texts) if match]
    if order != "auto" or not any(match.re is _YEAR_LAST and match["mark"] != "." for match in matches):
        return order
    return "month-first" if _is_month_first(matches, order) else "day-first"


def _match(text: str) -> re.Match[str] | None:
    return _YEAR_FIRST.fullmatch(text) or _YEAR_LAST.fullmatch(text) or _NAMED.fullmatch(text)


def _is_month_first(matches: Sequence[re.Match[str]], order: DateOrder) -> bool | None:
    """Return whether dates that end with the year start with the month; None if they contradict each other."""
    open_ = [match for match in matches if match.re is _YEAR_LAST and match["mark"] != "."]
    if not open_ or order != "auto":
        return order == "month-first"
    day_first = any(int(match["day"]) > 12 for match in open_)
    month_first = any(int(match["month"]) > 12 for match in open_)
    if day_first and month_first:
        return None
    if not day_first and not month_first:
        raise AmbiguousDatesError
    return month_first


def _date(match: re.Match[str] | None, month_first: bool) -> np.datetime64:
    if match is None:
        return np.datetime64("NaT", "s")
    if match.re is _NAMED:
        day, month = int(match["day"] or match["day2"]), _month(match["name"] or match["name2"])
    else:
        day, month = int(match["day"]), int(match["month"])
        if month_first and match.re is _YEAR_LAST and match["mark"] != ".":
            day, month = month, day
    time = f"{int(match['hour'] or 0):02}:{match['minute'] or '00'}:{match['second'] or '00'}"
    date = np.datetime64(f"{match['year']}-{month:02}-{day:02}T{time}", "s")
    zone = match["zone"]
    if zone and zone != "Z":
        minutes = int(zone[1:3]) * 60 + int(zone[-2:])
        date -= np.timedelta64(minutes if zone[0] == "+" else -minutes, "m")
    return date


def _month(name: str) -> int:
    months = [place for place, month in enumerate(_MONTHS, 1) if month.startswith(name.lower())]
    if len(months) != 1:
        raise ValueError(name)
    return months[0]


def date_features(dates: NDArray[np.datetime64], origin: np.datetime64) -> list[NDArray[np.float64]]:
    """Return the days since `origin` (with fractions), the month (1 to 12) and the weekday (Monday is 0)."""
    absent = np.isnat(dates)
    days = (dates - origin) / np.timedelta64(1, "D")
    month = dates.astype("datetime64[M]").astype(np.int64) % 12 + 1
    weekday = (dates.astype("datetime64[D]").astype(np.int64) + 3) % 7  # day 0 of 1970 was a Thursday
    return [np.where(absent, np.nan, values) for values in (days, month, weekday)]
