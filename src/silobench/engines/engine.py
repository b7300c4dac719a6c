"""The engines by name: how parties are trained (natively, stacked or one by one), where, and on how many cores."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from silobench.engines import kernel as kernels
from silobench.engines.cluster.executor import Cpus, Gpus
from silobench.engines.executor import Dispatch, Executor, Memories, executor_of, workers_on
from silobench.engines.modes import MODES, Mode
from silobench.engines.workers import EXECUTORS  # including `pool`, which that module registers
from silobench.errors import ConfigError
from silobench.federation import Part
from silobench.method.types import Count
from silobench.processes import cores
from silobench.spec import Registry, Spec
from silobench.spec.contract import Contract
from silobench.tasks.score import Score
from silobench.tasks.task import Weights
from silobench.training.party import LocalRound
from silobench.training.setting import Setting
from silobench.training.state import PartyMemory, Reply

_WORTH_SENDING = 2e7  # parameters times rows; below this, messages to workers cost more than they save


@dataclass(frozen=True)
class Engine:
    """How parties are trained, where, and on how many cores. Only the first affects results, and only by rounding."""

    modes: tuple[str, ...]  # names in MODES, in order of preference
    workers: int = 0  # threads of the native step, else workers of the executor; 0 to use this process only
    least: float = 0.0  # a round with less work than this stays in this process
    executor: str = "pool"  # a spec of EXECUTORS
    is_debug: bool = False  # whether errors are shown with their traceback
    bound: Mode | None = None  # a mode that belongs to one run, as that of real silos, so that it is not in MODES

    def settled(self, setting: Setting, previous: str | None = None) -> "Engine":
        """Choose one mode: the `previous` one of an interrupted run, else the first that supports this setting."""
        if previous in self.modes and (refusal := self.mode_of(previous).refusal(setting)):
            raise ConfigError(
                f"this run was started with engine {previous}, which cannot continue it on this machine ({refusal}): "
                "fix that, or delete the run to start it again."
            )
        refusals = []
        for mode in (previous,) if previous in self.modes else self._candidates(setting):
            refusal = self.mode_of(mode).refusal(setting)
            if refusal is None:
                for name in self.modes:
                    self.mode_of(name).warn(setting)
                workers = workers_on(self.executor, self.workers, setting.task.device)
                return replace(self, modes=(mode,), workers=workers)
            refusals.append(f"engine {mode} cannot run this experiment: {refusal}")
        raise ConfigError("; ".join(refusals) + "; use auto.")

    def _candidates(self, setting: Setting) -> tuple[str, ...]:
        """Return the modes to choose from: of several, only those that pay off."""
        return tuple(mode for mode in self.modes if len(self.modes) == 1 or self.mode_of(mode).pays_off(setting))

    @property
    def is_remote(self) -> bool:
        """Whether jobs may run on machines without the disk of this one."""
        return self.workers > 0 and getattr(self.place(self.workers), "is_remote", False)

    @property
    def mode(self) -> str:
        """How parties are trained; results are identical for any number of processes or threads."""
        return self.modes[0]

    def mode_of(self, name: str) -> Mode:
        """Return the mode of this name."""
        return self.bound if self.bound is not None and self.bound.name == name else MODES[name]

    @property
    def may_miss(self) -> bool:
        """Whether parties may fail to answer, so that the replies tell who did."""
        return self.mode_of(self.mode).may_miss

    @property
    def environment(self) -> dict[str, str]:
        """Facts for the run record: the engine, the type of processor and, if native, the kernel."""
        return {"engine": self.mode, "cpu": kernels.cpu_type(), **self.mode_of(self.mode).facts()}

    @property
    def processes(self) -> int:
        """The number of worker processes; 0 if all work is done in this one, as by threads of the native step."""
        return 0 if self.mode == "native" else self.workers

    def __str__(self) -> str:
        if self.mode != "inline" or not self.workers:
            return self.mode
        return self.executor.partition("(")[0] if self.is_remote else "pool"

    @property
    def memories(self) -> Memories:
        """Where the memories of parties are stored between rounds."""
        return self.place(self.workers).memories

    def place(self, workers: int) -> Executor:
        """Return where jobs run on this many workers; this process if there are none."""
        return executor_of(self.executor if workers else "here", max(1, workers))

    def train(self, local_round: LocalRound, memory: Mapping[int, PartyMemory]) -> "tuple[Engine, Iterator[Reply]]":
        """Train the parties in `memory`; return the engine that is used and the replies in a fixed order.

        The engine that is used has no workers where the round is too short for them.
        """
        workers, replies = self.mode_of(self.mode).train(local_round, memory, self._dispatch)
        return self if workers == self.workers else replace(self, workers=workers), replies

    def score(self, setting: Setting, models: Sequence[Weights], parts: Sequence[Part]) -> list[Score]:
        """Return the score of every model on all parts. Parts are summed in their order, wherever they were scored."""
        return self.mode_of(self.mode).score(setting, models, parts, self._dispatch)

    @cached_property
    def _dispatch(self) -> Dispatch:
        return Dispatch(self.executor, self.workers, self.least)

    @property
    def ways(self) -> tuple[str, ...]:
        """The former name of `modes`."""
        return self.modes

    @property
    def way(self) -> str:
        """The former name of `mode`."""
        return self.mode


ENGINES: Registry[Engine] = Registry("engine", Contract(Engine, "an sb.Engine(...)"))


@ENGINES.register
def auto(workers: Count | None = None, native: bool = True, executor: str = "pool") -> Engine:
    """The first of native (unless native=false), stacked, vmap (on GPUs) and inline that suits, on all cores."""
    modes = (*["native"] * native, "stacked", "vmap", "inline")
    return Engine(modes, _processes(workers), _WORTH_SENDING, _known(executor))


@ENGINES.register
def inline() -> Engine:
    """Train one party after another with PyTorch, in this process, on one thread."""
    return Engine(("inline",))


@ENGINES.register
def debug() -> Engine:
    """Train as inline does, never start a worker process, and show the full traceback of an error."""
    return Engine(("inline",), executor="here", is_debug=True)


@ENGINES.register
def native(workers: Count | None = None) -> Engine:
    """Train each party by one call of compiled code (models cnn, mlp and linear), on threads of this process."""
    return Engine(("native",), workers=_processes(workers), least=_WORTH_SENDING)


@ENGINES.register
def stacked(workers: Count | None = None, executor: str = "pool") -> Engine:
    """Train parties together as one batched computation (models linear and mlp), one stack per worker process."""
    return Engine(("stacked",), _processes(workers), _WORTH_SENDING, _known(executor))


@ENGINES.register
def vmap(workers: Count | None = None, executor: str = "pool") -> Engine:
    """Train parties together by torch.func.vmap (most models), one stack per worker process or GPU."""
    return Engine(("vmap",), _processes(workers), _WORTH_SENDING, _known(executor))


@ENGINES.register
def pool(workers: Count | None = None, executor: str = "pool") -> Engine:
    """Train one party at a time in each worker process, by default one per core; results are identical to inline."""
    return Engine(("inline",), workers=workers or cores(), executor=_known(executor))


@ENGINES.register
def ray(workers: Count | None = None, address: str = "local", cpus: Cpus = 1.0, gpus: Gpus = 0.0) -> Engine:
    """Train parties as tasks of a Ray cluster, by default of one on this machine; results are identical to inline.

    `address` is auto, HOST:PORT or local. A party reserves `cpus` CPUs and `gpus` GPUs of a machine of the cluster.
    """
    executor = str(Spec("ray", (), (("address", address), ("cpus", cpus), ("gpus", gpus))))
    return Engine(("inline",), executor_of(executor, workers).workers, executor=executor)


def _processes(workers: int | None) -> int:
    count = workers or cores()
    return count if count > 1 else 0


def _known(executor: str) -> str:
    """Return the spec of an executor in its short form, or raise an error that suggests another one."""
    return str(EXECUTORS.bind(executor).short)
