"""Fine-tuning after any algorithm."""

from dataclasses import replace

from silobench.method.types import ALGORITHMS, Adaptation, Algorithm, ConfigError, Count


@ALGORITHMS.register(specs=("algorithm",))
def finetune(algorithm: Algorithm, epochs: Count = 1) -> Algorithm:
    """Another algorithm, after which each party trains on its own rows for `epochs` epochs before it is tested.

    The usual baseline of personalised learning, as in Exploiting Shared Representations for Personalized Federated
    Learning (Collins et al., ICML 2021). Write finetune(fedavg) or finetune(scaffold(option=1), epochs=5).

    At each test, party i starts from the model that it has, the shared one or its own, and minimises f_i with the
    solver at the learning rate of the last round. This model is tested, and forgotten after the test: the rounds are
    those of the algorithm, bit for bit.
    """
    if algorithm.pooled:
        raise ConfigError("finetune needs the parties, but combined pools their rows: use another algorithm in it.")
    if algorithm.adaptation is not None:
        raise ConfigError(
            "finetune needs an algorithm whose models are tested as they are, but this one adapts them already, as "
            "perfedavg and finetune do: leave one of the two out."
        )
    return replace(algorithm, adaptation=Adaptation(epochs))
