"""What a lead proposes: options and files, checked before anything is written. Sentences name what the lead gave."""

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path

from silobench.data.agreed import Columns
from silobench.errors import ConfigError
from silobench.silos import keys
from silobench.silos.consortium import is_name
from silobench.silos.flower.folders import text_of


def check_options(name: str, silos: Mapping[str, str], quorum: int | None) -> None:
    """Refuse a name, silos or a quorum with which there is no consortium."""
    if not is_name(name):
        raise ConfigError(f"--name '{name}' cannot be the name of a consortium: use letters, digits, '-' and '_'.")
    if len(silos) < 2:
        raise ConfigError(f"--silo names {', '.join(silos)} only, but a consortium has at least two: give another.")
    if quorum is not None and quorum > len(silos):
        raise ConfigError(f"--quorum {quorum} is more than the {len(silos)} silos: lower it.")


def experiment_text(file: Path) -> str:
    """Return the text of an experiment, which must be TOML that states something."""
    text = text_of(file)
    try:
        stated = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{file} cannot be read as TOML ({error}): fix it.") from error
    if not stated:
        raise ConfigError(f"{file} states nothing: write at least the model and the rounds of the experiment.")
    return text


def columns_text(file: Path) -> str:
    """Return the text of a file of agreed columns."""
    text = text_of(file)
    Columns.of_text(text, str(file))
    return text


def silo_keys(entries: Sequence[str]) -> dict[str, str]:
    """Return the public key of each silo by its name, from texts NAME=FILE.pub."""
    silos: dict[str, str] = {}
    for entry in entries:
        name, equals, file = entry.partition("=")
        if not equals or not name or not file:
            raise ConfigError(f"--silo {entry} cannot be read: write NAME=FILE.pub, with the file of the public key.")
        if not is_name(name):
            raise ConfigError(f"--silo {entry}: a silo cannot be called '{name}'; use letters, digits, '-' and '_'.")
        if name in silos:
            raise ConfigError(f"--silo {name} is there twice: each silo needs a name of its own.")
        line = keys.checked_line(_key_text(name, Path(file)), f"--silo {entry}: {file}")
        for other, known in silos.items():
            if known == line:
                raise ConfigError(f"--silo {entry} has the same key as {other}: each silo needs a key of its own.")
        silos[name] = line
    return silos


def _key_text(name: str, file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        raise ConfigError(
            f"--silo {name}={file}: the file {file} cannot be read; ask {name} for its public key."
        ) from None
