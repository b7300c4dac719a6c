"""`Consortium`: what a lead and silos agree on before they start: who takes part, the experiment, and the columns.

A consortium is a folder that everybody has: consortium.toml, which pins the other files by their digests,
experiment.toml, columns.toml, and consortium.sig, the lead's signature.
"""

import hashlib
import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from annotated_types import Ge, Gt, Le
from pydantic import AllowInfNan, BaseModel, ConfigDict, ValidationError

from silobench.atomic import replace_atomically
from silobench.errors import ConfigError
from silobench.silos import keys

_PINNED = ("experiment.toml", "columns.toml")
_KINDS = {  # what the kinds of pydantic's errors start with
    "int_": "a whole number of at least 1",
    "float_": "a number",
    "string_": "a text in quotation marks",
    "path_": "a path in quotation marks",
    "list_": "a list",
    "dict_": "a table",
    "model_": "a table",
}
_PURPOSE = "consortium"  # of the lead's signature
LONGEST_WAIT = 30 * 24 * 3600.0  # seconds
_Limit = Annotated[float, Le(LONGEST_WAIT), AllowInfNan(False)]
_Seconds = Annotated[_Limit, Gt(0)]


class Waits(BaseModel):
    """How long the server waits, in seconds."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    join: _Seconds = 3600.0  # until the quorum is there
    round: _Seconds = 3600.0  # for the answers of a round
    grace: Annotated[_Limit, Ge(0)] = 30.0  # for the others, once the quorum has answered


class Member(BaseModel):
    """An organisation with rows: its name, and the public key by which the others know it."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    name: str
    key: str


class _Content(BaseModel):
    """The content of consortium.toml."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    format: Literal[1] = 1
    name: str
    lead: str  # public key
    quorum: Annotated[int, Ge(1)]
    engine: str = "auto"
    seconds: Waits = Waits()
    files: dict[str, str]  # name -> SHA-256
    silos: list[Member]


@dataclass(frozen=True)
class Consortium:
    """An agreement, read from its folder. `digest` covers all of it but the signature."""

    folder: Path
    name: str
    lead: str
    quorum: int
    engine: str  # how silos train: a spec of `silobench list engines`
    waits: Waits
    silos: tuple[Member, ...]  # in the order of the parties
    experiment: str  # the text of experiment.toml
    columns: str  # the text of columns.toml
    digest: str
    attached: tuple[str, ...] = ()  # further files of the folder that the digest covers

    @classmethod
    def read(cls, folder: Path) -> "Consortium":
        """Read a folder; a file that is missing, or was changed since consortium.toml was written, is refused."""
        content = _content(folder / "consortium.toml")
        texts = {name: _text(folder / name) for name in _PINNED}
        for name in {**dict.fromkeys(_PINNED), **content.files}:
            if Path(name).name != name or content.files.get(name) != _sha256(folder / name):
                raise ConfigError(
                    f"{folder / name} is not the file that consortium.toml states, which has another SHA-256: ask the "
                    "lead for the whole folder again."
                )
        return cls(
            folder, content.name, content.lead, content.quorum, content.engine, content.seconds, tuple(content.silos),
            texts["experiment.toml"], texts["columns.toml"], _digest(content),
            tuple(name for name in content.files if name not in _PINNED),
        )  # fmt: skip

    @classmethod
    def read_signed(cls, folder: Path) -> "Consortium":
        """Read a folder that its lead has signed; another signature, or none, is refused."""
        consortium = cls.read(folder)
        file = folder / "consortium.sig"
        try:
            signature = bytes.fromhex(_text(file))
        except ValueError as error:
            raise ConfigError(f"{file} is not a signature: ask the lead for the whole folder again.") from error
        if not keys.is_signed(consortium.lead, _PURPOSE, bytes.fromhex(consortium.digest), signature):
            raise ConfigError(
                f"{file} is not the lead's signature of this folder: ask the lead whether it was changed, and compare "
                "the digests by phone."
            )
        return consortium

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the silos, in the order of the parties."""
        return tuple(silo.name for silo in self.silos)

    def party(self, name: str) -> int:
        """Return the number of a silo among the parties."""
        if name not in self.names:
            raise ConfigError(f"{self.name} has no silo '{name}': it has {', '.join(self.names)}.")
        return self.names.index(name)

    def check_key(self, name: str, private_key: Path) -> None:
        """Refuse a private key that is not the one of this silo."""
        member = self.silos[self.party(name)]
        if keys.public_line(private_key) != member.key:
            raise ConfigError(f"{private_key} is not the key that the consortium has for {name}: use that key.")


