"""From a plan to a run that is ready for its first round, whatever its kind."""

from collections.abc import Sequence
from operator import itemgetter
from pathlib import Path
from typing import Any

from silobench.data import Dataset
from silobench.engines import ENGINES, Engine
from silobench.runs.horizontal import HORIZONTAL
from silobench.runs.plan import Plan
from silobench.runs.plans import some_of
from silobench.runs.runnable import Kind, Runnable
from silobench.runs.starts import digest_of
from silobench.runs.stored import interrupted_versions, read_verified
from silobench.runs.vertical import VERTICAL
from silobench.runs.writer import check_resumable

KINDS = [VERTICAL, HORIZONTAL]  # the first that claims a cell prepares its run; horizontal claims all, and stays last


def kind_of(plan: Plan) -> Kind:
    """Return the kind of learning that a plan asks for."""
    return next(kind for kind in KINDS if kind.claims(plan.cell))


def prepare(plan: Plan, dataset: Dataset | None = None) -> Runnable:
    """Build everything that a run needs; every error of a configuration comes before round 0."""
    return kind_of(plan).prepare(plan, dataset)


def check(plans: Sequence[Plan], out: Path, engine: Engine) -> None:
    """Raise every error that would stop one of these runs before its first round."""

    def settle(runnable: Runnable) -> Engine:
        return engine_of(runnable, out, engine)

    by_kind: dict[str, list[tuple[Any, str]]] = {kind.name: [] for kind in KINDS}
    orders: dict[Any, Any] = {}  # each once: runs share most of them
    kinds: dict[str, Kind] = {}  # by partition, which says what parties hold
    for plan in plans:
        check_origin(plan, out)
        check_resumable(out / plan.id)
        kind = kinds.get(plan.cell.partition) or kinds.setdefault(plan.cell.partition, kind_of(plan))
        order = kind.order(plan)
        by_kind[kind.name].append((orders.setdefault(order, order), plan.id))
    for kind in KINDS:
        in_order = [id for _, id in sorted(by_kind[kind.name], key=itemgetter(0))]
        claimed = some_of(plans, in_order)
        if kind.check is not None:
            kind.check(claimed, settle)
        else:
            for plan in claimed:
                settle(kind.prepare(plan, None))


def engine_of(runnable: Runnable, out: Path, engine: str | Engine) -> Engine:
    """Return the engine for a run, with one mode; an interrupted run continues as it was started."""
    chosen = ENGINES.build(engine) if isinstance(engine, str) else engine
    return runnable.settled(chosen, interrupted_versions(out / runnable.plan.id).get("engine"))


def check_origin(plan: Plan, out: Path) -> None:
    """Refuse a run that starts from the model of a finished run, if that model was deleted."""
    if plan.origin and is_complete(plan.origin, out):
        digest_of(out / plan.origin.id)


def is_complete(plan: Plan, out: Path) -> bool:
    """Whether a plan's directory exists and is finished; a damaged one is refused."""
    return is_finished(out / plan.id)


def is_finished(path: Path) -> bool:
    """Whether the directory of a run exists and is finished; a damaged one is refused."""
    has_records = any((path / name).exists() for name in ("run.json", "rounds.jsonl"))
    return has_records and read_verified(path)[0]["status"] == "complete"
