"""`Post`: who carries letters between the server and silos, and a post within one process for rehearsals."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

Answer: TypeAlias = Callable[[bytes], bytes]  # what a silo does with a letter: `Silo.answer`
Enough: TypeAlias = Callable[[set[str]], bool]  # (addresses that answered) -> whether the server can go on


class Post(Protocol):
    """A carrier of letters. An address is a text that it gives to a silo; which silo that is, the silo signs."""

    def silos(self) -> Sequence[str]:
        """Return the addresses of the silos that are there now."""

    def ask(self, letters: Mapping[str, bytes], seconds: float, enough: Enough) -> Iterator[tuple[str, bytes]]:
        """Send a letter to each address, and yield addresses and answers as they come.

        It ends when all have answered, after `seconds`, or when `enough` has been true for the post's time of grace.
        """


@dataclass(frozen=True)
class InMemoryPost:
    """A post between silos in this process: it asks them one after the other.

    `deliver`, if given, is called in place of a silo with its address, the letter and the silo's answer function. It
    returns the answer, or None for one that is lost or late.
    """

    answers: Mapping[str, Answer]  # by address
    deliver: Callable[[str, bytes, Answer], bytes | None] | None = None

    def silos(self) -> Sequence[str]:
        return tuple(self.answers)

    def ask(self, letters: Mapping[str, bytes], seconds: float, enough: Enough) -> Iterator[tuple[str, bytes]]:
        for address, letter in letters.items():
            answer = self.answers[address]
            content = answer(letter) if self.deliver is None else self.deliver(address, letter, answer)
            if content is not None:
                yield address, content
