"""Who is there: a post that notes which silo is at which address, and says so in the log."""

import logging
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from silobench.silos.letters import Letter, LetterError
from silobench.silos.post import Enough, Post

_LOG = logging.getLogger(__name__)
_REMINDER = 60.0  # seconds between two lines that say the same, while the server waits
_NODE = re.compile(r"\bnode (\d+)")


class Presence:
    """A post that carries letters by another one, for the silos `names`; the session stores join letters in `joins`.

    A silo counts as there if its join letter is stored, because the session has then checked the signature.
    """

    def __init__(self, post: Post, names: Sequence[str], quorum: int, joins: Path):
        self._post, self._all, self._quorum, self._joins = post, names, quorum, joins
        self._known: dict[str, str] = {}  # names by address, also of silos that left
        self._there: set[str] = set()  # addresses
        self._has_begun = False
        self._last: list[str] | None = None  # who was there in the last line
        self._since = self._told = time.monotonic()

    def silos(self) -> Sequence[str]:
        """Return the addresses of the silos that are there now."""
        addresses = self._post.silos()
        self._there = set(addresses)
        self._tell()
        return addresses

    def ask(self, letters: Mapping[str, bytes], seconds: float, enough: Enough) -> Iterator[tuple[str, bytes]]:
        """Send letters, and yield each answer as it comes."""
        kinds = {Letter.of(content).kind for content in letters.values()}
        self._has_begun |= bool(kinds - {"join"})
        for address, answer in self._post.ask(letters, seconds, enough):
            yield address, answer
            if "join" in kinds:  # after the session has judged it
                self._note(address, answer)
        self._tell()

    def named(self, text: str) -> str:
        """Return a text in which silos have their names in place of the numbers of Flower's nodes."""
        return _NODE.sub(lambda match: self._known.get(match[1], match[0]), text)

    def _note(self, address: str, answer: bytes) -> None:
        try:
            name = Letter.of(answer).silo
        except LetterError:
            return
        file = self._joins / f"{name}.join"
        if name in self._all and file.exists() and file.read_bytes() == answer:
            self._known = {**{at: known for at, known in self._known.items() if known != name}, address: name}

    def _tell(self) -> None:
        """Say who is there, if it is news, or if the server has been waiting for long."""
        names = {self._known[address] for address in self._there & self._known.keys()}
        here = [name for name in self._all if name in names]
        is_waiting = len(here) < (self._quorum if self._has_begun else len(self._all))
        now = time.monotonic()
        if here == self._last and not (is_waiting and now - self._told >= _REMINDER):
            return
        who = f" ({', '.join(here)})" if here else ""
        long = f", for {now - self._since:.0f} s" if here == self._last else ""
        start = "waiting for silos" if is_waiting else "silos here"
        _LOG.info("%s: %d of %d%s%s", start, len(here), len(self._all), who, long)
        self._since = self._since if here == self._last else now
        self._last, self._told = here, now
