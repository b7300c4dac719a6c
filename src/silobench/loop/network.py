"""The simulated network between parties: bytes of a round by direction, and the virtual seconds they take."""

import re
from dataclasses import dataclass

from silobench.errors import SpecError
from silobench.method.types import NonNegative
from silobench.spec import Registry


@dataclass(frozen=True)
class Traffic:
    """The bytes that cross the network in a round, and the virtual seconds they take."""

    up: int = 0  # sent by parties
    down: int = 0  # sent by the server
    seconds: float = 0.0


@dataclass(frozen=True)
class Network:
    """One link per party, all in use at the same time: to a server (a star) or, in a mesh, to all other parties."""

    bits_per_second: float
    latency: float
    mesh: bool = False

    def exchange(self, messages: int, largest: int, answer: int, parties: int) -> Traffic:
        """Return the traffic of a round.

        `messages`: bytes of all messages; `largest`: bytes of the largest; `answer`: bytes that the server sends to
        each party. In a mesh every party sends to all others, and there is no answer.
        """
        if self.mesh:
            others = max(0, parties - 1)
            return Traffic(messages * others, 0, self.seconds(0, largest * others))
        return Traffic(messages, answer * parties, self.seconds(answer, largest))

    def seconds(self, down: int, up: int) -> float:
        """Return the seconds of one round's transfers: the broadcast, then the longest reply."""
        return sum(self.latency + 8 * size / self.bits_per_second for size in (down, up) if size)


NETWORKS: Registry[Network] = Registry("network")
_UNITS = {"k": 1e3, "m": 1e6, "g": 1e9}


@NETWORKS.register
def link(bandwidth: str = "100Mbps", latency: NonNegative = 0.0) -> Network:
    """A star: every party has a link to a server, with a bandwidth (as 100Mbps, 1Gbps) and a latency in seconds."""
    return Network(_bits("link", bandwidth), latency)


@NETWORKS.register
def mesh(bandwidth: str = "100Mbps", latency: NonNegative = 0.0) -> Network:
    """All to all: every party sends its message to every other party over its own link; there is no server."""
    return Network(_bits("mesh", bandwidth), latency, mesh=True)


def _bits(name: str, bandwidth: str) -> float:
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([kKMG])bps", bandwidth)
    if not match or float(match[1]) == 0:
        raise SpecError(f"{name}: bandwidth must read like 100Mbps or 1Gbps, but '{bandwidth}' was given.")
    return float(match[1]) * _UNITS[match[2].lower()]
