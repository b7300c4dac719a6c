"""The catalogue: what is known of every dataset before a byte of it is here. The entries are data, in catalog.toml.

An entry says what the dataset is, under which terms, which files it is made of with their sums, and where they come
from. A file that changes is a new `version` of its entry, with a folder of its own, never a silent change.
"""

import functools
import tomllib
from importlib import resources
from typing import Annotated, Any, Literal

from annotated_types import Ge
from pydantic import BaseModel, ConfigDict, StringConstraints, ValidationError, model_validator

from silobench.errors import DataError, suggest

Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
Client = Literal["home", "npm", "pip", "apt"]


class _Value(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class File(_Value):
    """One file of a dataset. Without a published sum, the one it arrives with is recorded and holds from then on."""

    bytes: int | None = None
    sha256: Sha256 | None = None
    copies: tuple[Sha256, ...] = ()  # sums of copies that are known to hold the same rows

    @property
    def sums(self) -> tuple[str, ...]:
        """Every sum that is right; none where nobody published one."""
        return (self.sha256, *self.copies) if self.sha256 else ()


class Download(_Value):
    """One thing to download, an address or a package, and which of the dataset's files it gives."""

    what: str  # an address, or a package with its version in the notation of its client
    sha256: Sha256 | None = None
    bytes: int | None = None
    options: tuple[str, ...] = ()  # further arguments for the package's client
    files: tuple[str, ...] = ()  # which it gives; those of the form, or all, where none is named
    form: str = ""
    inside: str | None = None  # the archive's folder that holds them; none for a file that is no archive
    suffix: str = ""  # of files that are packed inside the archive


class Source(_Value):
    """Where a dataset can be had: its home page, or a registry's client."""

    client: Client
    downloads: tuple[Download, ...]


class Entry(_Value):
    """A dataset of the catalogue.

    A form is one complete set of files, such as the binary and the python form of CIFAR-10; any one of them is enough.
    A name in it with a ``*`` stands for all the files that match, at least one.
    """

    name: str
    version: Annotated[int, Ge(1)] = 1
    summary: str
    task: Literal["classification", "regression", "verification"] = "classification"
    train: int | None = None  # rows; none where they depend on what the user brings
    test: int | None = None
    classes: int | None = None
    groups: tuple[str, ...] = ()
    licence: str
    terms: str = ""  # what a restricted dataset asks of those who use it; shown before it is fetched
    citation: str
    homepage: str = ""
    by_hand: str = ""  # what `silobench data import` takes, where there is no source to fetch from
    needs: tuple[str, ...] = ()  # other entries that this one is made from
    folders: tuple[str, ...] = ()  # of the data directory, where its files may lie besides its own
    files: dict[str, File] = {}
    forms: dict[str, tuple[str, ...]] = {}
    sources: tuple[Source, ...] = ()

    @model_validator(mode="after")
    def _consistent(self) -> "Entry":
        wanted = [name for names in self.forms.values() for name in names if "*" not in name]
        downloads = [download for source in self.sources for download in source.downloads]
        for name in (*wanted, *(name for download in downloads for name in self.members(download))):
            if name not in self.files:
                raise ValueError(f"{self.name} has no file {name}")
        for download in downloads:
            if download.inside is None and len(self.members(download)) != 1:
                raise ValueError(f"{download.what} of {self.name} is one file, and should give one")
        return self

    def members(self, download: Download) -> dict[str, str]:
        """The files that a download gives, each with its name in the archive, or with none where it is the file."""
        names = download.files or self.forms.get(download.form, tuple(self.files))
        inside = download.inside
        return {name: "" if inside is None else f"{inside}{name}{download.suffix}" for name in names}

    @property
    def embedded(self) -> bool:
        """Whether it needs no file at all."""
        return not self.forms and not self.needs

    def file(self, name: str) -> File:
        return self.files.get(name, File())


@functools.cache
def catalog() -> dict[str, Entry]:
    """Every entry by name."""
    text = resources.files("silobench.data.store").joinpath("catalog.toml").read_text(encoding="utf-8")
    return {entry.name: entry for entry in read_catalog(text)}


def read_catalog(text: str) -> list[Entry]:
    """The entries of a catalogue's TOML text."""
    try:
        return [_entry(name, fields) for name, fields in tomllib.loads(text).items()]
    except (tomllib.TOMLDecodeError, ValidationError) as error:
        raise DataError(f"the catalogue cannot be read: {error}.") from error


def find(name: str) -> Entry:
    """The entry of a name; hyphens and underscores are one."""
    known = catalog()
    wanted = name.strip().lower().replace("_", "-")
    if wanted not in known:
        raise DataError(f"the catalogue has no dataset '{name}': {suggest(wanted, known)}")
    return known[wanted]


def _entry(name: str, fields: dict[str, Any]) -> Entry:
    """TOML has lists where the values are tuples, and one form where all the files are needed."""
    forms = fields.get("forms") or ({"files": list(fields["files"])} if fields.get("files") else {})
    return Entry.model_validate({"name": name, **fields, "forms": forms}, strict=False)
