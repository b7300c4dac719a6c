"""`Silo`: the side of an organisation. It answers letters with its rows, its memory and its keys, which stay there."""

import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch

from silobench.data.agreed import Summary
from silobench.data.agreed.rows import SiloRows, dataset_of_rows, read_rows, summary_of_rows
from silobench.engines import ENGINES, Engine
from silobench.errors import ConfigError, SilobenchError
from silobench.loop.final import WholeTest, tested_rows
from silobench.loop.loop import one_thread
from silobench.loop.schedule import Schedule
from silobench.silos import keys
from silobench.silos.agreement import Agreement, Roster, like, need_agreed_cohort, need_agreed_knobs
from silobench.silos.allowance import Allowance
from silobench.silos.attendance import BEGUN, ENDED, Attendance
from silobench.silos.binding import BEGIN, begin_digest, round_digest
from silobench.silos.introductions import CARD, JOIN, card, introduction
from silobench.silos.letters import Letter, LetterError, refusal
from silobench.silos.messages import informed, reply_arrays, reply_facts, roster_of, server_of
from silobench.silos.scores import score_parts, whole_parts
from silobench.silos.secret_keys import KeyRing, check_adverts, forget_all
from silobench.silos.silo_file import SiloFile, check_accepted
from silobench.silos.store import Drawer, by_round
from silobench.tasks.task import Weights
from silobench.training.party import LocalRound, transform_key
from silobench.training.setting import Setting
from silobench.training.state import PartyMemory

_log = logging.getLogger(__name__)
_RUN_ID = 32  # characters
_SCORES = 3  # models of a round that a silo scores at most


@dataclass(frozen=True)
class _Active:
    """A run that a silo takes part in, after the roster is settled."""

    roster: Roster
    party: int
    setting: Setting
    engine: Engine
    allowance: Allowance
    schedule: Schedule  # as the server has it, without rows
    begin: str  # the digest of the letter with the roster
    adverts: Mapping[int, Any]  # public keys of the silos, by party
    ring: KeyRing | None  # None without a secure sum


