"""Certificates for TLS: an authority of the consortium, and the certificate of its server."""

import datetime
import ipaddress
from collections.abc import Sequence
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from silobench.atomic import replace_atomically
from silobench.errors import ConfigError
from silobench.safety.private_files import write_private

AUTHORITY, SERVER, SERVER_KEY, AUTHORITY_KEY = "ca.crt", "server.pem", "server.key", "ca.key"
_AUTHORITY_DAYS, _SERVER_DAYS = 3650, 397
_SKEW = datetime.timedelta(hours=1)  # clocks of other machines may be behind


def write_secret(path: Path, content: bytes) -> None:
    """Write a new file that only its owner can read. Refuse to replace one."""
    try:
        write_private(path, content)
    except FileExistsError:
        raise ConfigError(f"{path} exists already: keys are not replaced, so choose another folder.") from None


def write_authority(public: Path, private: Path, name: str) -> None:
    """Write a new authority: its certificate into `public`, which silos get, and its key into `private`."""
    key = ec.generate_private_key(ec.SECP384R1())
    subject = _subject(f"{name} authority")
    usage = x509.KeyUsage(True, False, False, False, False, True, True, False, False)
    builder = (
        _builder(subject, subject, key.public_key(), _AUTHORITY_DAYS)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )
    write_secret(private / AUTHORITY_KEY, _key_bytes(key))
    (public / AUTHORITY).write_bytes(builder.sign(key, hashes.SHA384()).public_bytes(serialization.Encoding.PEM))


def write_server(public: Path, private: Path, hosts: Sequence[str]) -> None:
    """Write a server's key and certificate for its host names into `private`; replace those that are there."""
    authority = x509.load_pem_x509_certificate((public / AUTHORITY).read_bytes())
    signer = serialization.load_pem_private_key((private / AUTHORITY_KEY).read_bytes(), None)
    assert isinstance(signer, ec.EllipticCurvePrivateKey)
    key = ec.generate_private_key(ec.SECP384R1())
    usage = x509.KeyUsage(True, False, False, False, False, False, False, False, False)
    signer_id = x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key())
    builder = (
        _builder(authority.subject, _subject(hosts[0]), key.public_key(), _SERVER_DAYS)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName([_alternative(host) for host in hosts]), critical=False)
        .add_extension(usage, critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(signer_id, critical=False)
    )
    replace_atomically(private / SERVER_KEY, _key_bytes(key), private=True)
    (private / SERVER).write_bytes(builder.sign(signer, hashes.SHA384()).public_bytes(serialization.Encoding.PEM))


def fingerprint(certificate: Path) -> str:
    """Return the SHA-256 fingerprint of a certificate, in pairs of digits as people read them to each other."""
    digest = x509.load_pem_x509_certificate(certificate.read_bytes()).fingerprint(hashes.SHA256())
    return digest.hex(":").upper()


def last_day(certificate: Path) -> datetime.date:
    """Return the day on which a certificate expires."""
    return x509.load_pem_x509_certificate(certificate.read_bytes()).not_valid_after_utc.date()


def _builder(
    issuer: x509.Name, subject: x509.Name, key: ec.EllipticCurvePublicKey, days: int
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder(issuer, subject, key, x509.random_serial_number())
        .not_valid_before(now - _SKEW)
        .not_valid_after(now + datetime.timedelta(days=days))
    )


def _subject(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name[:64])])


def _alternative(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _key_bytes(key: ec.EllipticCurvePrivateKey) -> bytes:
    form = serialization.PrivateFormat.PKCS8
    return key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())
