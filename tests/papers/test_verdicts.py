"""Every claim must come out supported, contradicted and undecided, from runs made for that, and never from noise.

The cases of a paper are in `cases_FOLDER.py`, where FOLDER is the paper's folder in `silobench.papers`.
"""

from importlib import import_module

import pytest

from cases import CLASSES, CLOSE, Case, gauss, pattern, runs
from silobench.papers import PAPERS
from stored import claim

BY_PAPER: dict[str, dict[str, Case]] = {
    paper.folder.name: import_module(f"cases_{paper.folder.name}").CASES for paper in PAPERS
}
CASES = {id: case for cases in BY_PAPER.values() for id, case in cases.items()}
EQUALITIES = {id: case.equality for id, case in CASES.items() if case.equality}
EXISTENCE = [  # claims that there is some case: one case supports them, and none can contradict them
    finding.id for paper in PAPERS for finding in paper.findings if "any" in finding.parts.values()
]
DIFFERENCES = [id for id, case in CASES.items() if case.null is not None]


def test_every_claim_has_a_case() -> None:
    for paper in PAPERS:
        assert list(BY_PAPER[paper.folder.name]) == [finding.id for finding in paper.findings]


@pytest.mark.parametrize("id", CASES)
def test_a_claim_that_holds_is_supported(id: str) -> None:
    case = CASES[id]
    assert claim(id, *runs(case, case.supported, pattern(CLOSE))).verdict == "supported"


@pytest.mark.parametrize("id", CASES)
def test_a_claim_that_does_not_hold_is_contradicted(id: str) -> None:
    case = CASES[id]
    verdict = "undecided" if id in EXISTENCE else "contradicted"
    assert claim(id, *runs(case, case.contradicted, pattern(CLOSE))).verdict == verdict


@pytest.mark.parametrize("id", CASES)
def test_a_claim_that_cannot_be_told_is_undecided(id: str) -> None:
    case = CASES[id]
    numbers, noise = (case.supported, case.wide) if case.undecided is None else (case.undecided, CLOSE)
    found = claim(id, *runs(case, numbers, pattern(noise)))
    assert found.verdict == "undecided"
    assert any(piece.holds is None for piece in found.evidence) or case.undecided


@pytest.mark.parametrize("id", [id for id, case in CASES.items() if case.undecided is None and id != "niid-3"])
def test_one_piece_does_not_speak_for_many_that_cannot_be_told(id: str) -> None:
    """Four of five places have one trial, which decides nothing.

    A claim that there is some case needs one. Not niid-3, which has one piece for a dataset, however many places there
    are.
    """
    case, one = CASES[id], "supported" if id in EXISTENCE else "undecided"
    for numbers, verdict in ((case.supported, one), (case.contradicted, "undecided")):
        clear = runs(case, numbers, pattern(CLOSE))
        single = [trials[:1] for place in range(1, 5) for trials in runs(case, numbers, pattern(CLOSE), place)]
        assert claim(id, *clear, *single).verdict == verdict


@pytest.mark.parametrize("id", DIFFERENCES)
@pytest.mark.parametrize(("places", "noise"), [(1, 0.004), (4, 0.03)], ids=["one-place", "four-places"])
def test_noise_supports_no_claim_of_a_difference(id: str, places: int, noise: float) -> None:
    """All cells have one distribution. One place with the noise of real trials; several with far more."""
    case = CASES[id]
    assert case.null is not None
    same = [case.null] * len(case.cells)
    for draw in range(12):
        found = [trials for place in range(places) for trials in runs(case, same, gauss(noise, draw), place)]
        assert claim(id, *found).verdict != "supported", f"draw {draw}"


@pytest.mark.parametrize("id", EQUALITIES)
def test_models_that_have_learnt_nothing_are_no_evidence_of_equality(id: str) -> None:
    case = CASES[id]
    chance = [{**(number if isinstance(number, dict) else {}), "accuracy": 1 / CLASSES} for number in case.supported]
    found = claim(id, *runs(case, chance, pattern(CLOSE)))
    assert found.verdict != "supported"
    assert {piece.holds for piece in found.evidence if piece.part == EQUALITIES[id]} <= {None}


@pytest.mark.parametrize("id", [id for id in DIFFERENCES if isinstance(CASES[id].null, float) and id != "niid-8"])
def test_models_that_have_learnt_nothing_contradict_no_difference(id: str) -> None:
    """Not niid-8, which is about time and bytes."""
    case = CASES[id]
    chance = [1 / CLASSES] * len(case.cells)
    assert claim(id, *runs(case, chance, pattern(CLOSE))).verdict == "undecided"


@pytest.mark.parametrize(("iid", "verdict"), [(0.8, "supported"), (1 / CLASSES, "undecided")])
def test_five_epochs_do_not_help_where_only_iid_data_are_learnt(iid: float, verdict: str) -> None:
    """One class per party may leave a model at chance, which is the largest loss, unless the training never learns."""
    case = CASES["zhao-4"]
    whole = Case(
        [*case.cells, {**case.cells[0], "partition": "iid"}], supported=[1 / CLASSES, 1 / CLASSES, iid], contradicted=[]
    )
    assert claim("zhao-4", *runs(whole, whole.supported, pattern(CLOSE))).verdict == verdict
