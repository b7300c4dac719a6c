"""`Session`: the server's side of a run between silos: who is who, what they said when they joined, and letters."""

import json
import logging
import secrets
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from silobench.atomic import replace_atomically
from silobench.data.agreed import Summary, joined
from silobench.errors import ConfigError, RecordError, RunError, SilobenchError, listed
from silobench.silos.agreement import Agreement, Roster
from silobench.silos.answers import check_boxes, check_join
from silobench.silos.binding import BEGIN, begin_digest
from silobench.silos.letters import REFUSAL, Letter, LetterError
from silobench.silos.post import Post

T = TypeVar("T")

_log = logging.getLogger(__name__)
_SURVIVORS = "survivors.json"
_POLL = 1.0  # seconds between two looks at who is there
_INTRODUCTION = 60.0  # seconds that a silo has to say who it is; one that does not is asked again after as long


@dataclass
class Session:
    """The letters of one run. What silos said before the first round is in `folder`, so that a server can resume."""

    agreement: Agreement
    post: Post
    folder: Path
    run: str = ""
    addresses: dict[str, str] = field(default_factory=dict)  # by name, as far as known
    joins: dict[str, Letter] = field(default_factory=dict)  # by name
    begins: dict[str, Letter] = field(default_factory=dict)  # by name, of silos that know the roster
    refusals: dict[str, str] = field(default_factory=dict)  # by name or address: the last reason
    settled: Roster | None = None  # None until silos have joined
    members: tuple[int, ...] = ()  # parties that shared keys before the first round
    silent: dict[str, float] = field(default_factory=dict)  # by address that did not say who it is: when it was asked
    has_ended: bool = False  # whether silos were told that the run has ended

    @classmethod
    def open(cls, agreement: Agreement, post: Post, folder: Path) -> "Session":
        """Open a session, or that of an interrupted run."""
        folder.mkdir(parents=True, exist_ok=True)
        session, file = cls(agreement, post, folder), folder / "session.json"
        if file.exists():
            facts = _stored(file, "consortium", "run", "roster", "members", "ended")
            if facts["consortium"] != agreement.consortium.digest:
                raise ConfigError(
                    f"{folder.parent} is the run of another consortium with the same experiment, columns and silos: "
                    "choose another --out."
                )
            session.run, names, session.members = facts["run"], facts["roster"], tuple(facts["members"])
            session.has_ended = facts["ended"]
            for stored, kind in ((session.joins, "join"), (session.begins, "begin")):
                stored |= {path.stem: Letter.of(path.read_bytes()) for path in folder.glob(f"*.{kind}")}
            session.settled = session._roster(names) if names else None
        else:
            session.run = secrets.token_hex(16)
            session._save()
        return session

    @property
    def roster(self) -> Roster:
        """The silos of the run."""
        assert self.settled is not None  # `gather` comes first
        return self.settled

    def _save(self) -> None:
        names = self.settled.names if self.settled else []
        facts = {
            "consortium": self.agreement.consortium.digest,
            "run": self.run,
            "roster": names,
            "members": self.members,
            "ended": self.has_ended,
        }
        replace_atomically(self.folder / "session.json", json.dumps(facts).encode())

    def end(self) -> None:
        """Tell silos once that the run has ended; whoever does not hear it keeps its files."""
        if self.has_ended:
            return
        self.meet()
        letters = {name: self.letter("end", name, {}, {}, 0) for name in self.roster.names if name in self.addresses}
        self.ask(letters, len(letters), lambda answer: answer, _INTRODUCTION)
        self.has_ended = True
        self._save()

    # --- survivors of a secure sum -------------------------------------------------------------------

    def survivors(self, round: int) -> tuple[str, ...] | None:
        """Return the silos for whose sum shares were asked in a round; None before that."""
        file = self.folder / _SURVIVORS
        if not file.exists():
            return None
        facts = _stored(file, "round", "survivors")
        return tuple(facts["survivors"]) if facts["round"] == round else None

    def settle_survivors(self, round: int, names: Sequence[str]) -> None:
        """Store whose sum is unmasked in a round, before silos give shares: they give them for one list only."""
        replace_atomically(self.folder / _SURVIVORS, json.dumps({"round": round, "survivors": names}).encode())

    # --- letters -------------------------------------------------------------------------------------

    def letter(self, kind: str, silo: str, facts: Mapping[str, Any], arrays: Mapping[str, Any], round: int) -> Letter:
        """Return a letter of this run; one after `begin` states the roster to which it belongs."""
        stated = facts if kind in ("join", "begin") else {**facts, BEGIN: self._begin_digest}
        return Letter(kind, stated, arrays, self.agreement.consortium.digest, self.run, silo, round)

    def ask(
        self, letters: Mapping[str, Letter], least: int, read: Callable[[Letter], T], seconds: float | None = None
    ) -> dict[str, T]:
        """Send letters to silos by name, and return what `read` makes of the answers, in the order of the letters.

        A silo whose answer `read` refuses counts as one that did not answer. The server waits until `least` of them are
        there; then until all have answered, or `least` of them and a time of grace is over. Neither takes longer than
        `seconds`.
        """
        seconds = seconds or self.agreement.consortium.waits.round
        self._await(letters, least, seconds)
        present = {name: self.addresses[name] for name in letters if name in self.addresses}
        names = {address: name for name, address in present.items()}
        contents = {address: letters[name].content for name, address in present.items()}
        answers = dict[str, T]()
        for address, content in self.post.ask(contents, seconds, lambda there: len(answers) >= least):
            name = names[address]
            try:
                answers[name] = _read(read, _checked(Letter.of(content), letters[name]))
                self.refusals.pop(name, None)
            except LetterError as error:
                self._refused(name, str(error))
        return {name: answers[name] for name in letters if name in answers}

    def _await(self, names: Collection[str], least: int, seconds: float) -> None:
        """Wait until some of these silos are there, or until time is up."""
        began = time.monotonic()
        self.meet()
        while len(self.addresses.keys() & set(names)) < least and time.monotonic() - began < seconds:
            time.sleep(min(_POLL, seconds / 10))
            self.meet()

    def _refused(self, name: str, reason: str) -> None:
        if self.refusals.get(name) != reason:
            _log.warning("%s does not take part: %s", name, reason)
        self.refusals[name] = reason

    def need_possible(self, least: int) -> None:
        """Stop the run if so many silos refused that a round cannot succeed."""
        refused = [name for name in self.roster.names if name in self.refusals]
        if len(self.roster.names) - len(refused) < least:
            reason = self.refusals[refused[0]].rstrip(".")
            raise RunError(
                f"{listed(refused)} cannot take part, and a round needs {least} of {len(self.roster.names)} silos; the "
                f"reason of {refused[0]}: {reason}; settle it, and start the server again.",
                "",
            )

    # --- who is there --------------------------------------------------------------------------------

    def meet(self) -> None:
        """Ask silos at new addresses who they are, and forget addresses that are gone."""
        there = set(self.post.silos())
        self.addresses = {name: address for name, address in self.addresses.items() if address in there}
        now = time.monotonic()
        self.silent = {address: since for address, since in self.silent.items() if now - since < _INTRODUCTION}
        unknown = sorted(there - set(self.addresses.values()) - set(self.silent))
        if not unknown:
            return
        letter = self.letter("join", "", {}, {}, 0)
        contents, answered = dict.fromkeys(unknown, letter.content), set[str]()
        for address, content in self.post.ask(contents, _INTRODUCTION, lambda there: len(there) == len(unknown)):
            answered.add(address)
            try:
                answer = Letter.of(content)
                self._introduced(address, _checked(answer, letter, any_silo=True))
            except SilobenchError as error:
                self._refused(f"the silo at {address}", str(error))
        self.silent |= dict.fromkeys(set(unknown) - answered, time.monotonic())

    def _introduced(self, address: str, answer: Letter) -> None:
        """Note who is at an address, if the silo signed it and says the same as before."""
        others = [join for name, join in self.joins.items() if name != answer.silo]
        _read(lambda letter: check_join(letter, self.agreement, others), answer)
        name = answer.silo
        if name in self.joins and self.joins[name].content != answer.content:
            raise LetterError(f"{name} joined with other rows or keys before")
        if name not in self.joins and self.settled is None:
            self.joins[name] = answer
            replace_atomically(self.folder / f"{name}.join", answer.content)
        self.addresses[name] = address

    def gather(self) -> Roster:
        """Wait until the silos have joined, settle the roster, and tell it to them; an interrupted run has its own."""
        if self.settled is None:
            self.settled = self._roster(self._joined())
            self._save()  # before anybody is told: a server that is killed goes on with the same roster
        if not self.members:
            names = self.settled.names
            self.begin([name for name in names if name not in self.begins])
            self.need_possible(self.agreement.consortium.quorum)
            self.members = tuple(place for place, name in enumerate(names) if name in self.begins)
            self._save()
        return self.settled

    def _joined(self) -> list[str]:
        """Wait until silos have joined, and return them; an error if they are fewer than the quorum."""
        consortium = self.agreement.consortium
        self._wait(lambda: len(self.joins), consortium.waits.join)
        names = [name for name in consortium.names if name in self.joins]
        if len(names) < consortium.quorum:
            reasons = "".join(f"; {who} says: {reason}" for who, reason in self.refusals.items())
            raise RunError(
                f"{len(names)} of {len(consortium.names)} silos joined, but {consortium.quorum} are needed{reasons}: "
                "see that they are started, and start the server again.",
                "",
            )
        return names

    def _wait(self, count: Callable[[], int], seconds: float) -> None:
        """Wait for all silos; for the quorum and a time of grace; or until time is up."""
        consortium, began, enough_since = self.agreement.consortium, time.monotonic(), None
        while True:
            self.meet()
            now = time.monotonic()
            if count() == len(consortium.names) or now - began >= seconds:
                return
            if count() >= consortium.quorum:
                enough_since = now if enough_since is None else enough_since
                if now - enough_since >= consortium.waits.grace:
                    return
            time.sleep(min(_POLL, max(0.01, consortium.waits.grace)))

    def _roster(self, names: Iterable[str]) -> Roster:
        facts = [self.joins[name].facts for name in names]
        rows, tests = (tuple(int(each[key]) for each in facts) for key in ("rows", "tests"))
        return Roster(tuple(names), rows, tests, joined([Summary.from_json(each["summary"]) for each in facts]))

    def begin_late(self) -> None:
        """Tell the roster to silos that are here now, but were not when it was settled."""
        late = [name for name in self.roster.names if name not in self.begins]
        if late:
            self.meet()
            self.begin([name for name in late if name in self.addresses], _INTRODUCTION)

    def begin(self, names: Collection[str], seconds: float | None = None) -> None:
        """Tell silos the roster, their joint sums and the public keys of all; note the shares of keys they return."""
        letters = {name: self._begin_letter(name) for name in names}
        rounds = self.agreement.plan.cell.rounds if self.agreement.hides else 0

        def begun(answer: Letter) -> Letter:
            if rounds:
                check_boxes(answer, [other for other in self.roster.names if other != answer.silo], rounds)
            return answer

        for name, answer in self.ask(letters, len(letters), begun, seconds).items():
            self.begins[name] = answer
            replace_atomically(self.folder / f"{name}.begin", answer.content)

    @cached_property
    def _begin_digest(self) -> str:
        return begin_digest(self._begin_letter(""))

    def _begin_letter(self, name: str) -> Letter:
        roster = self.roster
        joins = [self.joins[name] for name in roster.names]
        facts = {
            "roster": roster.names,
            "rows": roster.rows,
            "tests": roster.tests,
            "summary": roster.summary.as_json(),
            "cards": [join.facts["card"] for join in joins],
        }
        arrays = {f"adverts/{join.silo}": join.arrays["adverts"] for join in joins if self.agreement.hides}
        return self.letter("begin", name, facts, arrays, 0)


