"""Before the first round: rows that parties share, and a warm-up on them (Zhao et al., 2018, section 4)."""

from dataclasses import replace
from typing import Any

from silobench.engines import Engine
from silobench.federation import Party
from silobench.loop.loop import run_rounds
from silobench.loop.schedule import Prelude, Schedule
from silobench.loop.timing import Timing
from silobench.method.method import Method
from silobench.method.schedules import FIRST
from silobench.method.types import Algorithm, Phase, at
from silobench.partitions import sharing
from silobench.rng import torch_seed
from silobench.training.setting import Setting


def with_prelude(schedule: Schedule) -> Schedule:
    """Return the schedule that starts after the prelude: parties have the shared rows, the model is trained on them.

    A run that resumes needs it too, because a party that takes part for the first time starts from the initial model.
    """
    if schedule.prelude is not None:
        return schedule
    federation = schedule.setting.federation
    setting, report = warmed_up(schedule.setting, schedule.engine)
    shared = sharing(federation.partition, federation.dataset)
    if shared is None or setting.method.algorithm.pooled:
        prelude = Prelude(measures=report)
    else:
        rows = Phase("rows", down=dict.fromkeys(range(len(federation.parties)), shared.largest))
        prelude = Prelude(shared.bytes, Timing(schedule).barrier(rows), report)
    return replace(schedule, setting=setting, prelude=prelude)


def warmed_up(setting: Setting, engine: Engine) -> tuple[Setting, dict[str, Any]]:
    """Train a first model on the shared rows; return the setting with it, and a report.

    The warm-up is one round of one party that has only these rows, with the run's solver and its learning rate of
    round 0.
    """
    federation, epochs = setting.federation, setting.federation.partition.warmup
    if not epochs:
        return setting, {}
    rows = federation.shared_rows
    single = replace(federation, parties=(Party(0, rows, rows[:0], "shared"),))
    solver = setting.method.solver
    solver = replace(solver, lr=at(solver.lr, FIRST), epochs=epochs, steps=None, keep_momentum=False)
    method = Method(Algorithm(), solver, buffers=setting.method.buffers)
    warm_up = Setting(method, single, setting.task, torch_seed(setting.seed, "warmup"))
    (record,) = run_rounds(Schedule(warm_up, rounds=1, engine=engine.settled(setting)))
    server = record.state.server
    task = replace(setting.task, initial=server.params, buffers=server.buffers)
    report: dict[str, Any] = {"epochs": epochs, "rows": len(rows), "accuracy": record.accuracy, "loss": record.loss}
    if record.metrics:
        report["metrics"] = dict(record.metrics)
    return replace(setting, task=task), {"warm-up": report}
