"""The cost model of many parties: its fit, its exact parts, and the page that its tables are written to."""

import importlib.util
import sys
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import silobench as sb
from natives import needs_native

ROOT = Path(__file__).parents[2]
PRICES = {"round": 1e-3, "parties": 2e-9, "cohort": 1e-4, "steps": 3e-5, "training": 2e-10, "messages": 1e-9}
PRICES |= {"test": 4e-10, "memories": 5e-8, "own memories": 7e-5, "rows": 4e-7, "test rows": 1e-7}


@pytest.fixture(scope="module", autouse=True)
def scale() -> Iterator[ModuleType]:
    """The module benchmarks/scale.py, as the command imports it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "benchmarks"))
        spec = importlib.util.spec_from_file_location("scale", ROOT / "benchmarks" / "scale.py")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        yield module
    for name in [name for name in sys.modules if name.partition(".")[0] in ("scaling", "harness")]:
        del sys.modules[name]


def cases() -> list[Any]:
    """Return cases in which every term of a round varies independently of the others."""
    from scaling.model import Case

    return [
        Case(parties, cohort, rows, parameters, batch=batch, tested=tested, vectors=vectors, remembered=remembered)
        for parties, cohort, rows, parameters, batch, tested, (vectors, remembered) in product(
            (100, 1_000, 10_000), (10, 100), (20, 200), (330, 40_000), (10, 50), (0, 2_000), ((1, 0), (2, 100), (2, 10))
        )
    ]


def costs(noise: float = 0.0) -> list[Any]:
    """Return measurements of rounds at known prices, with a relative error."""
    from scaling.model import Fit, Point
    from scaling.terms import COSTS

    terms, draw = COSTS["native round"].terms, np.random.default_rng(0)
    truth = Fit(terms, tuple(PRICES[term.name] for term in terms))
    return [Point("native round", case, truth.cost(case) * (1 + noise * draw.uniform(-1, 1))) for case in cases()]


def prices(points: list[Any]) -> dict[str, float]:
    from scaling.model import fit
    from scaling.terms import COSTS

    result = fit(COSTS["native round"].terms, points)
    return {term.name: price for term, price in zip(result.terms, result.prices, strict=True)}


def test_fit_recovers_the_prices_of_exact_measurements() -> None:
    """The largest and the smallest cost of a term differ by 1e5, and doubles have 16 digits."""
    assert prices(costs()) == pytest.approx(PRICES, rel=1e-8)


def test_fit_recovers_large_prices_of_noisy_measurements() -> None:
    """Errors of 5% of 288 points; a term that is the largest part of some points is known at least that well."""
    from scaling.model import Fit
    from scaling.terms import COSTS

    terms = COSTS["native round"].terms
    truth = Fit(terms, tuple(PRICES[term.name] for term in terms))
    dominant = {max(parts, key=parts.__getitem__) for parts in map(truth.parts, cases())}
    assert dominant >= {"cohort", "training", "steps"}
    result = prices(costs(noise=0.05))
    for name in ("cohort", "training"):
        assert result[name] == pytest.approx(PRICES[name], rel=0.05)


def test_prices_are_never_negative() -> None:
    """A cost that falls with the number of parties cannot be had at a price per party: that is 0, not below."""
    from scaling.model import Case, Point, fit
    from scaling.terms import COSTS

    points = [Point("run.json", Case(parties, 10, 20, 330), 100 / parties) for parties in (1, 10, 100)]
    assert dict(zip(("run", "parties"), fit(COSTS["run.json"].terms, points).prices, strict=True))["parties"] == 0


def test_errors_are_relative() -> None:
    """Of (c / 1 - 1)² + (c / 100 - 1)² the least is at c = 1.01 / 1.0001; absolute errors would give 50.5."""
    from scaling.model import Case, Point, Term, fit

    points = [Point("a cost", Case(10, 10, 20, 330), value) for value in (1.0, 100.0)]
    assert fit([Term("run", "run", lambda case: 1.0)], points).prices == pytest.approx((1.01 / 1.0001,), rel=1e-12)


def test_too_few_measurements_are_refused() -> None:
    from scaling.model import fit
    from scaling.terms import COSTS

    with pytest.raises(ValueError, match="3 measurements cannot determine 11 prices"):
        fit(COSTS["native round"].terms, costs()[:3])


def test_a_fit_of_few_parties_predicts_many() -> None:
    from scaling.model import held_out
    from scaling.terms import COSTS

    fit, others = held_out(COSTS["native round"].terms, costs(), 1_000)
    assert {point.case.parties for point in others} == {10_000}
    assert max(map(abs, fit.errors(others))) < 1e-8


@pytest.mark.parametrize(("algorithm", "vectors"), [(sb.fedavg(), 1), (sb.scaffold(), 2)])
@pytest.mark.parametrize("cohort", [3, 7])
def test_bytes_are_those_of_a_run(algorithm: Any, vectors: int, cohort: int) -> None:
    from scaling.model import Case

    data = sb.load("digits")
    task = sb.task("linear", data)
    method = sb.Method(algorithm, sb.sgd(lr=0.1, epochs=1, batch=32))
    federation = sb.federate(data, "iid", parties=7)
    (record,) = sb.rounds(method, federation, task, rounds=1, participation=cohort)
    case = Case(7, cohort, federation.parties[0].samples, task.network.layout.size, vectors=vectors)
    assert (case.bytes_up, case.bytes_down) == (record.bytes_up, record.bytes_down)


def test_a_round_on_machines_has_the_tasks_of_the_engine() -> None:
    """1,000 small parties are sent in batches; ten large ones one by one, also on more workers."""
    from scaling.cluster import on_workers
    from scaling.model import Case

    small, large = Case(10_000, 1_000, 20, 330), Case(10, 10, 5_000, 62_006)
    assert 4 <= on_workers(small, 4).tasks < 1_000
    assert [on_workers(large, workers).tasks for workers in (1, 4, 200)] == [10, 10, 10]


def test_more_machines_share_only_the_training(scale: ModuleType) -> None:
    from scaling.cluster import Machines, round_on
    from scaling.model import Case

    study, case = scale.read(), Case(1_000, 1_000, 5_000, 62_006)
    one, hundred = (round_on(study, case, Machines(nodes, 2)) for nodes in (1, 100))
    assert one.tasks == hundred.tasks == 1_000
    assert hundred.parallel == pytest.approx(one.parallel / 100, rel=0.01)  # 500 tasks of a worker, or 5
    assert hundred.driver == one.driver
    assert hundred.traffic - one.traffic == 99 * 62_006 * 4


@needs_native
def test_a_run_is_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every cost of one machine is measured, and sizes are those of files."""
    from scaling import points
    from scaling.material import write
    from scaling.terms import COSTS

    monkeypatch.setattr(points, "TURN", 1e-6)
    spec = write(tmp_path, 200, 50)
    job = {"parties": 20, "cohort": 5, "rows": 10, "batch": 5, "model": "linear", "algorithm": "scaffold"}
    whole = {point.cost: point for point in points.whole(spec, {**job, "rounds": 5})}
    rounds = {
        point.cost: point
        for engine in ("native", "inline")
        for point in points.rounds(spec, {**job, "engine": engine, "variants": [{}]})
    }
    others = {point.cost for point in points.whole(spec, {**job, "algorithm": "fedavg", "rounds": 4})}
    assert {*whole, *rounds, *others} == {name for name in COSTS if not name.startswith("ray")}
    assert whole["peak"].value >= whole["resident"].value > 0
    assert rounds["native round"].case.remembered == 20
    remembered = whole["checkpoint"].case.remembered
    assert 5 <= remembered <= 20
    vectors = (2 + remembered) * 330 * 4  # the model, c, and the memory of every party that took part
    assert vectors < whole["checkpoint"].value < vectors + 200 * (remembered + 10)  # names in the header


def test_the_least_of_several_measurements_counts() -> None:
    from scaling.measuring import least

    points = costs()[:2]
    repeated = [*points, *(type(point)(point.cost, point.case, 2 * point.value) for point in points)]
    assert least(repeated[::-1]) == least(repeated)[::-1] == points[::-1]


def test_measurements_are_stored_as_they_are(scale: ModuleType, tmp_path: Path) -> None:
    study = scale.Study({"cpu": "one", "cores": 2}, tuple(costs()[:3]))
    scale.store(study, tmp_path / "points.json")
    assert scale.read(tmp_path / "points.json") == study


def test_the_page_has_the_tables_of_the_stored_measurements(scale: ModuleType) -> None:
    page = (ROOT / "docs" / "scale.md").read_text()
    assert scale.renewed(page, scale.tables(scale.read())) == page


def test_a_table_without_a_place_is_refused(scale: ModuleType) -> None:
    page = "<!-- table: fit -->\nold\n<!-- end -->\n"
    assert scale.renewed(page, {"fit": "new"}) == "<!-- table: fit -->\n\nnew\n\n<!-- end -->\n"
    with pytest.raises(ValueError, match="places for"):
        scale.renewed(page, {"fit": "new", "other": "newer"})
