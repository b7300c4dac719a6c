"""Which comparisons a claim makes, with their cells and numbers: evidence.txt has them for each case and study.

`python tests/papers/test_evidence_of_claims.py` writes the file anew, with src and tests on PYTHONPATH. Read what it
changes.
"""

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest
from studies import STUDIES

from cases import CLOSE, TRIALS, Case, pattern, runs
from silobench.runs.stored import StoredRun
from stored import claim

FILE = Path(__file__).with_name("evidence.txt")
CASES: dict[str, Case] = {
    id: case
    for name in ("niid_bench", "zhao2018", "hsieh2020")
    for id, case in import_module(f"cases_{name}").CASES.items()
}
LARGER = ", a larger study"
WORDS = {True: "holds", False: "does not hold", None: "undecided"}


def pieces(title: str) -> list[str]:
    """Return the pieces of evidence of a case, or of a study, as lines."""
    id = title.split(",")[0]
    groups = study(title) if "," in title else runs(CASES[id], CASES[id].supported, pattern(CLOSE))
    return [
        f"{piece.part}: {WORDS[piece.holds]}{'' if piece.counts else ' (aside)'} | {piece.cells} | {piece.numbers} | "
        f"{piece.test}"
        for piece in claim(id, *groups).evidence
    ]


def study(title: str) -> list[list[StoredRun]]:
    entries = STUDIES[title.removesuffix(LARGER)]
    made = runs(Case([entry[0] for entry in entries], [], []), [entry[1] for entry in entries], pattern(CLOSE))
    return [trials[: entry[2] if len(entry) > 2 else TRIALS] for trials, entry in zip(made, entries, strict=True)]


def titles() -> Iterator[str]:
    for id in CASES:
        yield id
        yield from (name if "," in name else f"{name}{LARGER}" for name in STUDIES if name.split(",")[0] == id)


def stored_pieces() -> dict[str, list[str]]:
    blocks = [block.splitlines() for block in FILE.read_text("utf-8").split("## ")[1:]]
    return {title: [line for line in lines if line] for title, *lines in blocks}


@pytest.mark.parametrize("title", list(titles()))
def test_a_claim_makes_the_comparisons_that_are_stored(title: str) -> None:
    assert pieces(title) == stored_pieces()[title]


def test_every_stored_piece_is_of_a_case_or_a_study() -> None:
    assert list(stored_pieces()) == list(titles())
    assert all(stored_pieces().values())


if __name__ == "__main__":
    blocks = [f"## {title}\n\n" + "\n".join(pieces(title)) + "\n" for title in titles()]
    FILE.write_text("\n".join(blocks), "utf-8")
