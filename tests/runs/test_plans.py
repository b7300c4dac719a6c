"""Plans of a large grid: the same runs as ever, each made when it is asked for."""

import tracemalloc
from typing import Any

import pytest

from silobench.runs import sweep as sweep_module
from silobench.runs.experiment import plan_present
from silobench.runs.grid import expand
from silobench.runs.plan import Binder
from silobench.runs.plans import Plans

SMALL: dict[str, Any] = {
    "dataset": "digits", "model": "linear", "parties": 4, "rounds": 1, "partition": ["iid", "shards"],
    "algorithm": ["fedavg", "scaffold", "fedavg"], "trials": 2,
}  # fmt: skip
LARGE = {**SMALL, "algorithm": ["fedavg", "fednova"], "solver": [f"sgd(lr={lr})" for lr in (0.1, 0.2, 0.3, 0.4, 0.5)]}


def test_cells_by_place_are_those_in_order() -> None:
    grids = {**SMALL, "grid": [{"rounds": [1, 2]}, {"rounds": 3, "seed": [5, 7], "trials": 1}]}
    cells = expand(grids)
    assert [cells[place] for place in range(len(cells))] == list(cells) == cells[:]
    assert cells[-1] == list(cells)[-1]
    assert [list(cell) for cell in cells] == [list(cells[place]) for place in range(len(cells))]
    with pytest.raises(IndexError):
        cells[len(cells)]


def test_plans_by_place_are_those_in_order() -> None:
    plans, _ = plan_present(SMALL)
    assert len(plans) == 2 * 2 * 2  # equal runs count once
    assert [plans[place] for place in range(len(plans))] == list(plans)
    assert [plan.id for plan in plans] == list(plans.ids)
    assert sorted({plan.created for plan in plans}) == [plan.created for plan in plans]
    assert list(plans[2:4]) == list(plans)[2:4]


def test_a_run_comes_after_the_run_it_starts_from() -> None:
    plans, _ = plan_present({**SMALL, "algorithm": "fedavg", "start": ["random", "centralised(rounds=1)"]})
    origins = {plan.origin.id for plan in plans if plan.origin}
    first, second = plans.waves()
    assert origins < set(first.ids)
    assert all(plan.origin for plan in second)
    places = {id: place for place, id in enumerate(plans.ids)}
    assert all(places[plan.origin.id] < places[plan.id] for plan in second if plan.origin)
    (only, *_) = plan_present({**SMALL, "start": "centralised(rounds=1)"}, only="*shards / fedavg*seed 1")
    assert [plan.origin is None for plan in only] == [True, False]


def test_a_large_grid_takes_little_memory_for_each_run() -> None:
    """A bound plan takes about 12 kB. An id, its place and its slots in a dict and a list take less than 500 bytes."""
    plan_present(LARGE)  # imports and caches
    tracemalloc.start()
    few, _ = plan_present(LARGE)
    before, _ = tracemalloc.get_traced_memory()
    many, _ = plan_present({**LARGE, "trials": 100})
    after, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(many) == 2000 == 50 * len(few)
    assert (after - before) / len(many) < 1000
    assert (peak - before) / len(many) < 1500


def test_a_hundred_thousand_runs_are_counted_without_being_made() -> None:
    cells = expand({**LARGE, "trials": 5000})
    assert len(cells) == 100_000
    tracemalloc.start()
    last = cells[99_999]
    assert tracemalloc.get_traced_memory()[1] < 100_000  # bytes
    tracemalloc.stop()
    assert last["seed"] == 4999


def test_each_run_is_bound_once_to_plan_it(monkeypatch: pytest.MonkeyPatch) -> None:
    bound = []
    real = Binder.bind

    def binding(binder: Binder, cell: dict[str, Any]) -> Any:
        bound.append(cell["seed"])
        return real(binder, cell)

    monkeypatch.setattr(Binder, "bind", binding)
    plans, _ = plan_present(LARGE)
    assert len(bound) == len(plans) == 40
    next(iter(plans.of_ids(plans.ids[5:])))
    assert len(bound) == 41


def test_a_sweep_asks_for_some_plans_at_a_time() -> None:
    asked = []

    def plans() -> Any:
        for number in range(3 * sweep_module._AT_ONCE):
            asked.append(number)
            yield number

    batches = sweep_module._batches(plans())
    assert next(batches) == list(range(sweep_module._AT_ONCE))
    assert len(asked) == sweep_module._AT_ONCE
    assert [len(some) for some in batches] == [sweep_module._AT_ONCE] * 2


def test_devices_of_an_experiment() -> None:
    plans, _ = plan_present(SMALL)
    assert isinstance(plans, Plans)
    assert plans.devices == {"cpu"}
