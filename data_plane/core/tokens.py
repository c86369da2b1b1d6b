"""Tokens: sealed texts that clients get and bring back (docs/storage.md, "Tokens").

A token has one spelling, and that of before 0.2. What does not open gets NotSealedHereError,
whatever is wrong with it.
"""

import base64
import binascii
from functools import lru_cache
from typing import Final

from data_plane.core.queue import Queue
from data_plane.core.sealing import NotSealedHereError, TokenSeal, place

_URL_SAFE: Final = str.maketrans("-_", "+/")
_TO_URL_SAFE: Final = str.maketrans("+/", "-_")
QUEUE_SEALS_MAX: Final = 10_000
"""Seals of queues that a process keeps at hand, each some hundred bytes."""


class BoundSeal:
    """Seals for one purpose and place."""

    __slots__ = ("_bound_to", "_seal")

    def __init__(self, seal: TokenSeal, bound_to: bytes) -> None:
        self._seal = seal
        self._bound_to = bound_to

    def seal(self, plain: bytes) -> bytes:
        """16 bytes longer than `plain`, which is not empty."""
        return self._seal.seal(plain, self._bound_to)

    def unseal(self, sealed: bytes) -> bytes:
        """What was sealed. Raises NotSealedHereError."""
        return self._seal.unseal(sealed, self._bound_to)


def queue_seal(queue: Queue, purpose: str) -> BoundSeal:
    """The seal of a queue's tokens: of this incarnation, account, region and name alone."""
    return _queue_seal(purpose, queue.secret, queue.uid, queue.bound_name)


@lru_cache(QUEUE_SEALS_MAX)
def _queue_seal(purpose: str, secret: bytes, uid: str, name: str) -> BoundSeal:
    return BoundSeal(TokenSeal(secret, purpose), place(uid, name))


def to_text(version: int, sealed: bytes) -> str:
    """A token of sealed bytes: in base64, as SQS's are, the version (0 to 255) in clear."""
    return base64.b64encode(bytes((version,)) + sealed).decode()


def from_text(version: int, token: str) -> bytes:
    """The sealed bytes of a token of this version. Raises NotSealedHereError."""
    try:
        octets = base64.b64decode(token.translate(_URL_SAFE) + "=" * (-len(token) % 4))
    except (binascii.Error, ValueError):
        raise NotSealedHereError from None
    sealed = octets[1:]
    text = to_text(version, sealed)
    of_before = text.translate(_TO_URL_SAFE).rstrip("=")
    if octets[:1] != bytes((version,)) or token not in (text, of_before):
        raise NotSealedHereError
    return sealed
