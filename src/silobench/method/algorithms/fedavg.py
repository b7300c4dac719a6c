"""FedAvg (McMahan et al., AISTATS 2017)."""

import torch

from silobench.method.types import ALGORITHMS, Algorithm, Count, Dial, Local, Memory, Server, Update, Vector


@ALGORITHMS.register(added_later=("iter_local",))
def fedavg(iter_local: Count | None = None) -> Algorithm:
    """Parties train from the server's model; the server takes the mean of their models, weighted by samples.

    Communication-Efficient Learning of Deep Networks from Decentralized Data, McMahan et al., AISTATS 2017. With n_i
    rows at party i of the cohort and n = Σ n_i:

        w ← w + Σ_i (n_i / n) (w_i - w)

    Departures from the paper: none. Every other algorithm is FedAvg with some hooks replaced.

    With `iter_local` it is Algorithm 2 of The Non-IID Data Quagmire (Hsieh et al., ICML 2020): a round is one
    minibatch, and models are averaged after every `iter_local` minibatches; nothing is sent in between. The mean is not
    weighted, each party keeps its momentum and normalisation statistics, and all parties take part.
    """
    return Algorithm() if iter_local is None else _fedavg_by_minibatch(iter_local)


def _fedavg_by_minibatch(iter_local: int) -> Algorithm:
    """Return FedAvg in rounds of one minibatch.

    Between two averages, a party's memory holds its model. After an average it holds, as `apart`, the model that the
    party had before, so that diagnostics can tell how far the parties had diverged.
    """

    def model(server: Server, memory: Memory) -> Vector:
        return memory.get("model", server.params)

    def message(local: Local, server: Server, memory: Memory) -> tuple[Update, Memory]:
        waited = 1 + int(memory.get("waited", torch.tensor(0)))
        if waited < server.knobs.get("iter_local", iter_local):
            return Update({}, 1.0), {"model": local.end, "waited": torch.tensor(waited)}
        return Update.of(1.0, delta=local.end - server.params), {"apart": local.end}

    def local_model(server: Server, memory: Memory) -> Vector:
        return memory.get("apart", model(server, memory))

    dial = Dial("iter_local", (5, 10, 20, 50, 200, 500, 1000), waits=True)
    return Algorithm(
        start=model,
        message=message,
        replica=model,
        local_model=local_model,
        local_model_before=True,
        lockstep=True,
        weighs_rows=False,
        dials=(dial,),
    )
