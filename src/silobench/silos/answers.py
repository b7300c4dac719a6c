"""What the server accepts as the answer of a silo, before it stores or adds it: one check for each kind of letter.

An answer that is not as it should be is a `LetterError`, and its silo counts as one that did not answer.
"""

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from silobench.data.agreed import Summary, joined
from silobench.method.secure import shamir
from silobench.method.secure.protocol import SEAL_BYTES
from silobench.silos import keys
from silobench.silos.agreement import Agreement
from silobench.silos.introductions import CARD, JOIN, card, introduction
from silobench.silos.letters import Arrays, Letter, LetterError
from silobench.silos.secret_keys import check_adverts

_BOX_BYTES = 2 * shamir.SHARE_BYTES + SEAL_BYTES
_MOST_ROWS = 2**53


def check_join(answer: Letter, agreement: Agreement, others: Collection[Letter]) -> None:
    """Refuse the introduction of a silo that it did not sign, or that cannot be joined with those of the others."""
    facts, consortium, name = answer.facts, agreement.consortium, str(answer.facts.get("name"))
    if name not in consortium.names or name != answer.silo:
        raise LetterError(f"it says that it is {name[:40]}, which the consortium does not have")
    key = consortium.silos[consortium.party(name)].key
    if not keys.is_signed(key, JOIN, introduction(answer, facts), bytes.fromhex(facts["signature"])):
        raise LetterError(f"it says that it is {name}, but its signature is not by the key of {name}")
    if not all(type(facts[each]) is int and 0 <= facts[each] <= _MOST_ROWS for each in ("rows", "tests")):
        raise LetterError("it states no numbers of rows")
    summary, columns = Summary.from_json(facts["summary"]), agreement.columns
    if set(summary.features) != set(columns.summed_features) or (summary.target is None) != bool(columns.label.classes):
        raise LetterError("it sent sums of other columns than the agreement has")
    joined([*(Summary.from_json(each.facts["summary"]) for each in others), summary])  # sums may be too large
    adverts = answer.arrays["adverts"] if agreement.hides else None
    if adverts is not None:
        check_adverts(adverts, agreement.plan.cell.rounds)
    if not keys.is_signed(key, CARD, card(answer, facts, adverts), bytes.fromhex(facts[CARD])):
        raise LetterError(f"its card for the other silos is not signed by the key of {name}")


def check_boxes(answer: Letter, others: Collection[str], rounds: int) -> None:
    """Refuse an answer to `begin` that lacks encrypted shares for another silo."""
    need_forms(answer.arrays, {f"box/{name}": np.zeros((rounds, _BOX_BYTES), np.uint8) for name in others})


def check_shares(answer: Letter, members: Collection[str]) -> None:
    """Refuse an answer to `unmask` that lacks a share of a silo's key or seed."""
    need_forms(answer.arrays, {f"share/{name}": np.zeros(shamir.SHARE_BYTES, np.uint8) for name in members})


def need_forms(arrays: Arrays, forms: Mapping[str, Any]) -> None:
    """Refuse arrays that lack one of `forms`, or have one of another type or shape."""
    for name, form in forms.items():
        array = arrays.get(name)
        if array is None or array.dtype != form.dtype or array.shape != form.shape:
            raise LetterError(f"its answer has no array {name[:60]} of the form {form.dtype}{list(form.shape)}")
