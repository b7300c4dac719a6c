"""A secure sum: the server learns the sum of all messages, and no single message."""

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from silobench.method.secure import Pairwise, Ring, Splits, SumProtocol, TooFewError
from silobench.method.types import (
    DENSE,
    ENCRYPT,
    LARGEST_SCALAR,
    TRANSFORMS,
    Codec,
    ConfigError,
    Context,
    Count,
    Encoded,
    Form,
    Layout,
    LostRoundError,
    Memory,
    Phase,
    Positive,
    RunError,
    Transform,
    Update,
    Vector,
    placed,
)

Array: TypeAlias = NDArray[Any]
_T = TypeVar("_T")
_NUMBERS = "secure numbers"  # the part with the weight and all scalars
_CLIP_SLACK = 1 + 2.0**-6  # a clipped update may be longer than its bound, because its norm is rounded
_SLACK = 1 + 2.0**-20  # an entry may be larger than the range after it was multiplied by the weight
_FINE = 2.0**-16  # with bits=auto and 32 bits, the mean is wrong by at most this, or this share of a range below 1
_COARSE = 2.0**-8  # a mean that may be wrong by more than this is refused: updates could be rounded to nothing


@TRANSFORMS.register
def secure_sum(
    splits: Count | None = None,
    protocol: Literal["splits", "pairwise"] = "splits",
    threshold: Count | None = None,
    range: Positive | None = None,
    bits: Literal["auto", 32, 64] = "auto",
    send: Literal["shares", "seeds"] = "shares",
    too_few: Literal["stop", "skip"] = "stop",
) -> Transform:
    """Let the server learn the sum of all messages and nothing else. It is the last transform of a chain.

    Updates, their weights, losses and BatchNorm statistics become integers modulo 2^bits, and parties add masks to them
    that cancel in the sum. With `protocol=splits` each party splits its message into `splits` parts (2 by default), all
    of them uniform, and passes all but one to other parties: secret sharing as in OARF. Every party must answer. With
    ``send=seeds`` a part is sent as the key from which it follows. With `protocol=pairwise` every two parties agree on
    a mask (Practical Secure Aggregation, Bonawitz et al., CCS 2017), and the sum survives if at least `threshold`
    parties stay until the end, by default floor(2n/3) + 1 of n. If too few stay, the run stops with an error, or with
    ``too_few=skip`` the round is lost and the model stays as it is.

    An entry of an unweighted update is at most `range`; without it, a clip before this transform is needed, whose norm
    is the bound. A larger entry is an error. The scale is the finest for which the sum cannot overflow. ``bits=auto``
    takes 32 where the mean of all messages is then wrong by at most 2^-16 (or 2^-16 of a range below 1), and 64
    otherwise; one that may be wrong by more than 2^-8 is refused. Every party knows the largest and the smallest number
    of rows of a party, each up to a factor of two, and the parties of a round. What transforms before this one report
    is a part of the sum, too.
    """
    if protocol == "pairwise" and (splits is not None or send != "shares"):
        raise ConfigError("secure_sum has protocol=pairwise, which has no splits and no send: leave them out.")
    if protocol == "splits" and threshold is not None:
        raise ConfigError(
            f"secure_sum has threshold={threshold}, but with protocol=splits every party must answer: leave it out, or "
            "write protocol=pairwise."
        )
    chosen: SumProtocol = Pairwise(threshold) if protocol == "pairwise" else Splits(splits or 2, send)
    return _transform(_SecureSum(chosen, range, bits, too_few == "skip"))


def protocol_of(transform: Transform) -> SumProtocol | None:
    """Return the protocol of a secure sum; None for any other transform."""
    secure = getattr(transform.encode, "__self__", None)
    return secure.protocol if isinstance(secure, _SecureSum) else None


def with_protocol(transform: Transform, protocol: SumProtocol) -> Transform:
    """Return a secure sum with another protocol, as one whose parties are real."""
    return _transform(replace(transform.encode.__self__, protocol=protocol))  # type: ignore[attr-defined]


def _transform(secure: "_SecureSum") -> Transform:
    return Transform(
        secure.encode,
        secure.decode,
        agree=secure.agree,
        reveal=secure.reveal,
        hides=True,
        least=secure.least,
        phases=secure.protocol.phases,
        shortage=secure.shortage,
        refuses=secure.refuses,
    )


