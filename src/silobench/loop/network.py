"""The network between parties: who sends what to whom, and bytes to virtual seconds. Nothing here really sends."""

import re
from dataclasses import dataclass

from silobench.errors import SpecError
from silobench.method.types import NonNegative
from silobench.spec import Registry


@dataclass(frozen=True)
class Traffic:
    """What crosses the network in a round, in bytes, and how long that takes."""

    up: int = 0  # sent by parties
    down: int = 0  # sent by the server
    seconds: float = 0.0


@dataclass(frozen=True)
class Network:
    """Every party has its own link, and all links work at once: to a server (a star) or, in a mesh, to each other."""

    bits_per_second: float
    latency: float
    mesh: bool = False

    def exchange(self, messages: int, largest: int, answer: int, parties: int) -> Traffic:
        """A round in which so many parties say this many bytes in all, and each is answered in `answer` bytes.

        In a mesh everybody tells everybody else, and nobody answers.
        """
        if self.mesh:
            others = max(0, parties - 1)
            return Traffic(messages * others, 0, self.seconds(0, largest * others))
        return Traffic(messages, answer * parties, self.seconds(answer, largest))

    def seconds(self, down: int, up: int) -> float:
        """How long one round's transfers take: the broadcast, then the slowest reply."""
        return sum(self.latency + 8 * size / self.bits_per_second for size in (down, up) if size)


NETWORKS: Registry[Network] = Registry("network")
_UNITS = {"k": 1e3, "m": 1e6, "g": 1e9}


@NETWORKS.register
def link(bandwidth: str = "100Mbps", latency: NonNegative = 0.0) -> Network:
    """A star: equal links of this bandwidth (as 100Mbps, 1Gbps) and one-way latency in seconds to a server."""
    return Network(_bits("link", bandwidth), latency)


@NETWORKS.register
def mesh(bandwidth: str = "100Mbps", latency: NonNegative = 0.0) -> Network:
    """All to all: every party sends what it has to say to every other, over a link of its own; there is no server."""
    return Network(_bits("mesh", bandwidth), latency, mesh=True)


def _bits(name: str, bandwidth: str) -> float:
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([kKMG])bps", bandwidth)
    if not match or float(match[1]) == 0:
        raise SpecError(f"{name}: bandwidth must read like 100Mbps or 1Gbps, but '{bandwidth}' was given.")
    return float(match[1]) * _UNITS[match[2].lower()]
