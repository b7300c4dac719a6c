"""`VerticalFederation`: a dataset whose columns are divided among parties, one of which has the labels.

All parties are in one array: the joint input of a row is its features, then a flag for each party that is 1 if the
party has the row. A network takes from it what a party may see.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor

from silobench.data.dataset import Dataset, Features
from silobench.errors import ConfigError, PartitionError
from silobench.federation import Party, evaluation_batch
from silobench.partitions import Deal, bind_sum
from silobench.rng import stream

ALIGNED, ALL = "aligned", "all"  # sets of test rows: those that every party has, and those that any party has
_MOST_NUMBERS = 2 << 30  # in dense arrays, of training and test rows together


@dataclass(frozen=True)
class VerticalFederation:
    """Parties that hold columns of the same rows.

    `rows` are the training rows, and `validation` those that are held out of them. `test_sets` are the test rows by
    name of the set: aligned, all, and those of each party.
    """

    dataset: Dataset
    deal: Deal
    seed: int
    rows: Tensor
    validation: Tensor
    test_sets: Mapping[str, Tensor]

    @property
    def names(self) -> tuple[str, ...]:
        return self.deal.names

    @property
    def label(self) -> int:
        """The party with the labels."""
        return self.deal.label

    @property
    def others(self) -> tuple[int, ...]:
        """The parties without labels."""
        return tuple(party for party in range(len(self.deal)) if party != self.deal.label)

    @property
    def features(self) -> int:
        """The number of features of all parties and of nobody: the width of the joint input without flags."""
        return int(np.prod(self.dataset.shape, dtype=np.int64))

    @cached_property
    def x(self) -> Tensor:
        """The joint input of all training rows."""
        return self._joint(self.dataset.train.x, self.deal.train)

    @cached_property
    def test_x(self) -> Tensor:
        """The joint input of all test rows."""
        return self._joint(self.dataset.test.x, self.deal.test)

    @cached_property
    def y(self) -> Tensor:
        return torch.from_numpy(self.dataset.train.y)

    @cached_property
    def test_y(self) -> Tensor:
        return torch.from_numpy(self.dataset.test.y)

    @cached_property
    def visitor(self) -> Party:
        """The training rows as those of one party, for the order in which a solver visits them."""
        return Party(0, self.rows, self.validation, self.names[self.label])

    @property
    def evaluation_batch(self) -> int:
        return evaluation_batch(self.features)

    def combined(self) -> "VerticalFederation":
        """Return the federation with all columns at one party, which has every row that somebody has."""
        deal = self.deal
        columns = np.concatenate(deal.columns)
        train, test = (np.atleast_2d(known.any(0)) for known in (deal.train, deal.test))
        joined = replace(
            deal, names=("combined",), columns=(columns,), train=train, test=test, label=0, absent=_padded(deal)
        )
        return _with_padding_of(replace(self, deal=joined), self)

    def solo(self, party: int) -> "VerticalFederation":
        """Return the federation of one party, with its own columns and rows; it is given the labels of its rows."""
        deal = self.deal
        own = replace(
            deal, names=(deal.names[party],), columns=(deal.columns[party],), train=deal.train[party : party + 1],
            test=deal.test[party : party + 1], label=0, absent=_padded(deal),
        )  # fmt: skip
        known = torch.from_numpy(deal.train[party])
        alone = replace(self, deal=own, rows=self.rows[known[self.rows]], validation=self.validation)
        if not len(alone.rows):
            raise PartitionError(
                f"{deal.names[party]} has no training row, so it cannot train by itself: choose another party."
            )
        return alone

    def _joint(self, x: Features, known: NDArray[np.bool_]) -> Tensor:
        dense = _dense(x).reshape(x.shape[0], -1)
        for columns, own in zip(self.deal.columns, known, strict=True):
            if not own.all():
                dense[np.ix_(~own, columns)] = 0
        return torch.from_numpy(np.concatenate([dense, known.T.astype(np.float32)], axis=1))

    def facts(self) -> dict[str, Any]:
        """Return who has what, for run.json."""
        deal = self.deal
        parties = {
            name: {"columns": len(columns), "rows": int(train.sum()), "test_rows": int(test.sum())}
            for name, columns, train, test in zip(deal.names, deal.columns, deal.train, deal.test, strict=True)
        }
        return {
            "parties": parties,
            "label": deal.names[deal.label],
            "absent": deal.absent,
            "rows": len(self.rows) + len(self.validation),
            "aligned": {"train": int(deal.train.all(0).sum()), "test": int(deal.test.all(0).sum())},
            **({"alignment": dict(self.dataset.alignment)} if self.dataset.alignment else {}),
        }


def _padded(deal: Deal) -> Any:
    return "drop" if deal.absent == "drop" else "zeros"


def _with_padding_of(combined: VerticalFederation, parts: VerticalFederation) -> VerticalFederation:
    """Return a combined federation whose joint input has zeros where a party did not have the row."""
    features = parts.features
    for name in ("x", "test_x"):
        rows = getattr(parts, name)
        flags = rows[:, features:].amax(1, keepdim=True)
        vars(combined)[name] = torch.cat([rows[:, :features], flags], dim=1)  # the value of the cached property
    return combined


def _dense(x: Features) -> NDArray[np.float32]:
    """Return features as a new array of floats; bytes are scaled to 0..1."""
    whole = x.toarray() if sparse.issparse(x) else x
    scaled: NDArray[np.float32] = whole.astype(np.float32) / np.float32(255 if whole.dtype == np.uint8 else 1)
    return scaled


def federate_columns(
    dataset: Dataset, spec: str, parties: int | None = None, seed: int = 0, validation: float = 0.0
) -> VerticalFederation:
    """Divide the columns of a dataset among parties by a spec such as ``"columns(by=owner)"``.

    The fraction `validation` of the training rows is held out, unless the dataset itself has validation rows.
    """
    _check(dataset, validation)
    (term,) = bind_sum(spec)
    deal_columns = term.build().deal
    if deal_columns is None:
        raise ConfigError(f"{spec} deals rows, not columns: write columns(...).")
    deal = deal_columns(dataset, parties, stream(seed, "partition"))
    usable = _usable(deal, deal.train)
    if not len(usable):
        raise PartitionError(f"{spec} leaves no training row: let parties have more rows in common, or pad them.")
    held_out = _held_out(usable, dataset, validation, seed)
    rows = np.setdiff1d(usable, held_out, assume_unique=True)
    sets = _test_sets(deal, spec)
    return VerticalFederation(dataset, deal, seed, torch.from_numpy(rows), torch.from_numpy(held_out), sets)


def _check(dataset: Dataset, validation: float) -> None:
    if dataset.task == "verification":
        raise ConfigError(f"{dataset.name} is for verification, which needs whole pictures: use another dataset.")
    if dataset.vocabulary:
        raise ConfigError(f"{dataset.name} has rows of words, which have no columns to divide: use a table.")
    if validation and len(dataset.validation):
        raise ConfigError(
            f"validation = {validation:g} and a split with validation rows were both given: leave out validation, or "
            'the third number of split, as in split = "10:1".'
        )
    numbers = (len(dataset.train) + len(dataset.test)) * int(np.prod(dataset.shape, dtype=np.int64))
    if numbers > _MOST_NUMBERS:
        raise ConfigError(
            f"{dataset.name} has {numbers:.1e} numbers when its rows are dense, which is too much for parties that "
            "hold columns: take fewer rows or columns."
        )


def _usable(deal: Deal, known: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return the rows that every party has, where others are dropped, else those that some party has."""
    return np.flatnonzero(known.all(0) if deal.absent == "drop" else known.any(0))


def _test_sets(deal: Deal, spec: str) -> dict[str, Tensor]:
    sets = {ALIGNED: deal.test.all(0), ALL: deal.test.any(0)}
    sets |= {f"party {name}": own for name, own in zip(deal.names, deal.test, strict=True)}
    if not sets[ALIGNED].any():
        raise PartitionError(
            f"{spec} leaves no test row that every party has, and models are compared on these: let parties have more "
            "rows in common."
        )
    return {name: torch.from_numpy(np.flatnonzero(rows)) for name, rows in sets.items()}


def _held_out(usable: NDArray[np.int64], dataset: Dataset, share: float, seed: int) -> NDArray[np.int64]:
    if len(dataset.validation):
        return np.intersect1d(usable, dataset.validation, assume_unique=True)[: len(usable) - 1]
    if not share:
        return usable[:0]
    order = stream(seed, "validation").permutation(usable)
    return np.sort(order[: min(round(share * len(usable)), len(usable) - 1)])
