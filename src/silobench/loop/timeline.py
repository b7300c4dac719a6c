"""The time of a round by part: what the server did, and what the mean party did, while the clock ran.

Nothing here trains or measures: a `Timeline` gets seconds, and adds them up. docs/clock.md defines the parts.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

SERVER_PARTS = ("test", "aggregate", "communicate", "idle", "encode")
PARTY_PARTS = ("train", "test", "encode", "encrypt", "aggregate", "communicate", "idle")
_DIGITS = 9  # of a second in a record
_NO_SERVER_TIME, _NO_PARTY_TIME = (dict.fromkeys(parts, 0.0) for parts in (SERVER_PARTS, PARTY_PARTS))


class Trip(NamedTuple):
    """A party's way through a round, in seconds: its parts follow one another from `start` on."""

    start: float
    down: float
    train: float
    encode: float
    encrypt: float
    up: float


Seconds: TypeAlias = tuple[float, float, float, float, float, float]  # a trip without names takes less time to make


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
        self._server = dict(_NO_SERVER_TIME)
        self._of_parties = dict(_NO_PARTY_TIME)  # sums over parties

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

    def trips(self, trips: Iterable[Seconds], begin: float, end: float) -> None:
        """Add what happens between two points in time on the trips of parties; a trip may begin or end outside."""
        moved = trained = encoded = encrypted = 0.0
        crossing = set[tuple[float, float]]()  # intervals in which messages cross; often the same for many parties
        for trip in trips:  # without calls, because it takes its time in every round
            start, down, train, encode, encrypt, up = trip
            sending = start + down + train + encode + encrypt
            if start < begin or sending + up > end:
                start, down, train, encode, encrypt, up = _clipped(trip, begin, end)
                sending = start + down + train + encode + encrypt
            moved += down + up
            trained += train
            encoded += encode
            encrypted += encrypt
            if down:
                crossing.add((start, start + down))
            if up:
                crossing.add((sending, sending + up))
        sums = self._of_parties
        sums["communicate"] += moved
        sums["train"] += trained
        sums["encode"] += encoded
        sums["encrypt"] += encrypted
        self.core += trained + encoded + encrypted
        self.total += end - begin
        self._server["communicate"] += _covered(crossing)

    def as_json(self) -> dict[str, Any]:
        """Return the field `time` of a record. Idle is what is missing to the total, so that parts add up to it."""
        bars: dict[str, Any] = {"total": round(self.total, _DIGITS), "core": round(self.core, _DIGITS)}
        if self.has_server:
            bars["server"] = _bar(self._server, self.total, 1)
        bars["parties"] = _bar(self._of_parties, self.total, self.parties)
        return bars


def _bar(sums: Mapping[str, float], total: float, count: int) -> dict[str, float]:
    """Return the mean of each part over `count` of those whose seconds were added up."""
    bar = {part: round(each / count, _DIGITS) if each else 0.0 for part, each in sums.items()}
    bar["idle"] = round(max(0.0, total - sum(sums.values()) / count), _DIGITS)
    return bar


def _clipped(trip: Seconds, begin: float, end: float) -> Trip:
    """Return the part of a trip between two points in time."""
    start, parts = trip[0], []
    since = start
    for seconds in trip[1:]:
        parts.append(max(0.0, min(since + seconds, end) - max(since, begin)))
        since += seconds
    return Trip(min(max(start, begin), end), *parts)


def _covered(intervals: Iterable[tuple[float, float]]) -> float:
    """Return how long at least one of the intervals lasts."""
    covered, until = 0.0, 0.0
    for first, last in sorted(intervals):
        if not covered or first > until:
            covered, until = covered + last - first, last
        elif last > until:
            covered, until = covered + last - until, last
    return covered
