"""Every block of every page is executed, planned, or listed in `exceptions.py` with a reason."""

from fnmatch import fnmatch
from pathlib import Path

import pytest

from documentation.blocks import blocks_of, pages
from documentation.console import commands_of
from documentation.exceptions import BLOCKS, COMMANDS
from documentation.expected import BEFORE, CHECKS
from documentation.session import Session

PAGES = [page for page in pages() if any(block.language not in ("text",) for block in blocks_of(page))]


@pytest.mark.parametrize("document", PAGES)
def test_a_page_does_what_it_says(
    document: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SILOBENCH_DATA", str(tmp_path / "data"))
    BEFORE.get(document, lambda: None)()
    session = Session(document, capsys)
    outcomes = session.run()
    assert list(outcomes) == blocks_of(document)
    assert all(outcomes.values())
    CHECKS.get(document, lambda session: None)(session)


def test_every_exception_is_needed() -> None:
    """A line of the list that matches nothing would hide the next command that it happens to match."""
    shown = [
        (page, command.text)
        for page in pages()
        for block in blocks_of(page)
        if block.language == "console"
        for command in commands_of(block.text)
    ]
    for rule in COMMANDS:
        assert any(fnmatch(page, rule.pages) and fnmatch(text, rule.command) for page, text in shown), rule
    assert set(BLOCKS) | set(CHECKS) | set(BEFORE) <= set(pages())
