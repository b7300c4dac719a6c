"""A partition in files: every row of every party, as text and as arrays, and the counts that `like` reads back."""

from pathlib import Path

import numpy as np
import pytest

from silobench.data import digits
from silobench.errors import PartitionError
from silobench.partitions import Partition, measure, partition
from silobench.partitions.export import export_partition

CUT, COUNTS = Partition((np.array([0, 2]), np.array([1, 3, 4]))), [[2, 0], [1, 2]]


def test_the_files_say_the_same(tmp_path: Path) -> None:
    out = tmp_path / "new" / "folder"
    for _ in range(2):  # a second export replaces the first
        export_partition(CUT, COUNTS, ["north", "süd"], ["cat", "dog"], out)
    assert (out / "rows.csv").read_bytes() == b"party,row\r\n0,0\r\n0,2\r\n1,1\r\n1,3\r\n1,4\r\n"
    assert (out / "counts.csv").read_text("utf-8").split() == [
        "party,class",
        "cat,class",
        "dog",
        "north,2,0",
        "süd,1,2",
    ]
    with np.load(out / "rows.npz") as arrays:
        assert {name: arrays[name].tolist() for name in arrays} == {"party_0": [0, 2], "party_1": [1, 3, 4]}


def test_like_reads_counts_back(tmp_path: Path) -> None:
    data = digits()
    cut = partition(data, "label-count(k=3)", 4)
    counts = measure(cut, data).counts
    export_partition(cut, counts, [str(party) for party in range(4)], data.label_names, tmp_path)
    again = partition(data, f"like(reference={tmp_path / 'counts.csv'})", 4)
    assert sorted(measure(again, data).counts) == sorted(counts)  # parties take lines at random


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(PartitionError, match=r"file/folder cannot be written .* choose another folder"):
        export_partition(CUT, COUNTS, ["a", "b"], ["cat", "dog"], tmp_path / "file" / "folder")
