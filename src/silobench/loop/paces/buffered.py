"""Asynchronous rounds: the server steps after a few messages, without waiting for the others."""

from silobench.loop.paces.pace import PACES, Pace
from silobench.spec.ranges import Count, NonNegative


@PACES.register
def buffered(size: Count = 5, staleness: NonNegative = 0.5) -> Pace:
    """The server takes its step after every `size` messages (FedBuff); parties that wait for nobody start again.

    Federated Learning with Buffered Asynchronous Aggregation, Nguyen et al., AISTATS 2022. As many parties as a cohort
    has train at the same time. When `size` messages have come, with changes Δ_i of the model and weights n_i, the
    server takes a step along

        Σ_i (1 + τ_i)^-staleness n_i Δ_i / Σ_i n_i

    τ_i is the number of steps that the server took since party i was sent the model; 0.5 is the paper's choice, and 0
    counts all messages in full. The virtual clock and the seed determine who arrives when, so `clock` must be set. A
    round is one step of the server. With fewer than `size` parties on their way, it waits for all of them.

    Departures from the paper: messages are weighted by samples, as the algorithm weights them. FedDyn's server also
    remembers discounted messages, while parties remember theirs in full: use staleness=0 with it.
    """
    return Pace(lambda arrivals: min(size, len(arrivals)), lambda late: (1.0 + late) ** -staleness, size)


@PACES.register
def fedasync(staleness: NonNegative = 0.5) -> Pace:
    """The server takes its step after every message: ``buffered(size=1)``.

    Asynchronous Federated Optimization, Xie et al., 2019, with its polynomial staleness; the mixing weight α is the
    server's learning rate, as in server = "step(lr=0.6)". Departures from the paper: the change of a party's model is
    added to the current model, whereas the paper mixes the party's model in.
    """
    return buffered(1, staleness)
