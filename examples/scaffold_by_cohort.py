"""An ablation: SCAFFOLD whose server divides the change of control variates by the cohort size, not by all parties.

This is SCAFFOLD if every party takes part in every round. Under party sampling, c grows to N/|cohort| times the mean of
the c_i.

    silobench run niid-party-sampling --plugin examples/scaffold_by_cohort.py --set algorithm=scaffold_by_cohort
"""

from collections.abc import Mapping
from dataclasses import replace

import torch

import silobench as sb


@sb.ALGORITHMS.register
def scaffold_by_cohort() -> sb.Algorithm:
    """SCAFFOLD with c ← c + (1 / |cohort|) Σ_i (c_i⁺ - c_i)."""
    scaffold = sb.scaffold()

    def message(local: sb.Local, server: sb.Server, memory: sb.Memory) -> tuple[sb.Update, sb.Memory]:
        update, new_memory = scaffold.message(local, server, memory)
        return update.with_sums(count=torch.tensor(1.0)), new_memory

    def absorb(server: sb.Server, update: sb.Update) -> tuple[sb.Vector, Mapping[str, sb.Vector]]:
        control = server.extras["control"] + update.sums["control"] / update.sums["count"]
        return update.mean()["delta"], {"control": control}

    return replace(scaffold, message=message, absorb=absorb)
