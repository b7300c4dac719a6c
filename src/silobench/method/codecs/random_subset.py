"""Some entries, drawn from a seed that both ends know."""

from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from silobench.method.codecs.codec import CODECS, Array, Codec, Content, Form
from silobench.method.codecs.dense import DENSE
from silobench.spec.ranges import CountOrZero, Share


@CODECS.register
def random_subset(fraction: Share = 0.01, scale: bool = False, seed: CountOrZero = 0) -> Codec:
    """Send the values of a random `fraction` of the entries; the receiver draws the same places from the same seed.

    At least one entry is sent. The others arrive as zeros. With `scale`, values arrive divided by the share that was
    sent, so that the expectation of every entry is its value.

    >>> codec = random_subset(fraction=0.25, scale=True, seed=1)
    >>> content = codec.pack(np.ones(8, np.float32))
    >>> len(content), float(codec.unpack(content, Form((8,), np.dtype(np.float32))).sum())
    (8, 8.0)
    """
    return _codec(_Subset(fraction, scale, seed))


@dataclass(frozen=True)
class _Subset:
    fraction: float
    scale: bool
    seed: int
    values: Codec = DENSE

    def pack(self, part: Array) -> Content:
        flat = part.reshape(-1)
        return self.values.pack(flat[_places(self.seed, flat.size, self._count(flat.size))])

    def unpack(self, content: Content, form: Form) -> Array:
        count, whole = self._count(form.size), np.zeros(form.size, form.dtype)
        values = self.values.unpack(content, Form((count,), form.dtype))
        if self.scale and count:
            with np.errstate(over="ignore"):  # a scaled number may be too large: it arrives as infinity
                values = values * form.dtype.type(form.size / count)
        whole[_places(self.seed, form.size, count)] = values
        return whole.reshape(form.shape)

    def around(self, values: Codec) -> Codec:
        """Return the codec with values packed by another."""
        return replace(_codec(replace(self, values=values)), values=None)

    def _count(self, size: int) -> int:
        return min(size, max(1, round(self.fraction * size)))


@lru_cache(maxsize=2)  # all parties of a round have the same places
def _places(seed: int, size: int, count: int) -> Array:
    """Return places in increasing order; they are drawn without replacement."""
    places = np.random.Generator(np.random.PCG64(seed)).choice(size, count, replace=False, shuffle=False)
    places.sort()
    places.flags.writeable = False
    return places


def _codec(subset: _Subset) -> Codec:
    return Codec(subset.pack, subset.unpack, values=subset.around, adds=subset.values is DENSE)
