"""An ablation: SCAFFOLD whose server divides the change of control variates by the cohort instead of by all parties.

The same where everyone takes part in every round; under party sampling c grows to N/|cohort| times the mean of the c_i.

    silobench run niid-party-sampling --plugin examples/scaffold_by_cohort.py --set algorithm=scaffold_by_cohort
"""

from collections.abc import Mapping
from dataclasses import replace

import torch

import silobench as sb


@sb.ALGORITHMS.register
def scaffold_by_cohort() -> sb.Algorithm:
    """SCAFFOLD with c ← c + (1 / |cohort|) Σ_i (c_i⁺ - c_i)."""
    right = sb.scaffold()

    def message(local: sb.Local, server: sb.Server, memory: sb.Memory) -> tuple[sb.Update, sb.Memory]:
        update, kept = right.message(local, server, memory)
        return update.with_sums(count=torch.tensor(1.0)), kept

    def absorb(server: sb.Server, update: sb.Update) -> tuple[sb.Vector, Mapping[str, sb.Vector]]:
        control = server.extras["control"] + update.sums["control"] / update.sums["count"]
        return update.mean()["delta"], {"control": control}

    return replace(right, message=message, absorb=absorb)
