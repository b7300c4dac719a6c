"""Keys of organisations: ECDSA on the curve P-384, as Flower's node authentication uses them, and signatures."""

import base64
import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from silobench.errors import ConfigError
from silobench.safety.private_files import FOLDER_MODE, need_private, write_private

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

_KIND = "ecdsa-sha2-nistp384"


def new_key(path: Path) -> str:
    """Write a new private key, which only its owner can read, and return the public key as one line of text.

    The public key is also written beside it, to the file with the suffix .pub.
    """
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    if path.exists():
        raise ConfigError(f"{path} exists already, and a private key is never overwritten: choose another path.")
    key = ec.generate_private_key(ec.SECP384R1())
    content = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.OpenSSH, serialization.NoEncryption()
    )
    path.parent.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
    write_private(path, content)
    line = public_line(path)
    path.with_name(f"{path.name}.pub").write_text(f"{line}\n")
    return line


def public_line(path: Path) -> str:
    """Return the public key of a private key in a file, as one line in the format of OpenSSH."""
    from cryptography.hazmat.primitives import serialization

    public = _private(path).public_key()
    return public.public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH).decode()


def signed(path: Path, purpose: str, content: bytes) -> bytes:
    """Return a signature of a content, for one purpose, by the private key in a file."""
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec

    return _private(path).sign(_statement(purpose, content), ec.ECDSA(hashes.SHA384()))


def is_signed(line: str, purpose: str, content: bytes, signature: bytes) -> bool:
    """Whether the owner of a public key signed a content for this purpose."""
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec

    try:
        _public(line).verify(signature, _statement(purpose, content), ec.ECDSA(hashes.SHA384()))
    except InvalidSignature:
        return False
    return True


def checked_line(line: str, where: str = "the text in place of a public key") -> str:
    """Return a public key as it is stored, without its comment; one of another kind is a `ConfigError`.

    `where` names the file or the line that has it, for the sentence of the error.
    """
    _public(line, where)
    return " ".join(line.split()[:2])


def fingerprint(line: str) -> str:
    """Return a short digest of a public key, as ssh-keygen prints it: for two people to compare by phone."""
    digest = hashlib.sha256(base64.b64decode(line.split()[1])).digest()
    return "SHA256:" + base64.b64encode(digest).decode().rstrip("=")


def _statement(purpose: str, content: bytes) -> bytes:
    return b"silobench\0" + purpose.encode() + b"\0" + content


def _private(path: Path) -> "EllipticCurvePrivateKey":
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    try:
        content = path.read_bytes()
    except OSError as error:
        raise ConfigError(
            f"the private key {path} cannot be read ({error.strerror}): make one, or fix the path."
        ) from error
    loaders: list[Any] = [serialization.load_ssh_private_key, serialization.load_pem_private_key]
    for load in loaders:
        try:
            key = load(content, password=None)
        except Exception:  # the libraries raise many kinds; the next loader may read it
            continue
        if isinstance(key, ec.EllipticCurvePrivateKey) and isinstance(key.curve, ec.SECP384R1):
            need_private(path, "the private key")
            return key
    raise ConfigError(
        f"{path} is not a private key of the kind that is needed, without a passphrase: make one with `ssh-keygen -t "
        "ecdsa -b 384 -N ''`."
    )


def _public(line: str, where: str = "the text in place of a public key") -> Any:
    # The sentence repeats nothing of the text, which may be a secret in the wrong place.
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    try:
        key = serialization.load_ssh_public_key(line.encode())
    except Exception:  # the library raises many kinds
        key = None
    if isinstance(key, ec.EllipticCurvePublicKey) and isinstance(key.curve, ec.SECP384R1):
        return key
    what = "a private key, which must stay with its owner" if "PRIVATE KEY" in line else "not a public key for silos"
    raise ConfigError(f"{where} is {what}: one line that starts with {_KIND} is needed, as in the file key.pub.")
