"""Initial models: random, the model of a finished run, or one that is trained by centralised SGD first."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from silobench.errors import ConfigError
from silobench.loop.prelude import warmed_up
from silobench.method.algorithms import ALGORITHMS
from silobench.method.solvers import SOLVERS
from silobench.method.types import Count
from silobench.runs.checkpoint import load_state
from silobench.runs.keys import keys_of
from silobench.runs.stored import StoredRun, checkpoint_file, read_run
from silobench.spec import Registry, Spec
from silobench.spec.contract import Contract
from silobench.training.setting import Setting

# The run of centralised SGD that another run starts from has the same choices, except for these.
_CENTRALISED: dict[str, Any] = {
    "algorithm": "combined",
    "partition": "iid",
    "participation": 1.0,
    "selection": "uniform",
    "transforms": "",
    "server": "step",
    "controller": "fixed",
    "exchange": "star",
    "aggregate": "mean",
    "availability": "always",
    "pace": "synchronous",
    "clock": "measured",
    "broadcast": "",
    "adversary": "none",
    "start": "random",
    "measure": [],
    "metric": [],
}


@dataclass(frozen=True)
class Start:
    """Where the initial model comes from: a finished run at `path`, a run to be made first, or (both None) random."""

    path: Path | None = None
    rounds: int | None = None  # of the run to be made first
    batch: int | None = None

    @property
    def is_random(self) -> bool:
        """Whether the initial model was not trained."""
        return self.path is None and self.rounds is None

    def origin(self, choices: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return the choices of the run to be made first; None if there is none."""
        if self.rounds is None:
            return None
        solver = SOLVERS.bind(str(choices["solver"])).full
        if self.batch is not None:
            solver = Spec(solver.name, solver.args, tuple({**dict(solver.kwargs), "batch": self.batch}.items()))
        buffers = "keep" if choices["buffers"] == "keep" else "average"  # one party has none of its own
        return {**choices, **_CENTRALISED, "buffers": buffers, "rounds": self.rounds, "solver": str(solver)}


__all__ = ["STARTS", "Start", "digest_of", "started", "warmed_up"]

STARTS: Registry[Start] = Registry("start", Contract(Start, "a Start(...)"))


@STARTS.register
def random() -> Start:
    """Random weights, drawn by the run's seed."""
    return Start()


@STARTS.register
def run(path: str) -> Start:
    """The final model of the finished run in this directory: ``run(path=runs/0123456789abcdef)``."""
    return Start(path=Path(path))


@STARTS.register
def centralised(rounds: Count, batch: Count | None = None) -> Start:
    """A model that was trained on all rows in one place for `rounds` rounds, by a run that is made first.

    The pre-trained start of Zhao et al. That run has the choices of this one, except for `batch`: the paper's is ten
    times as large.
    """
    return Start(rounds=rounds, batch=batch)


def digest_of(path: Path) -> str:
    """Return the digest of a finished run's model: a run that starts from another model is another run."""
    if not (path / "run.json").is_file():
        raise ConfigError(f"start: there is no run at {path}: give the directory of one, as run(path=runs/01234...).")
    stored = read_run(path)
    if not stored.complete:
        raise ConfigError(
            f"start: {path} is not finished, and a run starts from the final model of another: finish it first."
        )
    if not checkpoint_file(path).is_file():
        raise ConfigError(
            f"start: {path} has no model (checkpoint/state.safetensors is missing, as after --records-only): delete "
            "that run to make it anew."
        )
    _need_one_model(stored)
    return stored.facts.model_sha256


def _need_one_model(stored: StoredRun) -> None:
    config = stored.config
    if keys_of(config.text("partition")).is_vertical:
        raise ConfigError(
            f"start: the parties of {stored.path} hold columns, and a model of such parties is not one for parties "
            "that hold rows: give another run."
        )
    algorithm = ALGORITHMS.build(str(config["algorithm"]))
    if algorithm.replica or algorithm.personal or config.buffers == "local":
        raise ConfigError(
            f"start: in {stored.path} every party has a model of its own ({config['algorithm']}): give a run with one "
            "model for all."
        )


def started(setting: Setting, origin: Path | None) -> Setting:
    """Return the setting with the model of a finished run as its initial model, if a run is given."""
    if origin is None:
        return setting
    server, task = load_state(origin).server, setting.task
    if (server.params.shape, server.buffers.shape) != (task.initial.shape, task.buffers.shape):
        raise ConfigError(
            f"start: the model of {origin} has {server.params.numel()} numbers, and this one {task.initial.numel()}: "
            "both must be the same model on data of the same shape."
        )
    return replace(setting, task=replace(task, initial=server.params, buffers=server.buffers))
