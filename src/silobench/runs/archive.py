"""Compact records: many finished runs, without their models, in one file. Nothing here needs torch.

NAME.runs.xz is xz over text. The first line is a header with a title and the number of runs. Then comes each run: one
line with the content of its run.json, and the lines of its rounds.jsonl, byte for byte. Runs are read from it as from
their directories, with the same checks: run.json states its own digest and that of the rounds, and the id of a run is
a hash of its configuration. Equal runs give equal bytes, in whatever order and from whatever directory they come.
"""

import json
import lzma
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from silobench.atomic import replace_atomically
from silobench.errors import ConfigError, RecordError, suggest
from silobench.runs.folders import need_no_link
from silobench.runs.stored import (
    StoredRun,
    read_bytes,
    read_facts,
    rows_of,
    run_paths,
    sha256,
    typed_run,
    verified,
    verified_facts,
)

SUFFIX = ".runs.xz"
PUBLISHED_FOLDER = Path(__file__).with_name("published")
_KIND = "silobench records"
_VERSION = 1
_MOST_PACKED = 64 * 2**20  # bytes of a file
_MOST_UNPACKED = 512 * 2**20  # bytes of its text
_SMALL = 32 * 2**20  # bytes of text that every file may have; more must be less than _MOST_RATIO times its size
_MOST_RATIO = 100  # records of runs get 7 to 10 times smaller
_MOST_MEMORY = 128 * 2**20  # bytes that unpacking itself may take
_LEAST = 1 << 12  # bytes that are unpacked to read a header
_GET_ANOTHER = "get the file again, or pack the runs again with `silobench leaderboard pack`."


@dataclass(frozen=True)
class Record:
    """The record of a finished run, as it is stored: the facts of run.json and the bytes of rounds.jsonl."""

    path: Path  # its directory, or its place in an archive
    facts: Mapping[str, Any]
    lines: bytes

    @property
    def id(self) -> str:
        return str(self.facts["id"])

    @property
    def run(self) -> StoredRun:
        """The run, verified and typed."""
        seal = self.facts["records"]
        file = self.path / "rounds.jsonl"
        lines = verified(self.lines, seal["bytes"], seal["sha256"], file)
        return typed_run(self.path, self.facts, rows_of(lines, file))


@dataclass(frozen=True)
class Header:
    """The first line of an archive."""

    name: str  # of the file, without its suffix
    title: str
    runs: int


# --- reading -----------------------------------------------------------------------------------------


def is_archive(path: Path) -> bool:
    """Whether a path is that of an archive, by its name."""
    return path.name.endswith(SUFFIX) and path.is_file()


def read_archive(path: Path) -> list[StoredRun]:
    """Read and verify every run of an archive, in the order of their ids. A run's path is the file's and its id."""
    return [record.run for record in records_of(path)]


def records_of(root: Path) -> list[Record]:
    """Return the records of all finished runs in an archive or under a directory; a damaged one is refused."""
    if is_archive(root):
        return list(_records(_text(root), root))
    return [Record(path, facts, _lines(path, facts)) for path, facts in _finished(root)]


def published_runs(pattern: str = "*") -> list[StoredRun]:
    """Return the runs that come with silobench; only those of studies whose names match a glob."""
    return [run for file in published_files(pattern) for run in read_archive(file)]


def published_files(pattern: str = "*") -> list[Path]:
    """Return the archives that come with silobench whose names match a glob; a name that no study has is refused."""
    files = {file.name.removesuffix(SUFFIX): file for file in sorted(PUBLISHED_FOLDER.glob(f"*{SUFFIX}"))}
    chosen = [file for name, file in files.items() if fnmatch(name, pattern)]
    if not chosen and pattern != "*":
        others = suggest(pattern, files) if files else "this version of silobench has none."
        raise ConfigError(f"no published study has the name '{pattern}': {others}")
    return chosen


def describe_published() -> list[dict[str, str]]:
    """Return the names of the studies that come with silobench, with titles and numbers of runs, for a list."""
    headers = map(read_header, published_files())
    return [{"signature": header.name, "summary": f"{header.title} ({header.runs} runs)"} for header in headers]


def read_header(path: Path) -> Header:
    """Read the title of an archive and the number of its runs, without its runs."""
    return _header(_text(path, most=_LEAST).partition(b"\n")[0], path)


def _finished(root: Path) -> Iterator[tuple[Path, dict[str, Any]]]:
    for path in run_paths(root):
        facts = read_facts(path)
        if facts["status"] == "complete":
            yield path, facts


def _lines(path: Path, facts: Mapping[str, Any]) -> bytes:
    """Return the sealed bytes of rounds.jsonl."""
    return read_bytes(path / "rounds.jsonl")[: facts["records"]["bytes"]]


def _text(path: Path, most: int | None = None) -> bytes:
    """Return the text of an archive, or its first `most` bytes."""
    if path.is_file() and path.stat().st_size > _MOST_PACKED:
        raise _damaged(path, f"it has more than {_MOST_PACKED} bytes")
    content = read_bytes(path)
    limit = _most_text(len(content))
    unpacker = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_MOST_MEMORY)
    try:
        text = unpacker.decompress(content, max_length=most or limit)
    except lzma.LZMAError as error:
        raise _damaged(path, "it is not a whole .xz file") from error
    if most is None and not unpacker.eof:
        is_cut = unpacker.needs_input
        raise _damaged(path, "it is cut off" if is_cut else f"its text has more than {limit} bytes")
    if unpacker.unused_data:
        raise _damaged(path, "something follows its end")
    return text