def _read(read: Callable[[Letter], T], answer: Letter) -> T:
    """Return what a reader makes of an answer; whatever the reader stumbles over is a `LetterError`."""
    try:
        return read(answer)
    except SilobenchError as error:
        raise LetterError(str(error)) from error
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, ArithmeticError, RuntimeError) as error:
        _log.debug("an answer cannot be used", exc_info=True)
        raise LetterError(f"its answer to the letter {answer.kind} has wrong content") from error


def _checked(answer: Letter, letter: Letter, any_silo: bool = False) -> Letter:
    """Return an answer that belongs to a letter; a refusal is raised as an error."""
    if answer.kind == REFUSAL:
        # One line, so that a silo cannot write lines of the lead's log that look like the server's.
        raise LetterError(" ".join(str(answer.facts.get("reason", "no reason")).split())[:300])
    same = (answer.kind, answer.consortium, answer.run, answer.round)
    if same != (letter.kind, letter.consortium, letter.run, letter.round):
        raise LetterError("its answer belongs to another letter")
    if not any_silo and answer.silo != letter.silo:
        raise LetterError("its answer is that of another silo")
    return answer


def _stored(file: Path, *keys: str) -> dict[str, Any]:
    """Return what a session wrote into a file; a damaged one is refused."""
    try:
        facts: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        return {key: facts[key] for key in keys}
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise RecordError(
            f"{file} is damaged: put it back from a backup of its folder, or begin a new run with another --out."
        ) from error
