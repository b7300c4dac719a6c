"""The runs of an experiment as a sequence of plans, each bound when it is asked for.

A plan has a dozen texts and takes twelve kilobytes; what a large grid keeps of each run is its id and its place.
"""

import functools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any, overload

from silobench.runs.label import Differences
from silobench.runs.notices import reported
from silobench.runs.plan import Binder, Plan, adds_noise

_ALWAYS_SHOWN = ("dataset", "partition", "algorithm")


@dataclass(frozen=True)
class _Place:
    """Where a run is in its experiment: the cell that it is of, or that it is made for, before that cell's run."""

    __slots__ = ("cell", "has_origin", "is_origin", "number")

    number: int  # in the order of runs
    cell: int
    is_origin: bool
    has_origin: bool


@dataclass
class _Survey:
    """What one look at every run of an experiment tells about all of them."""

    places: dict[str, _Place] = field(default_factory=dict)  # by id, in the order of runs
    differences: Differences = field(default_factory=Differences)
    private: Counter[str] = field(default_factory=Counter)  # private runs by the checksum of their data
    devices: set[str] = field(default_factory=set)
    now: datetime = field(default_factory=lambda: datetime.now(UTC))

    def add(self, plan: Plan, cell: int, is_private: Callable[[str, str], bool], *, is_origin: bool) -> None:
        """Add a run, unless it was added before."""
        if plan.id in self.places:
            return
        self.places[plan.id] = _Place(len(self.places), cell, is_origin, plan.origin is not None)
        self.differences.add(plan.label)
        self.devices.add(plan.cell.device)
        if is_private(plan.cell.solver, plan.cell.transforms):
            self.private[plan.config["checksum"]] += 1


class Plans(Sequence[Plan]):
    """Plans in the order of an experiment, each run once and after the run whose model it starts from."""

    def __init__(self, cells: Sequence[Mapping[str, Any]], binder: Binder) -> None:
        self._cells, self._binder = cells, binder
        self._is_private = functools.cache(adds_noise)  # plans of a large grid share most of their texts
        self._survey = _Survey()
        for place, cell in enumerate(reported(cells, "planning")):
            plan = binder.bind(cell)
            if plan.origin:
                self._survey.add(plan.origin, place, self._is_private, is_origin=True)
            self._survey.add(plan, place, self._is_private, is_origin=False)
        self._shown = (*_ALWAYS_SHOWN, *self._survey.differences.names(but=(*_ALWAYS_SHOWN, "seed")))
        self.ids: Sequence[str] = list(self._survey.places)

    @property
    def devices(self) -> frozenset[str]:
        """The devices of all runs of the experiment."""
        return frozenset(self._survey.devices)

    def of_ids(self, ids: Iterable[str]) -> "Plans":
        """Return the plans of some runs, in the order of their ids."""
        part = object.__new__(Plans)
        part.__dict__ |= {**self.__dict__, "ids": list(ids)}
        return part

    def notes(self) -> list[str]:
        """Return a note about each dataset whose groups are not used, because nobody has chosen a partition."""
        places = dict.fromkeys(self._survey.places[id].cell for id in self.ids)
        cells = (self._cells[place] for place in places)
        datasets = dict.fromkeys(str(cell["dataset"]) for cell in cells if "partition" not in cell)
        return [
            f"{data.name} has groups ({', '.join(data.groups)}), but the partition is iid: write partition = "
            '"by-group" to make each group a party.'
            for data in map(self._binder.data, datasets)
            if data.groups and "partition" not in data.defaults
        ]

    def waves(self) -> "tuple[Plans, Plans]":
        """Return the plans that start from no other run of the experiment, and those that do."""
        places = self._survey.places
        return (
            self.of_ids(id for id in self.ids if not places[id].has_origin),
            self.of_ids(id for id in self.ids if places[id].has_origin),
        )

    def with_origins(self) -> "Plans":
        """Return these plans and those whose models they start from, in the order of the experiment."""
        places = self._survey.places
        ids = set(self.ids) | {plan.origin.id for plan in self.waves()[1] if plan.origin}
        return self.of_ids(sorted(ids, key=lambda id: places[id].number))

    def __len__(self) -> int:
        return len(self.ids)

    @overload
    def __getitem__(self, place: int) -> Plan: ...

    @overload
    def __getitem__(self, place: slice) -> "Plans": ...

    def __getitem__(self, place: int | slice) -> "Plan | Plans":
        return self.of_ids(self.ids[place]) if isinstance(place, slice) else self._plan(self.ids[place])

    def __iter__(self) -> Iterator[Plan]:
        return map(self._plan, self.ids)

    def _plan(self, id: str) -> Plan:
        place = self._survey.places[id]
        bound = self._binder.bind(self._cells[place.cell])
        plan = bound.origin if place.is_origin and bound.origin else bound
        is_private = self._is_private(plan.cell.solver, plan.cell.transforms)
        created = self._survey.now + timedelta(microseconds=place.number)
        return replace(
            plan,
            private_runs=self._survey.private[plan.config["checksum"]] if is_private else 0,
            shown=self._shown,
            created=created.isoformat(timespec="microseconds"),
        )


def waves(plans: Sequence[Plan]) -> tuple[Sequence[Plan], Sequence[Plan]]:
    """Return the plans that start from no other run of the experiment, and those that do."""
    if isinstance(plans, Plans):
        return plans.waves()
    return [plan for plan in plans if plan.origin is None], [plan for plan in plans if plan.origin]


def devices_of(plans: Sequence[Plan]) -> frozenset[str]:
    """Return the devices of plans; of an experiment, those of all its runs."""
    return plans.devices if isinstance(plans, Plans) else frozenset(plan.cell.device for plan in plans)


def ids_of(plans: Sequence[Plan]) -> list[str]:
    """Return the ids of plans."""
    return list(plans.ids) if isinstance(plans, Plans) else [plan.id for plan in plans]


def some_of(plans: Sequence[Plan], ids: Iterable[str]) -> Sequence[Plan]:
    """Return the plans with these ids, in the order of the ids."""
    if isinstance(plans, Plans):
        return plans.of_ids(ids)
    by_id = {plan.id: plan for plan in plans}
    return [by_id[id] for id in ids]
