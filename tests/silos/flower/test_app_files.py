"""A silo runs no app of Flower except the one that silobench writes."""

import io
import zipfile
from collections.abc import Mapping

import pytest

from silobench.silos.flower.app_files import APP_FILES, fault_of_app

_MANIFEST = {".info/CONTENT": "pyproject.toml,00,8"}


def archive(files: Mapping[str, str], *twice: tuple[str, str], way: int = zipfile.ZIP_DEFLATED) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", way) as file:
        for name, text in (*files.items(), *twice):
            file.writestr(name, text)
    return content.getvalue()


def test_the_app_is_accepted_and_comments_of_its_settings_do_not_count() -> None:
    plain = "\n".join(line for line in APP_FILES["pyproject.toml"].splitlines() if not line.startswith("#"))
    assert fault_of_app(archive({**APP_FILES, **_MANIFEST})) == ""
    assert fault_of_app(archive({**APP_FILES, "pyproject.toml": plain})) == ""


@pytest.mark.parametrize("name", APP_FILES)
def test_a_changed_file_is_refused(name: str) -> None:
    changed = APP_FILES[name].replace("silobench", "silobenсh")  # with a Cyrillic letter
    assert name in fault_of_app(archive({**APP_FILES, name: changed}))


@pytest.mark.parametrize("name", APP_FILES)
def test_a_missing_file_is_refused(name: str) -> None:
    assert fault_of_app(archive({other: text for other, text in APP_FILES.items() if other != name}))


@pytest.mark.parametrize("name", ["evil.py", "../evil.py", "silobench/__init__.py", "sitecustomize.py", ".info/CODE"])
def test_a_further_file_is_refused(name: str) -> None:
    assert name in fault_of_app(archive({**APP_FILES, name: "print(1)"}))


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_a_second_file_of_the_same_name_is_refused() -> None:
    assert "twice" in fault_of_app(archive(APP_FILES, ("client_app.py", "print(1)")))


def test_other_settings_are_refused() -> None:
    settings = APP_FILES["pyproject.toml"].replace("dependencies = []", 'dependencies = ["evil"]')
    assert "pyproject.toml" in fault_of_app(archive({**APP_FILES, "pyproject.toml": settings}))


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04", b"x" * 1000])
def test_bytes_that_are_no_archive_are_refused(content: bytes) -> None:
    assert "not an archive" in fault_of_app(content)


def test_a_damaged_archive_is_refused() -> None:
    content = archive(APP_FILES)
    start = content.index(b"pyproject.toml") + len("pyproject.toml")
    for place in range(start, content.index(b"PK", start) - 1):  # compressed bytes; the last one may be padding
        changed = bytes(each ^ 0xFF for each in content[place : place + 1])
        assert fault_of_app(content[:place] + changed + content[place + 1 :])


@pytest.mark.parametrize("way", [zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2])
def test_damage_that_another_decompressor_finds_is_refused_too(way: int) -> None:
    content = bytearray(archive({name: 3 * text for name, text in APP_FILES.items()}, way=way))
    start = content.index(b"pyproject.toml") + len("pyproject.toml") + 12
    content[start : start + 28] = bytes(each ^ 0x5A for each in content[start : start + 28])
    assert "not an archive" in fault_of_app(bytes(content))


def test_a_bomb_is_not_unpacked() -> None:
    assert "too large" in fault_of_app(archive({**APP_FILES, "client_app.py": " " * (1 << 22)}))
