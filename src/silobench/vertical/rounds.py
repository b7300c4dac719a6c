"""The rounds of a vertical run: a generator of `RoundRecord`. It writes nothing, and stops when its caller does."""

import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from silobench.errors import ConfigError, HookError, RunError
from silobench.loop.accounts import bytes_of
from silobench.loop.final import TestedRows, WholeTest
from silobench.loop.loop import one_thread
from silobench.method.schedules import check_validation
from silobench.method.types import Memory, Server
from silobench.processes import keep_memory
from silobench.rng import stream
from silobench.tasks.metrics import ACCURACY
from silobench.tasks.objectives import Objective
from silobench.tasks.score import Score
from silobench.training.state import END, SLOWEST, RoundRecord, State
from silobench.training.stopwatch import Stopwatch
from silobench.vertical.federation import ALIGNED, VerticalFederation
from silobench.vertical.methods.method import Trained, Trainer, VerticalMethod, VerticalProblem
from silobench.vertical.served import ServedNetwork

_SCHEDULE = "schedule"  # the owner of the memory of the learning rate in `State.extra`
_DIGITS = 9  # of a second in a record


def run_vertical(problem: VerticalProblem, method: VerticalMethod, state: State | None) -> Iterator[RoundRecord]:
    """Run the rounds that remain after `state`; None starts at round 0."""
    keep_memory()
    rounds = _Rounds(problem, method.trainer(problem))
    state = state or rounds.trainer.initial()
    while state.server.round < problem.rounds and not state.has_ended:
        with one_thread(), _counted(state.server.round + 1):
            record = rounds.round(state)
        state = record.state
        yield record


@contextmanager
def _counted(round: int) -> Iterator[None]:
    """Add the round to an error of a hook, or to one that a run meets while it trains."""
    try:
        yield
    except RunError as error:
        details = error.details or (traceback.format_exc() if isinstance(error, HookError) else "")
        raise RunError(f"round {round}: {error}", details) from error


def check_rounds(problem: VerticalProblem, parties: int) -> None:
    """Raise an error for choices that would end a run of `parties` parties, or of a baseline of these, in a round."""
    check_validation(problem.solver.lr, bool(len(problem.federation.validation)))
    if problem.clock.parties not in (None, parties):
        raise ConfigError(
            f"the clock has speeds of {problem.clock.parties} parties, but the federation has {parties}: give a speed "
            "for each of them, or one number for all."
        )
    if problem.measures and not len(aligned_rows(problem.federation)):
        raise ConfigError(
            f"{next(iter(problem.measures))} looks at training rows that every party has, but there are none: let "
            "parties have more rows in common, or leave out measure."
        )


def aligned_rows(federation: VerticalFederation) -> Tensor:
    """Return the training rows that every party has."""
    known = torch.from_numpy(federation.deal.train.all(0))
    return federation.rows[known[federation.rows]]


