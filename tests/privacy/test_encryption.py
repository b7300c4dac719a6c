"""Additive encryption: stated precision, sums, layers and histograms under encryption, keys and messages."""

import math
import pickle
import sys
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from phe import paillier as phe

from silobench.errors import ConfigError, RunError
from silobench.privacy.encryption.ckks import DEGREE, SCALE_BITS, SLOTS, Ckks, CkksSecret
from silobench.privacy.encryption.paillier import Paillier, PaillierSecret
from silobench.privacy.encryption.scheme import Ciphertexts, Meter, Scheme, SecretKey

BITS = 512  # of Paillier keys: seven slots, and fast
SCHEMES: dict[str, Scheme] = {
    "ckks": Ckks(range=100.0),
    "paillier": Paillier(range=100.0, terms=64, bits=BITS),
    "unpacked": Paillier(range=100.0, terms=64, bits=BITS, pack=1),
}
every_scheme = pytest.mark.parametrize("name", SCHEMES)


@cache
def key_of(name: str) -> SecretKey:
    return SCHEMES[name].generate()


@cache
def ckks() -> CkksSecret:
    return Ckks().generate()


@cache
def paillier() -> PaillierSecret:
    return Paillier(range=4.0, terms=64, bits=BITS).generate()


@every_scheme
@settings(max_examples=20, deadline=None)
@given(values=arrays(np.float64, array_shapes(max_dims=3, max_side=5), elements=st.floats(-100.0, 100.0)))
def test_values_return_within_the_precision(name: str, values: np.ndarray) -> None:
    secret = key_of(name)
    result = secret.decrypt(secret.public.encrypt(values))
    assert result.shape == values.shape
    assert np.abs(result - values).max() <= secret.public.scheme.precision


@every_scheme
def test_extremes_fill_every_slot(name: str) -> None:
    """Neighbours of opposite sign would show a carry between slots."""
    secret, count = key_of(name), 2 * SCHEMES[name].values_per_ciphertext + 1
    values = np.resize([100.0, -100.0, 0.0, -0.0, 1e-300, -100.0], count).astype(np.float32)
    total = secret.public.encrypt(values)
    for _ in range(5):
        total = total + secret.public.encrypt(values)
    assert np.abs(secret.decrypt(total) - 6 * values).max() <= 6 * SCHEMES[name].precision
    assert secret.decrypt(secret.public.encrypt(np.zeros((0, 3)))).shape == (0, 3)


@every_scheme
def test_messages_go_to_the_key_holder_and_back(name: str) -> None:
    secret, scheme = key_of(name), SCHEMES[name]
    parties = [scheme.read_key(secret.public.to_bytes()) for _ in range(3)]
    values = np.random.default_rng(0).normal(size=(3, 5, 4))
    messages = [party.encrypt(part) for party, part in zip(parties, values, strict=True)]
    sent = [message.to_bytes() for message in messages]
    assert [message.nbytes for message in messages] == list(map(len, sent))
    total = sum((parties[0].read(message) for message in sent[1:]), start=messages[0])
    assert (total.terms, total.limit) == (3, 300.0)
    result = secret.decrypt(secret.public.read(total.to_bytes()))
    assert np.abs(result - values.sum(0)).max() <= 3 * scheme.precision


@every_scheme
def test_ciphertexts_of_equal_values_differ(name: str) -> None:
    public = key_of(name).public
    first, second = (public.encrypt(np.ones(2 * SCHEMES[name].values_per_ciphertext)) for _ in range(2))
    contents = {public._write(item) for item in (*first.items, *second.items)}
    assert len(contents) == 4


@every_scheme
def test_another_key_does_not_decrypt(name: str) -> None:
    secret, other = key_of(name), SCHEMES[name].generate()
    array = secret.public.encrypt([1.0, 2.0, 3.0])
    with pytest.raises(RunError, match="another key"):
        other.public.read(array.to_bytes())
    with pytest.raises(RunError, match="different keys"):
        array + other.public.encrypt([1.0, 2.0, 3.0])
    with pytest.raises(RunError, match="within the range"):
        other.decrypt(array)  # without the check of the message


