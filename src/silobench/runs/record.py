"""The run directory: one run's configuration, its rounds as JSON lines, and a checkpoint to go on from.

    run.json        what was run, on what, with which versions; status; digest of rounds.jsonl when complete
    rounds.jsonl    one line a round
    checkpoint/     state.safetensors: everything needed to go on bit for bit

The checkpoint commits rounds: it is replaced atomically *after* their lines are written, and names the length and
digest of rounds.jsonl up to the last. Whatever lies beyond was under way when the run was cut off, and is dropped;
anything shorter or different is damage, and is named instead of being trained on.

Rounds of a few milliseconds are committed several at a time: writing takes a fiftieth of the time at most, and a kill
loses at most fifty times what a commit takes, which is a fraction of a second on most disks.
"""

import hashlib
import json
import os
import platform
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from silobench.atomic import replace_atomically
from silobench.errors import RecordError
from silobench.runs.checkpoint import REMEDY, arrays, file_of, pack, read_header, unpack
from silobench.training.state import RoundRecord, State

FORMAT = 1
# Keys that came later: at these they do not name a run anew.
LATER = {"selection": "uniform", "buffers": "average", "start": "random", "measure": ""}
_FACTS = {
    "format": int, "id": str, "status": str, "created": str, "made_by": dict, "config": dict, "label": dict,
    "dataset": dict, "partition": dict,
}  # fmt: skip
_COMMIT_EVERY = 50  # times what a commit takes


