"""Receipt handles: where a delivered message lies, so that a delete needs to read nothing.

Layout: docs/storage.md, "Tokens". They are sealed: whoever is not a front end of this registry can
neither read one nor make one, and one of another queue does not open. They are in base64 as those
of SQS are: clients put them between hyphens.
"""

import base64
import re
import struct
from dataclasses import dataclass
from typing import Final

from data_plane.core.errors import RECEIPT_HANDLE_IS_INVALID, RefusedError
from data_plane.core.queue import Queue
from data_plane.core.sealing import NotSealedHereError
from data_plane.core.tokens import queue_seal

TEXT_LENGTH: Final = 72
_IN_CLEAR: Final = b"\x03\x00"
_WITHOUT_SIZE: Final = b"\x02\x00"
"""The version, and the number of the registry secret; below, that of handles made before."""

_LAYOUT: Final = struct.Struct(">BH10sB6s13s")
_SIZE_BYTES: Final = 3
_CHARS: Final = rf"{{{TEXT_LENGTH - 4}}}(.{{4}})?"
_FORM: Final = re.compile(rf"(?=.{_CHARS}\Z)([A-Za-z0-9+/]*|[A-Za-z0-9_-]*)", re.ASCII)
_URL_SAFE: Final = str.maketrans("-_", "+/")
"""Handles of before 0.2 are in the other alphabet of base64."""
_PURPOSE: Final = "receipt handles"


@dataclass(frozen=True, slots=True)
class ReceiptHandle:
    """The place and the lease of one delivery; `sent_ms` is when the message was sent.

    `size_bytes` is what limits and bills count of it; 0 in handles of a version that had none.
    """

    lane: int
    epoch: int
    block: bytes
    index: int
    sent_ms: int
    token: bytes
    size_bytes: int
    text: str


def encode(  # noqa: PLR0913, PLR0917 - a handle is these facts
    queue: Queue,
    lane: int,
    epoch: int,
    block: bytes,
    index: int,
    sent_ms: int,
    token: bytes,
    size_bytes: int,
) -> str:
    """The handle's text, 72 characters; equal facts give equal text."""
    fields = _LAYOUT.pack(lane, epoch, block, index, sent_ms.to_bytes(6, "big"), token)
    fields += size_bytes.to_bytes(_SIZE_BYTES, "big")
    sealed = queue_seal(queue, _PURPOSE).seal(fields)
    return base64.b64encode(_IN_CLEAR + sealed).decode()


def decode(text: str, queue: Queue) -> ReceiptHandle:
    """Read a handle that was made for this queue.

    Raises RefusedError(ReceiptHandleIsInvalid) for anything else, which is told apart, as SQS does,
    into what was never a handle and what has the form of one, but is none of this queue.
    """
    if _FORM.fullmatch(text) is None:
        raise _refusal(text)
    octets = base64.b64decode(text.translate(_URL_SAFE))
    if not octets.startswith(_IN_CLEAR if len(text) == TEXT_LENGTH else _WITHOUT_SIZE):
        raise _refusal(text)
    try:
        fields = queue_seal(queue, _PURPOSE).unseal(octets[len(_IN_CLEAR) :])
    except NotSealedHereError:
        raise RefusedError(
            RECEIPT_HANDLE_IS_INVALID, f'The receipt handle "{text}" is not valid for this queue.'
        ) from None
    lane, epoch, block, index, sent, token = _LAYOUT.unpack_from(fields)
    sent_ms, size_bytes = (int.from_bytes(part, "big") for part in (sent, fields[_LAYOUT.size :]))
    return ReceiptHandle(lane, epoch, block, index, sent_ms, token, size_bytes, text)


def _refusal(text: str) -> RefusedError:
    return RefusedError(
        RECEIPT_HANDLE_IS_INVALID,
        f'The input receipt handle "{text}" is not a valid receipt handle.',
    )
