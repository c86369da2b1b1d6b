"""What both engines need to browse: a page in the making, and what states say of messages."""

from data_plane.core.browsing import DELAYED, IN_FLIGHT, MOVING, VISIBLE, Browsed
from data_plane.core.message import Message
from data_plane.core.message_rules import size_bytes
from data_plane.ports import Attributes
from data_plane.stored import lease
from data_plane.stored.bodies import BodyStore
from data_plane.stored.bounds import BROWSE_BYTES_MAX
from data_plane.stored.data_keys import QueueKeys
from data_plane.stored.segment import DamagedSegmentError, LoadedSegment, UnknownFormatError


class PageInTheMaking:
    """A page of up to `count` messages, and of 1 MiB if it has more than one.

    `now_us` is the time that leases go by, `present_us` that of delays.
    """

    def __init__(self, count: int, now_us: int, present_us: int) -> None:
        self.messages: list[Browsed] = []
        self._count = count
        self._now_ms = now_us // 1000
        self._present_us = present_us
        self._size_bytes = 0

    @property
    def is_full(self) -> bool:
        """Whether it has as many messages as it may have."""
        return len(self.messages) >= self._count

    def has_room_for(self, message: Message) -> bool:
        """Whether it takes one more; the first, however big."""
        size = size_bytes(message.body, message.attributes)
        return not self.messages or (
            not self.is_full and self._size_bytes + size <= BROWSE_BYTES_MAX
        )

    def add(self, message: Message, state: Attributes, index: int, ready_us: int) -> None:
        """Show a message that is visible from `ready_us` on, by the state of its block."""
        self._size_bytes += size_bytes(message.body, message.attributes)
        stored = state.get(f"m{index}")
        if not isinstance(stored, bytes):
            delayed = ready_us > self._present_us
            self.messages.append(
                Browsed(
                    message,
                    DELAYED if delayed else VISIBLE,
                    -(-ready_us // 1000) if delayed else 0,
                    message.received,
                    message.first_received_ms,
                )
            )
            return
        held = lease.from_bytes(stored)
        kind = IN_FLIGHT if held.visible_ms > self._now_ms else VISIBLE
        if f"q{index}" in state:
            kind = MOVING
        self.messages.append(
            Browsed(
                message,
                kind,
                held.visible_ms if kind == IN_FLIGHT else 0,
                held.receive_count,
                held.first_received_ms,
            )
        )


def is_deleted(state: Attributes, index: int) -> bool:
    """Whether a block's state says that a message is deleted."""
    done = state.get("d", frozenset())
    return isinstance(done, frozenset) and index in done


async def readable_messages(
    segment: LoadedSegment, keys: QueueKeys, bodies: BodyStore | None
) -> list[Message]:
    """The messages of a segment; none where they cannot be read, as nobody can receive them.

    Raises RefusedError with a fault of KMS, and CellUnavailableError where a key or a body apart is
    not to be had at present.
    """
    try:
        opener = await keys.opener((segment,))
        failure = opener.failure(segment)
        if failure is not None:
            raise failure
        if not segment.blob:
            return segment.messages(opener.unseal)
        if bodies is None:
            raise UnknownFormatError("a segment names a blob, and its cell has none")
        return await bodies.fetch(segment, opener.unseal) or []
    except DamagedSegmentError:
        return []
