"""The server of a consortium: the ordinary round loop, into an ordinary run directory, with silos as its parties."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from silobench.engines import Engine
from silobench.loop.loop import run_rounds
from silobench.method.transforms.secure_sum import with_protocol
from silobench.partitions.measures import gini
from silobench.runs.execute import execute
from silobench.runs.horizontal import HorizontalRun
from silobench.runs.plan import Plan
from silobench.silos.agreement import Agreement, Roster
from silobench.silos.consortium import Consortium
from silobench.silos.mode import SiloMode
from silobench.silos.post import Post
from silobench.silos.remote_sum import RemotePairwise
from silobench.silos.session import Session
from silobench.training.state import RoundRecord, State

TESTED = "silos tested"  # a report of a round whose model some silos did not test
FOLDER = "silos"  # in the run directory: letters from before the first round


def plan_of(consortium: Consortium) -> Plan:
    """Return the plan of a consortium's run; its id is the name of the run directory."""
    return Agreement.of(consortium).plan


def run_consortium(consortium: Consortium, post: Post, out: Path) -> Iterator[RoundRecord]:
    """Run the rounds of a consortium in `out/<id>`, and yield their records; an interrupted run goes on.

    It waits for silos to join, and then runs the ordinary loop. What happens to silos that are slow, or away, is in
    docs/silo-protocol.md.
    """
    agreement = Agreement.of(consortium)
    session = Session.open(agreement, post, out / agreement.plan.id / FOLDER)
    mode = SiloMode(session)
    run = _silo_run(agreement, mode, session.gather())
    yield from execute(run, out, Engine(("silos",), bound=mode.mode()), commit_each=True)
    session.end()


@dataclass(frozen=True)
class SiloRun(HorizontalRun):
    """A run of horizontal learning whose rows are at silos."""

    mode: SiloMode
    roster: Roster

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences to show before the first round."""
        return (*self.dataset.notes, *self.setting.task.notes, *self.warnings)

    @property
    def _averaged_statistics(self) -> tuple[str, ...]:
        return ()  # whether the labels of silos differ is not known

    def records(self, engine: Engine, out: Path, state: State | None) -> Iterator[RoundRecord]:
        """Yield the rounds that remain after `state`, with who tested the model if some silos did not."""
        self.mode.round = state.server.round if state else 0
        for record in run_rounds(self.ready(engine, out), state):
            tested, parties = len(self.mode.tested), len(self.mode.names)
            is_partial = record.loss is not None and tested < parties
            yield replace(record, reports={**record.reports, TESTED: float(tested)}) if is_partial else record
            self.mode.round = record.state.server.round

    def facts(self) -> dict[str, Any]:
        """Return the content of run.json. What needs rows, such as measures of skew, is left out."""
        facts, rows = super().facts(), {"train": sum(self.roster.rows), "test": sum(self.roster.tests)}
        objective = facts["objective"]
        unknown = [{**metric, "constant": None} for metric in objective["metrics"]]
        shown = {key: value for key, value in objective.items() if key not in ("constant_answer", "target")}
        return {
            **facts,
            "dataset": {**facts["dataset"], **rows},
            "objective": {**shown, "metrics": unknown},
        }

    def partition_facts(self) -> dict[str, Any]:
        """Return the field `partition` of run.json: names and numbers of rows."""
        roster, agreement = self.roster, self.mode.session.agreement
        note = "the rows are at silos, so how their labels differ is not known"
        rounded = ["numbers of rows are rounded, because a secure sum hides them"] if agreement.hides else []
        return {
            "fingerprint": agreement.consortium.digest[:16],
            "parties": list(roster.names),
            "sizes": list(roster.rows),
            "gini": gini(np.array(roster.rows)),
            "notes": [note, *rounded],
        }


def _silo_run(agreement: Agreement, mode: SiloMode, roster: Roster) -> SiloRun:
    """Return the run of a roster, with a secure sum that asks silos where there is one."""
    run = agreement.run(roster)
    schedule, place = run.schedule, agreement.secure_place
    if place is not None:
        protocol = RemotePairwise(
            agreement.protocol.threshold,
            session=mode.session,
            round=lambda: mode.round,
            digest=lambda: mode.digest,
        )
        method = schedule.setting.method
        chain = list(method.transforms)
        chain[place] = with_protocol(chain[place], protocol)
        setting = replace(schedule.setting, method=replace(method, transforms=tuple(chain)))
        schedule = replace(schedule, setting=setting)
    return SiloRun(run.plan, run.dataset, schedule, run.measures, run.seconds, mode, roster)
