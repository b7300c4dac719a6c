"""Tables of every regime, as benchmarks/advice.py draws them: the right skew is named, also from private profiles."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from scipy import stats

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "advice.py"
DRAWS = 3  # tables of each regime
SEED = 5000


@pytest.fixture(scope="module")
def benchmark_module() -> ModuleType:
    spec = importlib.util.spec_from_file_location("advice_benchmark", BENCHMARK)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_most_tables_are_understood(benchmark_module: ModuleType, tmp_path: Path) -> None:
    """Of 15 tables, so few errors that rates of 5% (exact) and 15% (private) are not refuted at 1 in 1,000."""
    wrong = {"exact": 0, "private": 0}
    for place, name in enumerate(benchmark_module.REGIMES):
        for number in range(DRAWS):
            key = SEED + place * DRAWS + number
            one = benchmark_module.draw(name, np.random.default_rng(key), 1000)
            path = tmp_path / "table.csv"
            one.table.to_csv(path, index=False)
            wrong["exact"] += benchmark_module.exact_answer(path) != name
            wrong["private"] += benchmark_module.private_answer(path, one.table, 1.0, key) != name
    tables = DRAWS * len(benchmark_module.REGIMES)
    assert wrong["exact"] <= stats.binom.isf(1e-3, tables, 0.05)
    assert wrong["private"] <= stats.binom.isf(1e-3, tables, 0.15)
