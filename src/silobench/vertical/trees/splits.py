"""The best split of a node, from the histograms of all parties."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from silobench.vertical.trees.binning import Bools, Floats, Ints
from silobench.vertical.trees.messages import Layout

LEAST_CURVATURE = 1e-3  # sum of second derivatives of a child
TINY = 1e-15  # keeps the division of a leaf value finite


@dataclass(frozen=True)
class TreeSettings:
    """How trees grow; defaults are those of scikit-learn's HistGradientBoosting."""

    leaves: int = 31
    lr: float = 0.1
    bins: int = 255
    min_leaf: int = 20  # rows
    l2: float = 0.0
    depth: int | None = None


@dataclass(frozen=True)
class Split:
    """A split of a node; sums are of (first derivative, row count, second derivative)."""

    gain: float
    party: int
    feature: int  # the party's number of it
    bin: int  # the last one on the left
    absent_left: bool  # whether rows that the party does not have go left
    left: Floats
    right: Floats


@dataclass(frozen=True)
class _Group:
    """Features with similar numbers of bins, padded to the same width: their bins are a matrix."""

    start: int  # in the padded histogram
    width: int
    features: Ints  # numbers over all parties
    right: Bools  # [features, width]: bins after which a split may send absent rows right
    left: Bools  # bins after which a split may send absent rows left

    @property
    def stop(self) -> int:
        return self.start + len(self.features) * self.width


@dataclass(frozen=True)
class _Places:
    """Where the bins of a party are in the padded histogram."""

    sent: Ints
    runs: Ints  # of each feature with bins that are sent and one that is left out: its first bin among those sent
    rest: Ints  # the bins left out of these features
    whole: Ints  # the only bin of a feature, if it is left out


def leaf_value(sums: Floats, l2: float) -> float:
    """Return the value of a leaf before shrinkage."""
    return float(-sums[0] / (sums[-1] + l2 + TINY))


