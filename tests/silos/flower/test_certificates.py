"""Certificates of a consortium, checked by real TLS connections, and its folders."""

import socket
import ssl
import stat
import threading
from pathlib import Path

import pytest

from silobench.data.agreed import Columns, Label
from silobench.data.encoder import NumberColumn
from silobench.errors import ConfigError
from silobench.silos import keys
from silobench.silos.consortium import Consortium
from silobench.silos.flower import certificates, folders
from silobench.silos.flower.folders import Folders
from silobench.silos.flower.starting import check_server

EXPERIMENT = 'model = "linear"\nsolver = "sgd(lr=0.1)"\nrounds = 1\n'
COLUMNS = Columns(Label("answer", ("no", "yes")), (NumberColumn("age"),)).text()


def consortium(root: Path, hosts: tuple[str, ...] = ("127.0.0.1",)) -> Folders:
    """Write a consortium of two silos."""
    silos = {name: keys.new_key(root / "keys" / name) for name in ("north", "south")}
    folders.write_folders(root / "lead", "trial", silos, EXPERIMENT, COLUMNS, hosts)
    return Folders(root / "lead")


class Server:
    """A TLS server on this machine that hangs up after the handshake."""

    def __init__(self, place: Folders):
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(place.private / certificates.SERVER, place.private / certificates.SERVER_KEY)
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._socket.getsockname()[1]}"
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        while True:
            try:
                visitor, _ = self._socket.accept()
            except OSError:
                return
            try:
                self._context.wrap_socket(visitor, server_side=True).close()
            except OSError:
                visitor.close()

    def __enter__(self) -> "Server":
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()


def test_a_silo_accepts_the_server_of_its_consortium_and_no_other(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    place, other = consortium(tmp_path / "a"), consortium(tmp_path / "b")
    with Server(place) as server:
        check_server(server.address, place.shared / certificates.AUTHORITY)
        with pytest.raises(ConfigError, match="not the one of this consortium"):
            check_server(server.address, other.shared / certificates.AUTHORITY)


def test_a_certificate_holds_for_its_hosts_only(tmp_path: Path) -> None:
    place = consortium(tmp_path, ("silos.example.org",))
    context = ssl.create_default_context(cafile=str(place.shared / certificates.AUTHORITY))
    with Server(place) as server:
        host, _, port = server.address.rpartition(":")
        for name in ("silos.example.org", "localhost", "127.0.0.1"):
            with socket.create_connection((host, int(port))) as plain:
                context.wrap_socket(plain, server_hostname=name).close()
        with socket.create_connection((host, int(port))) as plain, pytest.raises(ssl.SSLCertVerificationError):
            context.wrap_socket(plain, server_hostname="evil.example.org")


def test_a_new_certificate_needs_no_new_authority(tmp_path: Path) -> None:
    place = consortium(tmp_path)
    before = (place.private / certificates.SERVER).read_bytes()
    digest = Consortium.read_signed(place.shared).digest
    folders.renew(place, ["127.0.0.1", "new.example.org"])
    assert (place.private / certificates.SERVER).read_bytes() != before
    assert Consortium.read_signed(place.shared).digest == digest
    with Server(place) as server:
        check_server(server.address, place.shared / certificates.AUTHORITY)


def test_secrets_are_for_the_lead_alone_and_not_in_the_shared_folder(tmp_path: Path) -> None:
    place = consortium(tmp_path)
    secrets = ("lead", certificates.SERVER_KEY, certificates.AUTHORITY_KEY)
    assert stat.S_IMODE(place.private.stat().st_mode) == 0o700
    assert all(stat.S_IMODE((place.private / name).stat().st_mode) == 0o600 for name in secrets)
    assert not any(b"PRIVATE" in file.read_bytes() for file in place.shared.iterdir())


@pytest.mark.parametrize("name", ["experiment.toml", "columns.toml", certificates.AUTHORITY, "consortium.toml"])
def test_a_change_of_a_file_breaks_the_signature_until_the_lead_signs_again(tmp_path: Path, name: str) -> None:
    place = consortium(tmp_path)
    digest = Consortium.read_signed(place.shared).digest
    file = place.shared / name
    changed = (
        file.read_text().replace("quorum = 2", "quorum = 1") if name == "consortium.toml" else file.read_text() + "\n"
    )
    file.write_text(changed)
    with pytest.raises(ConfigError, match="ask the lead"):
        Consortium.read_signed(place.shared)
    assert folders.signed_again(place).digest == Consortium.read_signed(place.shared).digest != digest


def test_a_folder_with_files_is_not_used_again(tmp_path: Path) -> None:
    consortium(tmp_path)
    with pytest.raises(ConfigError, match="not empty"):
        folders.write_folders(tmp_path / "lead", "trial", {}, EXPERIMENT, COLUMNS, ["127.0.0.1"])


@pytest.mark.parametrize("host", ["", "a b", "https://x.org", "x.org:9092", "-x.org", "x" * 64, "*.x.org"])
def test_a_host_that_is_none_is_refused_before_anything_is_written(tmp_path: Path, host: str) -> None:
    with pytest.raises(ConfigError, match="host name"):
        consortium(tmp_path, (host,))
    assert not (tmp_path / "lead").exists()