@dataclass(frozen=True)
class _Rounds:
    """One round after another: training, test, record."""

    problem: VerticalProblem
    trainer: Trainer

    def round(self, state: State) -> RoundRecord:
        """Train for a round, and test the model if the problem says so."""
        watch, knobs = Stopwatch(), self._knobs_of_lr(state)
        trained = self.trainer.round(state, knobs)
        watch.lap("train")
        after = self._after(state, trained, knobs)
        scores, after = self._tested(after)
        if self._is_last(after):
            scores["final"] = self._final(after)
        # All parties answer the test rows with their parts of the model, side by side.
        trained.timeline.at_parties("test", [watch.lap("evaluate") / after.server.parties] * after.server.parties)
        measures = self._measured(after)  # an attack is not a part of the time of a round
        return self._record(state, after, trained, scores, measures, watch)

    def _knobs_of_lr(self, state: State) -> Mapping[str, float]:
        knobs = getattr(self.problem.solver.lr, "knobs", None)
        return knobs(state.extra.get(_SCHEDULE, {})) if knobs else {}

    def _after(self, before: State, trained: Trained, knobs: Mapping[str, float]) -> State:
        up, down = bytes_of(trained.phases)
        server = Server(
            trained.params, {}, {}, before.server.round + 1, before.server.parties, knobs, trained.buffers
        )  # fmt: skip
        extra = {**before.extra, **trained.extra}
        return State(server, trained.memory, before.clock + trained.clock, before.spent + up + down, extra=extra)

    def _is_last(self, state: State) -> bool:
        return state.has_ended or state.server.round == self.problem.rounds

    # --- scores ---------------------------------------------------------------------------------------

    def _tested(self, state: State) -> tuple[dict[str, Any], State]:
        """Return the scores of a round, empty if it is not tested, and the state after the learning rate saw them."""
        problem, round = self.problem, state.server.round
        share = 1.0 if round == problem.rounds else problem.eval_on if round % problem.eval_every == 0 else 0
        scores = self._scores(state, share) if share else {}
        follow = getattr(problem.solver.lr, "follow", None)
        if follow is None:
            return scores, state
        memory, is_finished = follow(state.extra.get(_SCHEDULE, {}), scores.get("validation_loss"))
        extra: dict[str, Memory] = {**state.extra, _SCHEDULE: memory}
        if is_finished:
            extra[END] = {"round": torch.tensor(round)}
            return self._scores(replace(state, extra=extra), 1.0), replace(state, extra=extra)
        return scores, replace(state, extra=extra)

    def _scores(self, state: State, share: float | int) -> dict[str, Any]:
        problem, objective, module = self.problem, self.problem.objective, self.trainer.module(state)
        federation = problem.federation
        rows = _share_of(federation.test_sets[ALIGNED], share, problem.seed)
        score = self._test_score(module, rows, self._is_last(state))
        values = objective.values(score)
        summary: dict[str, Any] = {"loss": score.loss}
        if objective.has_classes:
            summary |= {"accuracy": score.accuracy, "class_accuracy": score.by_class}
        if objective.metrics != (ACCURACY,):
            summary["metrics"] = {metric.name: values[metric.name] for metric in objective.metrics}
        if len(federation.validation):
            held_out = self._score(module, federation.x, federation.y, federation.validation)
            summary["validation"] = objective.values(held_out)[objective.main.name]
            summary["validation_loss"] = held_out.loss
        return summary

    def _test_score(self, module: nn.Module, rows: Tensor, is_last: bool) -> Score:
        """Return the score of test rows.

        Outputs may depend on the batch that a row is in: by the noise of a defence, or by the rounding of sums. So all
        test rows are answered, and some of them scored, where another result of this round is about the same rows.
        """
        federation, objective = self.problem.federation, self.problem.objective
        is_part, by_outputs = len(rows) < len(federation.test_y), type(objective).score_of is Objective.score_of
        if is_part and by_outputs and (is_last or isinstance(module, ServedNetwork)):
            part = self._every_row(module).take(rows)
            batches = torch.arange(len(rows)).split(federation.evaluation_batch)
            scores = [objective.score(part.outputs[batch], part.y[batch]) for batch in batches]
            return sum(scores, Score()).judged()
        return self._score(module, federation.test_x, federation.test_y, rows)

    @torch.no_grad()
    def _score(self, module: nn.Module, x: Tensor, y: Tensor, rows: Tensor) -> Score:
        module.eval()
        batches = rows.split(self.problem.federation.evaluation_batch)
        scores = [self.problem.objective.score_of(module, x[batch], y[batch]) for batch in batches]
        module.train()
        return sum(scores, Score()).judged()

    @torch.no_grad()
    def _every_row(self, module: nn.Module) -> TestedRows:
        """Return the outputs for all test rows; those of a new module for one state are always the same."""
        federation = self.problem.federation
        module.eval()
        batches = torch.arange(len(federation.test_y)).split(federation.evaluation_batch)
        outputs = torch.cat([module(federation.test_x[batch]) for batch in batches])
        module.train()
        return TestedRows(outputs, federation.test_y)

    def _final(self, state: State) -> dict[str, Any]:
        """Return confusions, calibration and metrics on the aligned rows, and the main metric by set of test rows."""
        federation, objective = self.problem.federation, self.problem.objective
        every = self._every_row(self.trainer.module(state))
        whole = WholeTest(len(federation.dataset.classes))
        whole.add(objective, every.take(federation.test_sets[ALIGNED]))
        by_rows = {
            name: {"rows": len(rows), "score": every.take(rows).main(objective)}
            for name, rows in federation.test_sets.items()
        }
        return whole.as_json(objective) | {"by_rows": by_rows}

    def _measured(self, state: State) -> dict[str, Any]:
        """Return the results of measures of the cut; empty if none is due."""
        results, seed, round = dict[str, Any](), self.problem.seed, state.server.round
        for name, measure in self.problem.measures.items():
            if not (self._is_last(state) or (measure.every and round % measure.every == 0)):
                continue
            rows = _share_of(self._aligned_rows, min(measure.rows, len(self._aligned_rows)), seed)
            view = self.trainer.view(state, rows)
            if view is not None:
                results[name] = measure.measure(view, stream(seed, f"measure {name}", round))
        return results

    @cached_property
    def _aligned_rows(self) -> Tensor:
        return aligned_rows(self.problem.federation)

    # --- record ---------------------------------------------------------------------------------------

    def _record(
        self,
        before: State,
        after: State,
        trained: Trained,
        scores: Mapping[str, Any],
        measures: Mapping[str, Any],
        watch: Stopwatch,
    ) -> RoundRecord:
        (up, down), parties = bytes_of(trained.phases), tuple(range(before.server.parties))
        spent, evaluate = trained.seconds, watch.laps["evaluate"]
        seconds = {**spent, "idle": max(0.0, watch.laps["train"] - sum(spent.values())), "evaluate": evaluate}
        return RoundRecord(
            round=after.server.round,
            accuracy=scores.get("accuracy"),
            class_accuracy=scores.get("class_accuracy"),
            accuracy_std=None,
            loss=scores.get("loss"),
            validation=scores.get("validation"),
            validation_loss=scores.get("validation_loss"),
            metrics=scores.get("metrics", {}),
            final=scores.get("final", {}),
            party_accuracy=None,
            train_loss=trained.loss,
            cohort=parties,
            steps=trained.steps,
            bytes_up=up,
            bytes_down=down,
            clock=after.clock,
            knobs=after.server.knobs,
            engine="inline",
            workers=1,
            seconds=seconds | {SLOWEST: spent["train"] if trained.slowest is None else trained.slowest},
            state=after,
            computing=trained.computing,
            measures=measures,
            reports=trained.reports,
            converged=after.has_ended,
            rows=trained.rows,
            dense_up=trained.dense[0],
            dense_down=trained.dense[1],
            time=trained.timeline.as_json(),
            phases=_phases(trained),
        )


def _phases(trained: Trained) -> dict[str, dict[str, float]]:
    """Return bytes, messages and seconds by phase; phases without messages are left out."""
    return {
        phase.name: {
            "up": sum(phase.up.values()),
            "down": sum(phase.down.values()),
            "messages": phase.messages,
            "seconds": round(phase.seconds, _DIGITS),
        }
        for phase in trained.phases
        if phase.messages
    }


def _share_of(rows: Tensor, share: float | int, seed: int) -> Tensor:
    count = share if isinstance(share, int) else max(1, round(share * len(rows)))
    if count >= len(rows):
        return rows
    return rows[torch.from_numpy(np.sort(stream(seed, "evaluate").choice(len(rows), count, replace=False)))]
