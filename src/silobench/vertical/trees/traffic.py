"""The messages of a round of boosted trees: bytes and seconds by phase, and the time that they take to cross."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from silobench.loop.clocks import Clock
from silobench.loop.network import Network as Link
from silobench.loop.timeline import Timeline
from silobench.method.types import Phase
from silobench.vertical.trees.boosting import Exchange
from silobench.vertical.trees.messages import Message


@dataclass
class _Sizes:
    """Messages of one phase; bytes by party."""

    up: dict[int, int] = field(default_factory=dict)
    down: dict[int, int] = field(default_factory=dict)
    messages: int = 0
    seconds: float = 0.0


class TreeTraffic:
    """What crosses the network in a round, with its virtual time; messages of the label holder to itself are free.

    exchanges: of the round, in order; label: the party with the labels; parties: how many there are.
    """

    def __init__(
        self, exchanges: Sequence[Exchange], label: int, parties: int, link: Link, clock: Clock, seed: int
    ) -> None:
        self._label, self._link, self._clock, self._seed = label, link, clock, seed
        self._phases: dict[str, _Sizes] = {}
        self.timeline = Timeline(parties, has_server=False)
        self.clock = self.party_seconds = 0.0
        self.slowest = 0.0  # measured seconds of training, where parties work side by side
        self.computing: float | None = None  # virtual seconds of training; None if these are measured
        self.dense = [0, 0]  # bytes to the label holder and back, if nothing were encrypted
        for _, step in groupby(exchanges, key=lambda exchange: exchange.step):
            self._add(list(step))

    @property
    def phases(self) -> tuple[Phase, ...]:
        """The messages by phase."""
        return tuple(
            Phase(name, up=sizes.up, down=sizes.down, messages=sizes.messages, seconds=sizes.seconds)
            for name, sizes in self._phases.items()
        )

    def _add(self, step: list[Exchange]) -> None:
        """Add messages that go side by side, then the work of parties, then their answers."""
        others = [exchange for exchange in step if exchange.party != self._label]
        self._cross([(exchange.party, exchange.down) for exchange in others], is_up=False)
        seconds = [exchange.seconds for exchange in step]
        self.party_seconds += sum(seconds)
        self.slowest += max(seconds)
        if self._clock.speed is None:
            self.timeline.at_parties("train", seconds)
        self._cross([(exchange.party, exchange.up) for exchange in others], is_up=True)
        for exchange in others:
            if exchange.up is not None:
                self._phases[exchange.up.phase].seconds += exchange.seconds

    def _cross(self, messages: Sequence[tuple[int, Message | None]], is_up: bool) -> None:
        crossing = []
        for party, message in messages:
            if message is None:
                continue
            sizes = self._phases.setdefault(message.phase, _Sizes())
            by_party, size = sizes.up if is_up else sizes.down, message.nbytes
            by_party[party] = by_party.get(party, 0) + size
            sizes.messages += 1
            self.dense[0 if is_up else 1] += message.dense
            crossing.append(self._link.transfer(size, party, self._seed, len(messages)))
        self.timeline.messages(crossing)
        self.clock += max(crossing, default=0.0)

    def work(self, seconds: float, cipher: Mapping[str, float], visits: Sequence[int]) -> dict[str, float]:
        """Add the work of the label holder, or what the clock says for the visits of rows; return seconds by phase.

        seconds: of the round, of all parties; cipher: seconds of these for encryption and decryption, by phase; visits:
        rows that each party added up.
        """
        encrypted = sum(cipher.values())
        for phase, spent in cipher.items():
            if phase in self._phases:
                self._phases[phase].seconds += spent
        at_holder = max(0.0, seconds - self.party_seconds - encrypted)
        self.slowest += at_holder
        if self._clock.speed is None:
            self.timeline.at_parties("train", [at_holder])
        else:
            virtual = [self._clock.computing(rows, party, self._seed) for party, rows in enumerate(visits)]
            self.timeline.at_parties("train", virtual)
            self.computing = max(virtual)
            self.clock += self.computing
        self.timeline.at_parties("encrypt", [encrypted])
        return {"train": at_holder + self.party_seconds, "encode": encrypted}
