"""Moves of messages between queues, as both engines decide and record them (docs/storage.md)."""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from hashlib import blake2b
from types import MappingProxyType
from typing import Final, NamedTuple, Protocol

from msgspec.structs import replace

from data_plane.core.errors import RefusedError, queue_does_not_exist
from data_plane.core.identifiers import random_uuid
from data_plane.core.message import Message
from data_plane.core.queue import Queue
from data_plane.ports import CellFullError, CellUnavailableError, Queues
from data_plane.stored.lease import Lease, from_bytes
from data_plane.stored.room import Room
from data_plane.stored.segment import ID_BYTES, UnknownFormatError

DEAD_LETTER: Final = "d"
REDRIVE: Final = "r"

_PARTS: Final = 6
_UNBOUNDED: Final = 1 << 30

Target = Callable[[Message], Awaitable[Queue]]
"""Where to redrive a message to. It may refuse: raise RefusedError."""


class StandardCopies(Protocol):
    """How a log stores copies in standard queues, which are another engine's."""

    async def __call__(self, move: "Move", copy: Message, block: bytes, index: int) -> None:
        """Store the copy of a move under the block and index that all copies of it have.

        Raises CellUnavailableError, RefusedError where the target was dropped.
        """
        ...


class Move(NamedTuple):
    """Where a message is on its way to; `kind` is DEAD_LETTER or REDRIVE.

    No copy lies in the target before `since`: a time in us, or a place in a log. Where the move was
    `begun` before, there may be one behind it. A log takes a copy with a stamp below `until_us`.
    """

    kind: str
    target: Queue
    since: int = 0
    begun: bool = False
    until_us: int = 0

    def to_text(self) -> str:
        """As stored."""
        target = self.target
        name = f"{target.account}|{target.region}|{target.name}|{target.uid}"
        return f"{self.kind}|{name}|{self.since}"


NOT_MOVED: Final[Mapping[str, frozenset[int]]] = MappingProxyType({})


def marks_of(moved: Iterable[tuple[int, Move]]) -> dict[str, frozenset[int]]:
    """The marks in a block's state of messages that have moved, by index; for audits alone."""
    indexes: dict[str, set[int]] = {}
    for index, move in moved:
        indexes.setdefault(f"g{move.kind}", set()).add(index)
    return {name: frozenset(of_kind) for name, of_kind in indexes.items()}


class Mover(Protocol):
    """Decides about messages that are met; has how many were moved, and why the last one was not.

    Messages that it refuses to decide about stay as they are; no more than `left` are to be moved.
    What is to be delivered has to find `room`.
    """

    room: Room
    moved: int
    refusal: RefusedError | None

    @property
    def left(self) -> int:
        """How many messages more to meet at most."""
        ...

    async def decide(self, queue: Queue, message: Message, received: int) -> Move | None:
        """Where to move a message that was received so often from this queue; None: deliver it.

        Raises RefusedError, CellUnavailableError.
        """
        ...

    def is_dropped(self, queue: Queue) -> bool:
        """Whether this front end knows that the queue was deleted."""
        ...


class DeadLetters:
    """Moves what the queue's redrive policy does not allow to be delivered once more.

    Without a dead-letter queue that exists a message stays, and is delivered; so it does where the
    queue is its own, for there it has arrived. `queues` knows those that exist; without it none do.
    The answer holds `bytes_max` of messages.
    """

    def __init__(
        self,
        queues: Queues | None,
        is_dropped: Callable[[Queue], bool],
        bytes_max: int | None = None,
    ) -> None:
        self.moved = 0
        self.room = Room(bytes_max)
        self.refusal: RefusedError | None = None
        self.is_dropped = is_dropped
        self._queues = queues

    @property
    def left(self) -> int:
        """As many as there are."""
        return _UNBOUNDED

    async def decide(self, queue: Queue, message: Message, received: int) -> Move | None:  # noqa: ARG002
        """The move to the dead-letter queue, if it is due."""
        policy = queue.redrive
        if policy is None or self._queues is None or received < policy.receive_count_max:
            return None
        target = await self._queues.find(policy.account, policy.region, policy.dead_letter_queue)
        if target is None or target.fifo != queue.fifo or self.is_dropped(target):
            return None
        if target.uid == queue.uid:
            return None
        return Move(DEAD_LETTER, target)


def waits_for_room(failure: CellUnavailableError, mover: Mover) -> bool:
    """Whether dead letters stay where they are because their queue's cell is full.

    A receive goes on without them: whoever meets them next, when their leases have ended, goes on
    with the moves.
    """
    return isinstance(failure, CellFullError) and isinstance(mover, DeadLetters)


class Redrive:
    """Moves up to `count` messages, whatever they went through, to the queue that `target` says."""

    def __init__(self, target: Target, count: int, is_dropped: Callable[[Queue], bool]) -> None:
        self.moved = 0
        self.room = Room(None)
        self.refusal: RefusedError | None = None
        self.is_dropped = is_dropped
        self._target = target
        self._count = count

    @property
    def left(self) -> int:
        """What of `count` was not moved yet."""
        return self._count - self.moved

    async def decide(self, queue: Queue, message: Message, received: int) -> Move:  # noqa: ARG002
        """A move, in any case."""
        target = await self._target(message)
        if self.is_dropped(target):
            raise queue_does_not_exist()
        return Move(REDRIVE, target)


async def decide_one(  # noqa: PLR0913, PLR0917 - a message, what is known of it, who decides
    queue: Queue,
    message: Message,
    lease: bytes | None,
    begun: str,
    mover: Mover,
    queues: Queues | None,
) -> Move | None:
    """The move that was `begun` ("": none), if its target is still there; else what `mover` says.

    Raises what that raises, UnknownFormatError.
    """
    if begun:
        move = await _begun_move(begun, queues)
        if move is not None and not mover.is_dropped(move.target):
            return move
    received = from_bytes(lease).receive_count - message.received if lease else 0
    return await mover.decide(queue, message, received)


async def _begun_move(stored: str, queues: Queues | None) -> Move | None:
    parts = stored.split("|")
    if len(parts) != _PARTS or queues is None:
        raise UnknownFormatError(f"move {stored!r}")
    kind, account, region, name, uid, since = parts
    target = await queues.find(account, region, name)
    if target is None or target.uid != uid:
        return None
    return Move(kind, target, int(since), begun=True)


def id_of_place(source: Queue, place: bytes) -> bytes:
    """The id of what lay there: whoever goes on with a move knows it, and no other move has it."""
    digest = blake2b(source.uid.encode() + place, digest_size=ID_BYTES, person=b"redriven id")
    return random_uuid(digest.digest())


def copy_for(move: Move, source: Queue, place: bytes, message: Message, held: Lease) -> Message:
    """The message as its target is to have it; `place` names where it was in its queue."""
    if move.kind == DEAD_LETTER:
        return replace(
            message,
            dead_letter_source=source.arn,
            received=held.receive_count,
            first_received_ms=held.first_received_ms,
        )
    return replace(
        message,
        id=id_of_place(source, place),
        dead_letter_source="",
        received=0,
        first_received_ms=0,
    )
