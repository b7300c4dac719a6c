"""Shamir's secret sharing: any `threshold` shares of a 32-byte secret restore it, and fewer reveal nothing about it.

The secret is the value at 0 of a random polynomial of degree ``threshold - 1`` over a prime field, and a share is the
value at another place.
"""

import secrets
from collections.abc import Mapping, Sequence
from functools import lru_cache

from silobench.errors import RunError

PRIME = 2**256 + 297  # the smallest prime above 2^256, so that every secret of 32 bytes is a number of the field
SECRET_BYTES = 32
SHARE_BYTES = 33


def split(secret: bytes, threshold: int, places: Sequence[int]) -> list[bytes]:
    """Return the shares of a secret for `places`, which are positive and distinct."""
    if len(secret) != SECRET_BYTES or not 1 <= threshold <= len(places):
        raise ValueError(f"{len(secret)} bytes cannot be split so that {threshold} of {len(places)} shares suffice.")
    if min(places) < 1 or len(set(places)) < len(places):
        raise ValueError(f"the places of shares are {list(places)}, but they must be positive and distinct.")
    coefficients = [secrets.randbelow(PRIME) for _ in range(threshold - 1)]
    coefficients.append(int.from_bytes(secret))  # the constant comes last
    return [_value(coefficients, place).to_bytes(SHARE_BYTES) for place in places]


def combine(shares: Mapping[int, bytes], threshold: int) -> bytes:
    """Return the secret that has these shares, by place; exactly `threshold` of them are needed."""
    if len(shares) != threshold:
        raise RunError(f"there are {len(shares)} shares of a secret, but exactly {threshold} restore it.", "")
    weights = _weights(tuple(shares))
    secret = sum(weight * int.from_bytes(share) for weight, share in zip(weights, shares.values(), strict=True)) % PRIME
    if secret >> (8 * SECRET_BYTES):
        raise RunError("no secret of 32 bytes has these shares: they do not belong together, and the sum is lost.", "")
    return secret.to_bytes(SECRET_BYTES)


def _value(coefficients: Sequence[int], place: int) -> int:
    value = 0
    for coefficient in coefficients:  # places are small, so that one reduction at the end is faster than one per step
        value = value * place + coefficient
    return value % PRIME


@lru_cache(maxsize=16)
def _weights(places: tuple[int, ...]) -> list[int]:
    """Return the factors of Lagrange's formula at 0; those of one set of places serve for all secrets of a round."""
    weights = []
    for place in places:
        top = bottom = 1
        for other in places:
            if other != place:
                top, bottom = top * other % PRIME, bottom * (other - place) % PRIME
        weights.append(top * pow(bottom, -1, PRIME) % PRIME)
    return weights
