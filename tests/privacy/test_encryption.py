"""Additive encryption: stated precision, sums, layers and histograms under encryption, keys and messages."""

import hashlib
import math
import pickle
import struct
import sys
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from silobench.errors import ConfigError, RunError
from silobench.privacy.encryption.ckks import DEGREE, SCALE_BITS, SLOTS, Ckks, CkksSecret
from silobench.privacy.encryption.paillier import Paillier
from silobench.privacy.encryption.scheme import Ciphertexts, Meter, PublicKey, Scheme, SecretKey

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


def test_what_a_scheme_and_its_keys_must_have() -> None:
    assert Scheme.__abstractmethods__ == {
        "values_per_ciphertext", "precision", "most_terms", "generate", "read_key"
    }  # fmt: skip
    assert PublicKey.__abstractmethods__ == {"to_bytes", "_encrypt", "_add", "_write", "_read"}
    assert SecretKey.__abstractmethods__ == {"_decrypt"}


def test_an_array_has_up_to_eight_dimensions() -> None:
    public = key_of("paillier").public
    assert public.read(public.encrypt(np.ones((1,) * 8)).to_bytes()).shape == (1,) * 8
    with pytest.raises(RunError, match="9 dimensions, but at most 8"):
        public.encrypt(np.ones((1,) * 9))


def test_a_header_by_hand() -> None:
    public = key_of("paillier").public
    array = public.encrypt(np.zeros((3, 5))) + public.encrypt(np.ones((3, 5)))
    numbers = struct.pack(">IdIHBB2I", 3, 200.0, 2, 7, 0, 2, 3, 5)
    mark = hashlib.sha256(public.to_bytes()).digest()[:8]
    assert array.to_bytes()[: 12 + len(numbers)] == b"PAIL" + mark + numbers
    assert array.nbytes == 12 + len(numbers) + 3 * 2 * BITS // 8
    assert array.to_bytes() is array.to_bytes()  # packed once
    for wrong in (replace(array, slots=0), replace(array, slots=8), replace(array, shape=(3, 8))):
        with pytest.raises(RunError, match="the number of ciphertexts does not fit the shape"):
            public.read(wrong.to_bytes())


def test_a_meter_adds_up_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    secret = key_of("paillier")  # other tests have the same key, and need its clock for longer
    monkeypatch.setattr(secret.public, "meter", Meter(clock=iter(range(100)).__next__))
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


def test_the_figures_of_ckks_by_hand() -> None:
    """The formulas of the module's first lines, with N = 8192, log2(N) = 13 and a failure of 2^-40."""
    excess = math.log(6 * 4096) + 40 * math.log(2)
    noise = math.sqrt(excess * 8192 / 12 * (4 / 3 * excess * 8192 + 1)) + 4096 + 1
    transform = 8 * 2.0**-53 * 13 * math.sqrt(8192)
    for reach in (1.0, 1024.0, 1e6):
        assert Ckks(range=reach).precision == pytest.approx(noise / 2**40 + 2 * transform * reach, rel=1e-12)
    assert [Ckks(range=reach).most_terms for reach in (2.0**40, 2.0**57, 1.0)] == [2**18, 2, 2**32 - 1]
    assert Ckks().values_per_ciphertext == 4096
    largest, rounding = 50.0, 2 * 2.0**-41  # two inputs, each rounded to a multiple of 2^-40
    for weights, sums in (([[1.5, -2.0], [0.5, 0.0]], 3.5), ([[0.25, -0.5]], 1.0)):  # a sum below 1 counts as 1
        expected = max(sums + rounding, 1.0) * (noise / 2**40 + 2 * transform * largest) + rounding * largest
        assert ckks().public.linear_precision(weights, largest) == pytest.approx(expected, rel=1e-12)


def test_a_layer_may_reach_its_limit_and_no_more() -> None:
    """A product has twice the scale, so values of 98 - 80 bits fit; units are up to 1024."""
    public = ckks().public
    units = public.encrypt_units(np.array([[1024.0, -1024.0]]))
    layer = public.linear([[128.0, -128.0]], units)
    assert (layer.limit, layer.shape, layer.depth, layer.terms, layer.slots) == (2.0**18, (1, 1), 1, 1, 1)
    assert ckks().decrypt(layer)[0, 0] == pytest.approx(2.0**18, rel=1e-6)
    with pytest.raises(RunError, match="could reach 524288, but 262144 is the limit"):
        layer + layer
    with pytest.raises(RunError, match="could reach"):
        public.linear([[128.0, 128.01]], units)
    assert public.meter.ciphertexts["multiply"] >= 2


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


def test_a_ckks_key_on_the_network_has_no_keys_of_rotations() -> None:
    """They have many times its size, and nothing here rotates."""
    context = ckks()._context.copy()
    context.generate_galois_keys()
    key = CkksSecret(Ckks(), context).public
    plain = Ckks().read_key(key.to_bytes())._context
    assert plain.has_public_key()
    assert not any([plain.has_galois_keys(), plain.has_relin_keys(), plain.has_secret_key()])


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


def test_tiny_weights_are_rounded_and_not_left_out() -> None:
    """Of large units: many weights below 2^-39 add up to more than the precision that is stated."""
    secret = CkksSecret(Ckks(range=1e6), ckks()._context)
    units, weights = np.full((1, 10), 1e6), np.full((1, 10), 1.99 * 2.0**-40)
    result = secret.decrypt(secret.public.linear(weights, secret.public.encrypt_units(units)))
    precision = secret.public.linear_precision(weights, 1e6)
    assert np.abs(result - weights @ units.T).max() <= precision < weights.sum() * 1e6 / 2


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
    cube = public._packed(np.ones((2, 3, 1)), 3)
    with pytest.raises(RunError, match=r"do not fit encrypted units of shape \(2, 3, 1\)"):
        public.linear(np.ones((2, 2)), cube)
    with pytest.raises(RunError, match="could reach"):
        public.linear(np.full((1, 2), 200.0), units)
    with pytest.raises(RunError, match="1 to 4096 rows"):
        public.encrypt_units(np.ones((SLOTS + 1, 1)))


def test_a_message_names_the_shape_and_the_limit() -> None:
    public = key_of("paillier").public
    array: Ciphertexts = public.read(public.encrypt(np.zeros((2, 1, 3))).to_bytes())
    assert (array.shape, array.slots, array.limit, array.terms, array.depth) == ((2, 1, 3), 7, 100.0, 1, 0)
