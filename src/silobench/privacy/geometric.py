"""Two-sided geometric noise: whole numbers whose distribution is exact, for counts that are published.

P(x) is proportional to exp(-|x| / scale). A count that one row changes by at most 1 is then (1 / scale)-differentially
private: Universally Utility-Maximizing Privacy Mechanisms, Ghosh, Roughgarden and Sundararajan, STOC 2009. The sampler
is that of Canonne, Kamath and Steinke (The Discrete Gaussian for Differential Privacy, NeurIPS 2020, algorithm 2). It
uses whole numbers only, so that no rounding of floating-point numbers reveals what the noise hides.
"""

from collections.abc import Iterator
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from silobench.privacy.randomness import Randomness

_BLOCK = 1024  # random words that are drawn at a time
_PARTS = 10**6  # a scale is rounded up to a multiple of 1 / _PARTS


def geometric(randomness: Randomness, scale: float, count: int) -> NDArray[np.int64]:
    """Return whole numbers x with probabilities proportional to exp(-|x| / scale), independently."""
    exact, words = exact_scale(scale), _words(randomness)
    return np.array([_draw(words, exact) for _ in range(count)], np.int64)


def exact_scale(scale: float) -> Fraction:
    """Return the scale of the noise that is drawn: rounded up, so that it protects at least as well.

    >>> exact_scale(2.5), exact_scale(1 / 3) > 1 / 3
    (Fraction(5, 2), True)
    """
    return Fraction(-(-Fraction(scale) * _PARTS // 1), _PARTS)


def variance(scale: float) -> float:
    """Return the variance of the noise, 2 a / (1 - a)² with a = exp(-1 / scale); 0 without noise.

    >>> round(variance(10.0), 1)
    199.8
    """
    if not scale:
        return 0.0
    ratio = float(np.exp(-1 / scale))
    return 2 * ratio / (1 - ratio) ** 2


def _words(randomness: Randomness) -> Iterator[int]:
    while True:
        yield from randomness.integers(_BLOCK).tolist()


def _below(words: Iterator[int], bound: int) -> int:
    """Return a uniform whole number below a bound of at most 2^63."""
    limit = 2**64 - 2**64 % bound
    while (word := next(words)) >= limit:
        pass
    return word % bound


def _is_chosen(words: Iterator[int], share: Fraction) -> bool:
    return _below(words, share.denominator) < share.numerator


def _decays(words: Iterator[int], exponent: Fraction) -> bool:
    """Return True with probability exp(-exponent), for exponents from 0 to 1."""
    count = 1
    while _is_chosen(words, exponent / count):
        count += 1
    return count % 2 == 1


def _draw(words: Iterator[int], scale: Fraction) -> int:
    top, bottom = scale.numerator, scale.denominator
    while True:
        rest = _below(words, top)
        if not _decays(words, Fraction(rest, top)):
            continue
        whole = 0
        while _decays(words, Fraction(1)):
            whole += 1
        size = (rest + top * whole) // bottom
        is_negative = bool(_below(words, 2))
        if size or not is_negative:  # zero is counted once
            return -size if is_negative else size
