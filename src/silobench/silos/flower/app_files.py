"""The Flower app of a consortium: two files of a few lines, and the check that a silo makes before Flower runs it.

An app that Flower brings to a silo is code of somebody else. A silo therefore runs only the app that its own silobench
would write. It compares contents, not the hash of the archive, which depends on the version of zlib.
"""

import io
import tomllib
import zipfile
from pathlib import Path
from typing import Any

_PROJECT = """\
# Written by `silobench silo init`. Silos run no other app than this.
[project]
name = "silobench-consortium"
version = "1.0.0"
description = "Carries letters between the server of a consortium and its silos."
license = "Apache-2.0"
dependencies = []

[tool.flwr.app]
publisher = "silobench"
fab-include = ["client_app.py", "server_app.py"]

[tool.flwr.app.components]
serverapp = "server_app:app"
clientapp = "client_app:app"
"""

APP_FILES = {
    "pyproject.toml": _PROJECT,
    "client_app.py": (
        '"""Forward letters to the process of this silo."""\n\n'
        "from silobench.silos.flower.client_app import client_app\n\n"
        "app = client_app()\n"
    ),
    "server_app.py": (
        '"""Run the rounds of the consortium."""\n\n'
        "from silobench.silos.flower.server_app import server_app\n\n"
        "app = server_app()\n"
    ),
}
_CONFIG, _MANIFEST = "pyproject.toml", ".info/CONTENT"
_LARGEST = 1 << 16  # bytes of a file; ours have a few hundred


def write_app(folder: Path) -> None:
    """Write the files of the Flower app into a folder."""
    for name, content in APP_FILES.items():
        (folder / name).write_text(content, encoding="utf-8")


def fault_of_app(archive: bytes) -> str:
    """Return what is wrong with an app that Flower brings (a FAB, which is a zip archive); "" if nothing is."""
    try:
        with zipfile.ZipFile(io.BytesIO(archive)) as file:
            return _fault(file)
    except Exception:  # zipfile and its decompressors raise many kinds, such as LZMAError
        return "it is not an archive of an app"


def _fault(archive: zipfile.ZipFile) -> str:
    names = archive.namelist()
    if unknown := sorted(set(names) - {*APP_FILES, _MANIFEST}):
        return f"it has a file {unknown[0]}, which the app of silobench does not have"
    if len(names) != len(set(names)) or not set(names) >= set(APP_FILES):
        return "it lacks a file of silobench's app, or has one twice"
    if any(info.file_size > _LARGEST for info in archive.infolist()):
        return "it has a file that is too large"
    for name, content in APP_FILES.items():
        text = archive.read(name).decode()
        same = _settings(text) == _settings(content) if name == _CONFIG else text == content
        if not same:
            return f"its file {name} is not the one that this version of silobench writes"
    return ""


def _settings(text: str) -> dict[str, Any]:
    """Return the settings of a project file, which Flower writes anew and without comments."""
    return tomllib.loads(text)
