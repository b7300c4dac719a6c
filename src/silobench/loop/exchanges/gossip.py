"""Gossip: parties average their models with those of their neighbours; there is no server."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from silobench.loop.exchanges.exchange import EXCHANGES, Exchange, Meeting
from silobench.loop.exchanges.graphs import Weights, content_of, edges_of, metropolis
from silobench.loop.exchanges.mixing import mixing
from silobench.method.selection import Cohort
from silobench.method.types import Phase, Vector
from silobench.training.setting import Setting


@EXCHANGES.register
def gossip(graph: str = "ring") -> Exchange:
    """After its local steps, each party replaces its model by a mean of its own and its neighbours' models (D-PSGD).

    Can Decentralized Algorithms Outperform Centralized Algorithms?, Lian et al., NeurIPS 2017. With the models w_j
    after the local steps of the round:

        w_i ← Σ_j W_ij w_j,    W_ij = 1 / (1 + max(d_i, d_j)) for neighbours, W_ii = 1 - Σ_j W_ij

    d_i is the number of neighbours of party i. These are Metropolis weights: rows and columns of W sum to 1, so the
    mean of all models stays. The `graph` is ring, torus (as square as the number of parties allows), complete,
    small-world (Watts and Strogatz: four neighbours, two if there are only four parties, and one edge in ten drawn anew
    from the seed), or the path of a text file with one edge per line: two party numbers, counted from 0.

    A party that does not take part in a round, or does not answer, keeps its model, and its weight goes to the party
    itself. Accuracy is the mean over the parties' models, and normalisation statistics stay with each party.

    Departures from the paper: a round may have several local steps, and models are mixed after them.
    """

    content = content_of(graph)  # read once, so that the graph of a run stays the same

    def weights_of(setting: Setting) -> Weights:
        return metropolis(edges_of(graph, len(setting.federation.parties), setting.seed, content))

    def mix(meeting: Meeting, trained: Mapping[int, Vector]) -> dict[int, Vector]:
        weights = weights_of(meeting.setting)
        return {party: _mixed(party, trained, weights[party]) for party in trained}

    def phases(setting: Setting, cohort: Cohort, answer: int, sizes: Mapping[int, int]) -> Sequence[Phase]:
        weights = weights_of(setting)
        receivers = {party: len(weights[party].keys() & sizes.keys()) for party in sizes}
        up = {party: size * receivers[party] for party, size in sizes.items()}
        return (Phase("models", up, messages=sum(receivers.values())),)

    def refuses(setting: Setting) -> None:
        weights_of(setting)  # raises an error for a graph that does not fit

    return replace(mixing(mix, phases, refuses), content=content or "")


def _mixed(party: int, models: Mapping[int, Vector], weights: Mapping[int, float]) -> Vector:
    mixed = models[party].clone()
    for other, weight in weights.items():
        if other in models:
            mixed += weight * (models[other] - models[party])
    return mixed
