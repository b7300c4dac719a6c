"""How well a party can compute another party's update from what all parties are sent."""

from dataclasses import replace
from itertools import permutations

import torch

from silobench.loop.loop import initial_state, one_thread
from silobench.loop.schedule import Schedule
from silobench.measures.measure import MEASURES, Findings, Measure, Observe
from silobench.method.servers import is_plain_step
from silobench.method.solvers.solver import Solver
from silobench.method.types import Algorithm, Count, Memory, Update
from silobench.training.party import LocalRound
from silobench.training.state import RoundRecord, State


@MEASURES.register
def subtraction(every: Count = 500) -> Measure:
    """How well a party can compute another party's update, from the change of the model and its own update.

    A party knows the model before and after a round, and so the mean of all updates. It subtracts its own. Of two
    parties, each gets the other's update; of three, each gets the mean of the other two. `error` is the smallest
    distance between such a guess and a true update, over all pairs of parties, relative to the length of that update:
    0 means that a party knows what another one sent. The measure trains the parties once more, after every
    `every`-th round and after the last, to know their updates.
    """

    def begin(schedule: Schedule, state: State | None, memory: Memory) -> Observe:
        before = state or initial_state(schedule.setting)

        def observe(record: RoundRecord) -> tuple[Findings, Memory]:
            nonlocal before
            start, before = before, record.state
            is_due = record.round % every == 0 or record.round == schedule.rounds or record.state.has_ended
            return (_findings(schedule, start, record) if is_due else {}), {}

        return observe

    return Measure(begin, refuses=_refusal)


def _findings(schedule: Schedule, start: State, record: RoundRecord) -> Findings:
    cohort = record.cohort if record.replied is None else record.replied
    if len(cohort) < 2:
        return {}
    updates = _updates(schedule, start, record, cohort)
    before, after = (schedule.setting.sent(state.server).params for state in (start, record.state))
    change = after - before
    total = divisor = sum(update.weight for update in updates.values())
    if schedule.setting.method.has_noise:  # then all count the same, and the server divides by the expected number
        updates = {party: replace(update, total=update.mean(), weight=1.0) for party, update in updates.items()}
        total, divisor = float(len(updates)), schedule.setting.expected
    errors = []
    for attacker, victim in permutations(cohort, 2):
        known, true = updates[attacker], updates[victim].mean()["delta"]
        guess = (change * divisor - known.total["delta"]) / (total - known.weight)
        errors.append(float(torch.linalg.vector_norm(guess - true) / torch.linalg.vector_norm(true)))
    return {"error": min(errors), "parties": len(cohort)}


def _updates(schedule: Schedule, start: State, record: RoundRecord, cohort: tuple[int, ...]) -> dict[int, Update]:
    """Return the updates of parties in a round, which each of them trains once more without transforms."""
    setting = replace(schedule.setting, method=replace(schedule.setting.method, transforms=()))
    local = LocalRound(setting, setting.sent(replace(start.server, knobs=record.knobs)), cohort)
    with one_thread(setting.task):
        return {party: local(party, start.memory.get(party, {})).update for party in cohort}


def _refusal(schedule: Schedule) -> str | None:
    """Return why the change of the model is not the mean of updates that can be trained once more, or None."""
    method = schedule.setting.method
    plain, algorithm = Algorithm(), method.algorithm
    is_mean = schedule.setting.needs_only_sum and not algorithm.lockstep and algorithm.replica is None
    is_average = (algorithm.message, algorithm.absorb) == (plain.message, plain.absorb)
    is_sent_as_it_is = schedule.pace.takes is None and not schedule.broadcast
    if not (is_mean and is_average and is_sent_as_it_is and is_plain_step(method.server)):
        return (
            "subtraction reads the mean of all updates from the change of the model: use algorithm = fedavg, leave "
            "server, aggregate, exchange, pace and broadcast at their defaults, or leave the measure out."
        )
    if type(method.solver).release is not Solver.release:
        return (
            "subtraction trains parties once more to know their updates, but private noise does not come twice: use "
            "another solver, such as sgd, or leave the measure out."
        )
    return None
