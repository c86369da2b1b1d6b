"""What browsing shows of a queue: messages as they lie there, a page at a time."""

import base64
import binascii
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final, NamedTuple

from data_plane.core.errors import INVALID_PARAMETER_VALUE, RefusedError
from data_plane.core.message import Message
from data_plane.core.queue import Queue

VISIBLE: Final = "visible"
DELAYED: Final = "delayed"
IN_FLIGHT: Final = "inFlight"
MOVING: Final = "moving"
"""On its way to another queue: a receive does not return it any more."""


@dataclass(frozen=True, slots=True)
class Browsed:
    """A message and its state.

    `visible_ms` is when a message that is delayed or in flight becomes visible, else 0.
    `first_received_ms` is 0 where it was never received.
    """

    message: Message
    state: str
    visible_ms: int
    receive_count: int
    first_received_ms: int


class Page(NamedTuple):
    """Messages in the engine's order, and where the next page begins (b"": this is the last)."""

    messages: list[Browsed]
    next_position: bytes


_TOKEN_VERSION: Final = b"\x01"
_CHECK_BYTES: Final = 8
_TOKEN_CHARS_MAX: Final = 16_384


def to_token(queue: Queue, position: bytes) -> str:
    """A position as clients get it: opaque, and for this queue alone."""
    fields = _TOKEN_VERSION + position
    return base64.urlsafe_b64encode(fields + _check(queue, fields)).decode()


def from_token(queue: Queue, token: str) -> bytes:
    """The position that a token stands for. Raises RefusedError for what is no token of the queue.

    The check tells tokens from garbage; an engine reads what passes it.
    """
    try:
        sealed = base64.b64decode(token[:_TOKEN_CHARS_MAX], altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        raise invalid_token() from None
    fields, check = sealed[:-_CHECK_BYTES], sealed[-_CHECK_BYTES:]
    if fields[:1] != _TOKEN_VERSION or check != _check(queue, fields):
        raise invalid_token()
    return fields[1:]


def invalid_token() -> RefusedError:
    """No page begins there."""
    return RefusedError(INVALID_PARAMETER_VALUE, "Invalid or expired next token.")


def _check(queue: Queue, fields: bytes) -> bytes:
    key = queue.uid.encode()
    return blake2b(fields, digest_size=_CHECK_BYTES, key=key, person=b"browse").digest()
