"""Receipt handles: where a delivered message lies, so that a delete needs to read nothing.

Layout: docs/storage.md, "Receipt handles". The check only tells handles from garbage.
"""

import base64
import binascii
import hashlib
import struct
from dataclasses import dataclass

from data_plane.core.errors import RECEIPT_HANDLE_IS_INVALID, RefusedError
from data_plane.core.queue import Queue

VERSION = 1
CHECK_BYTES = 6
_LAYOUT = struct.Struct(">B8sBH10sB6s13s")
TEXT_LENGTH = 64


@dataclass(frozen=True, slots=True)
class ReceiptHandle:
    """The place and the lease of one delivery; `sent_ms` is when the message was sent."""

    lane: int
    epoch: int
    block: bytes
    index: int
    sent_ms: int
    token: bytes
    text: str


def _check(uid: str, fields: bytes) -> bytes:
    return hashlib.blake2b(fields, digest_size=CHECK_BYTES, key=uid.encode()).digest()


def encode(  # noqa: PLR0913, PLR0917 - a handle is these facts
    uid: str, lane: int, epoch: int, block: bytes, index: int, sent_ms: int, token: bytes
) -> str:
    """The handle's text, 64 characters."""
    fields = _LAYOUT.pack(
        VERSION, bytes.fromhex(uid), lane, epoch, block, index, sent_ms.to_bytes(6, "big"), token
    )
    return base64.urlsafe_b64encode(fields + _check(uid, fields)).decode()


def decode(text: str, queue: Queue) -> ReceiptHandle:
    """Read a handle that was made for this queue.

    Raises RefusedError(ReceiptHandleIsInvalid) for anything else.
    """
    if len(text) != TEXT_LENGTH:
        raise _refusal(text)
    try:
        sealed = base64.b64decode(text, altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        raise _refusal(text) from None
    fields = sealed[:-CHECK_BYTES]
    version, uid, lane, epoch, block, index, sent, token = _LAYOUT.unpack(fields)
    if (
        version != VERSION
        or uid.hex() != queue.uid
        or _check(queue.uid, fields) != sealed[-CHECK_BYTES:]
    ):
        raise _refusal(text)
    return ReceiptHandle(lane, epoch, block, index, int.from_bytes(sent, "big"), token, text)


def _refusal(text: str) -> RefusedError:
    return RefusedError(
        RECEIPT_HANDLE_IS_INVALID,
        f'The input receipt handle "{text}" is not a valid receipt handle.',
    )
