"""Contracts of plugins: a hook that returns something wrong is named in one sentence.

A plugin is code that its user chooses to run, so its file is no input. What its hooks return is: the first byte of an
input picks a hook, and the others say what it returns, call by call.
"""

from collections.abc import Callable
from itertools import chain, repeat
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch

from fuzz.target import Target
from silobench.errors import RunError, SilobenchError
from silobench.loop.clocks import CLOCKS, Clock
from silobench.loop.paces import PACES, Pace
from silobench.method.adversaries import ADVERSARIES, Adversary
from silobench.method.algorithms import ALGORITHMS
from silobench.method.availability import AVAILABILITIES
from silobench.method.codecs import Codec
from silobench.method.selection import SELECTIONS
from silobench.method.servers import SERVERS
from silobench.method.solvers import SCHEDULES
from silobench.method.transforms import TRANSFORMS
from silobench.method.types import Algorithm, ServerOptimizer, Transform, Update
from silobench.partitions import PARTITIONS
from silobench.runs.execute import execute
from silobench.runs.experiment import plan
from silobench.runs.prepare import prepare
from silobench.spec import Registry
from silobench.tasks.metric_functions import METRICS, MetricFunction
from wrong_inputs.plugins import registries_as_before

Hook: TypeAlias = Callable[..., Any]
_PLAIN = {
    "dataset": "fcube", "partition": "octants", "model": "linear", "solver": "sgd(epochs=1, batch=2048)", "rounds": 2,
}  # fmt: skip


def _coded(hook: Hook) -> Transform:
    def encode(update: Update, memory: Any, context: Any) -> Any:
        return update.coded(Codec(lambda part: part.tobytes(), hook)), memory

    return Transform(encode)


def _algorithm(name: str) -> Callable[[Hook], Any]:
    return lambda hook: Algorithm(**{name: hook})


# For each hook: the registry, the choice that uses it, and how a part is built around it.
_HOOKS: list[tuple[Registry[Any], dict[str, Any], Callable[[Hook], Any]]] = [
    *(
        (ALGORITHMS, {"algorithm": "mine"}, _algorithm(name))
        for name in ("message", "absorb", "pull", "correct", "memory", "extras", "start", "personal", "refuses", "loss")
    ),
    (TRANSFORMS, {"transforms": "mine"}, Transform),
    (TRANSFORMS, {"transforms": "mine"}, _coded),
    (SELECTIONS, {"selection": "mine", "participation": 0.5}, lambda hook: hook),
    (AVAILABILITIES, {"availability": "mine"}, lambda hook: hook),
    (SERVERS, {"server": "mine"}, lambda hook: ServerOptimizer(lambda params: {}, hook)),
    (SERVERS, {"server": "mine"}, lambda hook: ServerOptimizer(hook, lambda params, direction, state: (params, state))),
    (SCHEDULES, {"solver": "sgd(lr=mine(), epochs=1, batch=2048)"}, lambda hook: hook),
    (PACES, {"pace": "mine", "clock": "device"}, Pace),
    (CLOCKS, {"clock": "mine"}, Clock),
    (METRICS, {"metric": "mine"}, MetricFunction),
    (ADVERSARIES, {"adversary": "mine"}, lambda hook: Adversary(0.5, message=hook)),
    (ADVERSARIES, {"adversary": "mine"}, lambda hook: Adversary(0.5, labels=hook)),
    (PARTITIONS, {"partition": "mine", "parties": 2}, lambda hook: hook),
    *(
        (registry, choice, lambda hook: hook())  # the factory itself returns something wrong
        for registry, choice in ((ALGORITHMS, {"algorithm": "mine"}), (TRANSFORMS, {"transforms": "mine"}))
    ),
]
_VALUES: list[Callable[[tuple[Any, ...]], Any]] = [
    lambda arguments: None,
    lambda arguments: arguments,
    lambda arguments: arguments[0],
    lambda arguments: arguments[-1],
    lambda arguments: (arguments[0], arguments[-1]),
    lambda arguments: (arguments[-1], arguments[0]),
    lambda arguments: {},
    lambda arguments: {"x": arguments[0]},
    lambda arguments: [arguments[0]] * 3,
    lambda arguments: 0,
    lambda arguments: -1,
    lambda arguments: float("nan"),
    lambda arguments: 1e300,
    lambda arguments: True,
    lambda arguments: "x\n\x1b",
    lambda arguments: torch.zeros(8),
    lambda arguments: torch.zeros(8, dtype=torch.float64),
    lambda arguments: torch.zeros(0),
    lambda arguments: torch.full((8,), torch.nan),
    lambda arguments: (torch.zeros(8), {}),
    lambda arguments: torch.tensor(1.0),
    lambda arguments: np.zeros(8, np.float32),
    lambda arguments: np.array(["a"]),
    lambda arguments: (0, 1),
    lambda arguments: (1, 0),
    lambda arguments: (0, 0),
    lambda arguments: range(2),
    lambda arguments: {0},
    lambda arguments: b"bytes",
    lambda arguments: object,
    lambda arguments: Update.of(1.0, delta=torch.zeros(8)),
    lambda arguments: (Update.of(0.0, delta=torch.zeros(8)), {}),
    lambda arguments: (Update.of(float("nan"), other=torch.zeros(3)), {}),
    lambda arguments: (x for x in arguments),
    lambda arguments: 1 / 0,
    lambda arguments: arguments[9],
    lambda arguments: getattr(arguments[0], "nothing"),  # noqa: B009
    lambda arguments: [np.arange(4), np.arange(4, 8)],
    lambda arguments: [np.arange(4), np.arange(2, 8)],
    lambda arguments: [[0.5]],
    lambda arguments: torch.zeros(8, requires_grad=True),
    lambda arguments: torch.sparse_coo_tensor([[0]], [1.0], (8,)),
]


def _read(data: bytes) -> None:
    registry, choice, build = _HOOKS[data[0] % len(_HOOKS)] if data else _HOOKS[0]
    values = chain(data[1:], repeat(data[-1] if data else 0))

    def hook(*arguments: Any) -> Any:
        return _VALUES[next(values) % len(_VALUES)](arguments or (None,))

    def mine() -> Any:
        return build(hook)

    with registries_as_before():
        registry.register(mine)
        try:
            for planned in plan({**_PLAIN, **choice}):
                for _ in execute(prepare(planned), Path("runs"), "inline"):
                    pass
        except RunError as error:
            if "the hook `" not in str(error):  # then it is a bug of silobench
                raise
            raise SilobenchError(str(error)) from error


def _seeds() -> list[bytes]:
    return [bytes([place, value]) for place in range(len(_HOOKS)) for value in range(0, len(_VALUES), 7)]


TARGETS = (Target("plugin-hooks", _read, _seeds, has_sentences=False, share=0.2, most_bytes=8),)
