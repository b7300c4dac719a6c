"""The objective that the labels of a dataset suggest."""

from dataclasses import replace

from silobench.data.dataset import Dataset
from silobench.tasks.objectives.cross_entropy import plain
from silobench.tasks.objectives.objective import OBJECTIVES, Fit, Objective
from silobench.tasks.objectives.regression import regression
from silobench.tasks.objectives.verification import verification


@OBJECTIVES.register
def auto() -> Fit:
    """Regression if labels are numbers, verification if test rows are pairs, else cross-entropy with accuracy."""

    def fit(dataset: Dataset) -> Objective:
        if dataset.task == "regression":
            label = f"the label {dataset.target} is" if dataset.target else "the labels are"
            return replace(regression()(dataset), reason=f"{label} numeric")
        if dataset.task == "verification":
            return replace(verification()(dataset), reason="the test rows are pairs")
        return replace(plain(), reason="the labels are classes")

    return fit
