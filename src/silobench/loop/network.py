"""The simulated network between parties: how many virtual seconds a message takes."""

import math
import re
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

from silobench.errors import SpecError
from silobench.rng import stream
from silobench.spec import Registry
from silobench.spec.contract import Contract
from silobench.spec.ranges import Latency, Spread


@dataclass(frozen=True)
class Network:
    """One link per party, all in use at the same time.

    `server` is the bandwidth of the server's link, which parties share; None if it is never the bottleneck. With a
    `spread`, the bandwidths of parties are log-normal around `bits_per_second`; the seed determines them. `mesh` is an
    earlier way to ask for the exchange `mesh`.
    """

    bits_per_second: float
    latency: float
    mesh: bool = False
    server: float | None = None
    spread: float = 0.0

    def seconds(self, down: int, up: int) -> float:
        """Return the seconds of a download and then an upload, over a link of the median bandwidth."""
        return sum(self.latency + 8 * size / self.bits_per_second for size in (down, up) if size)

    def transfer(self, size: int, party: int, seed: int, sharing: int = 1) -> float:
        """Return the seconds that `size` bytes to or from a party take, if `sharing` parties use the server's link."""
        if not size:
            return 0.0
        rate = self.bits_per_second
        if self.spread:
            rate *= math.exp(self.spread * _deviation(seed, party))
        if self.server is not None:
            rate = min(rate, self.server / sharing)
        return self.latency + 8 * size / rate


@lru_cache(maxsize=1 << 16)
def _deviation(seed: int, party: int) -> float:
    """Return a party's draw from the standard normal distribution; it stays the same in all rounds."""
    return float(stream(seed, "link", party=party).standard_normal())


Bandwidth: TypeAlias = str | int | float  # a number is refused with an example, because its unit is not known
NETWORKS: Registry[Network] = Registry("network", Contract(Network, "an sb.Network(...)"))
_UNITS = {"k": 1e3, "m": 1e6, "g": 1e9}


@NETWORKS.register(added_later=("server", "spread"))
def link(
    bandwidth: Bandwidth = "100Mbps", latency: Latency = 0.0, server: Bandwidth | None = None, spread: Spread = 0.0
) -> Network:
    """Every party has a link with a bandwidth (as 100Mbps, 1Gbps) and a latency in seconds.

    `server` is the bandwidth of the server's link, which the parties of a round share equally; without it the server is
    never the bottleneck. `spread` is the standard deviation of the logarithm of the parties' bandwidths.
    """
    at_server = None if server is None else _bits("link", server, "server")
    return Network(_bits("link", bandwidth), latency, server=at_server, spread=spread)


@NETWORKS.register
def mesh(bandwidth: Bandwidth = "100Mbps", latency: Latency = 0.0) -> Network:
    """All to all: every party sends its message to every other party over its own link; there is no server."""
    return Network(_bits("mesh", bandwidth), latency, mesh=True)


def _bits(name: str, bandwidth: Bandwidth, argument: str = "bandwidth") -> float:
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([kKMG])bps", str(bandwidth))
    if not match or float(match[1]) == 0:
        raise SpecError(
            f"{name}: {argument} must be bits per second, written like 100Mbps or 1Gbps, but '{bandwidth}' was given."
        )
    return float(match[1]) * _UNITS[match[2].lower()]
