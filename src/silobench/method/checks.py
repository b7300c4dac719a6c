"""What the hooks of algorithms, transforms and the other parts of a method are called with, and must return.

A new hook is one line in the table of its part. Only hooks of plugins are checked (`silobench.spec.contract`).
"""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, get_args

from torch import Tensor

from silobench.method.codecs import CODECS, Codec
from silobench.method.codecs.codec import packs, unpacks
from silobench.method.types import (
    AGGREGATES,
    ALGORITHMS,
    TRANSFORMS,
    Aggregate,
    Algorithm,
    Dial,
    Local,
    Packs,
    Phase,
    Pull,
    ServerOptimizer,
    Transform,
    Update,
)
from silobench.privacy.mechanism import Mechanism
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

# --- transforms ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Encode:
    keeps_shapes: bool  # whether nothing decodes the sum, so that the algorithm absorbs what is sent

    def __call__(self, value: Any, arguments: Sequence[Any]) -> str | None:
        if not isinstance(value, tuple) or len(value) not in (2, 3):
            return f"{described(value)}, but (update, memory) or (update, memory, report) is expected"
        update, memory, *report = value
        problem = parts(update, "the message") or tensors(memory, "the memory")
        if problem or (report and (problem := _report(report[0]))):
            return problem
        return same_parts(update, arguments[0]) if self.keeps_shapes else None


def _report(value: Any) -> str | None:
    if not isinstance(value, Mapping):
        return f"{described(value)}, but a report is expected: a dictionary of numbers"
    return next(filter(None, (finite_number(number, f"'{name}' of a report") for name, number in value.items())), None)


def same_parts(update: Update, before: Update) -> str | None:
    """Return what is wrong with an update that must have the parts of another one; None if nothing is."""
    for old, new, title in ((before.total, update.total, "total"), (before.sums, update.sums, "sums")):
        for name, part in old.items():
            if name not in new:
                return f"an update without '{name}' in its {title}, but every part must stay: return it too"
            if problem := like(new[name], part, f"'{name}' of the update"):
                return problem
    return None


def _decoded(value: Any, arguments: Sequence[Any]) -> str | None:
    return parts(value, "the decoded update")


def _unsent(value: Any, arguments: Sequence[Any]) -> str | None:
    return (
        None if value is None or isinstance(value, Tensor) else f"{described(value)}, but a tensor is expected, or None"
    )


def _agreed(value: Any, arguments: Sequence[Any]) -> str | None:
    problem = pair(value, "a pair (memories, phases)")
    if problem:
        return problem
    memories, messages = value
    before, context = arguments
    there = before if context.present is None else set(before).intersection(context.present("shares"))
    if not isinstance(memories, Mapping) or set(there) - set(memories):
        return f"{described(memories)}, but a memory of each party of the cohort is expected: a dictionary by party"
    problems = (tensors(memory, f"the memory of party {party}") for party, memory in memories.items())
    return next(filter(None, problems), None) or phases(messages)


def _revealed(value: Any, arguments: Sequence[Any]) -> str | None:
    return pair(value, "a pair (what the server learns, phases)") or phases(value[1])


def _least_answers(value: Any, arguments: Sequence[Any]) -> str | None:
    is_count = type(value) is int and value >= 1
    return None if is_count else f"{described(value)}, but a number of parties of at least 1 is expected"


def _bounded(value: Any, arguments: Sequence[Any]) -> str | None:
    return None if value is None else finite_number(value, "the largest 2-norm of a message, or None,")


def _adapted(value: Any, arguments: Sequence[Any]) -> str | None:
    problem = pair(value, "a pair (update, memory)")
    return problem or parts(value[0], "the decoded update") or tensors(value[1], "the memory at the server")


def _released(value: Any, arguments: Sequence[Any]) -> str | None:
    if value is None or isinstance(value, Mechanism):
        return None
    return f"{described(value)}, but a Mechanism is expected, or None if nothing private is released"


def _exponent(value: Any, arguments: Sequence[Any]) -> str | None:
    if value is None or type(value) is int:
        return None
    return f"{described(value)}, but a whole number is expected, or None if entries are not on a grid"


def _packs(value: Any, arguments: Sequence[Any]) -> str | None:
    if value in get_args(Packs):
        return None
    return f"{described(value)}, but 'matrices', 'entries', 'values' or nothing ('') is needed"


def _settled(value: Any, arguments: Sequence[Any]) -> str | None:
    return tensors(value, "the memory")


TRANSFORM_HOOKS: Mapping[str, Form] = {
    "decode": Form("update, context", _decoded),
    "unsent": Form("memory", _unsent),
    "settle": Form("produced, arrived, memory, context", _settled),
    "agree": Form("memories, context", _agreed),
    "reveal": Form("memories, context", _revealed),
    "least": Form("cohort", _least_answers),
    "shortage": Form("answers, cohort", expects(str, "a text")),
    "bound": Form("context", _bounded),
    "adapt": Form("update, memory, context", _adapted),
    "release": Form("context", _released),
    "calibrated": Form("rounds, rate, sampling, parties", expects(Transform, "an sb.Transform")),
    "exponent": Form("context", _exponent),
    "refuses": REFUSES,
}


def _transform_forms(transform: Transform) -> dict[str, Form]:
    return {"encode": Form("update, memory, context", _Encode(not transform.needs_decoding))}


TRANSFORMS.contract = Contract(
    Transform,
    "an sb.Transform(encode, ...)",
    TRANSFORM_HOOKS,
    {
        "dials": dials,
        "mostly_zeros": FLAG,
        "packs": _packs,
        "scales": FLAG,
        **dict.fromkeys(("hides", "equal_weights", "decodes_nothing"), FLAG),
    },
    _transform_forms,
)

# --- aggregates ----------------------------------------------------------------------------------------


def _combined(value: Any, arguments: Sequence[Any]) -> str | None:
    problem = parts(value, "the aggregate")
    updates: Iterable[Any] = arguments[0]
    if problem or not isinstance(updates, list):  # a sum is made from messages as they come, which are gone by now
        return problem
    return same_parts(value, max(updates, key=lambda update: len(update.total) + len(update.sums)))


def _least(value: Any, arguments: Sequence[Any]) -> str | None:
    is_count = isinstance(value, int) and not isinstance(value, bool) and value >= 1
    return None if is_count else f"{described(value)}, but a number of messages of at least 1 is needed"


AGGREGATES.contract = Contract(
    Aggregate,
    "an sb.Aggregate(combine, ...)",
    {"combine": Form("updates", _combined), "refuses": REFUSES, "advice": Form("messages", sentence)},
    {"adds": FLAG, "least": _least},
)

# --- server optimizers and codecs ----------------------------------------------------------------------


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

CODECS.contract = Contract(
    Codec,
    "an sb.Codec(pack, unpack, ...)",
    {
        "pack": Form("array", packs),
        "unpack": Form("content, form", unpacks),
        "values": Form("codec", expects(Codec, "an sb.Codec")),
    },
    {"lossless": FLAG},
)
