"""What the hooks of transforms, aggregates and codecs are called with, and must return: the parts that treat messages.

A new hook is one line in the table of its part. Only hooks of plugins are checked (`silobench.spec.contract`).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, get_args

from torch import Tensor

from silobench.method.checks import FLAG, REFUSES, dials, finite_number, like, pair, parts, phases, sentence, tensors
from silobench.method.codecs import CODECS, Codec
from silobench.method.codecs.codec import packs, unpacks
from silobench.method.types import AGGREGATES, TRANSFORMS, Aggregate, Packs, Transform, Update
from silobench.privacy.mechanism import Mechanism
from silobench.spec.contract import Contract, Form, described, expects

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
    "calibrated": Form("rounds, rate, sampling, parties, cohort", expects(Transform, "an sb.Transform")),
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

# --- codecs --------------------------------------------------------------------------------------------

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
