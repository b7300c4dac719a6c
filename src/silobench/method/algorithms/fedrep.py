"""FedRep (Collins et al., ICML 2021)."""

from silobench.method.types import (
    ALGORITHMS,
    Algorithm,
    Count,
    CountOrZero,
    Layout,
    Local,
    Memory,
    Server,
    Train,
    last_layers,
)


@ALGORITHMS.register
def fedrep(layers: Count = 1, head_epochs: CountOrZero = 10) -> Algorithm:
    """Each party first trains its own head on the shared body, and then the body below its head.

    Exploiting Shared Representations for Personalized Federated Learning, Collins et al., ICML 2021. The body φ is
    shared, and the head h_i, the last `layers` layers, stays with party i. In a round, with n_i rows at party i:

        h_i ← `head_epochs` epochs on f_i(φ, ·) from h_i
        φ_i ← the solver's epochs on f_i(·, h_i) from φ
        φ ← Σ_i (n_i / n) φ_i

    The paper's experiments take ten epochs for the head and one or five for the body. `head_epochs=0` never trains the
    heads.

    Departures from the paper: bodies are averaged by samples. Momentum, if the solver has it, starts from zero for the
    body as it does for the head. Normalisation statistics stay with each party; those of the body's training are kept.
    """

    def personal(layout: Layout) -> frozenset[str]:
        return last_layers(layout, layers)

    def trainings(train: Train, server: Server, memory: Memory) -> tuple[Local, Memory]:
        head, start = personal(train.layout), server.params
        if head_epochs:
            start = train(start, "head", frozen=set(train.layout.names) - head, epochs=head_epochs).end
        return train(start, frozen=head), memory

    return Algorithm(personal=personal, trainings=trainings, effort=lambda passes: passes + head_epochs)
