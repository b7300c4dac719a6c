"""The mode `silos`: parties are trained and models are scored by real silos, which a server asks by letters."""

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from silobench.engines.executor import Dispatch
from silobench.engines.modes import Mode
from silobench.errors import RunError
from silobench.federation import Part
from silobench.loop.final import MOST_CROSSED
from silobench.method.secure import Pairwise
from silobench.method.selection import Cohort
from silobench.method.types import Memory
from silobench.silos.agreement import Agreement
from silobench.silos.binding import round_digest
from silobench.silos.letters import Letter
from silobench.silos.messages import blank_reply, broadcast_arrays, last_round, reply_of
from silobench.silos.scores import blank_test, checked_test, score_of, whole_of
from silobench.silos.session import Session
from silobench.tasks.score import Score
from silobench.tasks.task import Weights
from silobench.training.party import LocalRound
from silobench.training.setting import Setting
from silobench.training.state import PartyMemory, Reply

_log = logging.getLogger(__name__)
_PAUSE = 1.0  # seconds before silos are asked again for a test


@dataclass
class SiloMode:
    """How the loop trains and tests at silos. `tested` are the silos that scored the last model."""

    session: Session
    round: int = 0
    tested: tuple[str, ...] = ()
    digest: bytes = b""  # of what the letters of the current round have in common

    def mode(self) -> Mode:
        """Return the mode for an engine."""
        return Mode("silos", lambda setting: None, self.train, self.score, may_miss=True, final=self.final)

    @property
    def names(self) -> tuple[str, ...]:
        """The silos of the run, in the order of the parties."""
        return self.session.roster.names

    @property
    def quorum(self) -> int:
        """The number of silos that must answer."""
        return self.session.agreement.consortium.quorum

    def train(
        self, local_round: LocalRound, memory: Mapping[int, PartyMemory], dispatch: Dispatch
    ) -> tuple[int, Iterator[Reply]]:
        """Ask silos to train; without the quorum of a round there are no replies."""
        session, self.round = self.session, local_round.server.round
        session.begin_late()
        survivors = session.survivors(self.round)  # of a round that was interrupted while its sum was unmasked
        asked = session.begins if survivors is None else set(survivors) & set(session.begins)
        parties = [party for party in memory if self.names[party] in asked]
        letters = {self.names[party]: self._letter(local_round, party, memory[party]) for party in parties}
        self.digest = next((round_digest(letter) for letter in letters.values()), b"")
        least = min(self.quorum, len(memory)) if survivors is None else len(survivors)
        secret = throwaway_keys(session.agreement, local_round.cohort)

        def reply(answer: Letter) -> Reply:
            party = self.names.index(answer.silo)
            return reply_of(answer, blank_reply(local_round, party, memory[party], secret.get(party, {})), party)

        replies = list(session.ask(letters, least, reply).values())
        if len(replies) < least:
            session.need_possible(least)
            _log.warning(
                "round %d is lost: %d of %d silos answered, and %d are needed",
                self.round + 1, len(replies), len(letters), least,
            )  # fmt: skip
            replies = []
        return 0, iter(replies)

    def _letter(self, local_round: LocalRound, party: int, memory: PartyMemory) -> Letter:
        facts = {
            "cohort": local_round.cohort,
            "after": last_round(memory),
            "knobs": dict(local_round.server.knobs),
        }
        arrays = {**broadcast_arrays(local_round.server, memory), **self._boxes(party)}
        return self.session.letter("train", self.names[party], facts, arrays, self.round)

    def _boxes(self, party: int) -> dict[str, Any]:
        """Return the shares of keys for this round that the others made for a party."""
        if not self.session.agreement.hides:
            return {}
        name, others = self.names[party], [self.names[member] for member in self.session.members if member != party]
        return {f"box/{other}": self.session.begins[other].arrays[f"box/{name}"][self.round] for other in others}

    # --- tests ---------------------------------------------------------------------------------------

    def score(
        self, setting: Setting, models: Sequence[Weights], parts: Sequence[Part], dispatch: Dispatch
    ) -> list[Score]:
        """Return the sum of the silos' scores of a model."""
        (model,) = models
        form = blank_test(setting, is_final=False)
        return [sum((score_of(answer) for answer in self._tests("score", model, form).values()), Score())]

    def final(self, setting: Setting, models: Sequence[Weights]) -> dict[str, Any]:
        """Return the final test: rows by class and answer, calibration, and the main metric on each silo's rows.

        Metrics that need the answers to single rows are left out.
        """
        (model,) = models
        objective, form = setting.task.objective, blank_test(setting, is_final=True)
        answers = self._tests("final", model, form)
        whole = whole_of(list(answers.values()), len(setting.federation.dataset.classes))
        facts = whole.as_json(replace(objective, extra=()))

        def main(score: Score) -> float | None:
            return objective.values(score)[objective.main.name]

        scores = {name: score_of(answer) for name, answer in answers.items()}
        mains = {name: main(scores[name]) if name in scores else None for name in self.names}
        rows = {name: scores[name].count if name in scores else 0 for name in self.names}
        facts["parties"] = {name: {"rows": rows[name], "own": mains[name]} for name in self.names}
        if len(self.names) <= MOST_CROSSED:
            on_all = main(sum(scores.values(), Score()))
            tests = [*self.names, "all"]
            facts["cross"] = {"models": ["shared"], "tests": tests, "scores": [[*mains.values(), on_all]]}
        return facts

    def _tests(self, kind: str, model: Weights, form: Letter) -> dict[str, Letter]:
        """Return the answers of silos to a model, by name; it asks again until the quorum has answered.

        `form` is the answer for a single row.
        """
        session, waits = self.session, self.session.agreement.consortium.waits
        params, buffers = (each.numpy() for each in model)
        letters = {
            name: session.letter(kind, name, {}, {"params": params, "buffers": buffers}, self.round)
            for name in self.names
        }
        began, answers = time.monotonic(), dict[str, Letter]()
        while True:
            session.begin_late()
            missing = {name: letters[name] for name in self.names if name in session.begins and name not in answers}
            answers |= session.ask(
                missing, max(0, self.quorum - len(answers)), lambda answer: checked_test(answer, form)
            )
            if len(answers) >= self.quorum:
                break
            session.need_possible(self.quorum)
            if time.monotonic() - began >= waits.join:
                raise RunError(
                    f"{len(answers)} of {len(letters)} silos tested the model of round {self.round + 1}, but "
                    f"{self.quorum} are needed: see that they are started, and start the server again.",
                    "",
                )
            time.sleep(min(_PAUSE, waits.grace))
        self.tested = tuple(name for name in self.names if name in answers)
        return {name: answers[name] for name in self.tested}


def throwaway_keys(agreement: Agreement, cohort: Cohort) -> Mapping[int, Mapping[int, Memory]]:
    """Return keys for messages of zeros, by party and place: their masks hide nothing, and are thrown away."""
    if agreement.secure_place is None:
        return {}
    memories, _ = Pairwise(agreement.protocol.threshold).agree(cohort, lambda phase: cohort)
    return {party: {agreement.secure_place: memory} for party, memory in memories.items()}