def write_consortium(
    folder: Path,
    name: str,
    lead: str,
    silos: Mapping[str, str],
    experiment: str,
    columns: str,
    quorum: int | None = None,
    engine: str = "auto",
    waits: Waits | None = None,
    attached: Sequence[str] = (),
) -> Consortium:
    """Write the files of a consortium, without its signature, and read them back.

    `lead` and the values of `silos` are public keys. Without `quorum` more than half of the silos must answer.
    `attached` are the names of further files of the folder that the digest covers, such as a certificate.
    """
    quorum = len(silos) // 2 + 1 if quorum is None else quorum
    texts = dict(zip(_PINNED, (experiment, columns), strict=True))
    folder.mkdir(parents=True, exist_ok=True)
    for file, text in texts.items():
        replace_atomically(folder / file, text.encode())
    digests = {file: hashlib.sha256(text.encode()).hexdigest() for file, text in texts.items()}
    digests |= {file: _sha256(folder / file) for file in attached}
    members = [Member(name=each, key=keys.checked_line(key)) for each, key in silos.items()]
    waits = waits or Waits()
    content = _toml(name, keys.checked_line(lead), quorum, engine, waits, digests, members)
    replace_atomically(folder / "consortium.toml", content.encode())
    (folder / "consortium.sig").unlink(missing_ok=True)
    return Consortium.read(folder)


def sign(folder: Path, private_key: Path) -> Consortium:
    """Sign a consortium by the lead's private key."""
    consortium = Consortium.read(folder)
    if keys.public_line(private_key) != consortium.lead:
        raise ConfigError(
            f"{private_key} is not the lead's key of {folder}: sign with the key that consortium.toml has."
        )
    signature = keys.signed(private_key, _PURPOSE, bytes.fromhex(consortium.digest))
    replace_atomically(folder / "consortium.sig", f"{signature.hex()}\n".encode())
    return consortium


def _toml(
    name: str, lead: str, quorum: int, engine: str, waits: Waits, files: Mapping[str, str], silos: Sequence[Member]
) -> str:
    quoted = json.dumps  # a JSON string is a TOML string
    lines = [
        "# Everybody has the same file. Its digest is what silos accept, and what the lead signs.",
        "format = 1",
        f"name = {quoted(name)}",
        f"lead = {quoted(lead)}  # public key",
        f"quorum = {quorum}  # silos that must answer in a round",
        f"engine = {quoted(engine)}  # how silos train",
        "",
        "[seconds]",
        f"join = {waits.join}  # the server waits for the quorum",
        f"round = {waits.round}  # for the answers of a round",
        f"grace = {waits.grace}  # for the others, once the quorum has answered",
        "",
        "[files]  # SHA-256",
        *(f"{quoted(file)} = {quoted(digest)}" for file, digest in files.items()),
    ]
    for silo in silos:
        lines += ["", "[[silos]]", f"name = {quoted(silo.name)}", f"key = {quoted(silo.key)}"]
    return "\n".join(lines) + "\n"


def _content(file: Path) -> _Content:
    try:
        content = _Content.model_validate(tomllib.loads(_text(file)))
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{file} cannot be read as TOML ({error}): fix it.") from error
    except ValidationError as error:
        raise ConfigError(f"{file} {reason(error)}") from error
    names = [silo.name for silo in content.silos]
    if not is_name(content.name):
        raise ConfigError(f"{file} has the name '{content.name}': use letters, digits, '-' and '_'.")
    if len(names) < 2:
        raise ConfigError(f"{file} has {len(names)} of [[silos]], but a consortium has at least two: add one.")
    if len(set(names)) < len(names) or len({silo.key for silo in content.silos}) < len(names):
        raise ConfigError(f"{file} needs silos with different names and keys: fix its [[silos]].")
    if any(not is_name(name) for name in names):
        raise ConfigError(f"{file} has the silos {', '.join(names)}: use letters, digits, '-' and '_' in names.")
    if content.quorum > len(names):
        raise ConfigError(f"{file} has the quorum {content.quorum} for {len(names)} silos: lower it.")
    for owner, line in (("lead", content.lead), *((f"key of {silo.name}", silo.key) for silo in content.silos)):
        keys.checked_line(line, f"the {owner} in {file}")
    return content


def reason(error: ValidationError) -> str:
    """Return the end of a sentence about the first thing that is wrong in a TOML file."""
    problem = error.errors()[0]
    where = ".".join(map(str, problem["loc"]))
    match problem["type"]:
        case "missing":
            return f"has no key {where}: add it."
        case "extra_forbidden":
            return f"has the key {where}, which is not known: remove it."
    return f"has {where} = {problem['input']!r}, but {_needed(problem['type'], problem['msg'])} is needed: change it."


def _needed(kind: str, message: str) -> str:
    """Return what a value must be, in the words of people who write TOML."""
    for start, text in _KINDS.items():
        if kind.startswith(start):
            return text
    return message.removeprefix("Input should be ").removeprefix("a valid number, ")


def is_name(name: str) -> bool:
    """Whether a text can be the name of a silo or of a consortium."""
    return bool(name) and name.isascii() and name.replace("-", "").replace("_", "").isalnum() and len(name) <= 64


def _sha256(file: Path) -> str:
    return hashlib.sha256(_text(file).encode()).hexdigest()


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise ConfigError(f"{file} cannot be read ({why}): ask the lead for the whole folder.") from error


def _digest(content: _Content) -> str:
    canonical: dict[str, Any] = content.model_dump(mode="json")
    return hashlib.sha256(json.dumps(canonical, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
