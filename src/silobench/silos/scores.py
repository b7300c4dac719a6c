"""Scores as letters and back: sums over a silo's test rows, and no value of a single row."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from silobench.loop.final import TestedRows, WholeTest
from silobench.silos.answers import need_forms
from silobench.silos.letters import Letter, LetterError
from silobench.tasks.calibration import Calibration
from silobench.tasks.score import Score
from silobench.training.setting import Setting

_SUM = "sum/"
_BINS = ("bin rows", "bin confidence", "bin correct")
_COUNTS = ("hits", "rows", "confusion", "bin rows", "bin correct")
_MOST_ROWS, _LARGEST = 2**53, 1e300  # of a silo: its test rows, and a sum of losses or squares


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


def blank_test(setting: Setting, is_final: bool) -> Letter:
    """Return the form of an answer to `score`, or to `final`: that of a silo with one test row."""
    objective, dataset = setting.task.objective, setting.federation.dataset
    rows = TestedRows(torch.zeros(1, objective.outputs(dataset)), torch.zeros(1, dtype=torch.int64))
    facts, arrays = score_parts(objective.score(rows.outputs, rows.y))
    if is_final:
        whole = WholeTest(len(dataset.classes))
        whole.add(replace(objective, extra=()), rows)
        more_facts, more_arrays = whole_parts(whole)
        facts, arrays = {**facts, **more_facts}, {**arrays, **more_arrays}
    return Letter("form", facts, arrays)


def checked_test(answer: Letter, form: Letter) -> Letter:
    """Return the answer of a silo to a model; refuse one of another form, or with numbers that cannot be."""
    need_forms(answer.arrays, form.arrays)
    if answer.arrays.keys() != form.arrays.keys() or answer.facts.keys() != form.facts.keys():
        raise LetterError("its answer has more or fewer parts than the sums of a test")
    stated = {name: value for name, value in answer.facts.items() if (name, value) != ("loss", None)}
    if not all(type(value) in (int, float) and abs(value) <= _LARGEST for value in stated.values()):
        raise LetterError("its answer has a sum that is no number, or is too large")
    for name in answer.arrays.keys() & set(_COUNTS):
        if (answer.arrays[name] < 0).any() or answer.arrays[name].sum(dtype=np.float64) > _MOST_ROWS:
            raise LetterError(f"its answer has numbers of rows that cannot be: {name}")
    if (answer.arrays["hits"] > answer.arrays["rows"]).any():
        raise LetterError("its answer has more right answers than rows")
    return answer


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
