"""The folders of a consortium: one that the lead and all silos have, and one with the lead's secrets."""

import hashlib
import ipaddress
import re
import tempfile
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from silobench.atomic import replace_atomically
from silobench.data.agreed.sources import source_of
from silobench.errors import ConfigError
from silobench.safety.private_files import FOLDER_MODE, need_private
from silobench.silos import keys
from silobench.silos.consortium import Consortium, is_name, sign, write_consortium
from silobench.silos.flower import certificates
from silobench.silos.flower.app_files import write_app
from silobench.silos.silo_file import write_silo_file

_LOOPBACK = ("localhost", "127.0.0.1")  # the server's own programs connect there
_HOST = re.compile(r"(?!-)[A-Za-z0-9-]{1,63}(?<!-)(\.(?!-)[A-Za-z0-9-]{1,63}(?<!-))*")


@dataclass(frozen=True)
class Folders:
    """Where the files of a lead are: `shared` goes to every silo, `private` to nobody."""

    root: Path

    @property
    def shared(self) -> Path:
        return self.root / "consortium"

    @property
    def private(self) -> Path:
        return self.root / "private"

    @property
    def lead_key(self) -> Path:
        return self.private / "lead"

    def checked(self) -> "Folders":
        """Return these folders if `silobench silo init` has made them."""
        if not self.lead_key.is_file():
            raise ConfigError(f"{self.root} is not a folder of `silobench silo init`: give the one that it wrote.")
        need_private(self.private, "the lead's folder of keys")
        return self


def write_folders(
    root: Path, name: str, silos: Mapping[str, str], experiment: str, columns: str, hosts: Sequence[str], **choices: Any
) -> Consortium:
    """Write the folders of a new consortium: the agreement, signed by a new key of the lead, the app and certificates.

    `silos` has the public key of each silo by its name; `choices` are those of `write_consortium`.
    """
    from silobench.silos.agreement import Agreement  # torch comes with it

    if root.exists() and (not root.is_dir() or any(root.iterdir())):
        raise ConfigError(f"{root} is not empty: a consortium needs a new folder, so give another one with --out.")
    names = _checked_hosts(hosts)
    root.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=root.parent, prefix=".consortium-") as place:
        draft = Folders(Path(place) / "draft")
        draft.shared.mkdir(parents=True)
        draft.private.mkdir(mode=FOLDER_MODE)
        lead = keys.new_key(draft.lead_key)
        certificates.write_authority(draft.shared, draft.private, name)
        certificates.write_server(draft.shared, draft.private, names)
        write_app(draft.shared)
        attached = (certificates.AUTHORITY,)
        written = write_consortium(draft.shared, name, lead, silos, experiment, columns, attached=attached, **choices)
        Agreement.of(replace(written, folder=Folders(root).shared))  # refuses what real silos cannot run
        sign(draft.shared, draft.lead_key)
        draft.root.replace(root)
    return Consortium.read_signed(Folders(root).shared)


def signed_again(folders: Folders) -> Consortium:
    """Sign a consortium whose files the lead has changed."""
    file = folders.shared / "consortium.toml"
    text = text_of(file)
    try:
        files = dict(tomllib.loads(text)["files"])
    except (tomllib.TOMLDecodeError, KeyError, TypeError, ValueError) as error:
        raise ConfigError(f"{file} cannot be read as TOML with a table [files] ({error}): fix it.") from error
    for name, digest in files.items():
        now = hashlib.sha256(text_of(folders.shared / name).encode()).hexdigest()
        text = text.replace(f'"{digest}"', f'"{now}"')
    replace_atomically(file, text.encode())
    return sign(folders.shared, folders.lead_key)


def text_of(file: Path) -> str:
    """Return the text of a file that the lead names."""
    try:
        return file.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{file} cannot be read ({error.strerror}): give the path of a file.") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{file} is not UTF-8 text: save it as UTF-8.") from error


def renew(folders: Folders, hosts: Sequence[str]) -> None:
    """Write a new certificate of the server. Silos need not do anything: the authority stays."""
    certificates.write_server(folders.shared, folders.private, _checked_hosts(hosts))


def write_silo(folder: Path, name: str, data: str) -> str:
    """Write a silo's new key pair and its file silo.toml into a private folder, and return the public key.

    The silo puts the folder that the lead sends beside them, as `consortium`.
    """
    path = source_of(data).path  # an unknown form is refused
    if not path.exists():
        raise ConfigError(f"there are no rows at {path}: give --data the path of a file or folder, or a spec.")
    if not is_name(name):
        raise ConfigError(f"a silo cannot be called '{name}': use letters, digits, '-' and '_'.")
    folder.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
    line = keys.new_key(folder / "key")
    place = str(Path(data).resolve()) if Path(data).exists() else data
    write_silo_file(folder / "silo.toml", name, place, Path("consortium"), Path("key"))
    return line


def authority_of(consortium: Consortium) -> Path:
    """Return the certificate that vouches for the server; it must be part of what the silos accept."""
    if certificates.AUTHORITY not in consortium.attached:
        raise ConfigError(
            f"{consortium.folder} has no certificate that its digest covers: the lead makes the folder with `silobench "
            "silo init`."
        )
    return consortium.folder / certificates.AUTHORITY


def _checked_hosts(hosts: Sequence[str]) -> list[str]:
    for host in hosts:
        try:
            ipaddress.ip_address(host)
        except ValueError:
            if not _HOST.fullmatch(host) or len(host) > 253:
                raise ConfigError(
                    f"--host {host} is not a host name or an IP address: give the name by which silos reach the server."
                ) from None
    return [*dict.fromkeys([*hosts, *_LOOPBACK])]
