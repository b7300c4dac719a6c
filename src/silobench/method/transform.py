"""`Transform`: a change to updates on their way to the server, and the values that its hooks get."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias

import numpy as np

from silobench.errors import SilobenchError
from silobench.method.dial import Dial
from silobench.method.updates import Update
from silobench.privacy.mechanism import Mechanism, Sampling
from silobench.rng import stream
from silobench.spec import Registry
from silobench.vectors import Layout, Memory, Vector

LARGEST_SCALAR = 2.0**24  # magnitude of an unweighted scalar, such as a loss, that a transform which hides must add
ENCRYPT = "encrypt_seconds"  # a report by which a transform states how much of its time was encryption


_BY_PARTY = -1  # messages of a phase: one for each party in `up`, and one for each in `down`


@dataclass(frozen=True)
class Phase:
    """Messages of one kind that cross the network side by side: keys, a broadcast, updates, shares. Bytes by party."""

    name: str
    up: Mapping[int, int] = field(default_factory=dict)  # sent by each party
    down: Mapping[int, int] = field(default_factory=dict)  # sent to each party
    messages: int = _BY_PARTY  # unless it is given, one for each party in `up`, and one for each in `down`
    seconds: float = 0.0  # measured work of all parties together and of the server for these messages

    def __post_init__(self) -> None:
        if self.messages == _BY_PARTY:
            object.__setattr__(self, "messages", len(self.up) + len(self.down))


class LostRoundError(SilobenchError):
    """Raised by `Transform.agree` and `Transform.reveal` to give a round up: the model stays as it is.

    `phases` are the messages until then, which still count.
    """

    def __init__(self, message: str, phases: Sequence[Phase] = ()):
        super().__init__(message)
        self.phases = tuple(phases)


@dataclass(frozen=True)
class Context:
    """Facts about the round and the sender, for a transform."""

    seed: int
    round: int
    party: int  # -1 at the server
    layout: Layout
    knobs: Mapping[str, float]
    cohort: tuple[int, ...] = ()  # the parties of this round
    replied: tuple[int, ...] = ()  # those of them that answered; known to the server only
    place: int = 0  # of the transform in its chain
    revealed: Any = None  # what `Transform.reveal` returned; known to the server only
    weight_bound: float = 1.0  # the weight of a message is at most this; a power of two that everybody knows
    least_weight: float = 1.0  # the weight of a message is at least this; a power of two that everybody knows
    bound: float | None = None  # the 2-norm of an unweighted message, which earlier transforms guarantee
    server: Memory = field(default_factory=dict)  # memory of this transform at the server, which parties are sent
    parties: int = 1  # in the whole federation
    expected: float = 1.0  # the mean number of parties in a round
    exponent: int | None = None  # entries are multiples of 2^-exponent, which earlier transforms guarantee
    nbytes: int = 0  # of the longest message that arrived; known to the server only
    present: Callable[[str], Collection[int]] | None = None
    """(phase) -> the parties that are still there in a phase of the protocol: keys, shares, replies or unmasking. It
    is for `Transform.agree` and `Transform.reveal`; None if all parties are there until they answer."""

    def stream(self, purpose: str, shared: bool = False) -> np.random.Generator:
        """Return random numbers for this transform, round and party; `shared` ones are the same for all parties."""
        owner = "shared transform" if shared else "transform"  # the server's own numbers are not shared
        return stream(self.seed, f"{owner} {self.place} {purpose}", self.round, 0 if shared else self.party + 1)


Packs: TypeAlias = Literal["", "matrices", "entries", "values"]
Report: TypeAlias = Mapping[str, float]  # values for the record, such as a clip rate
Encoded: TypeAlias = tuple[Update, Memory] | tuple[Update, Memory, Report]


def _decode_nothing(update: Update, context: Context) -> Update:
    return update


def _nothing_unsent(memory: Memory) -> Vector | None:
    return None


_SHORTAGE = "the sum of these rounds cannot be decoded: let fewer parties drop out"


@dataclass(frozen=True)
class Transform:
    """A change to updates on their way to the server, with both ends in one place.

    `encode` runs at the party, in the order of the chain; `decode` runs at the server, on the sum, in reverse order. A
    transform that sends values in a compact form names a codec: ``update.coded(codec)``. `settle` runs at the party
    after the message was packed.
    """

    encode: Callable[[Update, Memory, Context], Encoded]
    """(update, memory, context) -> update to send, new memory and, if it has one, a report. The record of the round has
    the mean of each reported value over the parties."""
    decode: Callable[[Update, Context], Update] = _decode_nothing
    unsent: Callable[[Memory], Vector | None] = _nothing_unsent
    """(memory) -> change of the model that the party has not sent yet, or None."""
    settle: Callable[[Update, Update, Memory, Context], Memory] | None = None
    """(update that `encode` returned, update as it arrives, memory that `encode` returned, context) -> new memory. What
    the transforms after this one and the packing have lost is ``produced.lost(arrived)``."""
    dials: tuple[Dial, ...] = ()
    """Knobs that a controller may set."""
    mostly_zeros: bool = False
    """Messages are mostly zeros, at other places for each party."""
    packs: Packs = ""
    """What its codec packs: factors of whole matrices, some of the entries, or all values in fewer bits. A chain has
    matrices or entries, and values come last. Chains of others are checked only when they pack."""
    scales: bool = False
    """Values arrive longer than they are, to make up for entries that are not sent; feedback would send these too."""
    agree: Callable[[Mapping[int, Memory], Context], tuple[Mapping[int, Memory], Sequence[Phase]]] | None = None
    """(memory by party of the cohort, context) -> new memories, and the messages for them. It runs before training, as
    for an agreement on keys."""
    reveal: Callable[[Mapping[int, Memory], Context], tuple[Any, Sequence[Phase]]] | None = None
    """(memory by party that answered, context) -> what the server learns, and the messages for it. It runs after the
    replies, as for shares of parties that did not answer; `decode` finds it in its context."""
    hides: bool = False
    """Whether the server learns only the sum of all messages. Then weights and losses are parts of the message, nothing
    arrives in the clear, and parties forget the transform's memory after the round."""
    least: Callable[[int], int] = lambda cohort: 1
    """(parties of the round) -> how many of them must answer, so that the server can decode the sum."""
    phases: tuple[str, ...] = ("replies",)
    """The phases of a round in which parties must be there, in order: see `dropout`."""
    shortage: Callable[[int, int], str] = lambda answers, cohort: _SHORTAGE
    """(answers, parties of the round) -> what happens in rounds with too few answers, and what to do, for a note."""
    bound: Callable[[Context], float | None] = lambda context: context.bound
    """(context) -> the largest 2-norm, over all vectors, of an unweighted message that `encode` returns; None if there
    is no limit. The default is for transforms that do not make messages longer. What arrives may be longer where a
    transform `scales`."""
    adapt: Callable[[Update, Memory, Context], tuple[Update, Memory]] | None = None
    """(decoded sum, memory at the server, context) -> sum without what only this transform needs, and new memory, which
    parties are sent with the next broadcast: their hooks find it in ``context.server``."""
    release: Callable[[Context], Mechanism | None] = lambda context: None
    """(context) -> the differentially private release that a round is, for the privacy ledger; None if it is none."""
    calibrated: Callable[[int, float, Sampling, int, int], "Transform"] | None = None
    """(rounds, rate at which parties take part as accountants count it, how they are drawn, parties, expected parties
    of a round) -> the transform with the noise that its target epsilon needs; None if it has no target."""
    equal_weights: bool = False
    """Whether `encode` gives every message the weight 1, so that no party counts more than another."""
    exponent: Callable[[Context], int | None] = lambda context: None
    """(context) -> entries of messages after this transform are multiples of 2^-exponent, which must stay exact; None
    if they are not."""
    decodes_nothing: bool = False
    """Whether the server decodes a sum of zeros where nobody answers, so that noise hides this too."""
    refuses: Callable[[Any], str | None] = lambda method: None
    """(method) -> why the transform cannot be combined with the other parts of the method, or None."""

    @property
    def keeps_rest(self) -> bool:
        """Whether a party keeps what it has not sent, to send it later."""
        return self.unsent is not _nothing_unsent

    @property
    def needs_decoding(self) -> bool:
        """Whether what arrives is not yet the update: the server decodes the sum."""
        return self.decode is not _decode_nothing


TRANSFORMS: Registry[Transform] = Registry("transform")


def placed(transforms: Sequence[Transform], context: Context, servers: Sequence[Memory] = ()) -> list[Context]:
    """Return the context of each transform of a chain: with its place, and with the bound on the messages that it gets.

    `servers` are the memories of the transforms at the server; without them these are empty.
    """
    contexts = list[Context]()
    for place, transform in enumerate(transforms):
        context = replace(context, place=place, server=servers[place] if servers else {})
        contexts.append(context)
        context = replace(context, bound=transform.bound(context), exponent=transform.exponent(context))
        if transform.equal_weights:
            context = replace(context, weight_bound=1.0, least_weight=1.0)
    return contexts
