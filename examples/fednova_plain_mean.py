"""An ablation: FedNova with p_i = 1/N, every party the same weight, instead of p_i = n_i/n.

NIID-Bench's public code weighs by the number of classes that a party holds: the same where all hold all of them.

    silobench run niid-table3 --scale paper --only '* / quantity*' --plugin examples/fednova_plain_mean.py \
        --set algorithm=fednova_plain_mean
"""

from dataclasses import replace

import silobench as sb


@sb.ALGORITHMS.register
def fednova_plain_mean() -> sb.Algorithm:
    """FedNova over parties that all weigh the same."""
    right = sb.fednova()

    def message(local: sb.Local, server: sb.Server, memory: sb.Memory) -> tuple[sb.Update, sb.Memory]:
        return right.message(replace(local, samples=1), server, memory)

    return replace(right, message=message)
