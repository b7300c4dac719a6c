"""Source archives: found on pip's index, taken as files, never built."""

import os
from pathlib import Path

import pytest
from fetching import OTHER, SMALL, refusal, run, tgz, visible, zipped

from offline import Server, entry, source, status, sum_of
from silobench.data.store import sdists
from silobench.data.store.catalog import Download, Entry
from silobench.data.store.directory import home_of
from silobench.data.store.fetch import fetch
from silobench.errors import DataError

pytestmark = pytest.mark.usefixtures("place")


def index(server: Server, archive: bytes, *more: str) -> str:
    """Serve an index with a page of the package my-toy; return the index's address."""
    server.put("files/My_Toy-1.0.tar.gz", archive)
    links = ("../../files/my_toy-1.0-py3-none-any.whl", "../../files/my_toy-1.0.1.tar.gz", *more)
    anchors = "".join(f'<a href="{link}">file</a><br/>\n' for link in links)
    server.put("simple/my-toy/", f"<!DOCTYPE html><html><body>{anchors}</body></html>".encode())
    return f"{server.address}/simple"


def toy(archive: bytes, inside: str = "my_toy-1.0/data/") -> Entry:
    download = Download(what="My_Toy==1.0", sdist=True, sha256=sum_of(archive), inside=inside)
    return entry(files={"a.csv": SMALL}, sources=(source("pip", download),))


def settings(monkeypatch: pytest.MonkeyPatch, *lines: str, default: str = "") -> None:
    """Let pip have these settings, and this index built in."""
    monkeypatch.setattr(sdists, "_pip", lambda *command: "\n".join(lines) if "config" in command else f"{default}\n")


def test_a_file_is_taken_out_of_an_sdist_that_is_never_run(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mark = tmp_path / "executed"
    evil = f"open({str(mark)!r}, 'w')".encode()
    archive = tgz({"my_toy-1.0/setup.py": evil, "my_toy-1.0/pyproject.toml": evil, "my_toy-1.0/data/a.csv": SMALL})
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_INDEX_URL", index(server, archive, "/files/My_Toy-1.0.tar.gz#sha256=00"))
    run(fetch(toy(archive), "pip"))  # the real pip gives its settings
    assert visible(home_of(toy(archive))) == {"a.csv": SMALL}
    assert not mark.exists()


@pytest.mark.parametrize("pack", [tgz, zipped])
def test_a_file_of_an_archive_in_an_sdist(server: Server, monkeypatch: pytest.MonkeyPatch, pack: type) -> None:
    inner = pack({"rows/b.csv": OTHER, "rows/a.csv": SMALL})
    archive = tgz({"my_toy-1.0/setup.py": b"", "my_toy-1.0/all.pack": inner, "my_toy-1.0/a.csv": OTHER})
    settings(monkeypatch, default=index(server, archive, "../../files/My_Toy-1.0.tar.gz"))
    run(fetch(toy(archive, "my_toy-1.0/all.pack!/rows/")))
    assert visible(home_of(toy(archive))) == {"a.csv": SMALL}


def test_an_archive_in_an_sdist_without_the_file_is_refused(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = tgz({"my_toy-1.0/all.pack": tgz({"rows/b.csv": OTHER})})
    settings(monkeypatch, default=index(server, archive, "../../files/My_Toy-1.0.tar.gz"))
    refusal(fetch(toy(archive, "my_toy-1.0/all.pack!/rows/")), "has no member my_toy-1.0/all.pack!/rows/a.csv")
    assert visible(home_of(toy(archive))) == {}


def test_another_archive_of_the_same_name_is_refused(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    settings(monkeypatch, default=index(server, tgz({"my_toy-1.0/data/a.csv": SMALL}), "/files/My_Toy-1.0.tar.gz"))
    refusal(fetch(toy(tgz({"other": SMALL}))), "My_Toy==1.0 has the sha256", "is another file, or damaged")


def test_an_index_without_that_version_says_so(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    settings(monkeypatch, default=index(server, b""))
    refusal(
        fetch(toy(b"")), "My_Toy==1.0", "no source archive of that version among its 2 links", "download it by hand"
    )


def test_settings_of_the_command_and_the_environment_come_before_others(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = (
        "global.index-url='https://global.invalid/simple'",
        ":env:.index-url='https://env.invalid/simple'",
        "install.index-url='https://install.invalid/simple'",
        "global.extra-index-url='https://more.invalid/a/ file:///somewhere'",
    )
    settings(monkeypatch, *lines)
    assert sdists._indexes() == ["https://env.invalid/simple", "https://more.invalid/a/"]
    settings(monkeypatch, lines[0], "download.index-url='https://download.invalid/simple'")
    assert sdists._indexes() == ["https://download.invalid/simple"]
    settings(monkeypatch, default="https://built-in.invalid/simple")
    assert sdists._indexes() == ["https://built-in.invalid/simple"]
    settings(monkeypatch, "global.no-index='true'")
    with pytest.raises(DataError, match="use no index"):
        sdists._indexes()


def test_a_password_of_the_index_is_not_shown(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    server.put("simple/my-toy/", b"", status(401))
    settings(monkeypatch, f"global.index-url='{server.address.replace('//', '//user:secret@')}/simple'")
    assert "secret" not in refusal(fetch(toy(b"")), "simple/my-toy/", "401")


def test_a_second_index_is_asked_if_the_first_fails(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = tgz({"my_toy-1.0/data/a.csv": SMALL})
    first, second = f"{server.address}/nothing", index(server, archive, "/files/My_Toy-1.0.tar.gz")
    settings(monkeypatch, f"global.index-url='{first}'", f"global.extra-index-url='{second}'")
    run(fetch(toy(archive)))
    assert visible(home_of(toy(archive))) == {"a.csv": SMALL}


def test_a_python_without_pip_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sdists.sys, "executable", str(tmp_path / "nothing"))
    with pytest.raises(DataError, match="pip does not work on this machine"):
        sdists.sdist_address("toy==1.0")
