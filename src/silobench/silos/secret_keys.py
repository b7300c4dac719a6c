"""The keys of a secure sum at a silo: made once for all rounds, used in one round each, then deleted."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from silobench.errors import RunError
from silobench.method.secure.keys import KEY_BYTES, commitment
from silobench.method.secure.pairwise import Member, Newcomer
from silobench.method.secure.protocol import from_memory, to_memory
from silobench.method.types import Memory
from silobench.silos.letters import LetterError
from silobench.silos.store import Drawer, by_round, packed, unpacked

_NEW, _SHARED, _MEMBER = "newcomer", "sharer", "member"  # files of a round, one after the other
_KEYS_BYTES = 2 * KEY_BYTES  # two public keys
ADVERT_BYTES = _KEYS_BYTES + KEY_BYTES  # and the commitment to the seed of the own mask


@dataclass(frozen=True)
class KeyRing:
    """The keys of one silo in one run. Each round has its own keys, which are in one file at a time.

    A power cut may lose keys that are not used yet; the silo then refuses the rounds that need them.
    """

    drawer: Drawer
    party: int
    threshold: int
    rounds: int

    @staticmethod
    def make(drawer: Drawer, rounds: int) -> NDArray[np.uint8]:
        """Make fresh keys for all rounds; return the public ones and commitments to the seeds, [rounds, bytes]."""
        adverts = []
        for number in range(rounds):
            newcomer = Newcomer(0, 0)  # its place among the parties is not known yet
            drawer.put(by_round(_NEW, number), packed(_secrets(newcomer)), durable=False)
            adverts.append(np.frombuffer(newcomer.advert() + commitment(newcomer.seed), np.uint8))
        return np.stack(adverts)

    def share(self, adverts: Mapping[int, NDArray[Any]]) -> dict[int, NDArray[np.uint8]]:
        """Return shares of all keys for every other party, encrypted, [rounds, bytes]; `adverts` are public keys.

        When the answer with them is stored, `forget_unshared` is due.
        """
        boxes: dict[int, list[NDArray[np.uint8]]] = {other: [] for other in adverts if other != self.party}
        for number in range(self.rounds):
            newcomer = self._newcomer(_NEW, number)
            sealed = newcomer.share(_of_round(adverts, number))
            secrets = {**_secrets(newcomer), "reserved": newcomer.reserved}
            self.drawer.put(by_round(_SHARED, number), packed(secrets), durable=False)
            for other, box in sealed.items():
                boxes[other].append(np.frombuffer(box, np.uint8))
        return {other: np.stack(each) for other, each in boxes.items()}

    def member(
        self, number: int, adverts: Mapping[int, NDArray[Any]], boxes: Mapping[int, bytes], digest: bytes
    ) -> Memory:
        """Open the shares of the others for a round, and return the secrets with which a message is masked.

        The masks are bound to `digest`. When the answer is stored, `forget_unused` is due.
        """
        if len(boxes) + 1 < self.threshold:
            raise LetterError(
                f"round {number + 1} has shares of {len(boxes) + 1} silos, but the secure sum needs {self.threshold}: "
                "this silo sends nothing."
            )
        newcomer = self._newcomer(_SHARED, number)
        newcomer.meet(_of_round(adverts, number))
        member = replace(newcomer.finish(boxes), digest=digest)
        self.drawer.put(by_round(_MEMBER, number), packed(from_memory(member.to_memory())))
        return member.to_memory()

    def shares_for(self, number: int, survivors: Sequence[int]) -> dict[int, bytes]:
        """Return what the server needs to unmask the sum over the survivors of a round; once."""
        content = self.drawer.get(by_round(_MEMBER, number))
        if content is None:
            raise LetterError(f"the keys of round {number + 1} are not there, or deleted: this silo gives no shares.")
        try:
            return Member.of(to_memory(unpacked(content)), self.party).shares_for(survivors)
        except RunError as error:  # a list of survivors that would reveal a single message
            raise LetterError(str(error)) from error

    def forget_unshared(self) -> None:
        """Delete the keys as they were before they were shared."""
        self.drawer.drop(f"{_NEW}-*")

    def forget_unused(self, number: int) -> None:
        """Delete the keys of a round as they were before a message was masked with them."""
        self.drawer.drop(by_round(_SHARED, number))

    def forget(self, number: int) -> None:
        """Delete the keys of a round."""
        for kind in (_NEW, _SHARED, _MEMBER):
            self.drawer.drop(by_round(kind, number))

    def forget_before(self, number: int) -> None:
        """Delete the keys of all earlier rounds."""
        for kind in (_NEW, _SHARED, _MEMBER):
            self.drawer.drop(f"{kind}-*", number)

    def _newcomer(self, kind: str, number: int) -> Newcomer:
        content = self.drawer.get(by_round(kind, number))
        if content is None:
            raise LetterError(f"the keys of round {number + 1} are used or deleted: this silo masks nothing with them.")
        secrets = unpacked(content)
        mask, channel, seed = (secrets[name] for name in ("mask_key", "channel_key", "seed"))
        return Newcomer(self.party, self.threshold, mask, channel, seed, reserved=secrets.get("reserved", b""))


def forget_all(drawer: Drawer) -> None:
    """Delete all keys of a run."""
    for kind in (_NEW, _SHARED, _MEMBER):
        drawer.drop(f"{kind}-*")


def check_adverts(adverts: NDArray[Any], rounds: int) -> None:
    """Refuse public keys of another form."""
    if adverts.dtype != np.uint8 or adverts.shape != (rounds, ADVERT_BYTES):
        raise LetterError("the public keys of a silo have another form than this version of silobench sends.")


def _of_round(adverts: Mapping[int, NDArray[Any]], number: int) -> dict[int, bytes]:
    return {party: each[number].tobytes()[:_KEYS_BYTES] for party, each in adverts.items()}


def public_key_of(adverts: NDArray[Any], number: int) -> bytes:
    """Return the public key of the masks that a silo shares in a round."""
    return bytes(adverts[number].tobytes()[:KEY_BYTES])


def commitment_of(adverts: NDArray[Any], number: int) -> bytes:
    """Return a silo's commitment to the seed of its own mask in a round."""
    return bytes(adverts[number].tobytes()[_KEYS_BYTES:])


def _secrets(newcomer: Newcomer) -> dict[str, bytes]:
    return {"mask_key": newcomer.mask_key, "channel_key": newcomer.channel_key, "seed": newcomer.seed}
