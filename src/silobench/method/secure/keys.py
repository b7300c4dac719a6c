"""Keys that two parties agree on over an open network, and messages that only they can read."""

import hashlib
import os
from collections.abc import Mapping

from silobench.errors import RunError
from silobench.method.secure.protocol import ID_BYTES

KEY_BYTES = 32
_NONCE_BYTES = 12


def new_key() -> bytes:
    """Return a secret key from the operating system's generator."""
    return os.urandom(KEY_BYTES)


def public_key(private: bytes) -> bytes:
    """Return the public key of a private X25519 key."""
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey  # takes long to import

    return X25519PrivateKey.from_private_bytes(private).public_key().public_bytes_raw()


def shared_keys(private: bytes, publics: Mapping[int, bytes], party: int, purpose: str) -> dict[int, bytes]:
    """Return the key that a party shares with each other party, whose public keys are given.

    Both compute it from their private key and the public key of the other. It is bound to both parties and a purpose.
    """
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

    key = X25519PrivateKey.from_private_bytes(private)
    return {
        other: _derived(key.exchange(X25519PublicKey.from_public_bytes(public)), party, other, purpose)
        for other, public in publics.items()
    }


def _derived(secret: bytes, party: int, other: int, purpose: str) -> bytes:
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    info = f"silobench {purpose}".encode() + b"\0" + pair(min(party, other), max(party, other))
    return HKDF(SHA256(), KEY_BYTES, salt=None, info=info).derive(secret)


def commitment(key: bytes) -> bytes:
    """Return the digest of a secret key, with which everybody can check the key once it is restored."""
    return hashlib.sha256(b"silobench commitment\0" + key).digest()


def bound(key: bytes, digest: bytes) -> bytes:
    """Return a key that is bound to the digest of what all parties must have in common; without one, the key itself."""
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    return HKDF(SHA256(), KEY_BYTES, salt=None, info=b"silobench round\0" + digest).derive(key) if digest else key


def seal(key: bytes, content: bytes, sender: int, receiver: int) -> bytes:
    """Encrypt a message from one party to another."""
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    nonce = os.urandom(_NONCE_BYTES)
    return nonce + AESGCM(key).encrypt(nonce, content, pair(sender, receiver))


def unseal(key: bytes, sealed: bytes, sender: int, receiver: int) -> bytes:
    """Decrypt a message; it is refused if it was changed, or is from or for another party."""
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    try:
        return AESGCM(key).decrypt(sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], pair(sender, receiver))
    except (InvalidTag, ValueError):  # changed, or too short
        raise RunError(
            f"party {receiver} cannot decrypt a message from party {sender}: it was changed on its way, so the party"
            " leaves the round.",
            "",
        ) from None


def pair(sender: int, receiver: int) -> bytes:
    """Return two parties as bytes."""
    return sender.to_bytes(ID_BYTES) + receiver.to_bytes(ID_BYTES)
