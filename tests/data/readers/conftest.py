"""Fixtures of the readers' tests."""

from pathlib import Path

import pytest
from table_files import Contents, Make, located

from silobench.data.store.directory import Files


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Make:
    """(form, {name: content}) -> those files, as a catalogue entry would have them."""
    monkeypatch.setenv("SILOBENCH_DATA", str(tmp_path))

    def files(form: str, contents: Contents, name: str = "made") -> Files:
        for file, content in contents.items():
            (tmp_path / file).write_bytes(content if isinstance(content, bytes) else content.encode())
        return located(tmp_path, form, *contents, name=name)

    return files
