"""Run directories as they are written: a run's description, its rounds as JSON lines, and a checkpoint to resume from.

`stored` describes the files. The checkpoint commits rounds: it is replaced atomically *after* their lines are written.

Rounds of a few milliseconds are committed several at a time. Writing takes at most a fiftieth of the time, and a kill
loses at most fifty times what a commit takes, which is a fraction of a second on most disks.
"""

import errno
import hashlib
import json
import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from silobench.atomic import replace_atomically
from silobench.errors import RecordError
from silobench.runs.checkpoint import arrays, pack, unpack
from silobench.runs.stored import (
    FORMAT,
    REMEDY,
    checkpoint_file,
    encoder_file,
    facts_digest,
    read_bytes,
    read_header,
    read_json,
    sha256,
)
from silobench.runs.versions import gives_same_bits
from silobench.training.state import RoundRecord, State

_COMMIT_EVERY = 50  # times what a commit takes
_REPLACED, _REMOVED = (errno.EISDIR, errno.ELOOP), (errno.ENOENT, errno.ENOTDIR)
_MAKE_ROOM = "free space or choose another --out; finished rounds are kept, and the same command continues from them."


@dataclass
class RunWriter:
    """A run directory being written. Open it with `open_run`; one process at a time."""

    path: Path
    facts: dict[str, Any]  # run.json
    state: State | None  # after the last round; None before the first
    rounds: int  # recorded so far
    _lock: FileLock = field(repr=False)
    _size: int = 0
    _digest: Any = None
    _pending: list[bytes] = field(default_factory=list)  # lines that are not yet committed
    _ready: tuple[int, State | None] = (0, None)  # how many of them can be committed, with the state after them
    _next: float = 0.0  # when to commit again
    _is_cut_short: bool = False  # whether a commit began and did not end

    @property
    def complete(self) -> bool:
        return bool(self.facts["status"] == "complete")

    def append(self, record: RoundRecord) -> None:
        """Record a round. It is committed at once, unless the last commit is only moments ago."""
        self._pending.append((json.dumps(record.as_json(), allow_nan=False) + "\n").encode())
        self._ready = len(self._pending), record.state  # in one step, because Ctrl-C may come before any other
        self.rounds += 1
        self.state = record.state
        if time.monotonic() >= self._next:
            self.commit()

    def commit(self) -> None:
        """Write the lines of the rounds since the last commit, then the checkpoint that counts them."""
        count, state = self._ready
        if state is None:
            return
        began, lines, digest = time.monotonic(), b"".join(self._pending[:count]), self._digest.copy()
        digest.update(lines)
        commit = {"bytes": self._size + len(lines), "sha256": digest.hexdigest()}
        with writing(self.path, is_begun=True):
            self._write_lines(lines)
            replace_atomically(checkpoint_file(self.path), pack(state, commit), is_locked=True)
        self._ready = (0, None)  # first, because these lines must not be counted twice
        self._pending, self._size, self._digest, self._is_cut_short = [], commit["bytes"], digest, False
        now = time.monotonic()
        self._next = now + _COMMIT_EVERY * (now - began)

    def _write_lines(self, lines: bytes) -> None:
        """Write lines behind the committed ones; over those of a commit that Ctrl-C cut short, which are the same."""
        place = self.path / "rounds.jsonl"
        with open(place, "r+b", opener=_opened_or_created) as file:
            size = file.seek(0, os.SEEK_END)
            if size < self._size or (size > self._size and not self._is_cut_short):
                raise RecordError(
                    f"{place} was changed by another program while the run was writing it (it has {size} bytes "
                    f"instead of {self._size}): {REMEDY}"
                )
            self._is_cut_short = True
            file.seek(self._size)
            file.write(lines)
            file.truncate()
            file.flush()
            os.fsync(file.fileno())  # on disk before the checkpoint that counts it

    def finish(self) -> None:
        """Mark the run complete and seal its records."""
        if self.state is None:
            raise RecordError(f"{self.path} has no round to finish with: give rounds of at least 1.")
        self.commit()
        self.facts |= {
            "status": "complete",
            "records": {"rounds": self.rounds, "bytes": self._size, "sha256": self._digest.hexdigest()},
            "model_sha256": sha256(self.state.server.params.numpy().tobytes()),
            "state_sha256": sha256(b"".join(array.tobytes() for array in arrays(self.state).values())),
        }
        with writing(self.path, is_begun=True):
            replace_atomically(self.path / "run.json", _as_json(self.facts), is_locked=True)
        self.close()

    def close(self) -> None:
        self._lock.release()

    def __enter__(self) -> "RunWriter":
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None or not issubclass(kind, RecordError):  # the disk has already refused: do not write again
                self.commit()
        finally:
            self.close()


