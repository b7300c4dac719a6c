"""`Update`, what a party tells the server, and `Message`, its bytes."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace

from silobench.errors import ConfigError
from silobench.method.codecs import DENSE, Codec, Packed
from silobench.spec.renaming import renamed
from silobench.vectors import Vector

STATISTICS = "network buffers"  # the part with the statistics of normalisation layers, where these are averaged


@renamed(says_nothing="is_empty")
@dataclass(frozen=True)
class Update:
    """A weighted sum of the messages of parties; the message of one party is a sum with one term.

    >>> import torch
    >>> both = Update.of(1.0, delta=torch.tensor([2.0])) + Update.of(3.0, delta=torch.tensor([6.0]))
    >>> both.mean()["delta"]
    tensor([5.])
    """

    total: Mapping[str, Vector]  # named parts, already multiplied by weight
    weight: float
    sums: Mapping[str, Vector] = field(default_factory=dict)  # named parts that are added without weights
    codecs: Mapping[str, Codec] = field(default_factory=dict)  # by name of the part; other parts are sent dense

    @classmethod
    def of(cls, weight: float, **parts: Vector) -> "Update":
        """Return the message of one party: its weight and named parts."""
        return cls({name: part * weight for name, part in parts.items()}, weight)

    def with_sums(self, **parts: Vector) -> "Update":
        """Return the update with further parts, which the server gets as unweighted sums over parties."""
        return replace(self, sums={**self.sums, **parts})

    def __add__(self, other: "Update") -> "Update":
        """Return the sum over all parts of either. A part that one of them lacks counts as zero."""
        codecs = {**self.codecs, **other.codecs}
        lossless = {name: codec for name, codec in codecs.items() if codec.lossless}  # a sum may not fit the others
        total, sums = _added(self.total, other.total), _added(self.sums, other.sums)
        return Update(total, self.weight + other.weight, sums, lossless)

    def mean(self) -> dict[str, Vector]:
        """Return the weighted mean of each part."""
        return {name: part / self.weight for name, part in self.total.items()}

    def vectors(self) -> dict[str, Vector]:
        """Return the unweighted vector parts of a message; scalar parts, such as FedNova's reach, are skipped."""
        return {name: part for name, part in {**self.mean(), **self.sums}.items() if part.dim() > 0}

    def map(self, change: Callable[[Vector], Vector]) -> "Update":
        """Return the update with `change` applied to every vector part; scalars stay."""

        def apply(parts: Mapping[str, Vector]) -> dict[str, Vector]:
            return {name: change(part) if part.dim() > 0 else part for name, part in parts.items()}

        return replace(self, total=apply(self.total), sums=apply(self.sums))

    @property
    def changes(self) -> dict[str, Vector]:
        """The vectors that a lossy codec may pack, as they are packed: all vectors of floats but statistics.

        A variance that is rounded or scaled could become negative, so statistics are sent whole.
        """
        parts = {**self.total, **self.sums}
        return {
            name: part
            for name, part in parts.items()
            if part.dim() > 0 and part.is_floating_point() and name != STATISTICS
        }

    def plus(self, errors: Mapping[str, Vector], share: float = 1.0) -> "Update":
        """Return the update with `share` times unweighted vectors added to the parts of these names."""

        def added(parts: Mapping[str, Vector], factor: float) -> dict[str, Vector]:
            return {
                name: part.add(errors[name], alpha=factor) if name in errors else part for name, part in parts.items()
            }

        return replace(self, total=added(self.total, share * self.weight), sums=added(self.sums, share))

    def lost(self, arrived: "Update") -> dict[str, Vector]:
        """Return what is missing from the update as it arrived, as unweighted vectors; statistics are left out.

        >>> import torch
        >>> whole, some = (Update.of(2.0, delta=torch.tensor(entries)) for entries in ([3.0, 1.0], [3.0, 0.0]))
        >>> whole.lost(some)
        {'delta': tensor([0., 1.])}
        """
        names = self.changes
        total = {
            name: (self.total[name] - arrived.total[name]).div_(self.weight) for name in names if name in self.total
        }
        return total | {name: self.sums[name] - arrived.sums[name] for name in names if name in self.sums}

    def coded(self, codec: Codec, names: Collection[str] | None = None) -> "Update":
        """Return the update with its vectors, or those of some names, sent by a codec.

        Where a part has a codec already, as after `top_k`, the new one packs the values which that one sends. A
        lossless codec is not applied twice: its bytes would only get longer.
        """
        codecs, parts = dict(self.codecs), {**self.total, **self.sums}
        for name in parts if names is None else names:
            if parts[name].dim() > 0 and not (codec.lossless and codecs.get(name) == codec):
                outer = codecs.get(name, DENSE).values
                if outer is None:
                    raise ConfigError(
                        f"two transforms pack the values of {name}, but only one can: leave one of them out, or let "
                        "the one that rounds values (quantize, sign) come last."
                    )
                codecs[name] = outer(codec)
        return replace(self, codecs=codecs)

    def pack(self) -> "Message":
        """Return the update as it is sent."""

        def packed(parts: Mapping[str, Vector]) -> dict[str, Packed]:
            return {name: Packed.of(part, self.codecs.get(name, DENSE)) for name, part in parts.items()}

        return Message(packed(self.total), self.weight, packed(self.sums))

    @property
    def is_empty(self) -> bool:
        """Whether the message is empty: a party has nothing to send in this round."""
        return not (self.total or self.sums)

    @property
    def nbytes(self) -> int:
        """The bytes of the message."""
        return self.pack().nbytes

    @property
    def dense_nbytes(self) -> int:
        """The bytes of the message if all its entries are sent as they are."""
        return sum(part.nbytes for part in (*self.total.values(), *self.sums.values()))


def _added(parts: Mapping[str, Vector], others: Mapping[str, Vector]) -> dict[str, Vector]:
    both = {name: part + others[name] if name in others else part for name, part in parts.items()}
    return both | {name: part for name, part in others.items() if name not in parts}


@dataclass(frozen=True)
class Message:
    """An update as it is sent: the bytes of each part.

    Forms, codecs and the weight are known to the server. They are not counted, and neither is the framing of the
    transport, such as the lengths of the parts.
    """

    total: Mapping[str, Packed]
    weight: float
    sums: Mapping[str, Packed]

    @property
    def nbytes(self) -> int:
        return sum(part.nbytes for part in (*self.total.values(), *self.sums.values()))

    def unpack(self) -> Update:
        """Return the update as it arrives."""

        def unpacked(parts: Mapping[str, Packed]) -> dict[str, Vector]:
            return {name: part.unpack() for name, part in parts.items()}

        named = {**self.total, **self.sums}
        codecs = {name: part.codec for name, part in named.items() if part.codec != DENSE}
        return Update(unpacked(self.total), self.weight, unpacked(self.sums), codecs)
