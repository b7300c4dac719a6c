"""Sign flipping: messages that point the other way."""

from typing import Annotated

from annotated_types import Gt

from silobench.method.adversaries.adversary import ADVERSARIES, Adversary, Share, changed
from silobench.method.types import Context, Update


@ADVERSARIES.register
def sign_flip(share: Share = 0.2, scale: Annotated[float, Gt(0)] = 1.0) -> Adversary:
    """Send the message times -`scale`: malicious parties train as others do, and report the opposite.

    RSA: Byzantine-Robust Stochastic Aggregation Methods for Distributed Learning from Heterogeneous Datasets, Li et
    al., AAAI 2019. All vectors of a message are flipped, so also control variates; counts and weights are not.
    """

    def message(update: Update, context: Context) -> Update:
        return changed(update, lambda part: part * -scale)

    return Adversary(share, message)
