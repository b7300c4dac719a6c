"""silo.toml: what an organisation states for itself. It stays there, and nobody else reads it."""

import json
import os
import re
import tomllib
from pathlib import Path
from typing import Annotated, Self

from annotated_types import Ge, Gt
from pydantic import AllowInfNan, BaseModel, ConfigDict, ValidationError

from silobench.atomic import replace_atomically
from silobench.errors import ConfigError
from silobench.silos.consortium import Consortium, reason

_ACCEPTED = re.compile(r"""^[ \t]*accepted[ \t]*=[ \t]*("[^"\n]*"|'[^'\n]*')""", re.MULTILINE)


class Limits(BaseModel):
    """What a silo allows at most, over all runs of all consortia that use its folder `state`."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    max_epsilon: Annotated[float, Gt(0), AllowInfNan(False)] | None = None  # of its rows, or of the silo as a party
    max_rounds: Annotated[int, Ge(1)] | None = None  # in which it trains
    max_runs: Annotated[int, Ge(1)] = 1  # that it takes part in


class SiloFile(BaseModel):
    """The content of silo.toml. Paths are relative to its folder."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    data: str  # csv(path=...), parquet(path=...), images(path=...), or a path
    consortium: Path
    key: Path  # its private key
    state: Path = Path("state")
    accepted: str = ""  # the digest of the consortium that its people accepted
    limits: Limits = Limits()

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read the file of a silo."""
        if path.is_dir():
            raise ConfigError(f"{path} is a folder: give the file in it, {path / 'silo.toml'}.")
        try:
            facts = tomllib.loads(path.read_text(encoding="utf-8"))
        except OSError as error:
            raise ConfigError(f"{path} cannot be read ({error.strerror}): check the path.") from error
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise ConfigError(f"{path} cannot be read as TOML ({error}): fix it.") from error
        try:
            file = cls.model_validate(facts)
        except ValidationError as error:
            raise ConfigError(f"{path} {reason(error)}") from error
        folder = path.resolve().parent
        beside = folder / file.data
        places = {name: folder / getattr(file, name) for name in ("consortium", "key", "state")}
        return file.model_copy(update={**places, "data": str(beside) if os.path.exists(beside) else file.data})


def write_silo_file(path: Path, name: str, data: str, consortium: Path, key: Path) -> None:
    """Write the file of a silo, which accepts no consortium yet."""
    lines = [
        "# This file stays at the silo.",
        f"name = {json.dumps(name)}",
        f"data = {json.dumps(data)}  # csv(path=...), parquet(path=...), images(path=...), or a path",
        f"consortium = {json.dumps(str(consortium))}",
        f"key = {json.dumps(str(key))}  # private key",
        'state = "state"  # keys and memories of runs',
        'accepted = ""  # the digest of the consortium that your people accepted',
        "",
        "[limits]",
        "# max_epsilon = 3.0",
        "# max_rounds = 100",
        "max_runs = 1  # over all consortia; each run uses the rows",
    ]
    replace_atomically(path, ("\n".join(lines) + "\n").encode())


def check_accepted(path: Path) -> tuple[SiloFile, Consortium]:
    """Return the file of a silo and its consortium; refuse one that its people did not accept as it is now."""
    file = SiloFile.read(path)
    consortium = Consortium.read_signed(file.consortium)
    if file.accepted != consortium.digest:
        what = "accepted another one" if file.accepted else "did not accept it yet"
        raise ConfigError(
            f"the consortium in {file.consortium} has the digest {consortium.digest}, but the people of {file.name} "
            f"{what}: read what will leave the silo, and accept it with `silobench silo check {path} --accept`."
        )
    return file, consortium


def accept(path: Path, digest: str) -> None:
    """Write into a silo's file that its people accepted a consortium."""
    SiloFile.read(path)
    text = path.read_text(encoding="utf-8")
    line = f'accepted = "{digest}"'
    changed, count = _ACCEPTED.subn(line, text, count=1)
    content = changed if count else f"{line}\n{text}"
    try:
        is_stated = tomllib.loads(content).get("accepted") == digest
    except tomllib.TOMLDecodeError:
        is_stated = False
    if not is_stated:  # a text in three quotation marks, or a key in quotation marks
        raise ConfigError(
            f'{path} states `accepted` in a form that cannot be replaced: write accepted = "" in its place.'
        )
    replace_atomically(path, content.encode())
