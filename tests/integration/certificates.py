"""A certificate authority for one test, and certificates of it."""

import ipaddress
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

_DAY = timedelta(days=1)


class Certificates(NamedTuple):
    """PEM files: whom clients trust, what the server shows, and its key."""

    authority: Path
    certificate: Path
    key: Path

    def served(self) -> ssl.SSLContext:
        """What a server shows that speaks TLS in this process."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.certificate, self.key)
        return context


def make_certificates(folder: Path) -> Certificates:
    """A certificate for 127.0.0.1 and localhost, signed by an authority of its own."""
    folder.mkdir(exist_ok=True)
    made = Certificates(folder / "authority.pem", folder / "server.pem", folder / "server.key")
    authority_key, server_key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    authority = _unsigned("authority of a test", "authority of a test", authority_key)
    authority = authority.add_extension(
        x509.BasicConstraints(ca=True, path_length=0), critical=True
    )
    names = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    server = _unsigned("server of a test", "authority of a test", server_key)
    server = server.add_extension(x509.SubjectAlternativeName(names), critical=False)
    for path, unsigned in ((made.authority, authority), (made.certificate, server)):
        signed = unsigned.sign(authority_key, hashes.SHA256())
        path.write_bytes(signed.public_bytes(serialization.Encoding.PEM))
    made.key.touch(mode=0o600)
    made.key.write_bytes(pem(server_key))
    return made


def pem(key: ec.EllipticCurvePrivateKey, passphrase: bytes = b"") -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(passphrase)
        if passphrase
        else serialization.NoEncryption(),
    )


def _unsigned(
    subject: str, issuer: str, key: ec.EllipticCurvePrivateKey
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(_name(subject))
        .issuer_name(_name(issuer))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _DAY)
        .not_valid_after(now + _DAY)
    )


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])
