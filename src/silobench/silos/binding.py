"""Digests of what all silos of a run must have in common. Masks are bound to them: silos that were sent different
letters add masks that do not cancel."""

import hashlib
from dataclasses import replace

from silobench.silos.letters import Letter

BEGIN = "begin"  # the fact of a letter with the digest of the roster that it belongs to
_OF_ONE_SILO = ("after",)  # facts of a train letter that differ between silos
_BOX = "box/"  # shares of keys, which are for one silo


def begin_digest(letter: Letter) -> str:
    """Return the digest of a `begin` letter: the roster, joint sums and public keys, without the silo's name."""
    return hashlib.sha256(replace(letter, silo="").content).hexdigest()


def round_digest(letter: Letter) -> bytes:
    """Return the digest of what a `train` letter has in common with those to the other silos.

    This is everything but the silo's name, the round that it goes on from, and the shares of keys for it. The digest
    of the roster is one of the facts.
    """
    facts = {name: value for name, value in letter.facts.items() if name not in _OF_ONE_SILO}
    arrays = {name: array for name, array in letter.arrays.items() if not name.startswith(_BOX)}
    return hashlib.sha256(replace(letter, facts=facts, arrays=arrays, silo="").content).digest()
