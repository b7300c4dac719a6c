"""The mode `inline`: PyTorch trains one party after another. It can run anything."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain

from silobench.engines.executor import Dispatch, Job
from silobench.engines.failures import located
from silobench.engines.modes.mode import TESTING_COST, Mode, row_count, work_by_party
from silobench.federation import Part
from silobench.method.selection import Cohort
from silobench.method.types import Server
from silobench.tasks.score import Score
from silobench.tasks.task import Weights
from silobench.training.party import LocalRound
from silobench.training.setting import Setting
from silobench.training.state import PartyMemory, Reply


def _train(
    local_round: LocalRound, memory: Mapping[int, PartyMemory], dispatch: Dispatch
) -> tuple[int, Iterator[Reply]]:
    work, shared = work_by_party(local_round, memory), (local_round.setting, local_round.server)
    jobs = [Job(_train_party, shared, (local_round.cohort, party, memory[party]), work[party]) for party in memory]
    return dispatch.workers_for(jobs), dispatch.results(jobs)


def score_with_torch(
    setting: Setting, models: Sequence[Weights], parts: Sequence[Part], dispatch: Dispatch
) -> list[Score]:
    """Return the score of every model on all parts. Parts are summed in their order, wherever they were scored."""
    size = setting.task.network.layout.size
    share = -(-len(parts) // max(1, dispatch.workers // len(models)))
    groups = [parts[begin : begin + share] for begin in range(0, len(parts), share)]
    jobs = [
        Job(_score_parts, (setting, model), (group,), row_count(group) * size * TESTING_COST)
        for model in models
        for group in groups
    ]
    scores = list(dispatch.results(jobs))
    of_models = (scores[begin : begin + len(groups)] for begin in range(0, len(scores), len(groups)))
    return [sum(chain(*of_groups), Score()).judged() for of_groups in of_models]


# --- functions that workers call ----------------------------------------------------------------------


def _train_party(setting: Setting, server: Server, cohort: Cohort, party: int, memory: PartyMemory) -> Reply:
    local_round = LocalRound(setting, server, cohort)
    try:
        with setting.task.settled():
            return local_round(party, memory)
    except Exception as error:
        raise located(error, local_round, [party])  # noqa: B904  # it has its cause


def _score_parts(setting: Setting, model: Weights, parts: Sequence[Part]) -> list[Score]:
    with setting.task.settled():
        return setting.task.scores(*model, map(setting.federation.part, parts))


INLINE = Mode("inline", lambda setting: None, _train, score_with_torch)
