"""Room for what long answers are made of: known to whatever reads it, without a parameter.

What was read for an answer lies in memory until the answer is encoded, and long answers wait for
their turn for that. The front end says what room there is; whoever is about to read much asks.
"""

from contextvars import ContextVar
from typing import Protocol

from data_plane.core.limits import SMALL_BODY_BYTES_MAX


class AnswerRoom(Protocol):
    """What one request may hold of messages."""

    async def take(self, size_bytes: int) -> None:
        """Return when so much may be read. Raises DeadlinePassedError."""
        ...

    def take_now(self, size_bytes: int) -> bool:
        """Take so much if there is room for it."""
        ...

    def leave(self) -> None:
        """Nothing of what was taken is needed any more."""
        ...


_ROOM: ContextVar[AnswerRoom | None] = ContextVar("answer_room", default=None)


def use_room(room: AnswerRoom | None) -> None:
    """A request begins, which has this room; None: it is over, or there is no bound."""
    _ROOM.set(room)


async def room_for(size_bytes: int) -> None:
    """Return when so much may be read for the request. Raises DeadlinePassedError."""
    room = _ROOM.get()
    if room is not None and size_bytes > SMALL_BODY_BYTES_MAX:
        await room.take(size_bytes)


def room_now(size_bytes: int) -> bool:
    """Whether so much may be held at once; who has read it else lets go of it, and waits."""
    room = _ROOM.get()
    return room is None or size_bytes <= SMALL_BODY_BYTES_MAX or room.take_now(size_bytes)


def leave_room() -> None:
    """A long poll found nothing for now in what it has read: others may read while it waits."""
    room = _ROOM.get()
    if room is not None:
        room.leave()