def open_run(path: Path, environment: Mapping[str, str], describe: Callable[[], Mapping[str, Any]]) -> RunWriter:
    """Create a run directory with the description that `describe` returns, or resume an interrupted one.

    `environment` is what results depend on besides the configuration: versions and engine.
    """
    lock = _locked(path)
    try:
        if not (path / "run.json").exists():
            _create(path, {"format": FORMAT, "made_by": dict(environment), **describe()})
        facts, rows = read_json(path)
        is_older = facts["made_by"] != dict(environment)
        if is_older and facts["status"] != "complete" and read_header(path) is None:  # no round: this code starts it
            facts |= {"made_by": dict(environment)}
            with writing(path):
                replace_atomically(path / "run.json", _as_json(facts), is_locked=True)
        complete = facts["status"] == "complete"
        if not complete:
            _check_versions(path, facts["made_by"], environment)
        state = None if complete else unpack(path)
        size, digest = (0, None) if complete else _drop_uncommitted(path)
    except BaseException:
        lock.release()
        raise
    return RunWriter(path, facts, state, len(rows), lock, size, digest)


def check_resumable(path: Path) -> None:
    """Refuse an interrupted run that cannot continue, because its checkpoint is damaged or deleted."""
    _need_no_links(path)
    if (path / "run.json").exists() and read_json(path)[0]["status"] != "complete":
        unpack(path)


def discard_checkpoint(path: Path) -> None:
    """Delete the checkpoint of a finished run; tables and pages need only its records."""
    if (path / "run.json").exists() and read_json(path)[0]["status"] == "complete":
        with writing(path):
            shutil.rmtree(path / "checkpoint", ignore_errors=True)


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Keep other processes out of a run directory, whose files come from another machine."""
    lock = _locked(path)
    try:
        yield
    finally:
        lock.release()


def _locked(path: Path) -> FileLock:
    """Create a run directory, if there is none, and return its lock, taken."""
    _need_no_links(path)
    lock = FileLock(path / ".lock")
    with writing(path):
        (path / "checkpoint").mkdir(parents=True, exist_ok=True)
        _take(lock, path)
    return lock


def _need_no_links(path: Path) -> None:
    """Refuse a run directory whose files are links: a run that continues would cut and overwrite what they lead to."""
    files = (".lock", "run.json", "rounds.jsonl", "checkpoint")
    for place in (path, *(path / name for name in files), checkpoint_file(path), encoder_file(path)):
        if place.is_symlink():
            raise RecordError(
                f"{place} is a link, and a run writes only into its own directory: delete the link, or choose another "
                "--out."
            )


def _take(lock: FileLock, path: Path) -> None:
    try:
        lock.acquire(timeout=0)
    except Timeout as error:
        raise RecordError(
            f"{path} is being written by another process: wait for it, or choose another --out."
        ) from error


def _check_versions(path: Path, before: Mapping[str, str], environment: Mapping[str, str]) -> None:
    """Refuse to finish a run with other code than it was started with."""
    for name, now in environment.items():
        was_left_out = name in ("cpu", "gpu") and name not in before  # by earlier versions
        if not (gives_same_bits(name, before.get(name), now) or was_left_out):
            raise RecordError(
                f"{path} was started with {name} {before.get(name)}, and this is {now}, which may change the results: "
                f"finish it with {name} {before.get(name)}, or delete it to start it again."
            )


def _create(path: Path, facts: Mapping[str, Any]) -> None:
    if (path / "rounds.jsonl").exists():
        raise RecordError(f"{path / 'run.json'} is missing beside recorded rounds: {REMEDY}")
    described = {key: value for key, value in facts.items() if key != "encoder"}
    with writing(path):
        if facts.get("encoder"):
            content = json.dumps(facts["encoder"], ensure_ascii=False).encode()
            described["encoder_sha256"] = sha256(content)
            replace_atomically(encoder_file(path), content, is_locked=True)
        replace_atomically(path / "run.json", _as_json({**described, "status": "running"}), is_locked=True)


def _opened_or_created(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o666)


def _drop_uncommitted(path: Path) -> tuple[int, Any]:
    """Cut off lines of rounds that were never committed; return the length and the digest of the rest."""
    lines = path / "rounds.jsonl"
    if not lines.exists():
        return 0, hashlib.sha256()
    with writing(path):
        os.truncate(lines, (read_header(path) or {"bytes": 0})["bytes"])
    content = read_bytes(lines)
    return len(content), hashlib.sha256(content)


@contextmanager
def writing(path: Path, *, is_begun: bool = False) -> Iterator[None]:
    """Turn an operating-system error into one sentence; `is_begun` says that this process wrote there before."""
    try:
        yield
    except OSError as error:
        is_replaced = error.errno in _REPLACED or (is_begun and error.errno in _REMOVED)
        remedy = f"something else removed or replaced it; {REMEDY}" if is_replaced else _MAKE_ROOM
        raise RecordError(f"{error.filename or path} cannot be written ({error.strerror}): {remedy}") from error


def _as_json(facts: Mapping[str, Any]) -> bytes:
    facts = {**facts, "facts_sha256": facts_digest(facts)}
    return json.dumps(facts, indent=1, ensure_ascii=False).encode()  # no newline: any cut leaves broken JSON