class Silo:
    """An organisation with rows. `answer` is its only door."""

    def __init__(self, file: SiloFile, agreement: Agreement):
        self.file, self.agreement = file, agreement
        self.consortium = agreement.consortium
        self._lock, self._active = threading.Lock(), dict[str, _Active]()
        self._state = Drawer.open(file.state)
        self._alone = self._state.locked()  # two processes could mask two messages with the same keys
        self._attendance = Attendance(self._state, self.consortium.digest, file.limits.max_runs)
        self._answers: dict[str, Callable[[Letter, Drawer], Letter]] = {
            "join": self._join,
            "begin": self._begin,
            "train": self._train,
            "score": self._score,
            "final": self._final,
            "unmask": self._unmask,
            "end": self._end,
        }

    @classmethod
    def open(cls, path: Path) -> "Silo":
        """Open the silo of a silo.toml. Its people must have accepted the consortium as it is, and own its key."""
        file, consortium = check_accepted(path)
        consortium.check_key(file.name, file.key)
        return cls(file, Agreement.of(consortium))

    def close(self) -> None:
        """Let another process use the silo's folder."""
        self._alone.release()

    @cached_property
    def rows(self) -> SiloRows:
        """The rows of this silo, which are read once."""
        return read_rows(self.file.data, self.agreement.columns)

    def answer(self, content: bytes) -> bytes:
        """Return the answer to a letter. It never raises an error: a refusal says why there is no answer.

        A refusal tells nothing about rows: an error that may depend on them is only in this silo's log.
        """
        letter = None
        try:
            letter = Letter.of(content)
            with self._lock:
                answer = self._answer(letter, content)
        except (LetterError, ConfigError) as error:
            answer = refusal(str(error), letter).content
            _log.warning("refused a letter: %s", error)
        except SilobenchError as error:
            _log.error("failed to answer a letter: %s", error)
            answer = refusal("an error at the silo, which only its own log states", letter).content
        except Exception:
            _log.exception("failed to answer a letter")
            answer = refusal("an error at the silo, which only its own log states", letter).content
        return answer

    def _answer(self, letter: Letter, content: bytes) -> bytes:
        if letter.consortium != self.consortium.digest:
            raise LetterError("the letter is of another consortium than the one that this silo accepted")
        if letter.kind not in self._answers:
            raise LetterError(f"a letter of the kind '{letter.kind[:20]}' is not known")
        if letter.silo != ("" if letter.kind == "join" else self.file.name):
            raise LetterError("the letter is for another silo")
        if len(letter.run) != _RUN_ID or not set(letter.run) <= set("0123456789abcdef"):
            raise LetterError("the letter has no id of a run")
        drawer = self._attendance.drawer(letter)
        name = _name_of(letter)
        stored, is_other = drawer.answer(name, content)
        if is_other and letter.kind in ("join", "begin", "unmask"):
            raise LetterError(f"another letter of the kind {letter.kind} was answered before, and keys are used once")
        if stored is None:
            try:
                answer = self._answers[letter.kind](letter, drawer)
            except (KeyError, TypeError, ValueError, AttributeError, IndexError, RuntimeError) as error:
                _log.debug("a letter cannot be used", exc_info=True)
                raise LetterError(f"the {letter.kind} letter of round {letter.round + 1} has wrong content") from error
            stored = answer.content
            if letter.kind != "end":
                drawer.put_answer(name, content, stored)
                self._forget_used(letter)
        _log.info(
            "%s came with %d bytes, and %d bytes left",
            letter.kind if letter.kind in ("join", "begin", "end") else f"round {letter.round + 1}: {letter.kind}",
            len(content),
            len(stored),
        )
        return stored

    def _forget_used(self, letter: Letter) -> None:
        """Delete the keys that an answer has used. The answer is stored before, so that it can be repeated."""
        active = self._active.get(letter.run)
        if active is not None and active.ring is not None:
            if letter.kind == "begin":
                active.ring.forget_unshared()
            elif letter.kind == "train":
                active.ring.forget_unused(letter.round)
            elif letter.kind == "unmask":
                active.ring.forget(letter.round)

    def _reply(self, letter: Letter, facts: Mapping[str, Any], arrays: Mapping[str, Any] | None = None) -> Letter:
        return Letter(letter.kind, facts, arrays or {}, letter.consortium, letter.run, self.file.name, letter.round)

    # --- before the first round ----------------------------------------------------------------------

    def _join(self, letter: Letter, drawer: Drawer) -> Letter:
        """Introduce the silo: its name, numbers and sums of its rows, and public keys, signed."""
        agreement, (rows, summary) = self.agreement, self._introduced_by()
        arrays = {"adverts": KeyRing.make(drawer, agreement.plan.cell.rounds)} if agreement.hides else {}
        facts = {"name": self.file.name, "rows": rows, "tests": len(self.rows.test), "summary": summary.as_json()}
        facts[CARD] = self._signed(CARD, card(letter, facts, arrays.get("adverts")))
        facts["signature"] = self._signed(JOIN, introduction(letter, facts))
        return self._reply(letter, facts, arrays)

    def _signed(self, purpose: str, content: bytes) -> str:
        return keys.signed(self.file.key, purpose, content).hex()

    def _begin(self, letter: Letter, drawer: Drawer) -> Letter:
        """Take the roster of the run, and send the others encrypted shares of keys, if there is a secure sum."""
        self._attendance.need_another(letter.run)
        active = self._activated(letter, drawer)
        boxes = {}
        if active.ring is not None:
            names = active.roster.names
            boxes = {f"box/{names[party]}": each for party, each in active.ring.share(active.adverts).items()}
        drawer.put(BEGUN, letter.content)
        self._active[letter.run] = active
        return self._reply(letter, {}, boxes)

    def _activated(self, letter: Letter, drawer: Drawer) -> _Active:
        """Return the run of a `begin` letter, after the keys of the others are verified."""
        agreement, names = self.agreement, roster_of(letter.facts["roster"])
        known = tuple(name for name in self.consortium.names if name in names)
        if names != known or self.file.name not in names or len(names) < self.consortium.quorum:
            raise LetterError("the roster is not in the order of the consortium, or is too short, or lacks this silo")
        adverts = self._verified(letter, names)
        summary = Summary.from_json(letter.facts["summary"])
        roster = Roster(names, tuple(letter.facts["rows"]), tuple(letter.facts["tests"]), summary)
        party, run = names.index(self.file.name), agreement.run(roster)
        self._need_same_rows(drawer)
        dataset = dataset_of_rows(self.rows, agreement.columns, summary)
        setting = agreement.setting_at(run, party, dataset)
        ring = None
        if agreement.hides:
            threshold = agreement.protocol.least(len(names))
            ring = KeyRing(drawer, party, threshold, agreement.plan.cell.rounds)
        engine = replace(ENGINES.build(self.consortium.engine), workers=0).settled(setting)
        allowance = Allowance(self._state, self.file.limits, replace(run.schedule, setting=setting), party)
        begin = begin_digest(letter)
        return _Active(roster, party, setting, engine, allowance, run.schedule, begin, adverts, ring)

    def _need_same_rows(self, drawer: Drawer) -> None:
        """Refuse to go on with other rows than the silo had when it joined."""
        joined = Letter.of(drawer.stored_answer("join"))
        if joined.facts["summary"] != self._introduced_by()[1].as_json() or joined.facts["tests"] != len(
            self.rows.test
        ):
            raise LetterError("this silo has other rows than it had when it joined")

    def _introduced_by(self) -> tuple[int, Summary]:
        """Return the number of training rows and their sums, as the silo states them."""
        summary = summary_of_rows(self.rows, self.agreement.columns)
        return (like(summary.rows), summary.rounded) if self.agreement.hides else (summary.rows, summary)

    def _verified(self, letter: Letter, names: tuple[str, ...]) -> dict[int, Any]:
        """Return the public keys of all silos of the roster, each of which its owner has signed."""
        adverts = dict[int, Any]()
        for place, name in enumerate(names):
            facts = {"name": name, "rows": letter.facts["rows"][place], "tests": letter.facts["tests"][place]}
            array = letter.arrays[f"adverts/{name}"] if self.agreement.hides else None
            if array is not None:
                check_adverts(array, self.agreement.plan.cell.rounds)
                adverts[place] = array
            member = self.consortium.silos[self.consortium.party(name)]
            signature = bytes.fromhex(letter.facts["cards"][place])
            if not keys.is_signed(member.key, CARD, card(letter, facts, array), signature):
                raise LetterError(f"the keys or numbers of {name} are not signed by it: somebody has changed them")
        return adverts

    def _active_run(self, letter: Letter, drawer: Drawer) -> _Active:
        """Return the run of a letter; after a restart it is read from the disk."""
        if letter.run not in self._active:
            content = drawer.get(BEGUN)
            if content is None:
                raise LetterError("this silo was not told the roster of the run")
            self._active[letter.run] = self._activated(Letter.of(content), drawer)
        active = self._active[letter.run]
        if letter.facts[BEGIN] != active.begin:
            raise LetterError("the letter belongs to another roster than the one that this silo was told")
        return active

    # --- rounds --------------------------------------------------------------------------------------

    def _train(self, letter: Letter, drawer: Drawer) -> Letter:
        """Train from the server's model, and answer with the message."""
        active, number = self._active_run(letter, drawer), letter.round
        if number >= self.agreement.plan.cell.rounds:
            raise LetterError(
                f"the run has {self.agreement.plan.cell.rounds} rounds, so there is no round {number + 1}"
            )
        if active.ring is not None and drawer.get(f"answer-{_name_of(letter)}") is not None:
            raise LetterError(f"another letter of round {number + 1} was answered, and a mask is used once")
        cohort = tuple(map(int, letter.facts["cohort"]))
        memory = {**self._memory(letter, drawer), **informed(letter, len(active.setting.method.transforms))}
        need_agreed_cohort(cohort, active.schedule, active.party, number)
        server = server_of(letter, len(active.roster.names))
        need_agreed_knobs(server, active.setting)
        if server.params.shape != active.setting.task.initial.shape:
            raise LetterError("the model of the letter has another number of parameters")
        active.allowance.spend(server, memory, cohort)
        secret = self._secret(letter, active)
        local_round = LocalRound(active.setting, server, cohort)
        with one_thread():
            _, replies = active.engine.train(local_round, {active.party: {**memory, **secret}})
            (reply,) = replies
        memory_after = {owner: each for owner, each in reply.memory[active.party].items() if owner not in secret}
        drawer.put_memory(by_round("memory", number), memory_after)
        drawer.drop("memory-*", before=min(number, int(letter.facts["after"])))
        drawer.drop("answer-train-*", before=number - 1)
        is_loss_secret = self.agreement.is_loss_secret(active.setting)
        facts = reply_facts(reply, active.party, self.agreement.hides, is_loss_secret)
        return self._reply(letter, facts, reply_arrays(reply))

    def _memory(self, letter: Letter, drawer: Drawer) -> PartyMemory:
        """Return the memory after the last round in which this silo's answer counted, as the server says."""
        after = letter.facts["after"]
        if type(after) is not int or not -1 <= after < letter.round:
            raise LetterError("the letter names no earlier round after which this silo goes on")
        if after == -1:
            return {}
        memory = drawer.memory(by_round("memory", after))
        if memory is None:
            raise LetterError(f"this silo has no memory of round {after + 1}")
        return memory

    def _secret(self, letter: Letter, active: _Active) -> PartyMemory:
        """Return the keys of a secure sum for this round, as the memory of its transform; empty without one."""
        if active.ring is None:
            return {}
        active.ring.forget_before(letter.round)
        boxes = {
            party: letter.arrays[f"box/{name}"].tobytes()
            for party, name in enumerate(active.roster.names)
            if f"box/{name}" in letter.arrays and party != active.party
        }
        place = self.agreement.secure_place
        assert place is not None
        return {transform_key(place): active.ring.member(letter.round, active.adverts, boxes, round_digest(letter))}

    def _unmask(self, letter: Letter, drawer: Drawer) -> Letter:
        """Give the server the shares with which it can unmask the sum of a round; its keys are deleted then."""
        active = self._active_run(letter, drawer)
        if active.ring is None:
            raise LetterError("the run has no secure sum")
        names = active.roster.names
        survivors = [names.index(name) for name in roster_of(letter.facts["survivors"])]
        shares = active.ring.shares_for(letter.round, survivors)
        arrays = {f"share/{names[party]}": np.frombuffer(each, np.uint8) for party, each in shares.items()}
        return self._reply(letter, {}, arrays)

    # --- tests ---------------------------------------------------------------------------------------

    def _score(self, letter: Letter, drawer: Drawer) -> Letter:
        """Score a model on the silo's own test rows: sums only."""
        active = self._active_run(letter, drawer)
        self._count_score(letter, drawer)
        with one_thread():
            (score,) = active.engine.score(
                active.setting, [_model(letter, active)], active.setting.federation.test_parts()
            )
        return self._reply(letter, *score_parts(score))

    def _final(self, letter: Letter, drawer: Drawer) -> Letter:
        """Test the last model: rows by class and answer, and by confidence."""
        active = self._active_run(letter, drawer)
        self._count_score(letter, drawer)
        objective = replace(active.setting.task.objective, extra=())
        with one_thread():
            rows = tested_rows(active.setting, active.engine, _model(letter, active))
        whole = WholeTest(len(active.setting.federation.dataset.classes))
        whole.add(objective, rows)
        facts, arrays = score_parts(objective.score(rows.outputs, rows.y))
        more_facts, more_arrays = whole_parts(whole)
        return self._reply(letter, {**facts, **more_facts}, {**arrays, **more_arrays})

    def _count_score(self, letter: Letter, drawer: Drawer) -> None:
        """Refuse to score many models: each of them tells something about the test rows."""
        scored = int((drawer.get("scored") or b"0").decode()) + 1
        if scored > _SCORES * (self.agreement.plan.cell.rounds + 1):
            raise LetterError("this silo scored three models for every round of the run, and scores no more")
        drawer.put("scored", str(scored).encode())

    def _end(self, letter: Letter, drawer: Drawer) -> Letter:
        """Delete what was for rounds to come."""
        forget_all(drawer)
        drawer.put(ENDED, b"")  # before the other file that says that the run was begun is gone
        for pattern in ("memory-*", "answer-*", BEGUN):
            drawer.drop(pattern)
        self._active.pop(letter.run, None)
        return self._reply(letter, {})


def _name_of(letter: Letter) -> str:
    return letter.kind if letter.kind in ("join", "begin", "end") else by_round(letter.kind, letter.round)


def _model(letter: Letter, active: _Active) -> Weights:
    params, buffers = (torch.from_numpy(letter.arrays[name]) for name in ("params", "buffers"))
    task = active.setting.task
    if params.shape != task.initial.shape or buffers.shape != task.buffers.shape:
        raise LetterError("the model of the letter has another number of parameters")
    return params, buffers
