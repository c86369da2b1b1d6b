"""What the registry stores of messages that are to be dropped: of deleted and of purged queues.

And of such that are to be kept for longer: of queues whose retention was raised.
"""

import json
from dataclasses import dataclass
from typing import Final

from control_plane.core.definition import FORMAT, TOMBSTONE_KEPT_S, read_generations
from control_plane.core.item_field import UnknownItemFormatError
from control_plane.core.queue_lifecycle import FIFO_SUFFIX
from data_plane.core.limits import RETENTION_S_MAX
from data_plane.core.queue import FIRST_GENERATION, Generation, Queue
from data_plane.core.stream import Stream
from data_plane.ports import Attributes, Item, Key
from data_plane.stored.sent_minutes import SentTo

DELETED: Final = "X|"
"""Partition of the deleted queues whose messages are still to be removed."""

PURGED: Final = "Z|"
"""Partition of the purges after which messages are still to be dropped, and raised retentions."""

NAME_KEPT_S: Final = 3 * 86_400 + 3_600
"""For so long it is known which queue a uid was: while there are traces of its messages."""

LIVE: Final = ("q", "t")
"""Kinds of definitions of what exists: a queue, a stream."""

_TIME_BYTES: Final = 8


@dataclass(frozen=True, slots=True)
class ToDrop:
    """A queue that was deleted or purged at `since_us`, and whose messages lie in `cell`.

    What has `shards` is a stream. A queue that `reads_stream` has states of blocks of its shards.
    A purge goes up to the stamp `purged_us`. Where a retention `was_raised` nothing is dropped.
    """

    key: Key
    account: str
    region: str
    name: str
    uid: str
    cell: str
    since_us: int
    generations: tuple[Generation, ...] = (FIRST_GENERATION,)
    shards: tuple[int, ...] = ()
    reads_stream: bool = False
    purged_us: int = 0
    was_raised: bool = False

    @property
    def is_stream(self) -> bool:
        """Whether it is a stream: that has shards, whatever became of them."""
        return bool(self.shards)


def definition_key(queue: ToDrop) -> Key:
    """Where its definition lies, or one of the same name."""
    kind = "A" if queue.is_stream else "Q"
    return Key(f"{kind}|{queue.account}|{queue.region}", queue.name.encode())


def was_sent_to(queue: ToDrop) -> SentTo:
    """The queue, as what was sent to it is counted."""
    where = (queue.account, queue.region, queue.name, queue.uid, queue.cell)
    return SentTo(*where, queue.generations if queue.name.endswith(FIFO_SUFFIX) else ())


def key_of(partition: str, uid: str, since_us: int) -> Key:
    """In order of time, so that a sweep finds first what is due first."""
    return Key(partition, since_us.to_bytes(_TIME_BYTES, "big") + uid.encode())


def item_of(queue: Queue) -> Attributes:
    """What is stored under it."""
    named = {"a": queue.account, "e": queue.region, "q": queue.name, "c": queue.cell}
    generations = {"l": json.dumps(queue.generations)} if queue.fifo else {}
    stream = {"o": queue.stream_uid} if queue.reads_stream else {}
    return {"v": FORMAT, **named, **generations, **stream}


def purged_item(queue: Queue, stamp_us: int, now_us: int) -> Attributes:
    """The same of a queue that is purged up to this stamp."""
    expires_s = now_us // 1_000_000 + RETENTION_S_MAX + TOMBSTONE_KEPT_S
    return {**item_of(queue), "p": stamp_us, "x": expires_s}


def raised_item(queue: Queue, now_us: int) -> Attributes:
    """The same of a queue whose retention is raised: servers that know none see an empty purge."""
    return {**purged_item(queue, 0, now_us), "r": 1}


def stream_item(stream: Stream) -> Attributes:
    """The same of a stream: `s` has the numbers of its shards, which name the logs."""
    named = {"a": stream.account, "e": stream.region, "q": stream.name, "c": stream.cell}
    shards = json.dumps([shard.number for shard in stream.shards], separators=(",", ":"))
    return {"v": FORMAT, **named, "s": shards}


def name_of(queue: ToDrop, now_us: int) -> tuple[Key, Attributes]:
    """What is kept of a deleted queue of which nothing else is left: which queue its uid was."""
    named = {"a": queue.account, "e": queue.region, "q": queue.name, "c": queue.cell}
    expires_s = now_us // 1_000_000 + NAME_KEPT_S
    return Key(DELETED + queue.account, queue.key.sort), {"v": FORMAT, **named, "x": expires_s}


def read(item: Item) -> ToDrop:
    """What was stored. Raises UnknownItemFormatError."""
    attributes = item.attributes
    if attributes.get("v") != FORMAT:
        raise UnknownItemFormatError(f"messages to drop of format {attributes.get('v')!r}")
    account, region, name, cell = (str(attributes[field]) for field in ("a", "e", "q", "c"))
    sort = item.key.sort
    since_us = int.from_bytes(sort[:_TIME_BYTES], "big")
    purged_us = attributes.get("p")
    return ToDrop(
        key=item.key,
        account=account,
        region=region,
        name=name,
        uid=sort[_TIME_BYTES:].decode(),
        cell=cell,
        since_us=since_us,
        generations=read_generations(attributes),
        shards=tuple(json.loads(str(attributes["s"]))) if "s" in attributes else (),
        reads_stream="o" in attributes,
        # Before 0.2 they did not say it: nothing that was purged later has a stamp below its time.
        purged_us=purged_us if isinstance(purged_us, int) else since_us,
        was_raised="r" in attributes,
    )
