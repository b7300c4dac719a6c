"""Helpers for tests of downloads, fetches and imports: archives, fake package managers, and checks of errors."""

import io
import os
import random
import stat
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from offline import Server, source
from silobench.data.store import download as download_module
from silobench.data.store.catalog import Download, Source
from silobench.data.store.fetch import Step
from silobench.errors import DataError

LARGE = random.Random(0).randbytes(1_500_000)
SMALL = b"1,2,3\n" * 50
OTHER = b"4,5,6\n" * 50


def run(steps: Iterator[Step]) -> list[Step]:
    return list(steps)


def texts(steps: list[Step], kind: str) -> list[str]:
    return [step.text for step in steps if step.kind == kind]


def refusal(steps: Iterator[Any], *told: str) -> str:
    with pytest.raises(DataError) as caught:
        list(steps)
    message = str(caught.value)
    assert "\n" not in message
    assert [part for part in told if part not in message] == [], message
    return message


def visible(root: Path) -> dict[str, bytes]:
    """Files of a dataset, whatever else is there but locks and the manifest."""
    paths = [path for path in root.rglob("*") if path.is_file() and path.name not in (".lock", "manifest.json")]
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in paths}


def each(server: Server, **content: bytes) -> Source:
    """The home page with a download for each file."""
    return source("home", *(Download(what=server.put(name, data), files=(name,)) for name, data in content.items()))


def tgz(content: dict[str, bytes]) -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w:gz") as archive:
        for name, data in content.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return made.getvalue()


def zipped(content: dict[str, bytes]) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        for name, data in content.items():
            archive.writestr(name, data)
    return made.getvalue()


class Fakes:
    """Clients of registries that only copy an archive and write down how they were called."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self.monkeypatch = monkeypatch
        folder.mkdir()
        monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")

    def script(self, name: str, body: str) -> Path:
        path = self.folder / name
        log = self.folder / f"{name}.calls"
        path.write_text(f'#!/bin/sh\nfor a in "$@"; do printf "%s\\n" "$a"; done >> {log}\necho --- >> {log}\n{body}\n')
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        return path

    def gives(self, name: str, archive: bytes, called: str) -> Path:
        (self.folder / f"{name}.archive").write_bytes(archive)
        return self.script(name, f"cp {self.folder}/{name}.archive ./{called}")

    def npm(self, archive: bytes) -> None:
        self.gives("npm", archive, "toy-1.tgz")

    def apt(self, archive: bytes) -> None:
        self.gives("apt-get", archive, "toy_1_all.deb")

    def pip(self, archive: bytes) -> None:
        made = self.gives("python", archive, "toy-1-py3-none-any.whl")
        self.monkeypatch.setattr(download_module, "sys", SimpleNamespace(executable=str(made)))

    def calls(self, name: str) -> list[list[str]]:
        log = self.folder / f"{name}.calls"
        return [part.split() for part in log.read_text().split("---\n")[:-1]] if log.exists() else []


def deb(content: dict[str, bytes]) -> bytes:
    data = tgz({f"./{name}": value for name, value in content.items()})
    return b"!<arch>\n" + f"{'data.tar.gz':<16}{0:<12}{0:<6}{0:<6}{'100644':<8}{len(data):<10}`\n".encode() + data


def leftovers(root: Path) -> list[str]:
    return [name for name in visible(root) if ".part" in name or name.endswith(".new")]
