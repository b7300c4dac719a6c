"""An audit of differential privacy in one run: canaries among the rows of a party, and a lower bound on epsilon."""

import math
from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

from silobench.errors import ConfigError
from silobench.loop.schedule import Schedule
from silobench.measures.measure import MEASURES, Findings, Measure, Observe
from silobench.method.solvers.dp_sgd import CANARIES, DpSgd
from silobench.method.types import Count, Memory, Positive
from silobench.privacy.audit import Audit, audit
from silobench.privacy.canaries import Canaries
from silobench.training.setting import Setting
from silobench.training.state import RoundRecord, State

REFUTED = "the claim is refuted"
STANDS = "the claim is not refuted"
NO_CLAIM = "no epsilon is claimed"
_LENGTH = 100.0  # clips; where single gradients are not clipped, a long one shows it


@MEASURES.register
def canaries(count: Count = 1000, party: int = 0, length: Positive | None = None) -> Measure:
    """A lower bound on the epsilon of dp_sgd, with 95% confidence, beside the claimed one.

    The audit is that of Steinke, Nasr and Jagielski (2023), in one run. `count` canaries join the rows of a party by
    fair coins. The gradient of a canary has the norm `length` (100 times the clip by default) at one parameter; it is
    sampled and clipped like that of a row. An observer of all noisy gradients, who knows the rows of the party, guesses
    which canaries joined. A bound above the claim refutes the claim. Canaries change the model, so do not use it.
    """

    def plant(setting: Setting) -> Setting:
        solver, layout = setting.method.solver, setting.task.network.layout
        assert isinstance(solver, DpSgd)  # `check` refuses any other
        norm = _LENGTH * solver.clip if length is None else length
        rows = len(setting.federation.dataset.train)
        return replace(setting, canaries=Canaries.planted(setting.seed, party, rows, layout.trainable, count, norm))

    def begin(schedule: Schedule, state: State | None, memory: Memory) -> Observe:
        setting = schedule.setting

        def observe(record: RoundRecord) -> tuple[Findings, Memory]:
            is_last = record.round == schedule.rounds or record.state.has_ended
            return (_findings(setting, record) if is_last else {}), {}

        return observe

    return Measure(begin, lambda setting, cohort: _check(setting, count, party), plant=plant)


def _check(setting: Setting, count: int, party: int) -> None:
    solver, parties = setting.method.solver, setting.federation.parties
    if not isinstance(solver, DpSgd) or solver.sampling != "poisson" or math.isinf(solver.clip):
        raise ConfigError(
            "canaries audits the epsilon of dp_sgd with Poisson samples and a finite clip, but the solver is another "
            'one: write solver = "dp_sgd(noise=1.1)", or leave the measure out.'
        )
    if not 0 <= party < len(parties):
        raise ConfigError(
            f"canaries: party={party} was given, but the parties are 0 to {len(parties) - 1}: choose one of them."
        )
    parameters, delta = setting.task.network.layout.trainable, solver.delta_of(parties[party].samples)
    most = min(parameters, int(1 / (2 * delta)))
    if count > most:
        raise ConfigError(
            f"canaries: count={count} was given, but the model has {parameters} parameters, one for each canary, and "
            f"with delta={delta:g} no more than {int(1 / (2 * delta))} canaries show anything: use at most {most}."
        )


def _findings(setting: Setting, record: RoundRecord) -> Findings:
    planted, solver = setting.canaries, setting.method.solver
    assert planted is not None  # by `plant`
    assert isinstance(solver, DpSgd)
    memory = record.state.memory.get(planted.party, {}).get("solver", {})
    if CANARIES not in memory and planted.party in (record.cohort if record.replied is None else record.replied):
        raise ConfigError(
            "canaries found none in the training: write plant=measure.plant in sb.rounds(...), where measure is "
            "sb.canaries(...)."
        )
    if CANARIES not in memory:
        return {}
    delta = solver.delta_of(setting.federation.parties[planted.party].samples)
    result, claimed = audit(memory[CANARIES].numpy(), planted.joined.numpy(), delta), _claimed(record, planted.party)
    facts = {"delta": delta, "party": planted.party, "claimed": claimed, "verdict": _verdict(result, claimed)}
    return {**asdict(result), **facts}


def _claimed(record: RoundRecord, party: int) -> float | None:
    """Return the smallest epsilon that the run states for the rows of a party; None if it states none."""
    stated: Mapping[str, Any] = record.privacy.get("example", {})
    claims = [stated["parties"][party], stated.get("epsilon_pld")] if stated else []  # the latter is of all parties
    return min((claim for claim in claims if claim is not None), default=None)


def _verdict(result: Audit, claimed: float | None) -> str:
    if claimed is None or math.isinf(claimed):
        return NO_CLAIM
    return REFUTED if result.epsilon > claimed else STANDS
