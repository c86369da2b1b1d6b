"""Who signs digests: a key of KMS, or an Ed25519 key in a file that only its owner may read."""

import base64
import hashlib
import os
import stat
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any, Final, Protocol

from glue_jobs.arguments import JobError
from glue_jobs.verifier import ECDSA_P256, ED25519, Head, PublicKey

KMS_ARN: Final = "arn:"
_KMS_ALGORITHM: Final = "ECDSA_SHA_256"
_MODE: Final = 0o600
_FOR_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO
_PEM_CHARS: Final = 64


class Signer(Protocol):
    """A key pair."""

    key: str
    """The id of its public key: the SHA-256 of that in DER."""

    def sign(self, head: Head) -> Head:
        """A head with the signature of its message."""

    def verify(self, head: Head) -> bool:
        """Whether the signature of a head is its own."""

    def public_pem(self) -> bytes:
        """What others verify with."""


def signer_of(name: str) -> Signer:
    """The signer that a KMS key's ARN or a key file's path names. Raises JobError."""
    return KmsSigner(name) if name.startswith(KMS_ARN) else FileSigner(Path(name))


def create_key(path: Path) -> None:
    """Make a key file, for its owner alone. Raises JobError, also where there is such a file."""
    ed25519, texts = _ed25519(), _texts()
    pem: bytes = ed25519.Ed25519PrivateKey.generate().private_bytes(
        texts.Encoding.PEM, texts.PrivateFormat.PKCS8, texts.NoEncryption()
    )
    try:
        opened = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _MODE)
        with os.fdopen(opened, "wb") as file:
            file.write(pem)
            file.flush()
            os.fsync(file.fileno())
    except FileExistsError:
        raise JobError(f"{path} is there already: name a new file") from None
    except OSError as error:
        raise JobError(f"{path}: {error.strerror}") from error


class FileSigner:
    """Signs with the Ed25519 key of a file. Raises JobError where that cannot be used."""

    def __init__(self, path: Path) -> None:
        try:
            with path.open("rb") as file:
                mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
                content = file.read()
        except OSError as error:
            raise JobError(f"{path}: {error.strerror}") from error
        if mode & _FOR_OTHERS:
            raise JobError(
                f"{path}: others than its owner may use it (mode {mode:o}); chmod 600 it"
            )
        try:
            self._key = _texts().load_pem_private_key(content, None)
        except (ValueError, TypeError) as error:
            raise JobError(f"{path}: it is no file of a key") from error
        if not isinstance(self._key, _ed25519().Ed25519PrivateKey):
            raise JobError(f"{path}: its key is not of Ed25519")
        self._public = PublicKey(self.public_pem())
        self.key = self._public.id

    def sign(self, head: Head) -> Head:
        """See Signer."""
        signature = base64.b64encode(self._key.sign(head.message())).decode()
        return replace(head, algorithm=ED25519, key=self.key, signature=signature)

    def verify(self, head: Head) -> bool:
        """See Signer."""
        return self._public.verify(head)

    def public_pem(self) -> bytes:
        """See Signer."""
        texts = _texts()
        pem: bytes = self._key.public_key().public_bytes(
            texts.Encoding.PEM, texts.PublicFormat.SubjectPublicKeyInfo
        )
        return pem


class KmsSigner:
    """Signs with an ECDSA key on P-256 that KMS has and never gives away. Raises JobError.

    It needs `boto3` alone: jobs have no other package to verify with, so KMS does that, too.
    """

    def __init__(self, arn: str) -> None:
        self._arn = arn
        try:
            self._client: Any = import_module("boto3").client("kms", region_name=arn.split(":")[3])
            answer = self._client.get_public_key(KeyId=arn)
        except Exception as error:
            raise JobError(f"{arn}: {error}") from error
        if _KMS_ALGORITHM not in answer["SigningAlgorithms"]:
            raise JobError(f"{arn}: it does not sign by {_KMS_ALGORITHM}")
        self._der: bytes = answer["PublicKey"]
        self.key = hashlib.sha256(self._der).hexdigest()

    def sign(self, head: Head) -> Head:
        """See Signer."""
        try:
            answer = self._client.sign(Message=head.message(), **self._asked())
        except self._client.exceptions.ClientError as error:
            raise JobError(f"{self._arn}: {error}") from error
        signature = base64.b64encode(answer["Signature"]).decode()
        return replace(head, algorithm=ECDSA_P256, key=self.key, signature=signature)

    def verify(self, head: Head) -> bool:
        """See Signer."""
        if (head.key, head.algorithm) != (self.key, ECDSA_P256):
            return False
        signature = base64.b64decode(head.signature)
        try:
            answer = self._client.verify(
                Message=head.message(), Signature=signature, **self._asked()
            )
        except self._client.exceptions.KMSInvalidSignatureException:
            return False
        except self._client.exceptions.ClientError as error:
            raise JobError(f"{self._arn}: {error}") from error
        return bool(answer["SignatureValid"])

    def public_pem(self) -> bytes:
        """See Signer."""
        text = base64.b64encode(self._der).decode()
        lines = [text[at : at + _PEM_CHARS] for at in range(0, len(text), _PEM_CHARS)]
        framed = ("-----BEGIN PUBLIC KEY-----", *lines, "-----END PUBLIC KEY-----")
        return "".join(f"{line}\n" for line in framed).encode()

    def _asked(self) -> dict[str, str]:
        return {
            "KeyId": self._arn,
            "MessageType": "RAW",
            "SigningAlgorithm": _KMS_ALGORITHM,
        }


def _texts() -> Any:
    return _cryptography("hazmat.primitives.serialization")


def _ed25519() -> Any:
    return _cryptography("hazmat.primitives.asymmetric.ed25519")


def _cryptography(module: str) -> Any:
    try:
        return import_module(f"cryptography.{module}")
    except ImportError as error:
        told = "a key file needs the package cryptography; where it is not, a key of KMS signs"
        raise JobError(told) from error
