"""Receipt handles: where a delivered message lies, so that a delete needs to read nothing.

Layout: docs/storage.md, "Tokens". They are sealed: whoever is not a front end of this registry can
neither read one nor make one, and one of another queue does not open.
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

TEXT_LENGTH: Final = 68
_IN_CLEAR: Final = b"\x02\x00"
"""The version, and the number of the registry secret."""

_LAYOUT: Final = struct.Struct(">BH10sB6s13s")
_FORM: Final = re.compile(rf"[A-Za-z0-9_-]{{{TEXT_LENGTH}}}", re.ASCII)
_PURPOSE: Final = "receipt handles"


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


def encode(  # noqa: PLR0913, PLR0917 - a handle is these facts
    queue: Queue, lane: int, epoch: int, block: bytes, index: int, sent_ms: int, token: bytes
) -> str:
    """The handle's text, 68 characters; equal facts give equal text."""
    fields = _LAYOUT.pack(lane, epoch, block, index, sent_ms.to_bytes(6, "big"), token)
    sealed = queue_seal(queue, _PURPOSE).seal(fields)
    return base64.urlsafe_b64encode(_IN_CLEAR + sealed).decode()


def decode(text: str, queue: Queue) -> ReceiptHandle:
    """Read a handle that was made for this queue.

    Raises RefusedError(ReceiptHandleIsInvalid) for anything else.
    """
    if _FORM.fullmatch(text) is None:
        raise _refusal(text)
    octets = base64.urlsafe_b64decode(text)
    if not octets.startswith(_IN_CLEAR):
        raise _refusal(text)
    try:
        fields = queue_seal(queue, _PURPOSE).unseal(octets[len(_IN_CLEAR) :])
    except NotSealedHereError:
        raise _refusal(text) from None
    lane, epoch, block, index, sent, token = _LAYOUT.unpack(fields)
    return ReceiptHandle(lane, epoch, block, index, int.from_bytes(sent, "big"), token, text)


def _refusal(text: str) -> RefusedError:
    return RefusedError(
        RECEIPT_HANDLE_IS_INVALID,
        f'The input receipt handle "{text}" is not a valid receipt handle.',
    )
