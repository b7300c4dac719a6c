"""The mode `vmap`: parties of almost any network are trained together by torch.func.vmap, one stack per job."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain

from torch import nn

from silobench.engines.executor import Dispatch
from silobench.engines.failures import located
from silobench.engines.modes.inline import score_with_torch
from silobench.engines.modes.mode import Mode, longest_first, solver_refusal, stack_jobs, work_by_party
from silobench.engines.stacks.vmapped import bytes_of_row, train_vmapped, trial_failure
from silobench.method.selection import Cohort
from silobench.method.types import Server
from silobench.models import CustomLoss
from silobench.training.party import LocalRound
from silobench.training.setting import Setting
from silobench.training.state import PartyMemory, Reply

_STACK_BYTES = 1 << 30  # memory for the vectors and the values of one stack
_IN_A_STACK = 32  # parties


def _refusal(setting: Setting) -> str | None:
    algorithm, task, federation = setting.method.algorithm, setting.task, setting.federation
    if refusal := solver_refusal(setting):
        return refusal
    if not algorithm.is_affine or setting.personal is not None:
        return (
            "it needs an algorithm without its own loss, gradient or trainings (not moon, fedrs or ditto) and without "
            "personal layers (not fedper)"
        )
    if isinstance(task.network.module, CustomLoss):
        return "the model has its own loss"
    if task.network.buffers.numel():
        return "the model keeps running statistics, as BatchNorm does: norm=group and norm=layer keep none"
    if federation.is_sparse:
        return "the rows are sparse"
    if federation.dataset.augment != "none":
        return f"{federation.dataset.name} is augmented: each party draws crops of its own"
    failure = trial_failure(setting)
    return f"the model does not suit it, because {failure}" if failure else None


def _pays_off(setting: Setting) -> bool:
    """Whether stacks are worth it: on a device, where many small kernels wait for launches, without convolutions.

    Convolutions of many parties become one grouped convolution, which is slower on a CPU; nobody has measured it on a
    GPU yet.
    """
    modules = setting.task.network.module.modules()
    return setting.task.device != "cpu" and not any(isinstance(each, nn.modules.conv._ConvNd) for each in modules)


def _train(
    local_round: LocalRound, memory: Mapping[int, PartyMemory], dispatch: Dispatch
) -> tuple[int, Iterator[Reply]]:
    stacks = _stacks(longest_first(local_round, memory), local_round)
    jobs = stack_jobs(_train_stack, local_round, memory, work_by_party(local_round, memory), stacks)
    return dispatch.workers_for(jobs), chain.from_iterable(dispatch.results(jobs))


def _stacks(parties: Sequence[int], local_round: LocalRound) -> list[Sequence[int]]:
    """Group parties of similar length, in the same way on every machine because rounding depends on it."""
    setting = local_round.setting
    longest = max(local_round.party(party).samples for party in parties)
    rows = min(setting.solver.batch or longest, longest)
    of_vectors = 24 * setting.task.network.layout.size  # parameters, gradient, velocity, pulls: 4 bytes each
    most = max(1, min(_IN_A_STACK, _STACK_BYTES // (of_vectors + rows * bytes_of_row(setting))))
    return [parties[begin : begin + most] for begin in range(0, len(parties), most)]


def _train_stack(setting: Setting, server: Server, cohort: Cohort, memory: Mapping[int, PartyMemory]) -> list[Reply]:
    """Train the parties of one job; workers call it."""
    local_round = LocalRound(setting, server, cohort)
    try:
        with setting.task.settled():
            return train_vmapped(local_round, memory)
    except Exception as error:
        raise located(error, local_round, list(memory))  # noqa: B904  # it has its cause


VMAP = Mode("vmap", _refusal, _train, score_with_torch, pays_off=_pays_off)
