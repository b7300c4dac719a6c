"""The catalogue of datasets, read from catalog.toml.

An entry describes a dataset: its terms of use, its files with their checksums, and where to download them. If a file
changes, its entry gets a new `version`, which has its own folder.
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
    """One file of a dataset. If no checksum is published, that of the first arrival is recorded and required."""

    bytes: int | None = None
    sha256: Sha256 | None = None
    copies: tuple[Sha256, ...] = ()  # checksums of copies that are known to hold the same rows
    member: str = ""  # its name in archives, if that is another; OUTER!/NAME in an archive of the archive

    @property
    def sums(self) -> tuple[str, ...]:
        """All valid checksums; empty if none is published."""
        return (self.sha256, *self.copies) if self.sha256 else ()


class Download(_Value):
    """A download, by address or package name, and the files of the dataset that it contains."""

    what: str  # an address, or a package and version as its client writes them
    sha256: Sha256 | None = None
    bytes: int | None = None
    options: tuple[str, ...] = ()  # extra arguments for the package manager
    files: tuple[str, ...] = ()  # files it contains; if empty those of `form`, and without a form all files
    form: str = ""
    sdist: bool = False  # a package's source archive, which is downloaded as a file because pip would run its code
    inside: str | None = None  # folder of the files in the archive; None if the download is the file itself
    suffix: str = ""  # added to the names of files that are compressed inside the archive


class Source(_Value):
    """A source of a dataset: its home page (home), or a package manager (npm, pip, apt)."""

    client: Client
    downloads: tuple[Download, ...]


class Entry(_Value):
    """A dataset of the catalogue.

    A form is a complete set of files, such as the binary or the python form of CIFAR-10; one form is enough. A file
    name with a ``*`` stands for all files that match it, at least one.
    """

    name: str
    version: Annotated[int, Ge(1)] = 1
    summary: str
    task: Literal["classification", "regression", "verification", "vectors"] = "classification"  # vectors: of words
    train: int | None = None  # number of rows; None if it depends on the files that the user imports
    test: int | None = None
    classes: int | None = None
    groups: tuple[str, ...] = ()
    licence: str
    terms: str = ""  # conditions of use of a restricted dataset; shown before it is fetched
    citation: str
    homepage: str = ""
    by_hand: str = ""  # what to give to `silobench data import` if there is no source to fetch from
    needs: tuple[str, ...] = ()  # other entries that this one is built from
    folders: tuple[str, ...] = ()  # other folders of the data directory where the files may be
    files: dict[str, File] = {}
    forms: dict[str, tuple[str, ...]] = {}
    sources: tuple[Source, ...] = ()

    @model_validator(mode="after")
    def _consistent(self) -> "Entry":
        named = [name for names in self.forms.values() for name in names if "*" not in name]
        downloads = [download for source in self.sources for download in source.downloads]
        for name in (*named, *(name for download in downloads for name in self.members(download))):
            if name not in self.files:
                raise ValueError(f"{self.name} has no file {name}: add it to `files`")
        for download in downloads:
            if download.inside is None and len(self.members(download)) != 1:
                raise ValueError(
                    f"{download.what} of {self.name} is a single file but lists several: set `inside`, or name one file"
                )
        return self

    def members(self, download: Download) -> dict[str, str]:
        """Map each file of a download to its name in the archive; to an empty string if the download is the file."""
        names = download.files or self.forms.get(download.form, tuple(self.files))
        inside = download.inside
        members = {name: self.file(name).member or name for name in names}
        return {n: "" if inside is None else f"{inside}{member}{download.suffix}" for n, member in members.items()}

    @property
    def embedded(self) -> bool:
        """Whether the dataset needs no files."""
        return not self.forms and not self.needs

    def file(self, name: str) -> File:
        return self.files.get(name, File())


@functools.cache
def catalog() -> dict[str, Entry]:
    """Return all entries by name."""
    text = resources.files("silobench.data.store").joinpath("catalog.toml").read_text(encoding="utf-8")
    return {entry.name: entry for entry in read_catalog(text)}


def read_catalog(text: str) -> list[Entry]:
    """Parse the TOML text of a catalogue."""
    try:
        return [_entry(name, fields) for name, fields in tomllib.loads(text).items()]
    except (tomllib.TOMLDecodeError, ValidationError) as error:
        raise DataError(f"the catalogue is not valid ({error}): correct that entry.") from error


def find(name: str) -> Entry:
    """Return the entry of a name; hyphens and underscores are equivalent."""
    known = catalog()
    key = name.strip().lower().replace("_", "-")
    if key not in known:
        raise DataError(f"the catalogue has no dataset '{name}': {suggest(key, known)}")
    return known[key]


def _entry(name: str, fields: dict[str, Any]) -> Entry:
    """Build an entry from TOML; without `forms` it gets one form of all its files."""
    forms = fields.get("forms") or ({"files": list(fields["files"])} if fields.get("files") else {})
    return Entry.model_validate({"name": name, **fields, "forms": forms}, strict=False)
