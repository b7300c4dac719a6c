"""Boosted trees of all parties together: arrays of nodes, stored as tensors, and a module that predicts."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from silobench.vertical.trees.binning import Bools, Floats, Ints
from silobench.vertical.trees.label_holder import Node
from silobench.vertical.trees.party import TreeParty


@dataclass(frozen=True)
class Trees:
    """The nodes of all trees in a row; a parent comes before its children.

    The label holder knows everything but `feature` and `threshold`, which only the owner of a split knows. `party` is
    -1 at a leaf. `left` and `right` count from the start of the tree.
    """

    baseline: Floats  # margin of each output before the first tree
    starts: Ints  # first node of each tree, and the number of nodes at the end
    party: Ints
    split: Ints  # number of the split at its owner
    feature: Ints  # column of the joint table
    threshold: Floats  # values up to it go left
    absent_left: Bools
    left: Ints
    right: Ints
    value: Floats  # of a leaf, with shrinkage
    count: Ints  # training rows

    def __len__(self) -> int:
        return len(self.starts) - 1

    @property
    def outputs(self) -> int:
        """Number of margins per row: tree t adds to margin t modulo `outputs`."""
        return len(self.baseline)

    @classmethod
    def empty(cls, baseline: Floats) -> "Trees":
        """Return an ensemble without trees."""
        parts: dict[str, NDArray[Any]] = {
            part.name: np.zeros(0, dtype=_DTYPES.get(part.name, np.int64)) for part in fields(cls)
        }
        return cls(**{**parts, "baseline": baseline, "starts": np.zeros(1, dtype=np.int64)})

    def extended(self, nodes: Sequence[Node], parties: Sequence[TreeParty], columns: Sequence[Ints]) -> "Trees":
        """Return the ensemble with one more tree.

        columns: numbers of the features of each party in the joint table.
        """
        rows = [_row(node, parties, columns) for node in nodes]
        parts = {
            name: np.concatenate([getattr(self, name), np.array(values, dtype=_DTYPES.get(name, np.int64))])
            for name, values in zip(_NODE_FIELDS, zip(*rows, strict=True), strict=True)
        }
        return Trees(self.baseline, np.append(self.starts, self.starts[-1] + len(nodes)), **parts)

    def add_to(self, margins: Floats, x: NDArray[np.floating], presence: Bools, first: int = 0) -> None:
        """Add the values of trees, from tree `first` on, to margins [rows, outputs].

        x: the joint table [rows, columns]; presence: [rows, parties].
        """
        columns, present = np.asfortranarray(x), np.asfortranarray(presence)
        for tree in range(first, len(self)):
            for rows, value in self._leaves(tree, columns, present):
                margins[rows, tree % self.outputs] += value

    def _leaves(self, tree: int, x: NDArray[np.floating], presence: Bools) -> list[tuple[Ints, float]]:
        start, stop = self.starts[tree : tree + 2]
        rows_of: dict[int, Ints] = {0: np.arange(len(x))}
        leaves = []
        for number, node in enumerate(range(start, stop)):
            rows, party = rows_of.pop(number), self.party[node]
            if party < 0:
                leaves.append((rows, float(self.value[node])))
                continue
            sides = x[:, self.feature[node]].take(rows) <= self.threshold[node]
            present = presence[:, party].take(rows)
            sides = np.where(present, sides, self.absent_left[node])
            rows_of[int(self.left[node])] = rows.compress(sides)
            rows_of[int(self.right[node])] = rows.compress(~sides)
        return leaves

    def as_tensors(self) -> dict[str, Tensor]:
        """Return all arrays as tensors by name."""
        return {part.name: torch.from_numpy(np.ascontiguousarray(getattr(self, part.name))) for part in fields(self)}

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, Tensor]) -> "Trees":
        """Return the trees that `as_tensors` gave."""
        return cls(**{part.name: tensors[part.name].numpy() for part in fields(cls)})

    def module(self, columns: int, mean: float = 0.0, scale: float = 1.0, has_classes: bool = True) -> "TreeModule":
        """Return a module that takes the joint input [rows, columns + parties] and returns outputs of an objective.

        mean, scale: of a numeric target, which is standardised by them.
        """
        return TreeModule(self, columns, mean, scale, has_classes)


_NODE_FIELDS = tuple(part.name for part in fields(Trees))[2:]
_DTYPES: dict[str, type] = {
    "baseline": np.float64,
    "threshold": np.float64,
    "absent_left": np.bool_,
    "value": np.float64,
}


def _row(node: Node, parties: Sequence[TreeParty], columns: Sequence[Ints]) -> tuple[float, ...]:
    """Return the fields of a node, with the feature and threshold that the owner of its split knows."""
    if node.children is None or node.split is None:
        return (-1, -1, -1, 0.0, False, -1, -1, node.value, len(node.rows))
    party, number = node.split.party, node.split_number
    feature, threshold = columns[party][parties[party].features[number]], parties[party].thresholds[number]
    left, right = (child.number for child in node.children)
    return (party, number, feature, threshold, node.absent_left, left, right, 0.0, len(node.rows))


class TreeModule(nn.Module):
    """Trees as a module without parameters.

    Outputs: (0, margin) for two classes, so that softmax gives their probabilities; a margin per class for more; the
    standardised number for a numeric target.

    memo: margins of inputs that were seen with fewer trees, by digest, to which only the later trees are added.
    """

    def __init__(self, trees: Trees, columns: int, mean: float, scale: float, has_classes: bool) -> None:
        super().__init__()
        self.trees, self.columns = trees, columns
        self.mean, self.scale, self.has_classes = mean, scale, has_classes
        self.memo: dict[bytes, tuple[int, Floats]] | None = None

    def forward(self, x: Tensor) -> Tensor:
        joint = np.ascontiguousarray(x.numpy(force=True))
        key = hashlib.blake2b(joint.data, digest_size=16).digest() if self.memo is not None else b""
        done, margins = (self.memo or {}).get(key, (0, np.tile(self.trees.baseline, (len(joint), 1))))
        if done > len(self.trees):  # of a later round
            done, margins = 0, np.tile(self.trees.baseline, (len(joint), 1))
        margins = margins.copy()
        self.trees.add_to(margins, joint[:, : self.columns], joint[:, self.columns :] > 0, done)
        if self.memo is not None:
            self.memo[key] = (len(self.trees), margins)
        return self.outputs(torch.from_numpy(margins))

    def outputs(self, margins: Tensor) -> Tensor:
        """Return the outputs for float64 margins [rows, trees per round]."""
        if not self.has_classes:
            return ((margins - self.mean) / self.scale).float()
        return class_outputs(margins)


def class_outputs(margins: Tensor) -> Tensor:
    """Return an output per class for margins [rows, 1] of two classes, or [rows, classes] of more."""
    if margins.shape[1] == 1:
        margins = torch.cat([torch.zeros_like(margins), margins], dim=1)
    return margins.float()
