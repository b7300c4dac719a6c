"""Paillier: exact sums, its numbers by hand and against phe, histograms, keys and messages."""

import math
import secrets
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from phe import paillier as phe

from silobench.errors import ConfigError, RunError
from silobench.privacy.encryption import paillier as module
from silobench.privacy.encryption.paillier import Paillier, PaillierSecret

BITS = 512  # of keys: seven slots, and fast


@cache
def paillier() -> PaillierSecret:
    return Paillier(range=4.0, terms=64, bits=BITS).generate()


def test_paillier_sums_are_exact_up_to_the_last_term_that_fits() -> None:
    scheme = Paillier(range=3.0, terms=5, bits=BITS)
    secret = scheme.generate()
    integers = np.random.default_rng(0).integers(-(2**50), 2**50, 20)
    values = np.ldexp(integers.astype(float), -scheme.fraction)
    assert np.abs(values).max() <= scheme.range
    values[::2] = 3.0 * np.sign(values[::2])
    array = secret.public.encrypt(values)
    total = array + array + array + array + array
    np.testing.assert_array_equal(secret.decrypt(total), 5 * values)
    with pytest.raises(RunError, match="6 terms, but 5 fit"):
        total + array
    with pytest.raises(RunError, match="6 terms, but 5 fit"):
        secret.public.read(replace(total, terms=6).to_bytes())
    assert np.rint(np.ldexp(scheme.range, scheme.fraction)) * scheme.terms < 2**63


def test_paillier_agrees_with_phe() -> None:
    secret = paillier()
    p, q = map(int, secret._primes)
    public = phe.PaillierPublicKey(int(secret.public.n))
    private = phe.PaillierPrivateKey(public, p, q)
    for number in (0, 1, -1, 2**200, -(2**200)):
        ours, theirs = secret.public.encrypt_integer(number), public.raw_encrypt(number % public.n)
        assert private.raw_decrypt(int(ours)) == number % public.n
        assert secret.decrypt_integer(theirs) == number
        assert private.raw_decrypt(int(secret.public._add(ours, theirs))) == 2 * number % public.n
    array = secret.public._packed([2.5], slots=1)  # a single value is an integer in fixed point
    assert private.raw_decrypt(int(array.items[0])) == 2.5 * 2**secret.public.scheme.fraction
    item = public.raw_encrypt(int(-3.25 * 2**secret.public.scheme.fraction) % public.n)
    assert secret.decrypt(replace(array, items=(item,))).tolist() == [-3.25]


@pytest.mark.parametrize(
    ("scheme", "slots", "fraction"),
    [
        (Paillier(), 31, 62 - 20),
        (Paillier(range=3.0, terms=5, bits=512), 7, 62 - 4),
        (Paillier(range=2.0**-10, terms=1, bits=256), 3, 62 + 10),
        (Paillier(range=1.0, terms=3, bits=320), 4, 62 - 2),
        (Paillier(range=1.0, terms=1, bits=16 * 41), 10, 62),
    ],
)
def test_the_figures_of_paillier_by_hand(scheme: Paillier, slots: int, fraction: int) -> None:
    """A slot has 64 bits, two of them for the sign and for rounding up; range times terms takes its share."""
    assert (scheme.most_slots, scheme.values_per_ciphertext, scheme.fraction) == (slots, slots, fraction)
    assert scheme.precision == 2.0 ** -(fraction + 1) + scheme.range * 2.0**-53
    assert scheme.most_terms == scheme.terms
    assert replace(scheme, pack=slots).values_per_ciphertext == slots
    assert replace(scheme, pack=2).values_per_ciphertext == 2
    with pytest.raises(ConfigError, match="pack"):
        replace(scheme, pack=slots + 1)


