"""What the hooks of algorithms and server optimizers are called with, and must return; checks of values for all parts.

A new hook is one line in the table of its part. Only hooks of plugins are checked (`silobench.spec.contract`).
"""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from silobench.method.types import ALGORITHMS, Algorithm, Dial, Local, Phase, Pull, ServerOptimizer, Update
from silobench.spec.contract import Contract, Form, described, expects

# --- values --------------------------------------------------------------------------------------------


def like(value: Any, reference: Tensor, what: str) -> str | None:
    """Return what is wrong with a vector that must have the shape and type of another one; None if nothing is."""
    shape, kind = tuple(reference.shape), str(reference.dtype).removeprefix("torch.")
    if isinstance(value, Tensor) and (value.shape, value.dtype) == (reference.shape, reference.dtype):
        return None
    return f"{described(value)}, but {what} is expected: a tensor of shape {shape} and type {kind}"


def tensors(value: Any, what: str) -> str | None:
    """Return what is wrong with named tensors, such as a memory; None if nothing is."""
    if not isinstance(value, Mapping):
        return f"{described(value)}, but {what} is expected: a dictionary of tensors"
    for name, tensor in value.items():
        if not isinstance(name, str) or not isinstance(tensor, Tensor):
            return f"{described(tensor)} as '{name}' of {what}, but a tensor is expected: write torch.tensor(...)"
        if tensor.requires_grad:
            return f"a tensor with a gradient as '{name}' of {what}: write .detach()"
    return None


def complete(value: Mapping[str, Tensor], before: Mapping[str, Tensor], what: str) -> str | None:
    """Return which names are missing from named tensors that had them before; None if all are there."""
    missing = ", ".join(f"'{name}'" for name in before if name not in value)
    return (
        f"{what} without {missing}, but all names must stay: return them, also where they do not change"
        if missing
        else None
    )


def pair(value: Any, what: str) -> str | None:
    """Return what is wrong with a tuple of two; None if nothing is."""
    return None if isinstance(value, tuple) and len(value) == 2 else f"{described(value)}, but {what} is expected"


def finite_number(value: Any, what: str) -> str | None:
    if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
        return None
    return f"{described(value)}, but {what} is expected: a finite number"


def parts(update: Any, what: str, reference: Tensor | None = None) -> str | None:
    """Return what is wrong with an update; vectors of floats have the type of `reference`, if it is given."""
    if not isinstance(update, Update):
        return f"{described(update)}, but {what} is expected: an sb.Update, as from sb.Update.of(weight, delta=...)"
    problem = tensors(update.total, what) or tensors(update.sums, what)
    if problem or update.is_empty:
        return problem
    for name, part in {**update.total, **update.sums}.items():
        if reference is not None and part.dim() and part.is_floating_point() and part.dtype != reference.dtype:
            kind = str(reference.dtype).removeprefix("torch.")
            return f"{described(part)} as '{name}' of {what}, but the type {kind} is expected: write .to(torch.{kind})"
    return finite_number(update.weight, f"the weight of {what}")


def sentence(value: Any, arguments: Sequence[Any]) -> str | None:
    """Check the reason that a hook `refuses` returns."""
    if value is None or (isinstance(value, str) and value.strip()):
        return None
    return f"{described(value)}, but a sentence is expected, or None if nothing is wrong"


def phases(value: Any) -> str | None:
    """Check the messages that a hook states."""
    if isinstance(value, Sequence) and all(isinstance(each, Phase) for each in value):
        return None
    return f"{described(value)}, but a list of sb.Phase is expected"


def dials(value: Any, arguments: Sequence[Any]) -> str | None:
    """Check the field `dials`."""
    if isinstance(value, tuple) and all(isinstance(each, Dial) for each in value):
        return None
    return f"{described(value)}, but a tuple of sb.Dial is needed"


REFUSES = Form("method", sentence)
FLAG = expects(bool, "True or False")

# --- algorithms ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Extras:
    broadcast: tuple[str, ...] | None

    def __call__(self, value: Any, arguments: Sequence[Any]) -> str | None:
        problem = tensors(value, "the extras")
        if problem or not self.broadcast:
            return problem
        missing = ", ".join(name for name in self.broadcast if name not in value)
        return f"extras without {missing}, but `broadcast` names them: give both the same names" if missing else None


def _memory(value: Any, arguments: Sequence[Any]) -> str | None:
    return tensors(value, "the memory")


def _start(value: Any, arguments: Sequence[Any]) -> str | None:
    return like(value, arguments[0].params, "the model at which training starts")


def _model(value: Any, arguments: Sequence[Any]) -> str | None:
    return like(value, arguments[0].params, "the model of a party")


def _pull(value: Any, arguments: Sequence[Any]) -> str | None:
    if not isinstance(value, Pull):
        return f"{described(value)}, but an sb.Pull is expected"
    vectors = {name: getattr(value, name) for name in ("anchor", "linear", "drift")}
    known = ((name, vector) for name, vector in vectors.items() if vector is not None)
    problems = (like(vector, arguments[0].params, f"the {name} of an sb.Pull") for name, vector in known)
    return next(filter(None, problems), None) or finite_number(value.strength, "the strength of an sb.Pull")


