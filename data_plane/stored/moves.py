"""Moves of messages between queues, as both engines record them (docs/storage.md)."""

from hashlib import blake2b
from typing import Final, NamedTuple

from data_plane.core.identifiers import random_uuid
from data_plane.core.queue import Queue
from data_plane.ports import Queues
from data_plane.stored.segment import ID_BYTES, UnknownFormatError

DEAD_LETTER: Final = "d"
REDRIVE: Final = "r"
_PARTS: Final = 6


class Move(NamedTuple):
    """Where a message is on its way to; `kind` is DEAD_LETTER or REDRIVE.

    No copy lies in the target before `since`: a time in us, or a slot of a log. Where the move was
    `begun` before, there may be one behind it.
    """

    kind: str
    target: Queue
    since: int = 0
    begun: bool = False

    def to_text(self) -> str:
        """As stored."""
        account, region, name, uid = _name_of(self.target)
        return f"{self.kind}|{account}|{region}|{name}|{uid}|{self.since}"


def _name_of(queue: Queue) -> tuple[str, str, str, str]:
    return queue.account, queue.region, queue.name, queue.uid


async def dead_letter_move(queue: Queue, received: int, queues: Queues | None) -> Move | None:
    """The move to the queue's dead-letter queue, if it is due and that queue exists.

    `received` is how often the message was received from this queue. Without a dead-letter queue
    that exists it stays, and is delivered. Raises CellUnavailableError.
    """
    policy = queue.redrive
    if policy is None or queues is None or received < policy.receive_count_max:
        return None
    target = await queues.find(policy.account, policy.region, policy.dead_letter_queue)
    if target is None or target.fifo != queue.fifo:
        return None
    return Move(DEAD_LETTER, target)


async def begun_move(stored: str, queues: Queues | None) -> Move | None:
    """A move that was begun, if the queue it goes to is still there.

    Raises UnknownFormatError, CellUnavailableError.
    """
    parts = stored.split("|")
    if len(parts) != _PARTS or queues is None:
        raise UnknownFormatError(f"move {stored!r}")
    kind, account, region, name, uid, since = parts
    target = await queues.find(account, region, name)
    if target is None or target.uid != uid:
        return None
    return Move(kind, target, int(since), begun=True)


def redriven_id(uid: str, block: bytes, index: int) -> bytes:
    """The id of a message in the queue it is redriven to, from the place it had in another."""
    place = uid.encode() + block + bytes((index,))
    return random_uuid(blake2b(place, digest_size=ID_BYTES, person=b"redriven id").digest())