def _most_text(packed: int) -> int:
    """Return the bytes of text that a file of this size may have: a small file must not fill the memory."""
    return min(_MOST_UNPACKED, max(_SMALL, _MOST_RATIO * packed))


def _header(line: bytes, path: Path) -> Header:
    try:
        facts = json.loads(line)
        header = Header(path.name.removesuffix(SUFFIX), facts["title"], facts["runs"])
        is_ours = facts["silobench"] == _KIND and isinstance(header.title, str) and isinstance(header.runs, int)
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise _damaged(path, "it has no header of silobench") from error
    if not is_ours:
        raise _damaged(path, "it has no header of silobench")
    if facts.get("version") != _VERSION:
        raise RecordError(
            f"{path} has records of version {facts.get('version')}, and this silobench reads {_VERSION}: update it."
        )
    return header


def _records(text: bytes, path: Path) -> Iterator[Record]:
    """Yield the records in the text of an archive."""
    start = text.find(b"\n") + 1
    header, ids = _header(text[:start], path), set[str]()
    while start < len(text):
        end = text.find(b"\n", start) + 1 or len(text)
        place = path / str(len(ids))
        facts = verified_facts(text[start:end], place)
        is_finished = facts["status"] == "complete" and facts["records"]["bytes"] >= 0
        if not is_finished or facts["id"] in ids:
            raise _damaged(path, f"run {len(ids) + 1} is not a finished run, or is there twice")
        ids.add(facts["id"])
        start = end + facts["records"]["bytes"]
        yield Record(path / facts["id"], facts, text[end:start])
    if len(ids) != header.runs:
        raise _damaged(path, f"it has {len(ids)} of {header.runs} runs")


def _damaged(path: Path, what: str) -> RecordError:
    return RecordError(f"{path} does not hold records of runs ({what}): {_GET_ANOTHER}")


# --- writing -----------------------------------------------------------------------------------------


def pack(records: Iterable[Record], path: Path, title: str = "") -> int:
    """Write the records of finished runs into one file and return how many; equal copies of a run count once.

    Every record is verified first. Two different records of one run are refused, and so is a file that would lose runs.
    """
    unique: dict[str, Record] = {}
    for record in records:
        record.run  # noqa: B018 - reading verifies
        other = unique.setdefault(record.id, record)
        if other.lines != record.lines:
            raise RecordError(
                f"{other.path} and {record.path} are the same run with different rounds: pack one of the two."
            )
    if not unique:
        raise RecordError("none of these runs is finished: run the experiment to its end, then pack it.")
    header = {"silobench": _KIND, "version": _VERSION, "runs": len(unique), "title": " ".join(title.split())}
    text = b"".join([_line(header), *(part for _, record in sorted(unique.items()) for part in _parts(record))])
    content = lzma.compress(text, lzma.FORMAT_XZ, preset=9 | lzma.PRESET_EXTREME)
    if len(content) > _MOST_PACKED or len(text) > _most_text(len(content)):
        raise RecordError(f"{len(unique)} runs are too many for one file that can be read back: pack fewer of them.")
    if not path.name.endswith(SUFFIX):
        raise ConfigError(f"records are written into a file NAME{SUFFIX}, but {path} was given: change its name.")
    _need_no_loss(path, unique)
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_atomically(path, content)
    return len(unique)


def _need_no_loss(path: Path, records: Mapping[str, Record]) -> None:
    """Refuse to replace an archive that has runs which are not among the new ones."""
    earlier = records_of(path) if path.exists() else []
    lost = sum(one.id not in records for one in earlier)
    if lost:
        raise RecordError(
            f"{path} exists, and {lost} of its {len(earlier)} runs would be lost: give another --out, or name it "
            "among the directories to keep them."
        )


def _parts(record: Record) -> tuple[bytes, bytes]:
    return _line(record.facts), record.lines


def _line(facts: Mapping[str, Any]) -> bytes:
    return json.dumps(facts, ensure_ascii=False).encode() + b"\n"


def unpack(path: Path, out: Path) -> int:
    """Write the runs of an archive as run directories and return how many; another record of the same run is refused.

    A directory then has run.json and rounds.jsonl, and neither a model nor an encoder.
    """
    records = records_of(path)
    for record in records:
        record.run  # noqa: B018 - nothing is written unless all of it is whole
        other = need_no_link(out / record.id) / "rounds.jsonl"
        if other.exists() and sha256(read_bytes(other)) != sha256(record.lines):
            raise RecordError(f"{other.parent} has other rounds than the run in {path}: choose another --out.")
    for record in records:
        folder = out / record.id
        folder.mkdir(parents=True, exist_ok=True)
        replace_atomically(folder / "rounds.jsonl", record.lines)
        replace_atomically(folder / "run.json", json.dumps(record.facts, indent=1, ensure_ascii=False).encode())
    return len(records)
