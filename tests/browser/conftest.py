"""A browser, the pages of a study, and a page that notices every error and every request."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from chromium import MISSING, executable, launch_options
from playwright.sync_api import BrowserContext, Page, expect
from study import write_study

from silobench.cli.report import write_report
from silobench.runs.results import read_results

FOLDER = Path(__file__).parent
PATIENCE = 120_000  # milliseconds: more than anything takes on a busy machine, so that it only ends what hangs
expect.set_options(timeout=PATIENCE)
# pytest-playwright has a session fixture of a form that pytest will stop to support.
OUTDATED = "ignore:Session-scoped fixtures defined as instance methods:pytest.PytestRemovedIn10Warning"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip the tests of this folder where there is no browser, and ignore one warning of a plugin in them."""
    for item in items:
        if item.path.is_relative_to(FOLDER):
            item.add_marker(pytest.mark.filterwarnings(OUTDATED))
            if executable() is None:
                item.add_marker(pytest.mark.skip(reason=MISSING))


@pytest.fixture(scope="session")
def browser_type_launch_args() -> dict[str, Any]:
    return launch_options()


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of the study."""
    return write_study(tmp_path_factory.mktemp("study") / "a study")


@pytest.fixture(scope="session")
def site(runs: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the report, opened from disk as a reader does."""
    return write_report(read_results(runs), tmp_path_factory.mktemp("pages") / "site", "a study").parent


@pytest.fixture(scope="session")
def alone(runs: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report as one file."""
    return write_report(read_results(runs), tmp_path_factory.mktemp("alone") / "study.html", "a study")


@pytest.fixture
def context(context: BrowserContext) -> BrowserContext:
    context.set_default_timeout(PATIENCE)
    return context


@pytest.fixture
def page(page: Page) -> Iterator[Page]:
    """A page that may print nothing to the console, open no dialog, and ask nobody but the disk or its own server."""
    troubles: list[str] = []
    page.on("console", lambda message: troubles.append(f"console: {message.text}"))
    page.on("pageerror", lambda error: troubles.append(f"error: {error}"))
    page.on("dialog", lambda dialog: (troubles.append(f"dialog: {dialog.message}"), dialog.dismiss()))
    page.on("requestfailed", lambda request: troubles.append(f"failed: {request.url}"))
    page.on("request", lambda request: troubles.append(f"request: {request.url}") if is_foreign(request.url) else None)
    yield page
    assert troubles == []


def is_foreign(url: str) -> bool:
    return not url.startswith(("file://", "http://127.0.0.1:", "data:"))