def run_id(config: Mapping[str, Any]) -> str:
    """The name of a run's directory: a hash of its resolved configuration."""
    text = json.dumps({"format": FORMAT, **config}, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def versions() -> dict[str, str]:
    """What the bits of a run depend on besides its configuration."""
    packages = {name: metadata.version(name) for name in ("silobench", "torch", "numpy", "scipy", "scikit-learn")}
    return {"python": platform.python_version(), "machine": platform.machine(), **packages}


@dataclass(frozen=True)
class StoredRun:
    """A run as read back from its directory, verified."""

    path: Path
    facts: dict[str, Any]  # run.json
    rounds: list[dict[str, Any]]

    @property
    def complete(self) -> bool:
        return bool(self.facts["status"] == "complete")


def read_run(path: Path) -> StoredRun:
    """Read and verify a run directory; a torn or altered file is refused by name."""
    facts = _read_facts(path)
    lines = path / "rounds.jsonl"
    if facts["status"] == "complete":
        size, digest = facts["records"]["bytes"], facts["records"]["sha256"]
    else:
        commit = read_header(path)
        size, digest = (commit["bytes"], commit["sha256"]) if commit else (0, _sha(b""))
    content = _read_bytes(lines) if size or lines.exists() else b""
    if len(content) < size or _sha(content[:size]) != digest:
        raise RecordError(
            f"{lines} is damaged (its first {size} bytes do not match the record, it has {len(content)}): {REMEDY}"
        )
    return StoredRun(path, facts, [json.loads(line) for line in content[:size].splitlines()])


def read_runs(root: Path) -> list[StoredRun]:
    """Every run under a directory, in a stable order."""
    if not root.is_dir():
        raise RecordError(f"there is no directory {root}: run an experiment first, or check the path.")
    found = sorted(path.parent for path in root.glob("**/run.json"))
    if not found:
        raise RecordError(f"{root} holds no run: run an experiment with --out {root} first.")
    return [read_run(path) for path in found]


def distinguishing(labels: Sequence[Mapping[str, Any]], but: Sequence[str]) -> list[str]:
    """The choices in which runs of one dataset differ, leaving some out.

    >>> distinguishing([{"dataset": "a", "lr": 1, "seed": 0}, {"dataset": "a", "lr": 2, "seed": 1}], but=["seed"])
    ['lr']
    """
    seen: dict[tuple[str, str], set[str]] = {}
    for label in labels:
        for key, value in label.items():
            seen.setdefault((key, label["dataset"]), set()).add(repr(value))
    sometimes = {key for key, _ in seen if not all(key in label for label in labels)}
    different = [key for (key, _), values in seen.items() if len(values) > 1 or key in sometimes]
    return [key for key in dict.fromkeys(different) if key not in but]


@dataclass
class RunWriter:
    """A run directory being written. Open it with `open_run`; one process at a time."""

    path: Path
    facts: dict[str, Any]
    state: State | None  # where to go on from; None at the beginning
    rounds: list[dict[str, Any]]
    _lock: FileLock = field(repr=False)
    _size: int = 0
    _digest: Any = None
    _pending: list[bytes] = field(default_factory=list)  # lines that are not yet committed
    _next: float = 0.0  # when to commit again

    def append(self, record: RoundRecord) -> None:
        """Take in a round; it is committed at once, unless the last commit has just been."""
        row = record.as_json()
        self._pending.append((json.dumps(row, allow_nan=False) + "\n").encode())
        self.rounds.append(row)
        self.state = record.state
        if time.monotonic() >= self._next:
            self.commit()

    def commit(self) -> None:
        """Write the lines of the rounds since the last commit, then the checkpoint that counts them."""
        if not self._pending or self.state is None:
            return
        began, lines = time.monotonic(), b"".join(self._pending)
        with _writing(self.path), (self.path / "rounds.jsonl").open("ab") as file:
            file.write(lines)
            file.flush()
            os.fsync(file.fileno())  # on disk before the checkpoint that counts it
        self._pending.clear()
        self._size += len(lines)
        self._digest.update(lines)
        commit = {"bytes": self._size, "sha256": self._digest.hexdigest()}
        with _writing(self.path):
            replace_atomically(file_of(self.path), pack(self.state, commit))
        now = time.monotonic()
        self._next = now + _COMMIT_EVERY * (now - began)

    def finish(self) -> None:
        """Mark the run complete and seal its records."""
        if self.state is None:
            raise RecordError(f"{self.path} has no round to finish with: give rounds of at least 1.")
        self.commit()
        self.facts |= {
            "status": "complete",
            "records": {"rounds": len(self.rounds), "bytes": self._size, "sha256": self._digest.hexdigest()},
            "model_sha256": _sha(self.state.server.params.numpy().tobytes()),
            "state_sha256": _sha(b"".join(array.tobytes() for array in arrays(self.state).values())),
        }
        with _writing(self.path):
            replace_atomically(self.path / "run.json", _as_json(self.facts))
        self.close()

    def close(self) -> None:
        self._lock.release()

    def __enter__(self) -> "RunWriter":
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None or not issubclass(kind, RecordError):  # after one of these the disk has had its say
                self.commit()
        finally:
            self.close()


def open_run(path: Path, made_by: Mapping[str, str], describe: Callable[[], Mapping[str, Any]]) -> RunWriter:
    """Begin a run directory, described by `describe`, or go on with one that was cut off.

    `made_by` is what the bits depend on besides the configuration: versions and engine.
    """
    lock = FileLock(path / ".lock")
    with _writing(path):
        (path / "checkpoint").mkdir(parents=True, exist_ok=True)
        _take(lock, path)
    try:
        if not (path / "run.json").exists():
            _begin(path, {"format": FORMAT, "made_by": dict(made_by), **describe()})
        stored = read_run(path)
        if not stored.complete:
            _check_origin(stored, made_by)
        state = None if stored.complete else unpack(path)
        size, digest = _truncate_to(path, stored, state)
    except BaseException:
        lock.release()
        raise
    return RunWriter(path, stored.facts, state, stored.rounds, lock, size, digest)


def discard_checkpoint(path: Path) -> None:
    """Keep the records of a finished run alone, which is all that tables and pages need; one under way keeps all."""
    if (path / "run.json").exists() and read_run(path).complete:
        with _writing(path):
            shutil.rmtree(path / "checkpoint", ignore_errors=True)


def begun_by(path: Path) -> dict[str, str]:
    """What an unfinished run was begun with; nothing where there is none."""
    if not (path / "run.json").exists():
        return {}
    facts = _read_facts(path)
    return {} if facts["status"] == "complete" else facts["made_by"]


def _take(lock: FileLock, path: Path) -> None:
    try:
        lock.acquire(timeout=0)
    except Timeout as error:
        raise RecordError(
            f"{path} is being written by another process: wait for it, or choose another --out."
        ) from error


def _check_origin(stored: StoredRun, made_by: Mapping[str, str]) -> None:
    """The second half of a run must not come from other code than the first."""
    for name, now in made_by.items():
        begun = stored.facts["made_by"].get(name)
        if begun != now:
            raise RecordError(
                f"{stored.path} was begun with {name} {begun}, and this is {now}, which may give other bits: "
                f"finish it with {name} {begun}, or delete it to run it anew."
            )


def _begin(path: Path, facts: Mapping[str, Any]) -> None:
    if (path / "rounds.jsonl").exists():
        raise RecordError(f"{path / 'run.json'} is missing beside recorded rounds: {REMEDY}")
    with _writing(path):
        replace_atomically(path / "run.json", _as_json({**facts, "status": "running"}))


def load_state(path: Path) -> State:
    """The last committed state of a run."""
    state = unpack(path)
    if state is None:
        raise RecordError(f"{path} has no checkpoint: it was never begun, or its checkpoint was removed.")
    return state


def _truncate_to(path: Path, stored: StoredRun, state: State | None) -> tuple[int, Any]:
    """Drop the line of a round that was never committed; gives the length and digest to go on with."""
    lines = path / "rounds.jsonl"
    commit = stored.facts["records"] if stored.complete else read_header(path) or {"bytes": 0}
    if state is None and not stored.complete and lines.exists() and lines.read_bytes().count(b"\n") > 1:
        raise RecordError(f"{path / 'checkpoint'} is missing beside recorded rounds: {REMEDY}")
    if lines.exists() and not stored.complete:
        with _writing(path):
            os.truncate(lines, commit["bytes"])
    content = _read_bytes(lines) if lines.exists() else b""
    return len(content), hashlib.sha256(content)


# --- files -------------------------------------------------------------------------------------------


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    """Turns an operating-system refusal into one sentence."""
    try:
        yield
    except OSError as error:
        raise RecordError(
            f"{path} cannot be written ({error.strerror}): free space or choose another --out; "
            "finished rounds are kept, and the same command goes on from them."
        ) from error


def _read_bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise RecordError(f"{path} cannot be read ({error.strerror}): {REMEDY}") from error


def _read_facts(path: Path) -> dict[str, Any]:
    content = _read_bytes(path / "run.json")
    try:
        facts: dict[str, Any] = json.loads(content)
        whole = all(isinstance(facts[key], kind) for key, kind in _FACTS.items())
        whole &= facts["status"] != "complete" or isinstance(facts["records"], dict)
    except (ValueError, KeyError, TypeError) as error:
        raise RecordError(f"{path / 'run.json'} is damaged (it is not a whole run description): {REMEDY}") from error
    if not whole or facts["format"] != FORMAT:
        raise RecordError(f"{path / 'run.json'} is no run description of format {FORMAT}: {REMEDY}")
    return facts


def _as_json(facts: Mapping[str, Any]) -> bytes:
    return json.dumps(facts, indent=1, ensure_ascii=False).encode()  # no newline: any cut leaves broken JSON


def _sha(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
