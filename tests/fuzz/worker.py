"""One driver on one target, in a process of its own, which `fuzz.drive` forks.

Files in the folder of the worker: `current` (the input that is being read, for the case of a crash), `counts.json`,
`findings/`, `log`, and `place/output`, which is the only directory where the target may write.
"""

import json
import os
import sys
import time
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import hypothesis
import torch

from fuzz.guard import Finding, check, empty
from fuzz.mutate import mutations
from fuzz.target import MEGABYTE, Target, all_targets

_ONE_DAY = 86_400  # seconds: atheris has a timer of its own, of wall time; 0 means one second to it, not none
_EVERY = 50  # inputs between two writings of the counts


class Tally:
    """The counts of a worker, and its findings as files."""

    def __init__(self, folder: Path, target: Target, most: int) -> None:
        self.folder, self.target, self.most = folder, target, most
        self.inputs = self.accepted = self.refused = 0
        self.slowest = 0.0
        self.grown = 0
        self.keys: set[tuple[str, str]] = set()
        self._start = time.process_time()
        self._current = os.open(folder / "current", os.O_CREAT | os.O_RDWR, 0o600)

    def read(self, data: bytes) -> None:
        """Hand an input to the target between all guards, and count what became of it."""
        os.ftruncate(self._current, 0)
        os.pwrite(self._current, data, 0)
        start = time.process_time()
        outcome = check(self.target, data)
        self.slowest = max(self.slowest, time.process_time() - start)
        self.grown = max(self.grown, outcome.grown)
        empty(Path.cwd())
        self.inputs += 1
        self.accepted += outcome.refusal is None and outcome.finding is None
        self.refused += outcome.refusal is not None
        if outcome.finding and outcome.finding.key not in self.keys:
            self.keys.add(outcome.finding.key)
            record(self.folder / "findings", outcome.finding)
        if self.inputs % _EVERY == 0 or self.inputs >= self.most:
            self.write()

    def write(self) -> None:
        """Write the counts."""
        counts = {
            "inputs": self.inputs, "accepted": self.accepted, "refused": self.refused,
            "slowest": round(self.slowest, 3), "megabytes": round(self.grown / MEGABYTE, 1),
            "seconds": round(time.process_time() - self._start, 1),
        }  # fmt: skip
        (self.folder / "counts.json").write_text(json.dumps(counts))


def record(folder: Path, finding: Finding) -> None:
    """Write a finding: its input, and what it broke."""
    folder.mkdir(exist_ok=True)
    name = sha256(repr(finding.key).encode()).hexdigest()[:12]
    (folder / f"{name}.bin").write_bytes(finding.data)
    (folder / f"{name}.json").write_text(
        json.dumps({"kind": finding.kind, "place": finding.place, "detail": finding.detail})
    )


def work(name: str, driver: str, inputs: int, seed: int, folder: Path) -> None:
    """Drive a target until it has read so many inputs."""
    log = os.open(folder / "log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    os.dup2(log, 1), os.dup2(log, 2)
    torch.set_num_threads(1)
    output = folder / "place" / "output"
    output.mkdir(parents=True, exist_ok=True)
    os.chdir(output)
    target = all_targets()[name]
    seeds = list(target.seeds())
    DRIVERS[driver](Tally(folder, target, inputs), seeds, inputs, seed)


def _by_mutation(tally: Tally, seeds: list[bytes], inputs: int, seed: int) -> None:
    for data, _ in zip(
        mutations(seeds, tally.target.words, seed, tally.target.most_bytes), range(inputs), strict=False
    ):
        tally.read(data)


def _by_hypothesis(tally: Tally, seeds: list[bytes], inputs: int, seed: int) -> None:
    assert tally.target.strategy is not None
    checks = list(hypothesis.HealthCheck)

    @hypothesis.seed(seed)
    @hypothesis.settings(max_examples=inputs, database=None, deadline=None, suppress_health_check=checks)
    @hypothesis.given(tally.target.strategy())
    def drive(data: bytes) -> None:
        tally.read(data)

    drive()
    tally.write()


def warm_up() -> None:
    """Let hypothesis look for constants in all imported modules, which takes seconds, before there are many forks."""

    @hypothesis.settings(max_examples=1, database=None, deadline=None)
    @hypothesis.given(hypothesis.strategies.text())
    def nothing(text: str) -> None:
        assert isinstance(text, str)

    nothing()


def _by_atheris(tally: Tally, seeds: list[bytes], inputs: int, seed: int) -> None:
    import atheris

    corpus, words = tally.folder / "corpus", tally.folder / "words"
    corpus.mkdir(exist_ok=True)
    for place, data in enumerate(seeds):
        (corpus / f"seed-{place}").write_bytes(data)
    words.write_text("".join(map(_entry, filter(None, tally.target.words))))
    longest = max([tally.target.most_bytes, *map(len, seeds)])
    options = [
        f"-runs={inputs}", f"-seed={seed + 1}", f"-max_len={longest}", "-rss_limit_mb=6000",
        f"-artifact_prefix={tally.folder}/", f"-timeout={_ONE_DAY}", "-print_final_stats=1", str(corpus),
    ]  # fmt: skip
    options += [f"-dict={words}"] if words.stat().st_size else []  # libFuzzer refuses an empty one
    atheris.Setup([sys.argv[0], *options], tally.read)
    atheris.Fuzz()


def _entry(word: bytes) -> str:
    """Return a word as a line of a dictionary of libFuzzer."""
    escaped = "".join(f"\\x{byte:02x}" for byte in word)
    return f'"{escaped}"\n'


DRIVERS: dict[str, Callable[[Tally, list[bytes], int, int], None]] = {
    "atheris": _by_atheris,
    "hypothesis": _by_hypothesis,
    "mutator": _by_mutation,
}