def _gradient(value: Any, arguments: Sequence[Any]) -> str | None:
    return like(value, arguments[0], "a gradient")


def _loss(value: Any, arguments: Sequence[Any]) -> str | None:
    if isinstance(value, Tensor) and value.dim() == 0 and value.requires_grad:
        return None
    gradient = " without a gradient" if isinstance(value, Tensor) and not value.requires_grad else ""
    return (
        f"{described(value)}{gradient}, but a loss is expected: a tensor with a single number, computed from the batch"
    )


@dataclass(frozen=True)
class _Message:
    needs_delta: bool  # whether `absorb` is FedAvg's

    def __call__(self, value: Any, arguments: Sequence[Any]) -> str | None:
        local, _, memory = arguments
        problem = pair(value, "a pair (update, memory)")
        if problem:
            return problem
        update, after = value
        problem = (
            parts(update, "the message", local.start)
            or tensors(after, "the memory")
            or complete(after, memory, "a memory")
        )
        if problem or not self.needs_delta or update.is_empty:
            return problem
        if "delta" not in update.total:
            names = ", ".join(f"'{name}'" for name in {**update.total, **update.sums})
            return (
                f"an update with {names}, but 'delta' is expected, because the hook `absorb` is FedAvg's: rename it, "
                "or write `absorb`"
            )
        return like(update.total["delta"], local.start, "'delta' of the message")


def _absorb(value: Any, arguments: Sequence[Any]) -> str | None:
    server, _ = arguments
    problem = pair(value, "a pair (direction, extras)")
    if problem:
        return problem
    direction, extras = value
    return (
        like(direction, server.params, "the direction of the server")
        or tensors(extras, "the extras")
        or complete(extras, server.extras, "extras")
    )


def _trainings(value: Any, arguments: Sequence[Any]) -> str | None:
    problem = pair(value, "a pair (training, memory)")
    if problem:
        return problem
    if not isinstance(value[0], Local):
        return f"{described(value[0])}, but a finished training is expected, as from train(start)"
    return tensors(value[1], "the memory") or complete(value[1], arguments[2], "a memory")


def _passes(value: Any, arguments: Sequence[Any]) -> str | None:
    return finite_number(value, "the passes over a party's rows")


def _personal(value: Any, arguments: Sequence[Any]) -> str | None:
    if isinstance(value, Collection) and not isinstance(value, str) and all(isinstance(name, str) for name in value):
        return None
    return f"{described(value)}, but names of tensors are expected, such as layout.norms"


def _names(value: Any, arguments: Sequence[Any]) -> str | None:
    if value is None or (isinstance(value, tuple) and all(isinstance(name, str) for name in value)):
        return None
    return f"{described(value)}, but a tuple of names of extras is needed, such as ('control',)"


ALGORITHM_HOOKS: Mapping[str, Form] = {
    "memory": Form("params", _memory),
    "start": Form("server, memory", _start),
    "pull": Form("server, memory", _pull),
    "correct": Form("grad, params, server, memory", _gradient),
    "loss": Form("batch, server, memory", _loss),
    "absorb": Form("server, update", _absorb),
    "replica": Form("server, memory", _model),
    "personal": Form("layout", _personal),
    "local_model": Form("server, memory", _model),
    "refuses": REFUSES,
    "trainings": Form("train, server, memory", _trainings),
    "effort": Form("passes", _passes),
}


def _algorithm_forms(algorithm: Algorithm) -> dict[str, Form]:
    needs_delta = algorithm.absorb is Algorithm().absorb
    return {
        "extras": Form("params", _Extras(algorithm.broadcast)),
        "message": Form("local, server, memory", _Message(needs_delta)),
    }


ALGORITHMS.contract = Contract(
    Algorithm,
    "an sb.Algorithm(...)",
    ALGORITHM_HOOKS,
    {
        "broadcast": _names,
        "dials": dials,
        **dict.fromkeys(
            ("lockstep", "applies_momentum", "local_model_before", "silent", "pooled", "mostly_zeros", "weighs_rows"),
            FLAG,
        ),
    },
    _algorithm_forms,
)

# --- server optimizers ---------------------------------------------------------------------------------


def _optimizer(value: Any, arguments: Sequence[Any]) -> str | None:
    return tensors(value, "the state of the optimizer")


def _step(value: Any, arguments: Sequence[Any]) -> str | None:
    params, _, state = arguments
    problem = pair(value, "a pair (params, state)")
    if problem:
        return problem
    return (
        like(value[0], params, "the new model")
        or tensors(value[1], "the state of the optimizer")
        or complete(value[1], state, "a state")
    )


SERVER = Contract(
    ServerOptimizer,
    "an sb.ServerOptimizer(init, apply)",
    {"init": Form("params", _optimizer), "apply": Form("params, direction, state", _step)},
)
