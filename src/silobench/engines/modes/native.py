"""The mode `native`: one call of compiled code per party, or for many small ones, on threads of this process."""

from collections.abc import Iterator, Mapping, Sequence

from silobench.engines import kernel as kernels
from silobench.engines.executor import Dispatch
from silobench.engines.kernel import parties as compiled
from silobench.engines.modes.inline import score_with_torch
from silobench.engines.modes.mode import TESTING_COST, Mode, device_refusal, row_count, solver_refusal, work_by_party
from silobench.federation import Part
from silobench.tasks.score import Score
from silobench.tasks.task import Weights
from silobench.training.party import LocalRound
from silobench.training.setting import Setting
from silobench.training.state import PartyMemory, Reply

_WORTH_A_THREAD = 2e6  # parameters times rows: a fraction of a millisecond, but more than a thread takes to start


def _refusal(setting: Setting) -> str | None:
    if refusal := device_refusal(setting) or solver_refusal(setting):
        return refusal
    if not compiled.can_run(setting):
        return (
            "it needs the model cnn, mlp or linear, a classification dataset and an algorithm without its own loss, "
            "gradient or trainings (not moon, fedrs or ditto)"
        )
    return kernels.why_not()


def _warn(setting: Setting) -> None:
    if not device_refusal(setting) and compiled.can_run(setting):
        kernels.warn_if_missing()


def _train(
    local_round: LocalRound, memory: Mapping[int, PartyMemory], dispatch: Dispatch
) -> tuple[int, Iterator[Reply]]:
    batch = compiled.batch_of(local_round, memory)
    if batch is not None:
        threads = _threads(dispatch, len(memory), batch.work)
        return threads, batch.train(threads)
    work = sum(work_by_party(local_round, memory).values())
    threads = dispatch.workers if dispatch.is_worth(len(memory), work) else 0
    return threads, compiled.train(local_round, memory, threads)


def _score(setting: Setting, models: Sequence[Weights], parts: Sequence[Part], dispatch: Dispatch) -> list[Score]:
    if not setting.task.objective.counts_hits:  # compiled code counts correct rows by class only
        return score_with_torch(setting, models, parts, Dispatch("here", 0, 0.0))
    work = len(models) * row_count(parts) * setting.task.network.layout.size * TESTING_COST
    return compiled.score(setting, models, parts, _threads(dispatch, len(models) * len(parts), work))


def _threads(dispatch: Dispatch, jobs: int, work: float) -> int:
    """Return how many threads do work that needs no Python; 0 if it is so short that this one does it alone."""
    return dispatch.workers if jobs > 1 and work >= min(dispatch.least, _WORTH_A_THREAD) else 0


NATIVE = Mode("native", _refusal, _train, _score, lambda: kernels.native().facts, _warn)
