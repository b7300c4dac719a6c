"""Label flipping: training on wrong labels."""

import numpy as np

from silobench.method.adversaries.adversary import ADVERSARIES, Adversary, Labels, Share


@ADVERSARIES.register
def label_flip(share: Share = 0.2) -> Adversary:
    """Train on wrong labels: class c of C becomes C - 1 - c. Messages are honest results of that training.

    Local Model Poisoning Attacks to Byzantine-Robust Federated Learning, Fang et al., USENIX Security 2020, section 5.
    With an odd number of classes the middle one stays. Validation rows, and rows that all parties share, keep theirs.
    """

    def labels(labels: Labels, classes: int, rng: np.random.Generator) -> Labels:
        return classes - 1 - labels

    return Adversary(share, labels=labels)
