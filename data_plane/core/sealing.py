"""Sealing: bytes that only this registry's front ends can read or make, and only in their place.

Everything is sealed for one purpose and bound to where it belongs, so that what is forged, altered
or moved elsewhere does not open. Tokens (receipt handles, paging tokens) are sealed by AES-SIV,
which needs no nonce and gives equal bytes for equal input (RFC 5297); messages by AES-GCM with a
random nonce (NIST SP 800-38D).
"""

import hashlib
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM, AESSIV

SECRET_BYTES: Final = 32
NONCE_BYTES: Final = 12
_SIV_KEY_BYTES: Final = 64


class NotSealedHereError(Exception):
    """These bytes were not sealed by this key for this place."""


def derive(secret: bytes, purpose: str, *place: str, size_bytes: int = SECRET_BYTES) -> bytes:
    """A key of its own for a purpose and place, of up to 64 bytes; `secret` has 32.

    Keyed BLAKE2b (RFC 7693) of the parts, each behind its length.
    """
    if len(secret) != SECRET_BYTES:
        raise ValueError(f"a secret has {SECRET_BYTES} bytes, not {len(secret)}")
    digest = hashlib.blake2b(key=secret, digest_size=size_bytes)
    for part in (purpose, *place):
        encoded = part.encode()
        digest.update(len(encoded).to_bytes(4, "big") + encoded)
    return digest.digest()


class TokenSeal:
    """Seals short texts and bytes that leave the service and come back."""

    __slots__ = ("_cipher",)

    def __init__(self, secret: bytes, purpose: str, *place: str) -> None:
        self._cipher = AESSIV(derive(secret, purpose, *place, size_bytes=_SIV_KEY_BYTES))

    def seal(self, plain: bytes, *bound_to: bytes) -> bytes:
        """16 bytes longer than `plain`, which is not empty."""
        return self._cipher.encrypt(plain, list(bound_to))

    def unseal(self, sealed: bytes, *bound_to: bytes) -> bytes:
        """What was sealed. Raises NotSealedHereError."""
        try:
            return self._cipher.decrypt(sealed, list(bound_to))
        except (InvalidTag, ValueError):
            raise NotSealedHereError from None


class DataSeal:
    """Seals messages with a data key of 32 bytes."""

    __slots__ = ("_cipher",)

    def __init__(self, key: bytes) -> None:
        self._cipher = AESGCM(key)

    def seal(self, nonce: bytes, plain: bytes, bound_to: bytes) -> bytes:
        """The nonce, then the sealed bytes: 28 bytes more. A nonce serves once with a key."""
        return nonce + self._cipher.encrypt(nonce, plain, bound_to)

    def unseal(self, sealed: bytes, bound_to: bytes) -> bytes:
        """What was sealed. Raises NotSealedHereError."""
        try:
            return self._cipher.decrypt(sealed[:NONCE_BYTES], sealed[NONCE_BYTES:], bound_to)
        except (InvalidTag, ValueError):
            raise NotSealedHereError from None


def place(*parts: str | bytes) -> bytes:
    """Parts as one binding that no other parts have; that of the first ones begins it."""
    bound = b""
    for part in parts:
        encoded = part.encode() if isinstance(part, str) else part
        bound += len(encoded).to_bytes(4, "big") + encoded
    return bound
