"""The mode `stacked`: parties are trained together as one batched computation, one stack per job."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain

from silobench.engines.executor import Dispatch
from silobench.engines.failures import located
from silobench.engines.modes.inline import score_with_torch
from silobench.engines.modes.mode import Mode, device_refusal, longest_first, solver_refusal, stack_jobs, work_by_party
from silobench.engines.stacks.stack import can_stack, train_stack
from silobench.method.selection import Cohort
from silobench.method.types import Server
from silobench.training.party import LocalRound
from silobench.training.setting import Setting
from silobench.training.state import PartyMemory, Reply

_STACK_BYTES = 1 << 28  # memory for the vectors of one stack
_IN_A_STACK = 16  # parties; a larger stack is hardly cheaper per party
_WORTH_SPLITTING = 1e8  # parameters times rows: about 10 ms of stacked work


def _refusal(setting: Setting) -> str | None:
    if refusal := device_refusal(setting) or solver_refusal(setting):
        return refusal
    if can_stack(setting):
        return None
    return (
        "it needs the model linear or mlp, classes and an algorithm without its own loss, gradient or trainings (not "
        "moon, fedrs or ditto; on sparse rows, not fedprox, feddyn or scaffold(momentum=inside) either)"
    )


def _train(
    local_round: LocalRound, memory: Mapping[int, PartyMemory], dispatch: Dispatch
) -> tuple[int, Iterator[Reply]]:
    work, size = work_by_party(local_round, memory), local_round.setting.task.network.layout.size
    stacks = _stacks(longest_first(local_round, memory), sum(work.values()), size)
    jobs = stack_jobs(_train_stack, local_round, memory, work, stacks)
    return dispatch.workers_for(jobs), chain.from_iterable(dispatch.results(jobs))


def _stacks(parties: Sequence[int], work: float, size: int) -> list[list[int]]:
    """Group parties into stacks, in the same way on every machine because rounding depends on it.

    A long round has at least two stacks, so that two cores have work; each has long and short parties.
    """
    most = min(_IN_A_STACK, max(1, _STACK_BYTES // (16 * size)))  # parameters, gradient, velocity, drift: 4 bytes each
    count = max(-(-len(parties) // most), 2 if work > _WORTH_SPLITTING else 1)
    return [list(parties[place::count]) for place in range(min(count, len(parties)))]


def _train_stack(setting: Setting, server: Server, cohort: Cohort, memory: Mapping[int, PartyMemory]) -> list[Reply]:
    """Train the parties of one job; workers call it."""
    local_round = LocalRound(setting, server, cohort)
    try:
        return train_stack(local_round, memory)
    except Exception as error:
        raise located(error, local_round, list(memory))  # noqa: B904  # it has its cause


STACKED = Mode("stacked", _refusal, _train, score_with_torch)
