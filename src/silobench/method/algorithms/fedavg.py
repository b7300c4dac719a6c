"""FedAvg (McMahan et al., AISTATS 2017)."""

import torch

from silobench.method.types import Algorithm, Count, Dial, Local, Memory, Server, Update, Vector


def fedavg(iter_local: Count | None = None) -> Algorithm:
    """Parties train from the server's model; the server takes the mean of what they learnt, by samples.

    Communication-Efficient Learning of Deep Networks from Decentralized Data, McMahan et al., AISTATS 2017:

        w ← w + Σ_i (n_i / n) (w_i - w),    n = Σ n_i over the cohort

    Departures from the paper: none. Every other algorithm is this one with some hooks replaced.

    With `iter_local` it is Algorithm 2 of the quagmire study (Hsieh et al., ICML 2020): a round is one minibatch,
    models are averaged after every `iter_local` of them and nothing is sent in between. The mean is uniform, momentum
    and normalisation statistics stay with the party, and all parties take part.
    """
    return Algorithm() if iter_local is None else _averaging(iter_local)


def _averaging(iter_local: int) -> Algorithm:
    """A party's memory is its model while it works alone; after an average, where it had gone before (`apart`)."""

    def mine(server: Server, memory: Memory) -> Vector:
        return memory.get("model", server.params)

    def message(local: Local, server: Server, memory: Memory) -> tuple[Update, Memory]:
        waited = 1 + int(memory.get("waited", torch.tensor(0)))
        if waited < server.knobs.get("iter_local", iter_local):
            return Update({}, 1.0), {"model": local.end, "waited": torch.tensor(waited)}
        return Update.of(1.0, delta=local.end - server.params), {"apart": local.end}

    def apart(server: Server, memory: Memory) -> Vector:
        return memory.get("apart", mine(server, memory))

    dial = Dial("iter_local", (5, 10, 20, 50, 200, 500, 1000), waits=True)
    return Algorithm(
        start=mine, message=message, replica=mine, apart=apart, apart_before=True, lockstep=True, dials=(dial,)
    )
