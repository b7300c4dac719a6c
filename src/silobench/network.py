"""The network between parties and server: bytes to virtual seconds. Nothing here really sends."""

import re
from dataclasses import dataclass

from silobench.errors import SpecError
from silobench.spec import Registry
from silobench.types import NonNegative


@dataclass(frozen=True)
class Network:
    """A star: every party has its own link to the server, and all links work at once."""

    bits_per_second: float
    latency: float

    def seconds(self, down: int, up: int) -> float:
        """How long one round's transfers take: the broadcast, then the slowest reply."""
        return sum(self.latency + 8 * size / self.bits_per_second for size in (down, up) if size)


NETWORKS: Registry[Network] = Registry("network")
_UNITS = {"k": 1e3, "m": 1e6, "g": 1e9}


@NETWORKS.register
def link(bandwidth: str = "100Mbps", latency: NonNegative = 0.0) -> Network:
    """Equal links of this bandwidth (as 100Mbps, 1Gbps) and one-way latency in seconds."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([kKMG])bps", bandwidth)
    if not match or float(match[1]) == 0:
        raise SpecError(f"link: bandwidth must read like 100Mbps or 1Gbps, but '{bandwidth}' was given.")
    return Network(float(match[1]) * _UNITS[match[2].lower()], latency)
