"""Keys and memories: private from their first byte on, whatever the umask is; refused where others can read them."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from silobench.atomic import replace_atomically
from silobench.errors import ConfigError
from silobench.safety import private_files
from silobench.safety.private_files import is_own, need_private, write_private
from silobench.silos import keys
from silobench.silos.flower.folders import Folders, write_silo
from silobench.silos.store import Drawer

pytestmark = pytest.mark.skipif(os.name != "posix", reason="other systems have no modes of files")


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture(params=[0o000, 0o022, 0o077], ids=["open umask", "usual umask", "tight umask"])
def umask(request: pytest.FixtureRequest) -> Iterator[None]:
    before = os.umask(request.param)
    yield
    os.umask(before)


@pytest.fixture
def modes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The modes that files have at the moment when they are created, before anything is written to them."""
    seen: list[int] = []
    opened = private_files.opened_privately

    def noted(path: str, flags: int) -> int:
        descriptor = opened(path, flags)
        seen.append(stat.S_IMODE(os.fstat(descriptor).st_mode))
        return descriptor

    for module in ("silobench.safety.private_files", "silobench.atomic"):
        monkeypatch.setattr(f"{module}.opened_privately", noted)
    return seen


@pytest.mark.usefixtures("umask")
def test_files_are_private_from_their_first_byte_on(tmp_path: Path, modes: list[int]) -> None:
    keys.new_key(tmp_path / "new" / "key")
    Drawer.open(tmp_path / "drawer").put("memory", b"secret")
    (tmp_path / "t.csv").write_text("x,y\n1,a\n")
    write_silo(tmp_path / "silo", "north", str(tmp_path / "t.csv"))
    files = [tmp_path / "new" / "key", tmp_path / "drawer" / "memory", tmp_path / "silo" / "key"]
    assert [mode(file) for file in files] == [0o600] * 3
    assert [mode(file.parent) for file in files] == [0o700] * 3
    assert modes == [0o600] * 3  # not only afterwards


def test_a_file_that_a_crash_left_is_not_used_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "memory.new").write_bytes(b"left")
    (tmp_path / "memory.new").chmod(0o644)
    Drawer.open(tmp_path).put("memory", b"secret")
    assert mode(tmp_path / "memory") == 0o600


def test_a_new_secret_replaces_nothing(tmp_path: Path) -> None:
    write_private(tmp_path / "key", b"first")
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    for name in ("key", "link"):
        with pytest.raises(FileExistsError):
            write_private(tmp_path / name, b"second")
    assert (tmp_path / "key").read_bytes() == b"first"
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.parametrize("wide", [0o640, 0o604, 0o660, 0o601, 0o777])
def test_a_key_that_others_can_use_is_refused(wide: int, tmp_path: Path) -> None:
    keys.new_key(tmp_path / "key")
    (tmp_path / "key").chmod(wide)
    for use in (lambda: keys.public_line(tmp_path / "key"), lambda: keys.signed(tmp_path / "key", "test", b"x")):
        with pytest.raises(ConfigError, match=r"can be used by others on this machine: run `chmod 600 "):
            use()
    (tmp_path / "key").chmod(0o400)
    assert keys.signed(tmp_path / "key", "test", b"x")


def test_the_folder_of_a_lead_is_refused_where_others_can_enter_it(tmp_path: Path) -> None:
    folders = Folders(tmp_path)
    folders.private.mkdir(mode=0o700)
    keys.new_key(folders.lead_key)
    assert folders.checked() is folders
    folders.private.chmod(0o750)
    with pytest.raises(ConfigError, match=r"the lead's folder of keys .* run `chmod 700 "):
        folders.checked()


def test_a_token_that_others_can_read_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from silobench.engines.cluster import connection

    monkeypatch.setenv("RAY_AUTH_TOKEN_PATH", str(tmp_path / "ray" / "token"))
    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    monkeypatch.delenv("RAY_AUTH_TOKEN", raising=False)
    connection._need_token(connection.LOCAL)
    token = tmp_path / "ray" / "token"
    assert (mode(token), mode(token.parent), len(token.read_text())) == (0o600, 0o700, 64)
    connection._need_token("10.0.0.1:6379")  # it is there and private
    token.chmod(0o644)
    with pytest.raises(ConfigError, match=r"the file of Ray's token .* can be used by others"):
        connection._need_token("10.0.0.1:6379")


def test_a_library_that_others_can_write_is_not_loaded(tmp_path: Path) -> None:
    from silobench.engines.kernel import build

    folder = tmp_path / "kernels"
    folder.mkdir()
    assert is_own(folder)
    folder.chmod(0o777)
    assert not is_own(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SILOBENCH_KERNELS", str(folder))
        try:
            command = build._compiler()
        except build.NoNativeError:
            pytest.skip("there is no compiler")
        patch.setattr(build, "_build", lambda *_: pytest.fail("its self-test would load what a stranger wrote"))
        with pytest.raises(build.NoNativeError, match=f"others can write to {folder}"):
            build._built()
        patch.setattr(build, "_is_whole", lambda path: path.write_bytes(b"whatever a stranger wrote") > 0)
        with pytest.raises(build.NoNativeError, match=f"others can write to {folder}"):
            build._built()
        assert command


def test_public_files_keep_the_usual_mode(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        replace_atomically(tmp_path / "run.json", b"{}")
    finally:
        os.umask(before)
    assert mode(tmp_path / "run.json") == 0o644
    with pytest.raises(ConfigError, match="the record "):
        need_private(tmp_path / "run.json", "the record")


def test_a_user_without_a_home_loads_no_library_from_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody else may have made that directory, and sent it."""
    from silobench.engines.kernel import build

    def no_home(*_: object) -> Path:
        raise RuntimeError

    monkeypatch.setattr("platformdirs.user_cache_path", no_home)
    monkeypatch.delenv("SILOBENCH_KERNELS", raising=False)
    monkeypatch.chdir(tmp_path)
    assert not build._folder().is_relative_to(tmp_path)
