"""The label holder's side of boosted trees: gradients, the choice of splits, and leaf values."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from silobench.vertical.trees.binning import Bools, Floats, Ints
from silobench.vertical.trees.cipher import Clear, HistogramCipher
from silobench.vertical.trees.losses import TreeLoss
from silobench.vertical.trees.messages import (
    Gradients,
    Histogram,
    Layout,
    Message,
    NodeRows,
    Sides,
    SplitOrder,
    packed,
    unpacked,
)
from silobench.vertical.trees.splits import LEAST_CURVATURE, Split, SplitFinder, TreeSettings, leaf_value

Call: TypeAlias = Callable[[int, Message], Message | None]  # (party, message) -> its answer


@dataclass(eq=False)
class Node:
    """A node of a tree, as the label holder knows it: who owns its split, not which feature that is."""

    number: int
    depth: int
    rows: Ints
    sums: Floats  # (first derivative, row count, second derivative)
    value: float
    histogram: Floats | None = field(default=None, repr=False)
    split: Split | None = None
    split_number: int = -1
    absent_left: bool = False
    children: "tuple[Node, Node] | None" = None

    def __lt__(self, other: "Node") -> bool:
        """Order a heap by gain: the node with the largest is first."""
        assert self.split is not None
        assert other.split is not None
        return self.split.gain > other.split.gain


class TreeLabelHolder:
    """The party with the labels. It sees histograms by number of party, feature and bin, and no value of a column.

    y: labels; presence: [parties, rows], whether a party has a row; layouts: of all parties; label: its place among
    the parties, where messages are not encrypted.
    """

    def __init__(
        self,
        y: NDArray[Any],
        loss: TreeLoss,
        presence: Bools,
        layouts: Sequence[Layout],
        label: int = 0,
        settings: TreeSettings | None = None,
        cipher: HistogramCipher | None = None,
    ) -> None:
        self.loss, self.label = loss, label
        self.settings = settings or TreeSettings()
        self._y, self._presence = y, presence
        self._lacks_rows = [not bool(rows.all()) for rows in presence]
        self._finder = SplitFinder(layouts, self._lacks_rows, self.settings)
        clear = Clear()
        self._ciphers = [clear if party == label else cipher or clear for party in range(len(layouts))]
        self.baseline = loss.baseline(y)
        self.margins = np.tile(self.baseline, (len(y), 1))

    def grow_round(self, call: Call) -> list[list[Node]]:
        """Grow one tree per output, and return the nodes of each; a parent comes before its children."""
        first, second = self.loss.derivatives(self._y, self.margins)
        trees = []
        for output in range(self.loss.outputs):
            g = first[:, output].astype(np.float32)
            h = None if self.loss.has_unit_curvature else second[:, output].astype(np.float32)
            nodes = _Growth(self, g, h, call).grow()
            for node in nodes:
                if node.children is None:
                    node.value *= self.settings.lr
                    self.margins[node.rows, output] += node.value
            trees.append(nodes)
        return trees


class _Growth:
    """One tree while it grows."""

    def __init__(
        self, holder: TreeLabelHolder, g: NDArray[np.float32], h: NDArray[np.float32] | None, call: Call
    ) -> None:
        self._holder, self._call = holder, call
        self._settings, self._finder = holder.settings, holder._finder
        self._g, self._h = g, h
        planes = [g, np.ones_like(g)] if h is None else [g, np.ones_like(g), h]
        self._planes = np.stack(planes).astype(np.float64)
        self._nodes: list[Node] = []
        self._open: list[Node] = []  # a heap by gain
        self._leaves = 0

    def grow(self) -> list[Node]:
        histogram = self._root_histogram()
        root = self._add(0, np.arange(len(self._g)), self._root_sums(histogram), 0.0)
        if root.sums[1] < 2 * self._settings.min_leaf or root.sums[-1] < LEAST_CURVATURE:
            return self._nodes
        self._consider([root], histogram[:, None])
        while self._open and self._leaves + len(self._open) < self._settings.leaves:
            self._divide(heappop(self._open))
        return self._nodes

    def _add(self, depth: int, rows: Ints, sums: Floats, value: float) -> Node:
        self._nodes.append(Node(len(self._nodes), depth, rows, sums, value))
        return self._nodes[-1]

    def _root_histogram(self) -> Floats:
        """Send gradients to all parties, and return the histogram of all rows."""
        histogram = np.zeros((len(self._planes), self._finder.size))
        rows, sums = np.arange(len(self._g)), self._planes.sum(axis=1)
        encrypted: dict[HistogramCipher, Any] = {}
        for party, cipher in enumerate(self._holder._ciphers):
            if cipher not in encrypted:
                encrypted[cipher] = cipher.encrypt_pairs(self._g, self._h)
            pairs = encrypted[cipher]
            if self._holder._lacks_rows[party]:
                pairs = cipher.take(pairs, self._holder._presence[party])
            self._place(histogram, party, self._call(party, Gradients(pairs)), rows, sums)
        return histogram

    def _place(self, histogram: Floats, party: int, reply: Message | None, rows: Ints, node_sums: Floats) -> None:
        """Write a party's histogram of a node into the one of all parties."""
        assert isinstance(reply, Histogram)
        cipher = self._holder._ciphers[party]
        sums = cipher.decrypt_pairs(reply.sums)
        planes = np.zeros((len(self._planes), len(reply.counts)))
        filled = slice(None) if isinstance(cipher, Clear) else reply.counts > 0
        planes[0, filled], planes[1] = sums[0], reply.counts
        if self._h is not None:
            planes[2, filled] = sums[1]
        if self._holder._lacks_rows[party]:
            node_sums = self._planes[:, rows[self._holder._presence[party][rows]]].sum(axis=1)
        self._finder.place(histogram, party, planes, node_sums)

    def _root_sums(self, histogram: Floats) -> Floats:
        """Return the sums over all rows: those of the first feature, as scikit-learn adds them, if it has all rows."""
        if not self._finder.has_whole_feature:
            return np.asarray(self._planes.sum(axis=1))
        first = self._finder.first(histogram)
        padded = np.zeros((len(first), 256))
        padded[:, : first.shape[1]] = first
        return np.asarray(padded.sum(axis=1))

    def _consider(self, nodes: list[Node], histograms: Floats) -> None:
        """Find the best split of nodes with histograms [planes, nodes, bins]; without a gain they become leaves."""
        losses = np.array([node.sums[0] * node.value for node in nodes])
        splits = self._finder.best(histograms, np.stack([node.sums for node in nodes], axis=1), losses)
        for place, (node, split) in enumerate(zip(nodes, splits, strict=True)):
            if split is None:
                self._leaves += 1
            else:
                node.split, node.histogram = split, histograms[:, place]
                heappush(self._open, node)

    def _divide(self, node: Node) -> None:
        assert node.split
        split, l2 = node.split, self._settings.l2
        sides = self._sides(node, split)
        left = self._add(node.depth + 1, node.rows.compress(sides), split.left, leaf_value(split.left, l2))
        right = self._add(node.depth + 1, node.rows.compress(~sides), split.right, leaf_value(split.right, l2))
        node.children = (left, right)
        hopeful = self._hopeful(left, right)
        self._leaves += 2 - len(hopeful)
        if hopeful:
            histograms = self._child_histograms(node, left, right, sides)
            chosen = histograms if len(hopeful) == 2 else histograms[:, [int(hopeful[0] is right)]]
            self._consider(hopeful, chosen)
        node.histogram = None

    def _child_histograms(self, node: Node, left: Node, right: Node, sides: Bools) -> Floats:
        """Ask all parties for histograms of the smaller child; those of the other are the difference to the parent."""
        assert node.split is not None
        assert node.histogram is not None
        histograms = np.zeros((len(self._planes), 2, self._finder.size))
        smaller = int(len(left.rows) >= len(right.rows))
        child = (left, right)[smaller]
        for party in range(len(self._holder._ciphers)):
            bits = None if party == node.split.party else self._bits(party, node, sides)
            reply = self._call(party, NodeRows(node.number, left.number, right.number, child.number, bits))
            self._place(histograms[:, smaller], party, reply, child.rows, child.sums)
        np.subtract(node.histogram, histograms[:, smaller], out=histograms[:, 1 - smaller])
        return histograms

    def _hopeful(self, left: Node, right: Node) -> list[Node]:
        """Return the children that may be split further."""
        is_last = self._leaves + len(self._open) + 2 >= self._settings.leaves
        if is_last or left.depth == self._settings.depth:
            return []
        return [child for child in (left, right) if len(child.rows) >= 2 * self._settings.min_leaf]

    def _sides(self, node: Node, split: Split) -> Bools:
        """Ask the owner of a split which rows go left; rows that it does not have go to the learnt side."""
        reply = self._call(split.party, SplitOrder(node.number, split.feature, split.bin))
        assert isinstance(reply, Sides)
        node.split_number = reply.split
        if not self._holder._lacks_rows[split.party]:
            node.absent_left = bool(2 * split.left[1] > split.left[1] + split.right[1])
            return unpacked(reply.bits, len(node.rows))
        node.absent_left = split.absent_left
        present = self._holder._presence[split.party][node.rows]
        sides = np.full(len(node.rows), split.absent_left)
        sides[present] = unpacked(reply.bits, int(present.sum()))
        return sides

    def _bits(self, party: int, node: Node, sides: Bools) -> NDArray[np.uint8]:
        """Return the sides of the rows of a node that a party has."""
        if self._holder._lacks_rows[party]:
            sides = sides[self._holder._presence[party][node.rows]]
        return packed(sides)
