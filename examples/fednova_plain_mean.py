"""An ablation: FedNova with equal weights, p_i = 1/N, instead of weights by rows, p_i = n_i/n.

NIID-Bench's public code weights a party by its number of classes: this variant, if all parties have all classes.

    silobench run niid-table3 --scale paper --only '* / quantity*' --plugin examples/fednova_plain_mean.py \
        --set algorithm=fednova_plain_mean
"""

from dataclasses import replace

import silobench as sb


@sb.ALGORITHMS.register
def fednova_plain_mean() -> sb.Algorithm:
    """FedNova with the same weight for every party."""
    fednova = sb.fednova()

    def message(local: sb.Local, server: sb.Server, memory: sb.Memory) -> tuple[sb.Update, sb.Memory]:
        return fednova.message(replace(local, samples=1), server, memory)

    return replace(fednova, message=message)
