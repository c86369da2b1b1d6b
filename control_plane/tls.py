"""Certificates, checked before the server opens its port: what it shows, and whom it trusts."""

import ssl
import stat
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_pem_private_key,
)

from control_plane.cells import StartError
from control_plane.metadata_cache.memcached import CacheTlsError, tls_context
from data_plane.http.server import TlsFiles
from data_plane.settings import ServerSettings

_FOR_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO


def tls_files(settings: ServerSettings) -> TlsFiles | None:
    """The files to serve TLS with; None where plain HTTP is served."""
    if settings.tls_certificate is None or settings.tls_key is None:
        return None
    return TlsFiles(settings.tls_certificate, settings.tls_key)


def cache_tls(settings: ServerSettings) -> ssl.SSLContext | None:
    """How nodes of the metadata cache prove who they are; None: not. Raises StartError."""
    try:
        return tls_context(settings.metadata_cache_tls)
    except CacheTlsError as error:
        raise StartError(f"metadata-cache-tls: {error}") from error


def check_tls(settings: ServerSettings) -> None:
    """Raise StartError unless all certificates that the settings name can be used."""
    cache_tls(settings)
    files = tls_files(settings)
    if files is None:
        return
    certified = _certified_key(files.certificate)
    if _public_key(files.key) != certified:
        raise StartError(f"tls-key: {files.key} is not the key of {files.certificate}")


def _certified_key(path: Path) -> bytes:
    """The public key of the first certificate, the server's own."""
    octets = _read("tls-certificate", path)
    try:
        first = x509.load_pem_x509_certificates(octets)[0]
        key = first.public_key()
    except (ValueError, UnsupportedAlgorithm) as error:
        raise StartError(f"tls-certificate: {path} has no certificate in PEM form") from error
    return key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


def _public_key(path: Path) -> bytes:
    octets = _read("tls-key", path)
    mode = stat.S_IMODE(path.stat().st_mode)
    if mode & _FOR_OTHERS:
        raise StartError(
            f"tls-key: others than its owner may use {path} (mode {mode:o}): chmod 600 {path}"
        )
    try:
        key = load_pem_private_key(octets, password=None)
    except TypeError as error:
        raise StartError(f"tls-key: {path} is encrypted; the server needs it in clear") from error
    except (ValueError, UnsupportedAlgorithm) as error:
        raise StartError(f"tls-key: {path} has no private key in PEM form") from error
    return key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


def _read(setting: str, path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise StartError(f"{setting}: {path}: {error.strerror}") from error
