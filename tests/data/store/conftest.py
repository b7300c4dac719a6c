"""Fixtures of the store's tests: a web server, a data directory, and fake package managers."""

import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from fetching import Fakes

from offline import Server
from silobench.data.store import download as download_module


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server()
    yield made
    made.close()


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The data directory; no proxy, and no long sleeps between tries."""
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.setenv("SILOBENCH_DATA", str(tmp_path / "data"))
    quick = SimpleNamespace(sleep=lambda seconds: time.sleep(min(seconds, 0.01)), monotonic=time.monotonic)
    monkeypatch.setattr(download_module, "time", quick)
    return tmp_path / "data"


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Fakes:
    return Fakes(tmp_path / "bin", monkeypatch)
