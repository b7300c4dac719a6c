"""The time of a round by part: what the server did, and what the mean party did, while the clock ran.

Nothing here trains or measures: a `Timeline` gets seconds, and adds them up. docs/clock.md defines the parts.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

SERVER_PARTS = ("test", "aggregate", "communicate", "idle", "encode")
PARTY_PARTS = ("train", "test", "encode", "encrypt", "aggregate", "communicate", "idle")
_DIGITS = 9  # of a second in a record


class Trip(NamedTuple):
    """A party's way through a round, in seconds: its parts follow one another from `start` on."""

    start: float
    down: float
    train: float
    encode: float
    encrypt: float
    up: float

    @property
    def end(self) -> float:
        return self.start + self.down + self.train + self.encode + self.encrypt + self.up


class Timeline:
    """The bars of a server and of the mean of all parties, one segment of a round after the other.

    Whoever does nothing in a segment is idle. All parties of the federation count, also those that were not asked.

    >>> timeline = Timeline(parties=2)
    >>> timeline.trips([Trip(0, 1, 4, 0, 0, 1), Trip(0, 1, 2, 0, 0, 1)], 0, 6)
    >>> timeline.at_server("aggregate", 2)
    >>> timeline.as_json()["server"]
    {'test': 0.0, 'aggregate': 2.0, 'communicate': 3.0, 'idle': 3.0, 'encode': 0.0}
    """

    def __init__(self, parties: int, has_server: bool = True) -> None:
        self.parties, self.has_server = parties, has_server
        self.total = self.core = 0.0
        self._server = dict.fromkeys(SERVER_PARTS, 0.0)
        self._of_parties = dict.fromkeys(PARTY_PARTS, 0.0)  # sums over parties

    def at_server(self, part: str, seconds: float, core: float | None = None) -> None:
        """Add work of the server, for which parties wait; `core` are its core-seconds, if it used several cores."""
        self.total += seconds
        self.core += seconds if core is None else core
        self._server[part] += seconds

    def at_parties(self, part: str, seconds: Sequence[float]) -> None:
        """Add work that some parties do side by side, each this long; the others and the server wait for them."""
        spent = sum(seconds)
        self.total += max(seconds, default=0.0)
        self.core += spent
        self._of_parties[part] += spent

    def messages(self, seconds: Iterable[float]) -> None:
        """Add messages that cross the network side by side; everybody waits for the last of them."""
        each = list(seconds)
        longest = max(each, default=0.0)
        self.total += longest
        self._server["communicate"] += longest
        self._of_parties["communicate"] += sum(each)

    def trips(self, trips: Iterable[Trip], begin: float, end: float) -> None:
        """Add what happens between two points in time on the trips of parties; a trip may begin or end outside."""
        sums, crossing = self._of_parties, list[tuple[float, float]]()
        for trip in trips:
            inside = trip if begin <= trip.start and trip.end <= end else _clipped(trip, begin, end)
            sums["communicate"] += inside.down + inside.up
            sums["train"] += inside.train
            sums["encode"] += inside.encode
            sums["encrypt"] += inside.encrypt
            self.core += inside.train + inside.encode + inside.encrypt
            if inside.down:
                crossing.append((inside.start, inside.start + inside.down))
            if inside.up:
                crossing.append((inside.end - inside.up, inside.end))
        self.total += end - begin
        self._server["communicate"] += _covered(crossing)

    def as_json(self) -> dict[str, Any]:
        """Return the field `time` of a record. Idle is what is missing to the total, so that parts add up to it."""
        bars: dict[str, Any] = {"total": _rounded(self.total), "core": _rounded(self.core)}
        if self.has_server:
            bars["server"] = _bar(self._server, self.total)
        means = {part: seconds / self.parties for part, seconds in self._of_parties.items()}
        return bars | {"parties": _bar(means, self.total)}


def _bar(parts: Mapping[str, float], total: float) -> dict[str, float]:
    busy = sum(parts.values())
    return {part: _rounded(max(0.0, total - busy) if part == "idle" else each) for part, each in parts.items()}


def _rounded(seconds: float) -> float:
    return round(seconds, _DIGITS)


def _clipped(trip: Trip, begin: float, end: float) -> Trip:
    """Return the part of a trip between two points in time."""
    since, parts = trip.start, []
    for seconds in trip[1:]:
        parts.append(max(0.0, min(since + seconds, end) - max(since, begin)))
        since += seconds
    return Trip(min(max(trip.start, begin), end), *parts)


def _covered(intervals: list[tuple[float, float]]) -> float:
    """Return how long at least one of the intervals lasts."""
    covered, until = 0.0, 0.0
    for first, last in sorted(intervals):
        if not covered or first > until:
            covered, until = covered + last - first, last
        elif last > until:
            covered, until = covered + last - until, last
    return covered