def test_integers_return_up_to_half_of_the_modulus() -> None:
    secret, n = paillier(), int(paillier().public.n)
    most, half = n // 2, int(secret._primes[0]) // 2
    for number in (most, -most, most - 1, 0, 1, -1, 12345678901234567890):
        assert secret.decrypt_integer(secret.public.encrypt_integer(number)) == number
    assert secret.decrypt_integer(secret.public.encrypt_integer(most + 1)) == -most
    for number in (2**253, -(2**253), half - 1, -half + 1):
        item = secret.public.encrypt_integer(number)
        assert secret.decrypt_integer(item, BITS // 2 - 2) == secret.decrypt_integer(item, BITS // 2) == number
    wide = secret.public.encrypt_integer(2**300)
    assert secret.decrypt_integer(wide, BITS // 2 - 1) == 2**300  # too long for half of the work


@pytest.mark.parametrize("bits", [256, 272, 400, BITS])
def test_primes_and_powers_are_those_of_the_paper(bits: int) -> None:
    """Both primes are 3 modulo 4 with two bits set, and H is the n-th power of a number that is minus a square."""
    secret = paillier() if bits == BITS else Paillier(bits=bits).generate()
    public, (p, q) = secret.public, map(int, secret._primes)
    assert {prime % 4 for prime in (p, q)} == {3}
    assert {prime >> bits // 2 - 2 for prime in (p, q)} == {3}
    assert math.gcd(p - 1, q - 1) == 2
    assert int(public.n) == p * q
    assert all(pow(2, prime - 1, prime) == pow(3, prime - 1, prime) == 1 for prime in (p, q))
    power, square = int(public._power), p * p * q * q
    assert pow(power, (p - 1) * (q - 1), square) == 1  # of an n-th power
    assert [pow(power, (prime - 1) // 2, prime) for prime in (p, q)] == [p - 1, q - 1]  # -1 is no square modulo either
    table = public._table
    assert (len(table), {len(row) for row in table}) == (40, {256})
    for i, j in ((0, 0), (0, 1), (0, 255), (1, 1), (3, 7), (39, 255)):
        assert table[i][j] == pow(power, j * 256**i, square)


def test_a_key_has_the_first_two_primes_that_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    """They differ, and 2 is the only divisor that both have if 1 is subtracted; either may be the larger one."""
    for fitting in ((7, 11), (11, 7)):
        primes = iter([7, 7, 7, 19, *fitting])
        monkeypatch.setattr(module, "_prime", lambda bits, primes=primes: next(primes))
        assert Paillier(bits=256).generate()._primes == fitting


@pytest.mark.parametrize("share", [0, 1])
def test_a_key_works_at_both_ends_of_its_random_number(share: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The number is below n: n itself would make each power of H zero, and nothing could be decrypted."""
    scheme, primes = paillier().public.scheme, paillier()._primes
    monkeypatch.setattr(secrets, "randbelow", lambda bound: share * (bound - 1))
    secret = PaillierSecret(scheme, *primes)
    assert 1 < secret.public._power < secret.public.square
    assert secret.decrypt(secret.public.encrypt([1.5, -2.0])).tolist() == [1.5, -2.0]


def test_keys_and_numbers_that_cannot_be_are_refused() -> None:
    scheme, public = paillier().public.scheme, paillier().public
    n, square, width = int(public.n), int(public.square), BITS // 8
    assert public.to_bytes() == n.to_bytes(width) + int(public._power).to_bytes(2 * width)
    for modulus, power in ((n >> 1, 2), (n, 0), (n, 1), (n, square), (n, square + 1)):
        with pytest.raises(RunError, match=f"is not a Paillier key of {BITS} bits"):
            scheme.read_key(modulus.to_bytes(width) + power.to_bytes(2 * width))
    assert scheme.read_key(n.to_bytes(width) + (2).to_bytes(2 * width)).n == n
    array = public.encrypt([1.0])
    for number in (0, square, square + 1):
        with pytest.raises(RunError, match="a number is too large"):
            public.read(replace(array, items=(number,)).to_bytes())
    assert public.read(replace(array, items=(1,)).to_bytes()).items == (1,)


def test_numbers_beyond_the_slots_are_refused() -> None:
    """A packed number is at least minus the offset of its slots, 2^63 in each of them."""
    secret = paillier()
    array = secret.public._packed([1.0], slots=1)
    for number in (-(2**63) - 1, 2**63):
        with pytest.raises(RunError, match="do not decrypt to values within the range"):
            secret.decrypt(replace(array, items=(secret.public.encrypt_integer(number),)))
    wide = replace(array, limit=2.0**63)
    for number in (-(2**63), 2**63 - 1024):
        item = secret.public.encrypt_integer(number)
        assert secret.decrypt(replace(wide, items=(item,))).tolist() == [number / 2**secret.public.scheme.fraction]


def test_decrypted_values_may_be_twice_the_limit_for_their_errors() -> None:
    secret = paillier()
    for value, limit in ((3.0, 1.0), (-3.0, 1.0), (1.0, 0.0)):
        array = replace(secret.public.encrypt([value]), limit=limit)
        assert secret.decrypt(array).tolist() == [value]
        with pytest.raises(RunError, match="within the range"):
            secret.decrypt(replace(array, limit=limit - 0.01))


def test_sums_of_no_rows_are_zero() -> None:
    public = paillier().public
    pairs = public.encrypt_pairs([1.0, -2.0], [0.5, 4.0])
    none = public.sum_by_bin(pairs, [0, 1], 2, np.zeros(0, np.int64))
    assert not paillier().decrypt(none).any()
    assert (none.terms, none.limit, none.slots, none.shape) == (1, 4.0, 2, (2, 2))
    both = public.sum_by_bin(pairs, [[1, 0], [1, 2]], 3)
    assert (both.terms, both.limit, both.shape) == (2, 8.0, (2, 3, 2))
    rest = public.subtract(both, both)
    assert (rest.terms, rest.limit, rest.shape, rest.slots) == (2, 8.0, (2, 3, 2), 2)
    assert not paillier().decrypt(rest).any()


def test_the_steps_of_histograms_are_counted() -> None:
    public = paillier().public
    pairs = public.encrypt_pairs(np.ones(5), np.ones(5))
    public.meter.clear()
    sums = public.sum_by_bin(pairs, np.zeros((5, 3), int), 2)
    assert public.meter.ciphertexts == {"encrypt": 2 * 3, "add": 5 * 3}
    public.subtract(sums, sums)
    gathered = public.gather(sums)
    assert public.meter.ciphertexts == {"encrypt": 6, "add": 15 + 6 + 6}
    assert (gathered.slots, len(gathered.items), gathered.shape, gathered.limit) == (6, 2, sums.shape, sums.limit)
    public.read(gathered.to_bytes())
    assert public.meter.ciphertexts["serialise"] == 2 + 2


def histogram(values: np.ndarray, bins: np.ndarray, count: int) -> np.ndarray:
    return np.stack([np.bincount(column, values, count) for column in bins.T])


def test_sums_by_bin_are_those_of_numpy() -> None:
    """Multiples of 2^-20 have exact sums in float64 too."""
    rng, public = np.random.default_rng(0), paillier().public
    g, h = (rng.integers(-(2**22), 2**22, 50) / 2**20 for _ in range(2))
    bins = rng.integers(0, 4, (50, 3))
    bins[:, 2] = 3  # other bins of this feature are empty
    pairs = public.encrypt_pairs(g, h)
    assert (len(pairs.items), pairs.shape) == (50, (50, 2))
    sums = public.sum_by_bin(pairs, bins, 4)
    left = np.arange(0, 50, 3)
    right = public.subtract(sums, public.sum_by_bin(pairs, bins, 4, left))
    rest = np.setdiff1d(np.arange(50), left)
    for array, rows in ((sums, np.arange(50)), (public.gather(sums), np.arange(50)), (right, rest)):
        for result, values in zip(paillier().decrypt_pairs(array), (g, h), strict=True):
            np.testing.assert_array_equal(result, histogram(values[rows], bins[rows], 4))
    assert (len(sums.items), len(public.gather(sums).items)) == (12, 4)  # three pairs in seven slots
    one = public.sum_by_bin(pairs, bins[:, 0], 4)
    np.testing.assert_array_equal(paillier().decrypt(one), paillier().decrypt(sums)[0])


def test_sums_by_bin_can_be_sent_and_the_first_bin_may_be_empty() -> None:
    public = paillier().public
    pairs = public.encrypt_pairs([1.0, -2.0, 0.5], [0.25, 3.0, 1.0])
    sums = public.sum_by_bin(pairs, [2, 1, 2], 3)
    by_hand = [[0.0, 0.0], [-2.0, 3.0], [1.5, 1.25]]
    for array in (sums, public.subtract(sums, public.sum_by_bin(pairs, [2, 1, 2], 3, np.zeros(0, np.int64)))):
        assert all(0 < item < public.square for item in array.items)
        assert paillier().decrypt(public.read(array.to_bytes())).tolist() == by_hand
        assert paillier().decrypt(public.read(public.gather(array).to_bytes())).tolist() == by_hand


def test_sums_by_bin_hide_which_rows_they_add() -> None:
    """The key holder could compare products of its own ciphertexts with a sum that is not blinded."""
    public = paillier().public
    pairs = public.encrypt_pairs([1.0, 2.0], [1.0, 1.0])
    sums = public.sum_by_bin(pairs, [0, 0], 1)
    assert sums.items[0] != public._add(*pairs.items)


@pytest.mark.parametrize("bins", [[0, 1], [0, 1, 4], [0, 1, -1], [[[0]], [[1]], [[2]]]])
def test_bins_that_do_not_fit_are_refused(bins: list[Any]) -> None:
    pairs = paillier().public.encrypt_pairs(np.zeros(3), np.zeros(3))
    with pytest.raises(RunError, match="bins"):
        paillier().public.sum_by_bin(pairs, bins, 4)


def test_more_rows_than_terms_are_refused() -> None:
    pairs = paillier().public.encrypt_pairs(np.zeros(65), np.zeros(65))
    with pytest.raises(RunError, match="65 terms, but 64 fit"):
        paillier().public.sum_by_bin(pairs, np.zeros(65, int), 1)


def test_a_paillier_key_of_full_length() -> None:
    scheme = Paillier()
    secret = scheme.generate()
    assert (scheme.values_per_ciphertext, scheme.fraction) == (31, 42)
    assert int(secret.public.n).bit_length() == 2048
    values = np.random.default_rng(0).normal(size=(2, 31))
    array = secret.public.encrypt(values)
    assert array.nbytes == len(array.to_bytes()) == 2 * 512 + array.nbytes % 512
    public = scheme.read_key(secret.public.to_bytes())
    result = secret.decrypt(public.read(array.to_bytes()) + public.encrypt(-2 * values))
    assert np.abs(result + values).max() <= 2 * scheme.precision < 5e-13
    with pytest.raises(RunError, match="is not a Paillier key"):
        scheme.read_key(secret.public.to_bytes()[:-1])


@pytest.mark.parametrize("bits", [128, 2047])
def test_wrong_key_lengths(bits: int) -> None:
    with pytest.raises(ConfigError, match=f"bits={bits}"):
        Paillier(bits=bits)


@pytest.mark.parametrize("change", [{"pack": 32}, {"pack": -1}, {"terms": 0}, {"range": 0.0}, {"range": math.inf}])
def test_wrong_parameters(change: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(change))):
        Paillier(**change)
