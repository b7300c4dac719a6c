"""Run directories as they are written: a run's description, its rounds as JSON lines, and a checkpoint to resume from.

`stored` describes the files. The checkpoint commits rounds: it is replaced atomically *after* their lines are written.

Rounds of a few milliseconds are committed several at a time. Writing takes at most a fiftieth of the time, and a kill
loses at most fifty times what a commit takes, which is a fraction of a second on most disks.
"""

import hashlib
import json
import os
import platform
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import metadata
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
from silobench.training.state import RoundRecord, State

_COMMIT_EVERY = 50  # times what a commit takes


def versions() -> dict[str, str]:
    """Return the versions that the bits of a run depend on."""
    packages = {name: metadata.version(name) for name in ("silobench", "torch", "numpy", "scipy", "scikit-learn")}
    return {"python": platform.python_version(), "machine": platform.machine(), **packages}


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
    _next: float = 0.0  # when to commit again

    @property
    def complete(self) -> bool:
        return bool(self.facts["status"] == "complete")

    def append(self, record: RoundRecord) -> None:
        """Record a round. It is committed at once, unless the last commit is only moments ago."""
        self._pending.append((json.dumps(record.as_json(), allow_nan=False) + "\n").encode())
        self.rounds += 1
        self.state = record.state
        if time.monotonic() >= self._next:
            self.commit()

    def commit(self) -> None:
        """Write the lines of the rounds since the last commit, then the checkpoint that counts them."""
        if not self._pending or self.state is None:
            return
        began, lines = time.monotonic(), b"".join(self._pending)
        with writing(self.path), (self.path / "rounds.jsonl").open("ab") as file:
            file.write(lines)
            file.flush()
            os.fsync(file.fileno())  # on disk before the checkpoint that counts it
        self._pending.clear()
        self._size += len(lines)
        self._digest.update(lines)
        commit = {"bytes": self._size, "sha256": self._digest.hexdigest()}
        with writing(self.path):
            replace_atomically(checkpoint_file(self.path), pack(self.state, commit))
        now = time.monotonic()
        self._next = now + _COMMIT_EVERY * (now - began)

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
        with writing(self.path):
            replace_atomically(self.path / "run.json", _as_json(self.facts))
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
            replace_atomically(path / "run.json", _as_json(facts))
        complete = facts["status"] == "complete"
        if not complete:
            _check_versions(path, facts["made_by"], environment)
        state = None if complete else unpack(path)
        size, digest = (0, None) if complete else _drop_uncommitted(path, state)
    except BaseException:
        lock.release()
        raise
    return RunWriter(path, facts, state, len(rows), lock, size, digest)


def check_resumable(path: Path) -> None:
    """Refuse an interrupted run that cannot continue, because its checkpoint is damaged or deleted."""
    if (path / "run.json").exists() and read_json(path)[0]["status"] != "complete" and unpack(path) is None:
        _need_no_rounds(path)


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
    lock = FileLock(path / ".lock")
    with writing(path):
        (path / "checkpoint").mkdir(parents=True, exist_ok=True)
        _take(lock, path)
    return lock


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
        if before.get(name) != now and not was_left_out:
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
            replace_atomically(encoder_file(path), content)
        replace_atomically(path / "run.json", _as_json({**described, "status": "running"}))


def _drop_uncommitted(path: Path, state: State | None) -> tuple[int, Any]:
    """Cut off lines of rounds that were never committed; return the length and the digest of the rest."""
    lines = path / "rounds.jsonl"
    if not lines.exists():
        return 0, hashlib.sha256()
    if state is None:
        _need_no_rounds(path)
    with writing(path):
        os.truncate(lines, (read_header(path) or {"bytes": 0})["bytes"])
    content = read_bytes(lines)
    return len(content), hashlib.sha256(content)


def _need_no_rounds(path: Path) -> None:
    """Refuse a run without a checkpoint, if it has more than the round that was under way."""
    lines = path / "rounds.jsonl"
    if lines.exists() and read_bytes(lines).count(b"\n") > 1:
        raise RecordError(f"{path / 'checkpoint'} is missing beside recorded rounds: {REMEDY}")


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn an operating-system error into one sentence."""
    try:
        yield
    except OSError as error:
        raise RecordError(
            f"{path} cannot be written ({error.strerror}): free space or choose another --out; "
            "finished rounds are kept, and the same command continues from them."
        ) from error


def _as_json(facts: Mapping[str, Any]) -> bytes:
    facts = {**facts, "facts_sha256": facts_digest(facts)}
    return json.dumps(facts, indent=1, ensure_ascii=False).encode()  # no newline: any cut leaves broken JSON
