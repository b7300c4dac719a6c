"""`SumProtocol`: what parties and server do so that the server learns a sum only; masks from key streams."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from silobench.errors import ConfigError, RunError
from silobench.method.transform import Phase
from silobench.privacy.randomness import Randomness
from silobench.vectors import Memory

Values: TypeAlias = NDArray[Any]  # unsigned integers modulo 2^32 or 2^64; their type is the ring
Present: TypeAlias = Callable[[str], Collection[int]]  # (phase) -> parties that are still there in it
StreamKeys: TypeAlias = Sequence[tuple[int, bytes]]  # (1 or -1, key): add or subtract the key stream of this key

SEAL_BYTES = 12 + 16  # nonce and tag of authenticated encryption
ID_BYTES = 4  # of a party in a message
_BLOCK = 1 << 18  # bytes of a key stream that are added at a time, so that they stay in the cache
_DEEDS = {
    "keys": "sent their keys",
    "shares": "sent shares of their keys",
    "replies": "sent their masked updates",
    "unmasking": "answered when the server asked for shares",
}


class TooFewError(RunError):
    """Too few parties are left for the server to decode the sum; it learns nothing, and the model stays as it is.

    `phases` are the messages of the current step of the protocol until then.
    """

    def __init__(self, sentence: str, details: str = "", phases: Sequence[Phase] = ()):
        super().__init__(sentence, details)
        self.phases = tuple(phases)


class SumProtocol(ABC):
    """The steps of a secure sum, in order: agree, mask, add up modulo 2^bits, reveal, unmask.

    A memory holds the secrets of one party for one round. Everything that a party sends in a round is masked in one
    call, because a key stream that is used twice reveals the difference of two messages.
    """

    def check(self, cohort: int) -> None:
        """Raise a `ConfigError` if the protocol is impossible for this number of parties, or does not protect them."""
        if cohort == 1:
            raise ConfigError(
                "a round has 1 party, but a secure sum of one party hides nothing, because the sum is its message: let"
                " at least two parties take part in a round, better three, or leave secure_sum out."
            )

    @property
    @abstractmethod
    def phases(self) -> tuple[str, ...]:
        """The phases in which the protocol needs parties, in order."""

    @abstractmethod
    def least(self, cohort: int) -> int:
        """Return how many parties must answer in a round with `cohort` parties."""

    @abstractmethod
    def remedy(self, answers: int, cohort: int) -> str:
        """Return what to do if too few of `cohort` parties answer, as the end of a sentence."""

    @abstractmethod
    def agree(self, cohort: Sequence[int], present: Present) -> tuple[dict[int, Memory], list[Phase]]:
        """Agree on keys before training, in the phases "keys" and "shares".

        Return the memory of each party that finished both phases, and the messages. Only these parties can answer.
        """

    @abstractmethod
    def reveal(
        self, memories: Mapping[int, Memory], cohort: Sequence[int], present: Present, size: int
    ) -> tuple[StreamKeys, list[Phase]]:
        """Return the keys that the server learns after the replies, in the phase "unmasking", and the messages.

        `memories` are those of the parties that answered, and `size` is the length of a masked message in bytes.
        """

    @abstractmethod
    def mask_keys(self, memory: Memory, party: int) -> StreamKeys:
        """Return the keys of the masks of a party."""

    def mask(self, values: Sequence[Values], memory: Memory, party: int) -> list[Values]:
        """Return everything that a party sends in a round with its masks added; once per memory."""
        return with_streams(values, self.mask_keys(memory, party))

    def unmask(self, total: Sequence[Values], revealed: StreamKeys) -> list[Values]:
        """Return the sum of the values, from the sum of the masked ones and what `reveal` returned."""
        return with_streams(total, revealed)

    def remaining(
        self,
        parties: Sequence[int],
        present: Present,
        phase: str,
        cohort: Sequence[int],
        sent: Callable[[Sequence[int]], Sequence[Phase]] = lambda rest: (),
    ) -> list[int]:
        """Return the parties that are still there in a phase; an error if they are fewer than `least`.

        `sent` returns the messages for the error, from the parties that are there: their own of this phase, and all
        earlier ones. Work on messages of a phase that fails is not done, so its seconds are 0.
        """
        there, least = present(phase), self.least(len(cohort))
        rest = [party for party in parties if party in there]
        if len(rest) < least:
            subject = f"{len(rest)} of {len(cohort)} parties {_DEEDS[phase]}"
            if len(cohort) < least:
                subject = f"{len(cohort)} {'party takes' if len(cohort) == 1 else 'parties take'} part"
            raise TooFewError(
                f"{subject}, but the secure sum needs {least}: {self.remedy(len(rest), len(cohort))}, or write"
                " too_few=skip, which gives up such rounds only.",
                phases=sent(rest),
            )
        return rest


def with_streams(values: Sequence[Values], keys: StreamKeys) -> list[Values]:
    """Return arrays with key streams added or subtracted; a stream continues from one array to the next."""
    results = [np.array(each, order="C") for each in values]
    for sign, key in keys:
        stream, change = Randomness(key), np.add if sign > 0 else np.subtract
        for flat in (each.reshape(-1) for each in results):
            step = _BLOCK // flat.itemsize
            for begin in range(0, flat.size, step):
                block = flat[begin : begin + step]
                change(block, stream.integers(block.size, block.dtype), out=block)
    return results


def to_memory(secrets: Mapping[str, bytes]) -> Memory:
    """Return byte strings as a memory, which can be sent to worker processes."""
    return {name: torch.from_numpy(np.frombuffer(content, np.uint8).copy()) for name, content in secrets.items()}


def from_memory(memory: Memory) -> dict[str, bytes]:
    """Return the byte strings of a memory."""
    return {name: content.numpy().tobytes() for name, content in memory.items()}


def pieces(content: bytes, size: int) -> list[bytes]:
    """Return the pieces of `size` bytes of which a byte string consists."""
    return [content[begin : begin + size] for begin in range(0, len(content), size)]