@every_scheme
def test_damaged_messages_are_refused(name: str) -> None:
    secret = key_of(name)
    message = secret.public.encrypt(np.arange(7.0)).to_bytes()
    for place in (len(message) // 2, len(message) - 100):  # of CKKS: content, and padding
        with pytest.raises(RunError):
            secret.decrypt(secret.public.read(flipped(message, place)))
    for wrong in (message[:-1], message + b"x", message[:20], b"", flipped(message, 13), flipped(message, 2)):
        with pytest.raises(RunError, match="is not an encrypted array"):
            secret.public.read(wrong)


def flipped(message: bytes, at: int) -> bytes:
    return message[:at] + bytes([message[at] ^ 1]) + message[at + 1 :]


@every_scheme
@pytest.mark.parametrize("value", [100.1, -1e9, math.inf, math.nan])
def test_values_beyond_the_range_are_refused(name: str, value: float) -> None:
    with pytest.raises(RunError, match="magnitudes up to 100"):
        key_of(name).public.encrypt([1.0, value])


@every_scheme
def test_arrays_of_different_shapes_cannot_be_added(name: str) -> None:
    public = key_of(name).public
    with pytest.raises(RunError, match="cannot be added"):
        public.encrypt(np.zeros((2, 3))) + public.encrypt(np.zeros((3, 2)))


@every_scheme
def test_keys_are_never_stored(name: str) -> None:
    secret = key_of(name)
    things: list[Any] = [secret, secret.public, secret.public.encrypt([1.0])]
    for thing in things:
        with pytest.raises(TypeError, match="never stored"):
            pickle.dumps(thing)
    assert pickle.loads(pickle.dumps(SCHEMES[name])) == SCHEMES[name]


@pytest.mark.parametrize(("scheme", "name"), [(Ckks(), "tenseal"), (Paillier(), "gmpy2")])
def test_a_missing_package_is_one_sentence(scheme: Scheme, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ConfigError, match=rf"needs the package {name}.*pip install 'silobench\[encryption\]'"):
        scheme.generate()


def test_a_meter_adds_up_steps() -> None:
    secret = key_of("paillier")
    secret.public.meter = Meter(clock=iter(range(100)).__next__)
    array = secret.public.encrypt(np.zeros(15)) + secret.public.encrypt(np.zeros(15))
    secret.decrypt(array)
    assert secret.public.meter.seconds == {"encrypt": 2, "add": 1, "decrypt": 1}
    assert secret.public.meter.ciphertexts == {"encrypt": 6, "add": 3, "decrypt": 3}


def test_ckks_noise_is_that_of_the_derivation() -> None:
    """Roundings t0 + t1 s have a variance of N/24 (|s|² + 1) in a slot, and |s|² is 2N/3 on average."""
    values = np.random.default_rng(0).uniform(-1, 1, 8 * SLOTS)
    errors = ckks().decrypt(ckks().public.encrypt(values)) - values
    assert errors.std() == pytest.approx(DEGREE / 6 / 2**SCALE_BITS, rel=0.1)
    assert np.abs(errors).max() <= ckks().public.scheme.precision < 1.1e-7


def test_ckks_messages_have_one_size() -> None:
    """Compressed sizes differ, so bytes would not repeat; a message has the size that it has without compression."""
    rng, secrets = np.random.default_rng(0), (ckks(), Ckks().generate())
    assert {len(secret.public.to_bytes()) for secret in secrets} == {2 * 3 * DEGREE * 8 + 512}
    arrays = [secret.public.encrypt(rng.normal(size=SLOTS)) for secret in secrets for _ in range(3)]
    arrays += [secret.public.encrypt_units(np.zeros((SLOTS, 1))) for secret in secrets]
    arrays += [secret.public.linear([[0.0]], arrays[-1 - place]) for place, secret in enumerate(reversed(secrets))]
    contents = {len(item.serialize()) for array in arrays for item in array.items}
    assert len(contents) > 1
    assert max(contents) < 2 * 2 * DEGREE * 8  # compression does not add bytes
    assert {len(array.key._write(item)) for array in arrays for item in array.items} == {2 * 2 * DEGREE * 8 + 512}
    assert len({array.nbytes for array in arrays[:6]}) == 1


def test_a_public_ckks_key_has_no_secret() -> None:
    public = Ckks().read_key(ckks().public.to_bytes())
    assert not public._context.has_secret_key()
    assert not ckks().public._context.has_secret_key()
    assert public.to_bytes() == ckks().public.to_bytes()
    message = public.to_bytes()
    for wrong in (b"abc", b"", message[:-1], flipped(message, len(message) - 1), flipped(message, 0)):
        with pytest.raises(RunError, match="is not a CKKS key"):
            Ckks().read_key(wrong)


def test_a_layer_under_encryption_is_a_matrix_product() -> None:
    rng, public = np.random.default_rng(0), ckks().public
    units, weights = rng.normal(size=(20, 6)), rng.normal(size=(4, 6))
    weights[1] = 0.0
    weights[2, 3:] = (0.0, 1e-13, -(2.0**-41))
    result = public.linear(weights, public.encrypt_units(units))
    precision = public.linear_precision(weights, np.abs(units).max())
    assert precision < 1e-5
    assert np.abs(ckks().decrypt(result) - weights @ units.T).max() <= precision
    again = public.read(result.to_bytes())
    assert np.abs(ckks().decrypt(again + result) - 2 * weights @ units.T).max() <= 2 * precision


def test_layers_that_do_not_fit_are_refused() -> None:
    public = ckks().public
    units = public.encrypt_units(np.ones((3, 2)))
    layer = public.linear(np.ones((2, 2)), units)
    with pytest.raises(RunError, match="one layer is possible"):
        public.linear(np.ones((2, 2)), layer)
    with pytest.raises(RunError, match="cannot be added"):
        layer + public.encrypt_units(np.ones((3, 2)))
    with pytest.raises(RunError, match="do not fit encrypted units"):
        public.linear(np.ones((2, 3)), units)
    with pytest.raises(RunError, match="could reach"):
        public.linear(np.full((1, 2), 200.0), units)
    with pytest.raises(RunError, match="1 to 4096 rows"):
        public.encrypt_units(np.ones((SLOTS + 1, 1)))


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


def test_a_message_names_the_shape_and_the_limit() -> None:
    public = key_of("paillier").public
    array: Ciphertexts = public.read(public.encrypt(np.zeros((2, 1, 3))).to_bytes())
    assert (array.shape, array.slots, array.limit, array.terms, array.depth) == ((2, 1, 3), 7, 100.0, 1, 0)