class SplitFinder:
    """Finds the best split over the features of all parties.

    A histogram is [planes, padded bins] with sums of first derivatives, row counts, and second derivatives; the last
    plane is absent if all second derivatives are 1, since it then equals the counts. Of splits with equal gain, the
    one with the lowest party, feature and bin wins.

    layouts: of all parties; lacks_rows: whether a party does not have all rows.
    """

    def __init__(self, layouts: Sequence[Layout], lacks_rows: Sequence[bool], settings: TreeSettings) -> None:
        self._settings = settings
        sizes = [layout.bins.astype(np.int64) for layout in layouts]
        self._party = np.repeat(np.arange(len(layouts)), [len(part) for part in sizes])
        self._number = np.concatenate([np.arange(len(part)) for part in sizes])
        self._bins = np.concatenate(sizes)
        self._omitted = np.concatenate([layout.omitted.astype(np.int64) for layout in layouts])
        self._lacks = np.array(lacks_rows, dtype=np.bool_)[self._party]
        self._groups, self._starts = self._padded()
        self.size = self._groups[-1].stop
        self._places = [self._places_of(party) for party in range(len(layouts))]

    def _padded(self) -> tuple[list[_Group], Ints]:
        widths = 1 << np.ceil(np.log2(np.maximum(self._bins, 2))).astype(np.int64)
        groups, starts, start = [], np.zeros(len(self._bins), dtype=np.int64), 0
        for width in np.unique(widths):
            features = np.flatnonzero(widths == width)
            wide = int(self._bins[features].max())
            bins, lacks = self._bins[features, None], self._lacks[features, None]
            number = np.arange(wide)
            groups.append(_Group(start, wide, features, number < bins - 1 + lacks, (number < bins - 1) & lacks))
            starts[features] = start + wide * np.arange(len(features))
            start = groups[-1].stop
        return groups, starts

    def _places_of(self, party: int) -> "_Places":
        features = np.flatnonzero(self._party == party)
        feature = np.repeat(features, self._bins[features])
        bins = np.arange(len(feature)) - np.repeat(np.cumsum(self._bins[features]), self._bins[features])
        bins += self._bins[feature]
        is_sent = bins != self._omitted[feature]
        place, sent = self._starts[feature] + bins, feature[is_sent]
        runs = np.flatnonzero(np.diff(sent, prepend=-1)) if not is_sent.all() else np.zeros(0, dtype=np.int64)
        is_run = np.isin(feature[~is_sent], sent)
        return _Places(place[is_sent], runs, place[~is_sent][is_run], place[~is_sent][~is_run])

    def place(self, histogram: Floats, party: int, sent: Floats, totals: Floats) -> None:
        """Write the bins that a party sent into a histogram, and find the ones that it left out.

        sent: [planes, bins]; totals: sums over the party's rows of the node, by plane.
        """
        places = self._places[party]
        histogram[:, places.sent] = sent
        histogram[:, places.whole] = totals[:, None]
        if len(places.runs):
            histogram[:, places.rest] = totals[:, None] - np.add.reduceat(sent, places.runs, axis=1)

    def first(self, histogram: Floats) -> Floats:
        """Return the bins of the first feature, [planes, bins]."""
        return histogram[:, self._starts[0] : self._starts[0] + self._bins[0]]

    def best(self, histograms: Floats, totals: Floats, losses: Floats) -> list[Split | None]:
        """Return the best split of every node, or None if no split has a gain.

        histograms: [nodes, planes, bins]; totals: [nodes, planes]; losses: first derivative times value of each node.
        """
        nodes, count = len(totals), len(self._bins)
        gains, bins = np.full((nodes, count), -1.0), np.zeros((nodes, count), dtype=np.int64)
        lefts, absent = np.zeros((nodes, totals.shape[1], count)), np.zeros((nodes, count), dtype=np.bool_)
        for group in self._groups:
            shape = (nodes, totals.shape[1], len(group.features), group.width)
            block = histograms[:, :, group.start : group.stop].reshape(shape)
            left = np.cumsum(block, axis=3)
            scan = self._scan(left, totals, losses, group.right, False)
            gains[:, group.features], bins[:, group.features], lefts[:, :, group.features] = scan
            if group.left.any():
                self._scan_absent(block, totals, losses, group, (gains, bins, lefts, absent))
        return [self._split(*parts) for parts in zip(gains, bins, lefts, absent, totals, strict=True)]

    def _scan_absent(
        self, block: Floats, totals: Floats, losses: Floats, group: _Group, best: tuple[Floats, Ints, Floats, Bools]
    ) -> None:
        """Replace the best splits of a group by those with absent rows on the left, where these are better."""
        right = np.zeros_like(block)
        right[..., :-1] = np.cumsum(block[..., :0:-1], axis=3)[..., ::-1]
        left = totals[:, :, None, None] - right
        gain, bin_, sums = self._scan(left, totals, losses, group.left, True, right)
        gains, bins, lefts, absent = best
        node, place = np.nonzero(gain > gains[:, group.features])
        feature = group.features[place]
        gains[node, feature], bins[node, feature] = gain[node, place], bin_[node, place]
        lefts[node, :, feature], absent[node, feature] = sums[node, :, place], True

    def _scan(
        self,
        left: Floats,
        totals: Floats,
        losses: Floats,
        allowed: Bools,
        from_right: bool,
        right: Floats | None = None,
    ) -> tuple[Floats, Ints, Floats]:
        """Return gain, bin and left sums of the best split of each feature; the first, or the last, of equal ones."""
        right = totals[:, :, None, None] - left if right is None else right
        gain = self._gains(left, right, losses)
        rows, curvature = np.minimum(left[:, 1], right[:, 1]), np.minimum(left[:, -1], right[:, -1])
        refused = (rows < self._settings.min_leaf) | (curvature < LEAST_CURVATURE) | ~allowed
        np.copyto(gain, -1.0, where=refused)
        place = gain.shape[2] - 1 - gain[..., ::-1].argmax(axis=2) if from_right else gain.argmax(axis=2)
        highest = np.take_along_axis(gain, place[..., None], axis=2)[..., 0]
        sums = np.take_along_axis(left, place[:, None, :, None], axis=3)[..., 0]
        return highest, place, sums

    def _gains(self, left: Floats, right: Floats, losses: Floats) -> Floats:
        gain: Floats = losses[:, None, None]
        with np.errstate(divide="ignore", invalid="ignore"):  # bins that are refused afterwards
            for side in (left, right):
                part = side[:, 0] / (side[:, -1] + self._settings.l2 + TINY)
                part *= side[:, 0]
                gain = gain + part
        return gain

    def _split(self, gains: Floats, bins: Ints, lefts: Floats, absent: Bools, totals: Floats) -> Split | None:
        feature = int(gains.argmax())
        if gains[feature] <= 0:
            return None
        party, number = int(self._party[feature]), int(self._number[feature])
        left = lefts[:, feature]
        parts = (int(bins[feature]), bool(absent[feature]), left, totals - left)
        return Split(float(gains[feature]), party, number, *parts)