@dataclass(frozen=True)
class _Known:
    """What both ends know about integers that stand for a part of a message, or for one of its scalars."""

    kind: str  # total or sums
    name: str
    form: Form
    codec: Codec = DENSE

    def restored(self, values: Array) -> Vector:
        """Return the part, from the sum of what its codec sends."""
        content = np.asarray(values).astype(self.form.dtype)
        whole = self.codec.unpack(content.tobytes(), self.form) if self.codec.adds else content
        return torch.from_numpy(np.asarray(whole).reshape(self.form.shape))


@dataclass(frozen=True)
class _Note:
    """What both ends know about a vector of integers: what it stands for, one part or all scalars after the weight."""

    ring: Ring
    parts: tuple[_Known, ...]


@dataclass(frozen=True)
class _SecureSum:
    protocol: SumProtocol
    range: float | None
    bits: Literal["auto", 32, 64]
    skips: bool

    def least(self, cohort: int) -> int:
        self.protocol.check(cohort)
        return self.protocol.least(cohort)

    def shortage(self, answers: int, cohort: int) -> str:
        effect, more = "the run stops there", ", or write too_few=skip, which gives up such rounds only"
        if self.skips:
            effect, more = "these rounds are lost and leave the model as it is", ""
        return f"{effect}: {self.protocol.remedy(answers, cohort)}{more}"

    def refuses(self, method: Any) -> str | None:
        if not method.aggregate.adds:
            return (
                "secure_sum reveals only the sum of all messages, but this aggregate looks at each of them: use "
                "aggregate = mean."
            )
        # A transform that is not calibrated yet adds noise to messages, which had a bound before it.
        chain = [each for each in method.transforms if each.calibrated is None]
        if self.range is None and placed(chain, Context(0, 0, -1, Layout((), (), 0), {}))[-1].bound is None:
            return (
                "secure_sum adds integers, so it needs to know how large an entry can be: put a clip before it that is "
                "not followed by error feedback, as in clip(norm=1) | secure_sum(splits=2), or give range."
            )
        return None

    def agree(self, memories: Mapping[int, Memory], context: Context) -> tuple[Mapping[int, Memory], Sequence[Phase]]:
        return self._or_lost(lambda: self.protocol.agree(context.cohort, _present(context)), context)

    def reveal(self, memories: Mapping[int, Memory], context: Context) -> tuple[Any, Sequence[Phase]]:
        def reveal() -> tuple[Any, Sequence[Phase]]:
            return self.protocol.reveal(memories, context.cohort, _present(context), context.nbytes)

        return self._or_lost(reveal, context)

    def _or_lost(self, step: Callable[[], _T], context: Context) -> _T:
        """Take a step of the protocol; if too few parties are left, give up the round or the run."""
        try:
            return step()
        except (TooFewError, ConfigError) as error:  # the second for a cohort that the protocol refuses
            if self.skips:
                raise LostRoundError(str(error), getattr(error, "phases", ())) from error
            raise RunError(f"round {context.round + 1}: {error}", "") from error

    def encode(self, update: Update, memory: Memory, context: Context) -> Encoded:
        """Return the message as integers under masks. Neither its weight nor anything else is in the clear."""
        integers, codecs = self._integers(update, context)
        began = time.perf_counter()
        masked = self.protocol.mask(list(integers.values()), memory, context.party)
        spent = time.perf_counter() - began
        sums = {name: torch.from_numpy(each.view(_signed(each))) for name, each in zip(integers, masked, strict=True)}
        return Update({}, 0.0, sums, codecs), memory, {ENCRYPT: spent}

    def decode(self, update: Update, context: Context) -> Update:
        """Return the sum of the messages, from the sum of their integers under masks."""
        if sum(each.nbytes for each in update.sums.values()) != context.nbytes:
            raise RunError("parties sent messages with different parts, but a secure sum needs the same of all.", "")
        masked = [each.numpy().view(f"uint{8 * each.element_size()}") for each in update.sums.values()]
        parts: dict[str, dict[str, Vector]] = {"total": {}, "sums": {}}
        codecs, weight = dict[str, Codec](), 0.0
        for name, integers in zip(update.sums, self.protocol.unmask(masked, context.revealed), strict=True):
            note: _Note = update.codecs[name].note
            values = note.ring.decode(integers)
            if name == _NUMBERS:
                weight = float(values[0])
            for part, value in zip(note.parts, values[1:] if name == _NUMBERS else [values], strict=True):
                parts[part.kind][part.name] = part.restored(value)
                codecs |= {part.name: part.codec} if part.codec.lossless and part.codec is not DENSE else {}
        return Update(parts["total"], weight, parts["sums"], codecs)

    def _integers(self, update: Update, context: Context) -> tuple[dict[str, Array], dict[str, Codec]]:
        """Return all parts of a message as integers, by name and in a fixed order, and what both ends know of them."""
        whole, codecs, scalars = dict[str, Array](), dict[str, Codec](), dict[_Known, float]()
        for kind, parts in (("sums", update.sums), ("total", update.total)):
            for name, part in sorted(parts.items()):
                known = _Known(kind, name, Form(tuple(part.shape), part.numpy().dtype), update.codecs.get(name, DENSE))
                weight, key = update.weight if kind == "total" else 1.0, f"secure {kind} {name}"
                if part.dim() == 0:
                    scalars[known] = float(part)
                    _need_within(np.array(float(part)), LARGEST_SCALAR, known, weight, context)
                    continue
                ring, values = self._ring(context, weighted=kind == "total"), _sent(part, known)
                _need_within(values, self._bound(context), known, weight, context)
                whole[key], codecs[key] = ring.encode(values), _whole(_Note(ring, (known,)))
        ring = Ring.of(LARGEST_SCALAR * _SLACK * context.weight_bound, max(2, len(context.cohort)), 64)
        numbers, note = ring.encode(np.array([update.weight, *scalars.values()])), _Note(ring, tuple(scalars))
        return {_NUMBERS: numbers, **whole}, {_NUMBERS: _whole(note), **codecs}

    def _ring(self, context: Context, weighted: bool) -> Ring:
        """Return the ring of vectors: wide enough for the sum over the cohort, and as fine as possible."""
        bound = self._bound(context)
        most, least = (context.weight_bound, context.least_weight) if weighted else (1.0, 1.0)
        short, long = (Ring.of(bound * _SLACK * most, max(2, len(context.cohort)), bits) for bits in (32, 64))
        grid = context.exponent if context.exponent is not None else short.exponent
        unit = min(1.0, bound)
        is_fine = short.step / 2 / least <= _FINE * unit and grid <= short.exponent
        ring = {32: short, 64: long, "auto": short if is_fine else long}[self.bits]
        if (error := ring.step / 2 / least) > _COARSE * unit:
            more = "write bits=64, or " if ring.bits == 32 else ""
            raise ConfigError(
                f"secure_sum has room for entries up to {bound:g}, so with {ring.bits} bits the mean may be wrong by "
                f"{error:.2g}: {more}give a smaller range, near the largest entry of an update."
            )
        if context.exponent is not None and context.exponent > ring.exponent:
            raise ConfigError(
                f"the noise before secure_sum has steps of 2^-{context.exponent}, but {ring.bits} bits have room for "
                f"steps of 2^-{ring.exponent}: write bits=64, or lower the noise."
            )
        return ring

    def _bound(self, context: Context) -> float:
        """Return the largest magnitude of an entry of an unweighted message."""
        bound = context.bound * _CLIP_SLACK if self.range is None and context.bound else self.range
        assert bound is not None  # checked with the method
        return bound


