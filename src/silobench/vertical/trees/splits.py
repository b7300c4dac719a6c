"""The best split of a node, from the histograms of all parties."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch

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
    not_right: Bools  # [features, width]: bins after which a split may not send absent rows right
    not_left: Bools  # bins after which a split may not send absent rows left

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


def _running_sums(block: Floats) -> Floats:
    """Return sums along the last axis; torch adds in the same order as numpy, in a quarter of the time."""
    return np.asarray(torch.cumsum(torch.from_numpy(block), dim=-1).numpy())


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
        widths = np.where(self._bins <= 16, 16, 256)
        groups, starts, start = [], np.zeros(len(self._bins), dtype=np.int64), 0
        for width in np.unique(widths):
            features = np.flatnonzero(widths == width)
            wide = int(self._bins[features].max())
            bins, lacks = self._bins[features, None], self._lacks[features, None]
            number = np.arange(wide)
            groups.append(_Group(start, wide, features, number >= bins - 1 + lacks, (number >= bins - 1) | ~lacks))
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

    @property
    def has_whole_feature(self) -> bool:
        """Whether the party of the first feature has all rows."""
        return not self._lacks[0]

    def first(self, histogram: Floats) -> Floats:
        """Return the bins of the first feature, [planes, bins]."""
        return histogram[:, self._starts[0] : self._starts[0] + self._bins[0]]

    def best(self, histograms: Floats, totals: Floats, losses: Floats) -> list[Split | None]:
        """Return the best split of every node, or None if no split has a gain.

        histograms: [planes, nodes, bins]; totals: [planes, nodes]; losses: first derivative times value of each node.
        """
        sums, best = totals[:, :, None, None], [_NOTHING] * totals.shape[1]
        for group in self._groups:
            block = histograms[:, :, group.start : group.stop]
            block = block.reshape(*totals.shape, len(group.features), group.width)
            left = _running_sums(block)
            self._scan(best, group, left, sums - left, losses, False)
            if not group.not_left.all():
                right = np.zeros_like(block)
                right[..., :-1] = _running_sums(block[..., :0:-1].copy())[..., ::-1]
                self._scan(best, group, sums - right, right, losses, True)
        return [self._split(scan, totals[:, node]) for node, scan in enumerate(best)]

    def _scan(
        self, best: list["_Candidate"], group: _Group, left: Floats, right: Floats, losses: Floats, absent_left: bool
    ) -> None:
        """Replace the best split of each node by one of a group of features, if that is better.

        With absent rows on the right bins are tried in increasing order, otherwise in decreasing order, so that the
        same split wins among equals as in scikit-learn.
        """
        gains = self._gains(left, right, losses)
        refused = np.minimum(left[1], right[1]) < self._settings.min_leaf
        if len(left) > 2:
            refused |= np.minimum(left[2], right[2]) < LEAST_CURVATURE
        refused |= group.not_left if absent_left else group.not_right
        np.copyto(gains, -1.0, where=refused)
        step = -1 if absent_left else 1
        places = gains[..., ::step].reshape(len(gains), -1).argmax(axis=1)
        for node, place in enumerate(places.tolist()):
            number, bin_ = divmod(place, group.width)
            bin_ = group.width - 1 - bin_ if absent_left else bin_
            gain, feature = float(gains[node, number, bin_]), int(group.features[number])
            if (gain, -feature) > (best[node].gain, -best[node].feature):
                best[node] = _Candidate(gain, feature, bin_, absent_left, left[:, node, number, bin_])

    def _gains(self, left: Floats, right: Floats, losses: Floats) -> Floats:
        gain: Floats = losses[:, None, None]
        with np.errstate(divide="ignore", invalid="ignore"):  # bins that are refused afterwards
            for side in (left, right):
                part = side[-1] + self._settings.l2 + TINY
                np.divide(side[0], part, out=part)
                part *= side[0]
                gain = np.add(gain, part, out=part)
        return gain

    def _split(self, best: "_Candidate", totals: Floats) -> Split | None:
        if best.gain <= 0:
            return None
        party, number = int(self._party[best.feature]), int(self._number[best.feature])
        return Split(best.gain, party, number, best.bin, best.absent_left, best.left, totals - best.left)


class _Candidate(NamedTuple):
    gain: float
    feature: int  # number over all parties
    bin: int
    absent_left: bool
    left: Floats


_NOTHING = _Candidate(-1.0, 1 << 62, 0, False, np.zeros(0))
