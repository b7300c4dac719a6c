"""Secret sharing among parties: every party splits its vector, and the server gets sums of parts only."""

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from silobench.errors import ConfigError
from silobench.method.secure import protocol
from silobench.method.secure.protocol import Present, StreamKeys, SumProtocol
from silobench.method.transform import Phase
from silobench.vectors import Memory

_KEY_BYTES = 32


@dataclass(frozen=True)
class Splits(SumProtocol):
    """Additive secret sharing, as in OARF: part j of a party's vector goes to the j-th next party of the round.

    A party splits its vector into `splits` parts. All but one are uniform and go to other parties over secure channels;
    the rest stays. Each party adds the parts that it holds and sends this sum to the server. A vector stays secret
    unless the server works together with all parties that sent parts to its owner or got parts from it: the next and
    the previous `splits - 1` ones. Every party must answer.

    A uniform part is the key stream of a secret key. With ``send="shares"`` the whole part crosses the network, as in
    OARF; with ``send="seeds"`` only the key does.
    """

    splits: int
    send: Literal["shares", "seeds"] = "shares"

    def check(self, cohort: int) -> None:
        """Refuse more parts than parties."""
        super().check(cohort)
        if not 2 <= self.splits <= cohort:
            raise ConfigError(
                f"secure_sum has splits={self.splits}, but a round has {cohort} parties: choose splits from 2 to the"
                " number of parties of a round."
            )

    @property
    def phases(self) -> tuple[str, ...]:
        """All phases but "unmasking": the masks cancel."""
        return ("keys", "shares", "replies")

    def least(self, cohort: int) -> int:
        """Return the number of parties, because all of them must answer."""
        return max(cohort, self.splits)

    def remedy(self, answers: int, cohort: int) -> str:
        """Return advice to let all parties answer, or to use a protocol that needs fewer."""
        if cohort < self.splits:
            return "let more parties take part in every round" + (", or lower splits" if cohort > 1 else "")
        return (
            "let every party answer, as protocol=splits requires, or write protocol=pairwise, which allows some to"
            " drop out"
        )

    def agree(self, cohort: Sequence[int], present: Present) -> tuple[dict[int, Memory], list[Phase]]:
        """Draw the keys of all parts and send each to the party that gets the part."""
        is_short = self.send == "seeds"
        self.remaining(cohort, present, "keys", cohort)
        self.remaining(
            cohort, present, "shares", cohort, lambda rest: [self._phase(rest, (), _KEY_BYTES)] if is_short else []
        )
        began, others = time.perf_counter(), self.splits - 1
        keys = [[os.urandom(_KEY_BYTES) for _ in range(others)] for _ in cohort]
        memories = {}
        for place, party in enumerate(cohort):
            arrived = [keys[place - distance][distance - 1] for distance in range(1, self.splits)]
            memories[party] = protocol.to_memory({"sent": b"".join(keys[place]), "arrived": b"".join(arrived)})
        seconds = time.perf_counter() - began
        if is_short:
            return memories, [self._phase(cohort, cohort, _KEY_BYTES, seconds)]
        return memories, [Phase("shares", seconds=seconds)]  # whole parts are sent after training

    def mask_keys(self, memory: Memory, party: int) -> StreamKeys:
        """Return the keys of parts that left the party, to subtract, and of parts that arrived, to add."""
        secrets = protocol.from_memory(memory)
        left, arrived = (protocol.pieces(secrets[name], _KEY_BYTES) for name in ("sent", "arrived"))
        return [*((-1, key) for key in left), *((1, key) for key in arrived)]

    def reveal(
        self, memories: Mapping[int, Memory], cohort: Sequence[int], present: Present, size: int
    ) -> tuple[StreamKeys, list[Phase]]:
        """Return no keys: the masks of all parties cancel. Whole parts are counted now that their size is known."""
        # Parties send parts before their replies. Nobody knows the size where nobody answers.
        sent = [self._phase(cohort, cohort, size)] if self.send == "shares" and size else []
        self.remaining(cohort, lambda phase: memories, "replies", cohort, lambda rest: sent)
        return [], sent

    def _phase(self, senders: Sequence[int], receivers: Sequence[int], size: int, seconds: float = 0.0) -> Phase:
        """Return messages of `size` bytes, encrypted, from each sender to each of its next parties."""
        others = self.splits - 1
        up, down = (dict.fromkeys(each, others * (size + protocol.SEAL_BYTES)) for each in (senders, receivers))
        return Phase("shares", up, down, len(senders) * others, seconds)
