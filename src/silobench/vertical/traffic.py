"""Messages and work of a round of split learning, added up over its batches."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from silobench.loop.clocks import Clock
from silobench.loop.network import Network as Link
from silobench.loop.timeline import Timeline
from silobench.method.types import Phase
from silobench.vertical.crossing import Carried

UP, DOWN, KEY = "activations", "gradients", "key"  # phases of messages


@dataclass
class Traffic:
    """The costs of a round: bytes, messages, measured seconds, and the virtual clock."""

    link: Link
    clock_of_parties: Clock
    seed: int
    timeline: Timeline
    clock: float = 0.0  # virtual seconds
    train: float = 0.0  # measured seconds, over all parties
    slowest: float = 0.0  # measured seconds, where parties work side by side
    computing: float | None = None  # virtual seconds of training; None if these are measured
    dense: dict[str, int] = field(default_factory=lambda: {UP: 0, DOWN: 0})
    sizes: dict[str, dict[int, int]] = field(default_factory=lambda: {UP: {}, DOWN: {}})
    messages: dict[str, int] = field(default_factory=lambda: {UP: 0, DOWN: 0})
    encode: dict[str, float] = field(default_factory=lambda: {UP: 0.0, DOWN: 0.0})  # measured, with decoding
    reports: dict[str, list[float]] = field(default_factory=dict)
    keys: dict[int, int] = field(default_factory=dict)  # bytes of the public key by party, in the first round

    def work(self, measured: Sequence[float], visits: float = 0.0) -> None:
        """Add work that parties do side by side, in measured seconds.

        Where a clock states how fast parties are, they work as long as they need for `visits` visits of a row instead.
        """
        self.train += sum(measured)
        self.slowest += max(measured)
        if self.clock_of_parties.speed is None:
            self.timeline.at_parties("train", measured)
        elif visits:
            rates = [self.clock_of_parties.speed(self.seed, party) for party in range(len(measured))]
            seconds = [visits / rate for rate in rates]
            self.timeline.at_parties("train", seconds)
            self.computing = (self.computing or 0.0) + max(seconds)
            self.clock += max(seconds)

    def add_keys(self, parties: Sequence[int], size: int) -> None:
        """Add the public key that the label holder sends to parties; nothing for a size of 0."""
        if size:
            self.keys = dict.fromkeys(parties, size)
            self.dense[DOWN] += size * len(parties)  # nothing makes it shorter
            self._cross(self.keys)

    def add(self, phase: str, carried: Carried) -> None:
        """Add the messages of a batch in one direction, which cross side by side."""
        if not carried.sizes:
            return
        for part, seconds in (("encode", carried.encode), ("encrypt", carried.encrypt), ("aggregate", carried.decode)):
            if seconds:
                # The label holder, who sends gradients and receives activations, has one message after the other.
                is_in_turn = (part == "aggregate") == (phase == UP)
                each = list(seconds.values())
                self.timeline.at_parties(part, [sum(each)] if is_in_turn else each)
                self.encode[phase] += sum(each)
        for relays in (False, True):
            self._cross({p: size for p, size in carried.sizes.items() if (p in carried.relays) == relays})
        self.dense[phase] += carried.dense
        for party, size in carried.sizes.items():
            self.sizes[phase][party] = self.sizes[phase].get(party, 0) + size
            self.messages[phase] += size > 0
        for name, values in carried.reports.items():
            self.reports.setdefault(name, []).extend(values)

    def _cross(self, sizes: Mapping[int, int]) -> None:
        """Add messages that cross side by side."""
        seconds = [self.link.transfer(size, party, self.seed, len(sizes)) for party, size in sizes.items()]
        if seconds:
            self.timeline.messages(seconds)
            self.clock += max(seconds)

    @property
    def phases(self) -> tuple[Phase, ...]:
        keys = (Phase(KEY, down=self.keys, messages=len(self.keys)),) if self.keys else ()
        return (
            *keys,
            Phase(UP, up=self.sizes[UP], messages=self.messages[UP], seconds=self.encode[UP]),
            Phase(DOWN, down=self.sizes[DOWN], messages=self.messages[DOWN], seconds=self.encode[DOWN]),
        )

    @property
    def mean_reports(self) -> dict[str, float]:
        """What transforms report, as means over batches and parties."""
        return {name: float(np.mean(values)) for name, values in self.reports.items()}
