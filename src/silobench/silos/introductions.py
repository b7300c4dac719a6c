"""What a silo signs when it joins a run: all that it says, for the server, and a card for the other silos."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from silobench.silos.letters import Letter

JOIN, CARD = "join", "card"  # purposes of a silo's signatures: for the server, and for the other silos


def card(letter: Letter, facts: Mapping[str, Any], adverts: Any) -> bytes:
    """Return what a silo signs for the other silos: the run, its name, numbers of rows and public keys."""
    digest = "" if adverts is None else hashlib.sha256(adverts.tobytes()).hexdigest()
    stated = [letter.consortium, letter.run, facts["name"], facts["rows"], facts["tests"], digest]
    return json.dumps(stated).encode()


def introduction(letter: Letter, facts: Mapping[str, Any]) -> bytes:
    """Return what a silo signs for the server: all that it says when it joins.

    Its public keys are in the card, which is one of the facts.
    """
    stated = {name: value for name, value in facts.items() if name != "signature"}
    return json.dumps([letter.consortium, letter.run, stated], sort_keys=True).encode()
