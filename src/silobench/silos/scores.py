"""Scores as letters and back: sums over a silo's test rows, and no value of a single row."""

import math
from typing import Any

import numpy as np

from silobench.loop.final import WholeTest
from silobench.silos.letters import Letter, LetterError
from silobench.tasks.calibration import Calibration
from silobench.tasks.score import Score

_SUM = "sum/"
_BINS = ("bin rows", "bin confidence", "bin correct")


def score_parts(score: Score) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return a score as facts and arrays of a letter."""
    if score.answers or score.pairs:
        raise LetterError("the score of this objective has values of single rows, which stay at the silo")
    sums = {f"{_SUM}{name}": np.asarray(each) for name, each in score.sums.items()}
    loss = score.total_loss if math.isfinite(score.total_loss) else None
    return {"loss": loss}, {"hits": score.hits, "rows": score.rows, **sums}


def score_of(answer: Letter) -> Score:
    """Return the score in a silo's letter."""
    arrays, loss = answer.arrays, answer.facts.get("loss")
    sums = {name.removeprefix(_SUM): array for name, array in arrays.items() if name.startswith(_SUM)}
    return Score(arrays["hits"], math.nan if loss is None else float(loss), arrays["rows"], (), sums)


def whole_parts(whole: WholeTest) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the further results of the final test as facts and arrays of a letter."""
    facts, arrays = dict[str, Any](), dict[str, Any]()
    if whole.table is not None:
        arrays["confusion"] = whole.table
    if whole.calibration is not None:
        bins = whole.calibration
        arrays |= dict(zip(_BINS, (bins.rows, bins.confidence, bins.correct), strict=True))
        facts["squares"] = bins.squares
    return facts, arrays


def whole_of(answers: list[Letter], classes: int) -> WholeTest:
    """Return the sum of the further results in silos' letters."""
    whole = WholeTest(classes)
    for answer in answers:
        if "confusion" in answer.arrays:
            table = answer.arrays["confusion"]
            whole.table = table if whole.table is None else whole.table + table
        if "squares" in answer.facts:
            rows, confidence, correct = (answer.arrays[name] for name in _BINS)
            bins = Calibration(rows, confidence, correct, float(answer.facts["squares"]))
            whole.calibration = bins if whole.calibration is None else whole.calibration + bins
    return whole
