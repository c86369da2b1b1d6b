"""Public keys that tell signatures of digests. They need the package `cryptography`."""

import base64
import hashlib
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from .digests import Head

ED25519: Final = "ed25519"
ECDSA_P256: Final = "ecdsa-p256-sha256"


class PublicKey:
    """What tells signatures, of a PEM text. Raises ValueError; ImportError without the package."""

    def __init__(self, pem: bytes) -> None:
        primitives = "cryptography.hazmat.primitives"
        texts = import_module(f"{primitives}.serialization")
        ec = import_module(f"{primitives}.asymmetric.ec")
        self._no_signature: Any = import_module("cryptography.exceptions").InvalidSignature
        self._key: Any = texts.load_pem_public_key(pem)
        self._by: tuple[Any, ...] = ()
        self._algorithm = ED25519
        if isinstance(self._key, ec.EllipticCurvePublicKey) and self._key.curve.name == "secp256r1":
            self._algorithm = ECDSA_P256
            self._by = (ec.ECDSA(import_module(f"{primitives}.hashes").SHA256()),)
        elif type(self._key).__name__ != "Ed25519PublicKey":
            raise ValueError("the public key is neither of Ed25519 nor of ECDSA on P-256")
        form = texts.PublicFormat.SubjectPublicKeyInfo
        self.id = hashlib.sha256(self._key.public_bytes(texts.Encoding.DER, form)).hexdigest()

    def verify(self, head: Head) -> bool:
        """Whether the signature of a head is by this key."""
        if (head.key, head.algorithm) != (self.id, self._algorithm):
            return False
        try:
            self._key.verify(base64.b64decode(head.signature), head.message(), *self._by)
        except (self._no_signature, ValueError):
            return False
        return True


def key_in(path: Path) -> PublicKey:
    """The public key in a file. Raises ValueError, which names the file."""
    try:
        return PublicKey(path.read_bytes())
    except ImportError as error:
        raise ValueError(f"{path}: signatures need the package cryptography: {error}") from error
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}") from error
    # The package says in many ways what it makes of bytes that are none of its own.
    except Exception as error:
        raise ValueError(f"{path} is no public key that verifies: {error}") from error
