"""Fixtures of the tests of engines."""

from collections.abc import Iterator

import pytest

from silobench.engines.kernel import build, why_not
from silobench.engines.workers import Workers


@pytest.fixture(scope="module")
def compiler() -> list[str]:
    if why_not():
        pytest.skip(f"no native step, because {why_not()}")
    return build._compiler()


@pytest.fixture
def two() -> Iterator[Workers]:
    workers = Workers(2)
    yield workers
    workers.close()


@pytest.fixture
def one() -> Iterator[Workers]:
    workers = Workers(1)
    yield workers
    workers.close()
