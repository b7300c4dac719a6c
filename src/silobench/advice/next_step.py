"""What to run next, to be surer: an experiment that compares the recommended method with its rivals."""

from dataclasses import dataclass
from typing import Any

from silobench.advice.components import Regime
from silobench.advice.recommend import Recommendation

TRIALS = 3
ROUNDS = 20
DEFAULT_EPOCHS = "10"
_STAND_IN: dict[Regime, str] = {
    "none": "iid",
    "label": "label-dirichlet(beta=0.5)",
    "feature": "noise(sigma=0.1)",
    "quantity": "quantity-dirichlet(beta=0.5)",
    "mixed": "label-dirichlet(beta=0.5) + noise(sigma=0.1)",
}


@dataclass(frozen=True)
class Subject:
    """The data that advice is about, as an experiment names them."""

    dataset: str
    partition: str
    parties: int
    note: str = ""  # what the experiment cannot do


def stand_in(regime: Regime, parties: int) -> Subject:
    """Return public data with a skew of the same kind, for profiles whose rows are elsewhere."""
    note = "the rows are not here, so the embedded digits stand in, with a skew of the same kind"
    return Subject("digits", _STAND_IN[regime], parties, note)


def next_experiment(subject: Subject, recommendation: Recommendation, participation: float) -> dict[str, Any]:
    """Return the experiment: the recommended algorithm, its nearest rival and FedAvg, over three seeds."""
    rivals = dict.fromkeys((recommendation.algorithm.value, recommendation.alternative, "fedavg"))
    epochs = recommendation.local_epochs.value
    return {
        "dataset": subject.dataset,
        "partition": subject.partition,
        "parties": subject.parties,
        **({"participation": participation} if participation < 1 else {}),
        "algorithm": [name for name in rivals if name],
        **({"solver": f"sgd(epochs={epochs})"} if epochs.isdigit() and epochs != DEFAULT_EPOCHS else {}),
        "rounds": ROUNDS,
        "trials": TRIALS,
    }