def _need_within(values: Array, bound: float, known: _Known, weight: float, context: Context) -> None:
    """Raise `RunError` for a value that is too large or not finite, as it was before it was weighted."""
    largest = float(np.abs(values).max(initial=0.0))  # not a number if one of them is not
    if not largest <= bound * _SLACK * weight:
        subject = f"an entry of {known.name}" if known.form.shape else f"the {known.name}"
        raise RunError(
            f"round {context.round + 1}, party {context.party}: {subject} is {largest / weight:.6g}, but secure_sum "
            f"has room for magnitudes up to {bound:.6g}: clip updates before it, raise its range, or lower the "
            "learning rate if the model diverges.",
            "",
        )


def _sent(part: Vector, known: _Known) -> Array:
    """Return the values of a part that are sent: all of them, or those at places that all parties share."""
    array = np.ascontiguousarray(part.numpy())
    if known.codec.adds:
        return np.frombuffer(known.codec.pack(array), array.dtype)
    if not known.codec.lossless:
        raise ConfigError(
            f"secure_sum adds up the entries of {known.name}, but a transform before it packs them in another form: "
            "leave it out, or use rand_k."
        )
    return array


def _whole(note: _Note) -> Codec:
    """Return the codec of integers, which are sent as they are."""
    return replace(DENSE, note=note)


def _signed(array: Array) -> str:
    return f"int{8 * array.itemsize}"  # PyTorch adds signed integers only; they wrap as unsigned ones do


def _present(context: Context) -> Callable[[str], Collection[int]]:
    return context.present or (lambda phase: context.cohort)
