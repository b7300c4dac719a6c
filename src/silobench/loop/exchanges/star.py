"""A server in the middle, and the same sum without a server."""

from collections.abc import Mapping, Sequence

from silobench.loop.exchanges.exchange import EXCHANGES, Exchange
from silobench.method.selection import Cohort
from silobench.method.types import Phase
from silobench.training.setting import Setting


@EXCHANGES.register
def star() -> Exchange:
    """A server sends the model to the parties of a round and combines their replies."""
    return STAR


@EXCHANGES.register
def mesh() -> Exchange:
    """Every party sends its message to every other party of the round, and each computes the server's step itself."""
    return MESH


def _all_to_all(setting: Setting, cohort: Cohort, answer: int, sizes: Mapping[int, int]) -> Sequence[Phase]:
    others = max(0, len(cohort) - 1)
    up = {party: size * others for party, size in sizes.items()}
    return (Phase("replies", up, messages=len(up) * others),)


STAR = Exchange()
MESH = Exchange(phases=_all_to_all, has_server=False)
