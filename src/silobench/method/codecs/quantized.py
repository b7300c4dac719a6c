"""Entries rounded at random to a few levels, with one scale per bucket."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np

from silobench.method.codecs.codec import CODECS, Array, Codec, Content, Form
from silobench.spec.ranges import Count, CountOrZero

Bits: TypeAlias = Literal[2, 4, 8, 16]
_BLOCK = 1 << 15  # entries; the arrays of a block stay in the cache


@CODECS.register
def quantized(bits: Bits = 8, bucket: Count = 512, seed: CountOrZero = 0) -> Codec:
    """Send each entry as one of 2^bits - 1 levels of its bucket's largest magnitude, which is sent as it is.

    With s = 2^(bits - 1) - 1, an entry v in a bucket of scale m becomes a whole number next to s v / m, drawn from
    `seed` so that its expectation is s v / m. The receiver needs no seed. A bucket with an entry that is not finite
    arrives as not-a-number.

    >>> part, codec = np.array([0.5, -1.0, 0.0, 1.0], np.float32), quantized(bits=2)
    >>> content = codec.pack(part)
    >>> len(content), codec.unpack(content, Form((4,), part.dtype))[1:]
    (5, array([-1.,  0.,  1.], dtype=float32))
    """
    quantizer = _Quantizer(bits, bucket, seed)
    return Codec(quantizer.pack, quantizer.unpack)


@dataclass(frozen=True)
class _Quantizer:
    bits: int
    bucket: int
    seed: int

    def pack(self, part: Array) -> Content:
        flat, random = part.reshape(-1), np.random.SFC64(self.seed)
        scales: list[Array] = []
        codes: list[Array] = []
        for start, stop, width in self._blocks(flat.size):
            block = _padded(flat[start:stop], width)
            largest, levels = self._rounded(block, random)
            scales.append(largest)
            codes.append(self._bytes_of(levels.reshape(-1))[: self._nbytes(stop - start)])
        return b"".join(each.data for each in (*scales, *codes))

    def unpack(self, content: Content, form: Form) -> Array:
        whole, count = np.empty(form.size, form.dtype), -(-form.size // self._width(form.size)) if form.size else 0
        scales = np.frombuffer(content, form.dtype, count)
        codes = np.frombuffer(content, np.uint8, offset=scales.nbytes)
        for start, stop, width in self._blocks(form.size):
            of_block = codes[self._nbytes(start) : self._nbytes(stop)]
            shares = self._levels_of(of_block)[: stop - start] / _kind(form.dtype).type(self._most)
            largest = scales[start // width : -(-stop // width)]
            values = _padded(shares, width) * largest[:, None]
            whole[start:stop] = values.reshape(-1)[: stop - start]
        return whole.reshape(form.shape)

    def _rounded(self, block: Array, random: np.random.SFC64) -> tuple[Array, Array]:
        """Return the scale of each bucket, one per row, and the rounded entries as whole numbers."""
        work = np.abs(block, dtype=_kind(block.dtype))
        scales = work.max(axis=1, initial=0.0)
        is_finite = np.isfinite(scales)
        np.divide(block, np.where(is_finite & (scales > 0), scales, 1)[:, None], out=work)
        if not is_finite.all():
            work[~is_finite], scales[~is_finite] = 0.0, np.nan
        # In fixed point: adding a uniform number below one and cutting off the fraction rounds up with a probability
        # that is exactly the fraction. |v / m| <= 1, so the result cannot leave the levels.
        digits = 16 if self.bits < 16 else 15
        work *= self._most << digits
        fixed = np.rint(work, out=work).astype(np.int32)
        noise = random.random_raw(-(-fixed.size // 4)).view(np.uint16)[: fixed.size].reshape(fixed.shape)
        fixed += noise >> (16 - digits)
        fixed >>= digits
        return scales.astype(block.dtype), fixed

    def _bytes_of(self, levels: Array) -> Array:
        """Return whole numbers in [-s, s] as bytes, several in one byte if they are short."""
        if self.bits >= 8:
            return levels.astype(f"<i{self.bits // 8}").view(np.uint8)
        in_byte, spare = 8 // self.bits, 8 - self.bits
        codes = np.zeros(-(-levels.size // in_byte) * in_byte, np.uint8)
        codes[: levels.size] = levels + self._most
        words = codes.view(f"<u{in_byte}")
        joined = words.copy()
        for place in range(1, in_byte):
            joined |= words >> (place * spare)
        return joined.astype(np.uint8)

    def _levels_of(self, content: Array) -> Array:
        """Return the whole numbers in bytes, and zeros or less that fill up the last one."""
        if self.bits >= 8:
            return content.view(f"<i{self.bits // 8}").astype(np.float32)
        in_byte, spare = 8 // self.bits, 8 - self.bits
        words = content.astype(f"<u{in_byte}")
        spread = words.copy()
        for place in range(1, in_byte):
            spread |= words << (place * spare)
        spread &= words.dtype.type(int.from_bytes(bytes([2**self.bits - 1] * in_byte), "little"))
        return spread.view(np.uint8).astype(np.float32) - np.float32(self._most)

    def _blocks(self, size: int) -> Iterator[tuple[int, int, int]]:
        """Yield start and stop of blocks of whole buckets and whole bytes, and the length of a bucket."""
        width = self._width(size)
        step = max(8, _BLOCK // width // 8 * 8) * width
        for start in range(0, size, step):
            yield start, min(start + step, size), width

    def _width(self, size: int) -> int:
        return min(self.bucket, max(size, 1))

    def _nbytes(self, entries: int) -> int:
        return -(-entries * self.bits // 8)

    @property
    def _most(self) -> int:
        return (1 << (self.bits - 1)) - 1


def _padded(entries: Array, width: int) -> Array:
    """Return entries as rows of this width, with zeros after the last one."""
    missing = -entries.size % width
    return (np.concatenate([entries, np.zeros(missing, entries.dtype)]) if missing else entries).reshape(-1, width)


def _kind(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the type to calculate in: single precision, or a longer one."""
    return np.result_type(dtype, np.float32)
