"""`VerticalFederation`: a dataset whose columns are divided among parties, one of which has the labels.

All parties are in one array: the joint input of a row is its features, then a flag for each party that is 1 if the
party has the row. A network takes from it what a party may see.
"""

from collections.abc import Callable, Mapping
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
from silobench.partitions import Absent, Deal, bind_sum
from silobench.partitions.columns import source_columns
from silobench.rng import stream
from silobench.spec.arguments import need_share, parties_of, seed_of
from silobench.spec.registry import need_part

ALIGNED, ALL = "aligned", "all"  # sets of test rows: those that every party has, and those that any party has
_MOST_NUMBERS = 2 << 30  # in dense arrays, of training and test rows together


@dataclass(frozen=True)
class VerticalFederation:
    """Parties that hold columns of the same rows.

    `rows` are the training rows, and `validation` those that are held out of them. `test_sets` are the test rows by
    name of the set: aligned, all, and those of each party. `padding` says which columns of a row are zeros: those of
    parties that do not have it. It is `deal`, except for a baseline, whose deal has one party; `first` is then the
    number of this party in the whole federation.
    """

    dataset: Dataset
    deal: Deal
    seed: int
    rows: Tensor
    validation: Tensor
    test_sets: Mapping[str, Tensor]
    padding: Deal
    first: int = 0

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
        return self._joint(self.dataset.train.x, self.padding.train, self.deal.train)

    @cached_property
    def test_x(self) -> Tensor:
        """The joint input of all test rows."""
        return self._joint(self.dataset.test.x, self.padding.test, self.deal.test)

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
        """Return the federation with all columns at one party, which has every row that some party has."""
        deal = self.deal
        train, test = (np.atleast_2d(known.any(0)) for known in (deal.train, deal.test))
        return replace(self, deal=_alone(deal, "combined", np.concatenate(deal.columns), train, test))

    def solo(self, party: int) -> "VerticalFederation":
        """Return the federation of one party, with its own columns and rows; it is given the labels of its rows."""
        deal = self.deal
        train, test = deal.train[[party]], deal.test[[party]]
        known = torch.from_numpy(train[0])
        rows, validation = (each[known[each]] for each in (self.rows, self.validation))
        if not len(rows):
            raise PartitionError(
                f"{deal.names[party]} has no training row, so it cannot train by itself: choose another party."
            )
        single = _alone(deal, deal.names[party], deal.columns[party], train, test)
        return replace(self, deal=single, rows=rows, validation=validation, first=party)

    def _joint(self, x: Features, padding: NDArray[np.bool_], known: NDArray[np.bool_]) -> Tensor:
        """Return features, with zeros for those of parties in `padding` without the row, and then the flags `known`."""
        joint = np.empty((x.shape[0], self.features + len(known)), dtype=np.float32)
        dense = joint[:, : self.features]
        dense[:] = (x.toarray() if sparse.issparse(x) else x).reshape(len(joint), -1)
        if x.dtype == np.uint8:
            dense /= 255
        for columns, present in zip(self.padding.columns, padding, strict=True):
            if not present.all():
                dense[np.ix_(~present, columns)] = 0
        joint[:, self.features :] = known.T
        return torch.from_numpy(joint)

    def facts(self) -> dict[str, Any]:
        """Return who has what, for run.json: `columns` are those of the source table, which become `features`."""
        deal = self.deal
        columns = source_columns(self.dataset, deal.columns)
        parties = {
            name: {
                "columns": columns[party],
                "features": len(deal.columns[party]),
                "rows": int(deal.train[party].sum()),
                "test_rows": int(deal.test[party].sum()),
            }
            for party, name in enumerate(deal.names)
        }
        return {
            "parties": parties,
            "label": deal.names[deal.label],
            "absent": deal.absent,
            "rows": len(self.rows) + len(self.validation),
            "aligned": {"train": int(deal.train.all(0).sum()), "test": int(deal.test.all(0).sum())},
            **({"alignment": dict(self.dataset.alignment)} if self.dataset.alignment else {}),
        }


def _alone(
    deal: Deal, name: str, columns: NDArray[np.int64], train: NDArray[np.bool_], test: NDArray[np.bool_]
) -> Deal:
    """Return the deal of one party. A row that it does not have is zeros: it has nothing to learn from an absence."""
    absent: Absent = "drop" if deal.absent == "drop" else "zeros"
    return replace(deal, names=(name,), columns=(columns,), train=train, test=test, label=0, absent=absent)


def federate_columns(
    dataset: Dataset, spec: str, parties: int | None = None, seed: int = 0, validation: float = 0.0
) -> VerticalFederation:
    """Divide the columns of a dataset among parties by a spec such as ``"columns(by=owner)"``.

    The fraction `validation` of the training rows is held out, unless the dataset itself has validation rows.
    """
    need_part(dataset, Dataset, "the dataset of a federation", "sb.federate_columns(sb.load('digits'), 'columns')")
    parties, seed = parties_of(parties), seed_of(seed)
    _check(dataset, validation)
    deal = _dealer(spec)(dataset, parties, stream(seed, "partition"))
    usable = np.flatnonzero(deal.train.all(0) if deal.absent == "drop" else deal.train.any(0))
    if not len(usable):
        raise PartitionError(f"{spec} leaves no training row: let parties have more rows in common, or pad them.")
    held_out = _held_out(usable, dataset, validation, seed)
    rows = np.setdiff1d(usable, held_out, assume_unique=True)
    sets = _test_sets(deal, spec)
    return VerticalFederation(dataset, deal, seed, torch.from_numpy(rows), torch.from_numpy(held_out), sets, deal)


def _dealer(spec: str) -> Callable[[Dataset, int | None, np.random.Generator], Deal]:
    """Return the function of a partition that deals columns; refuse other partitions, and sums."""
    terms = bind_sum(spec)
    deal = terms[0].build().deal
    if len(terms) > 1:
        raise ConfigError(f"{spec} is a sum, but a partition that deals columns cannot be added to another: keep one.")
    if deal is None:
        raise ConfigError(f"{spec} deals rows, but columns are needed here: write columns(...).")
    return deal


def _check(dataset: Dataset, validation: float) -> None:
    need_share(validation, "validation")
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


def _test_sets(deal: Deal, spec: str) -> dict[str, Tensor]:
    sets = {ALIGNED: deal.test.all(0), ALL: deal.test.any(0)}
    sets |= {f"party {name}": rows for name, rows in zip(deal.names, deal.test, strict=True)}
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
