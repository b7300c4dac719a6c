"""A run directory that grows round by round, as a run in progress writes it, with numbers that a test chose."""

import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file

from silobench.atomic import replace_atomically
from silobench.runs.stored import checkpoint_file, run_paths, sha256
from stored import stored


class GrowingRun:
    """A run with these accuracies, of which only some rounds are on disk; the other arguments are those of `stored`."""

    def __init__(self, out: Path, accuracies: Sequence[float | None], seed: int = 0, **more: Any) -> None:
        with tempfile.TemporaryDirectory() as folder:
            stored(accuracies, seed, out=Path(folder), **more)
            (path,) = run_paths(Path(folder))
            self.lines = (path / "rounds.jsonl").read_bytes().splitlines(keepends=True)
            self.facts = json.loads((path / "run.json").read_bytes())
        self.path = out / path.name
        self.path.mkdir(parents=True)
        running = {key: value for key, value in self.facts.items() if key != "records"}
        (self.path / "run.json").write_text(json.dumps({**running, "status": "running"}))

    def grow(self, rounds: int) -> None:
        """Record rounds up to this one, in the order of a real run: the lines, then the checkpoint that counts them."""
        content = b"".join(self.lines[:rounds])
        with (self.path / "rounds.jsonl").open("ab") as file:
            file.write(content[file.tell() :])
        state = {"round": rounds, "parties": 1, "knobs": {}, "clock": 0.0, "crc": 0}
        commit = {"silobench": json.dumps({"bytes": len(content), "sha256": sha256(content), **state})}
        file = checkpoint_file(self.path)
        file.parent.mkdir(exist_ok=True)
        temporary = file.with_name("state.new")
        save_file({"params": np.zeros(1, np.float32)}, temporary, commit)
        temporary.replace(file)

    def finish(self) -> None:
        """Record all rounds, and mark the run complete."""
        self.grow(len(self.lines))
        replace_atomically(self.path / "run.json", json.dumps(self.facts).encode())
