"""Gossip: parties average their models with those of their neighbours; there is no server."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import torch

from silobench.loop.exchanges.exchange import EXCHANGES, Exchange, Meeting, Outcome
from silobench.loop.exchanges.graphs import Weights, content_of, edges_of, metropolis
from silobench.method.selection import Cohort
from silobench.method.types import Algorithm, Phase, Vector, send_delta
from silobench.training.setting import Setting
from silobench.training.state import Tally


@EXCHANGES.register
def gossip(graph: str = "ring") -> Exchange:
    """After its local steps, each party replaces its model by a mean of its own and its neighbours' models (D-PSGD).

    Can Decentralized Algorithms Outperform Centralized Algorithms?, Lian et al., NeurIPS 2017. With the models w_j
    after the local steps of the round:

        w_i ← Σ_j W_ij w_j,    W_ij = 1 / (1 + max(d_i, d_j)) for neighbours, W_ii = 1 - Σ_j W_ij

    d_i is the number of neighbours of party i. These are Metropolis weights: rows and columns of W sum to 1, so the
    mean of all models stays. The `graph` is ring, torus (as square as the number of parties allows), complete,
    small-world (Watts and Strogatz: four neighbours, one edge in ten drawn anew from the seed), or the path of a text
    file with one edge per line: two party numbers, counted from 0.

    A party that does not take part in a round, or does not answer, keeps its model, and its weight goes to the party
    itself. Accuracy is the mean over the parties' models, and normalisation statistics stay with each party.

    Departures from the paper: a round may have several local steps, and models are mixed after them.
    """

    content = content_of(graph)  # read once, so that the graph of a run stays the same

    def weights_of(setting: Setting) -> Weights:
        return metropolis(edges_of(graph, len(setting.federation.parties), setting.seed, content))

    def combine(meeting: Meeting) -> Outcome:
        tally, trained = Tally(), dict[int, Vector]()
        for reply in meeting.replies:
            ((party, _),) = reply.sizes.items()
            tally.add(reply)
            trained[party] = _model(meeting, party) + reply.update.mean()["delta"]
        meeting.watch.lap("parties")
        weights = weights_of(meeting.setting)
        mixed = {party: _mixed(party, trained, weights[party]) for party in trained}
        memory = {party: {**tally.memory[party], "exchange": {"model": mixed[party]}} for party in trained}
        every = [mixed.get(p, _model(meeting, p)) for p in range(meeting.server.parties)]
        server = replace(meeting.server, params=torch.stack(every).mean(0), round=meeting.server.round + 1)
        return Outcome(server, tally, memory)

    def phases(setting: Setting, cohort: Cohort, answer: int, sizes: Mapping[int, int]) -> Sequence[Phase]:
        weights = weights_of(setting)
        up = {party: size * len(weights[party].keys() & sizes.keys()) for party, size in sizes.items()}
        return (Phase("models", up=up),)

    def refuses(setting: Setting) -> str | None:
        reason = _refusal(setting)
        if reason is None:
            weights_of(setting)  # refuses a graph that does not fit
        return reason

    return Exchange(combine, phases, needs_each=True, mixes=True, refuses=refuses)


def _model(meeting: Meeting, party: int) -> Vector:
    """Return the model of a party at the start of the round."""
    return meeting.setting.params_at(meeting.server.params, meeting.memory.get(party, {}))


def _mixed(party: int, models: Mapping[int, Vector], weights: Mapping[int, float]) -> Vector:
    mixed = models[party].clone()
    for other, weight in weights.items():
        if other in models:
            mixed += weight * (models[other] - models[party])
    return mixed


def _refusal(setting: Setting) -> str | None:
    method, fedavg = setting.method, Algorithm()
    algorithm = method.algorithm
    if algorithm.message is not send_delta or algorithm.absorb is not fedavg.absorb or algorithm.replica is not None:
        return (
            "gossip mixes the models of parties, but this algorithm needs a server for more than their mean: use "
            "fedavg, fedprox or fedrs, or exchange = star."
        )
    if algorithm.silent or setting.personal is not None:
        return "gossip needs parties that send whole models: use fedavg, fedprox or fedrs, or exchange = star."
    if method.transforms or not method.aggregate.adds:
        return "gossip sends whole models and mixes them itself: leave transforms empty and aggregate at mean."
    params, state = method.server.apply(torch.zeros(1), torch.ones(1), method.server.init(torch.zeros(1)))
    if state or params.item() != 1:
        return "gossip has no server that could take a step: leave server at step(lr=1)."
    return None
