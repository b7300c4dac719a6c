"""Random numbers in place of messages."""

from dataclasses import replace
from typing import Annotated

import torch
from annotated_types import Gt

from silobench.method.adversaries.adversary import ADVERSARIES, Adversary, Share, changed
from silobench.method.types import Context, Update, Vector


@ADVERSARIES.register
def noise(share: Share = 0.2, deviation: Annotated[float, Gt(0)] = 1.0) -> Adversary:
    """Send normal numbers of this standard deviation in place of every number of the message.

    The Gaussian attack of Blanchard et al., NeurIPS 2017 (krum), whose deviation is 200.
    """

    def message(update: Update, context: Context) -> Update:
        rng = context.stream("adversary")

        def random(part: Vector) -> Vector:
            return torch.from_numpy(rng.standard_normal(part.shape)).to(part.dtype) * deviation

        noisy = changed(replace(update, codecs={}), random)  # a codec for few values does not fit these
        total = {name: part * update.weight if part.dim() else part for name, part in noisy.total.items()}
        return replace(noisy, total=total)

    return Adversary(share, message)
