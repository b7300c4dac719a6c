"""Labels of a user's file: classes or numbers, and what a user is told about the choice."""

import numpy as np
import pytest

from silobench.data.readers.targets import targets
from silobench.errors import DataError

REMEDY = "csv(path=stay.csv, label=days, task=classification)"


def test_several_numbers_that_are_taken_for_classes_are_stated() -> None:
    days = np.arange(300) % 14 + 1
    labels = targets("stay.csv", "the label days", days, "auto", REMEDY)
    assert (labels.task, len(labels.classes)) == ("classification", 14)
    (note,) = labels.notes
    assert note == (
        "the label days has 14 different numbers, so each is a class: csv(path=stay.csv, label=days, task=regression) "
        "predicts it as a number"
    )
    assert not targets("stay.csv", "the label days", days % 3, "auto", REMEDY).notes
    assert not targets("stay.csv", "the label days", days, "classification", REMEDY).notes


@pytest.mark.parametrize("label", ["inf", "3,7"])
def test_one_label_that_is_not_a_number_is_named(label: str) -> None:
    column = np.array([*map(str, np.arange(60) / 7), label])
    with pytest.raises(DataError, match=f"stay.csv has 61 different labels in 61 rows of the label days, .*'{label}'"):
        targets("stay.csv", "the label days", column, "auto", REMEDY)
