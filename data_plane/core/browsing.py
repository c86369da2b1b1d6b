"""What browsing shows of a queue: messages as they lie there, a page at a time."""

from dataclasses import dataclass
from typing import Final, NamedTuple

from data_plane.core.errors import INVALID_PARAMETER_VALUE, RefusedError
from data_plane.core.message import Message
from data_plane.core.queue import Queue
from data_plane.core.sealing import NotSealedHereError
from data_plane.core.tokens import from_text, queue_seal, to_text

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


_TOKEN_VERSION: Final = 2
_TOKEN_CHARS_MAX: Final = 16_384
_PURPOSE: Final = "browsing"


def to_token(queue: Queue, position: bytes) -> str:
    """A position as clients get it: opaque, and for this queue alone."""
    return to_text(_TOKEN_VERSION, queue_seal(queue, _PURPOSE).seal(position))


def from_token(queue: Queue, token: str) -> bytes:
    """The position that a token stands for. Raises RefusedError for what is none of the queue."""
    if len(token) > _TOKEN_CHARS_MAX:
        raise invalid_token()
    try:
        return queue_seal(queue, _PURPOSE).unseal(from_text(_TOKEN_VERSION, token))
    except NotSealedHereError:
        raise invalid_token() from None


def invalid_token() -> RefusedError:
    """No page begins there."""
    return RefusedError(INVALID_PARAMETER_VALUE, "Invalid or expired next token.")
