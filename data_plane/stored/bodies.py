"""Bodies apart: what is too big for a segment's item lies in a blob (docs/storage.md).

A blob is stored before its segment and fetched when a message of it is handed out. Its name follows
from the segment's key, so that the sweep finds the segment of every blob.
"""

import re
from collections import OrderedDict, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol
from zlib import crc32

from msgspec.structs import replace

from data_plane.core.deadline import deadline_at_most
from data_plane.core.message import Message
from data_plane.ports import (
    Append,
    Appended,
    Attributes,
    Blob,
    Blobs,
    CellFullError,
    CellUnavailableError,
    Key,
    Waits,
)
from data_plane.stored import keys
from data_plane.stored.bounds import (
    BLOB_THRESHOLD_BYTES,
    BODY_BYTES_HELD_MAX,
    DELETED_NAMES_MAX,
    GET_MANY_MAX,
    ITEM_BODY_BYTES_MAX,
    ORPHAN_AGE_US_MIN,
    PUT_PATIENCE_US,
    PUT_TO_APPEND_US_MAX,
    SWEPT_NAMES_MAX,
    UNNEEDED_BODIES_MAX,
    WALK_EVERY_US,
)
from data_plane.stored.segment import (
    DamagedSegmentError,
    LoadedSegment,
    Unseal,
    number,
    octets,
    open_segment,
)

_NAME: Final = re.compile(r"([0-9a-f]{16})/([0-9a-f]{2})\.([0-9]+)/([0-9a-f]{8})/([0-9a-f]{30})")
_SLOT_NAME: Final = re.compile(
    r"([0-9a-f]{16})/log([0-9a-f]{2}|[0-9a-f]{8})\.([0-9]+)/([0-9a-f]{16})/[0-9a-f]{26}"
)
_SHARD_DIGITS: Final = 8
"""A queue's partition has two."""

_BUCKET_DIGITS: Final = 8


def blob_name(segment: Key) -> str:
    """The name of the blob that a segment under this key would have."""
    _, uid, lane, epoch = segment.partition.split("|")
    sort = segment.sort.hex()
    return f"{uid}/{lane}.{epoch}/{sort[:_BUCKET_DIGITS]}/{sort[_BUCKET_DIGITS:]}"


def slot_blob_name(slot: Key, nonce: bytes) -> str:
    """The name of the blob of a log's slot, if this write is the one that gets the slot."""
    _, uid, partition, generation = slot.partition.split("|")
    return f"{uid}/log{partition}.{generation}/{slot.sort.hex()}/{nonce.hex()}"


def segment_of(name: str) -> Key | None:
    """The key of the segment, or slot, whose blob has this name; None for what is no body."""
    in_log = _SLOT_NAME.fullmatch(name)
    if in_log is not None:
        uid, partition, generation, slot = in_log.groups()
        if len(partition) == _SHARD_DIGITS:
            return Key(keys.records(uid, int(partition, 16)), bytes.fromhex(slot))
        return Key(keys.slots(uid, int(partition, 16), int(generation)), bytes.fromhex(slot))
    parts = _NAME.fullmatch(name)
    if parts is None:
        return None
    uid, lane, epoch, bucket, rest = parts.groups()
    return Key(keys.segments(uid, int(lane, 16), int(epoch)), bytes.fromhex(bucket + rest))


@dataclass(slots=True)
class BodyCounters:
    """What was asked of the blob store since the start, and how many orphans were removed.

    `kept` are bodies that stayed in their items because the store was away.
    """

    puts: int = 0
    kept: int = 0
    gets: int = 0
    orphans: int = 0


@dataclass(slots=True)
class _Pass:
    """How far the sweep's walk over the names has come, and when the next one begins."""

    after: str = ""
    begins_us: int = 0


class Walked(NamedTuple):
    """How many orphans a step of a walk has removed, and the name to go on after; "": the end."""

    orphans: int
    after: str


class HeldSegments(Protocol):
    """What a cell is asked before a body goes; both raise CellUnavailableError."""

    def now_us(self) -> int:
        """As `Cell.now_us`."""
        ...

    async def get_many(self, keys: Sequence[Key], *, strong: bool = True) -> dict[Key, Attributes]:
        """As `Cell.get_many`."""
        ...


class BodyStore:
    """A cell's bodies apart, as one front end sees them: with those it has fetched last.

    Packed bodies of more than `threshold_bytes` go to `blobs`, which serves this cell alone.
    Methods raise CellUnavailableError.
    """

    def __init__(self, blobs: Blobs, threshold_bytes: int = BLOB_THRESHOLD_BYTES) -> None:
        self.threshold_bytes = threshold_bytes
        self.counters = BodyCounters()
        self._blobs = blobs
        self._held: OrderedDict[str, tuple[int, list[Message]]] = OrderedDict()
        self._held_bytes = 0
        self._unneeded: deque[str] = deque(maxlen=UNNEEDED_BODIES_MAX)
        self._pass = _Pass()

    # Sending

    async def put_apart(self, record: Append, ids: Iterable[bytes], now_us: int) -> Append:
        """Store the segment's body where it is too big for the item: the segment without it.

        For cells that take the proposed stamp: the body's name is made from it. `now_us` is this
        front end's clock. Where the store is away, a body that an item can hold stays in it, which
        costs more and loses nothing.
        """
        body = octets(record.attributes, "z")
        if len(body) <= self.threshold_bytes:
            return record
        slice_us = record.proposed_us + record.delay_us
        name = blob_name(Key(record.partition, keys.be64(slice_us) + record.suffix))
        attributes = await self._put(name, body, record.attributes, now_us)
        if "o" not in attributes:
            return record
        return replace(record, attributes={**attributes, "a": b"".join(ids)})

    async def put_slot_apart(self, slot: Key, attributes: Attributes, now_us: int) -> Attributes:
        """As `put_apart`, for a slot of a log that is about to be written with its nonce.

        What it lists beside the body may leave no room for one in the item.
        """
        body = octets(attributes, "z") if "z" in attributes else b""
        if len(body) <= self.threshold_bytes and _has_room(attributes):
            return attributes
        name = slot_blob_name(slot, octets(attributes, "w"))
        return await self._put(name, body, attributes, now_us)

    async def _put(self, name: str, body: bytes, attributes: Attributes, now_us: int) -> Attributes:
        self.counters.puts += 1
        if not _has_room(attributes):
            await self._blobs.put(name, body)
        else:
            try:
                with deadline_at_most(now_us + PUT_PATIENCE_US):
                    await self._blobs.put(name, body)
            except CellFullError:
                raise  # what somebody has to make room for must not hide in the bill
            except CellUnavailableError:
                # It may be stored all the same: then the sweep finds that no segment names it.
                self.counters.kept += 1
                return attributes
        kept = {key: value for key, value in attributes.items() if key != "z"}
        return kept | {"o": name, "g": crc32(body)}

    # Receiving

    async def fetch(
        self, segment: LoadedSegment, unseal: Unseal | None = None
    ) -> list[Message] | None:
        """The messages of a segment whose body lies apart; None where there is no body.

        Raises DamagedSegmentError where the body is not what was written.
        """
        name = segment.blob
        held = self._held.get(name)
        if held is not None:
            self._held.move_to_end(name)
            return held[1]
        body = await self.body_of(segment.item)
        if body is None:
            return None
        messages = open_segment(segment.key, segment.item, body, unseal)
        self._hold(name, number(segment.item, "y"), messages)
        return messages

    async def body_of(self, item: Attributes) -> bytes | None:
        """What stands for `z` of an item whose body lies apart; None where it is gone.

        Raises DamagedSegmentError where it is not what was written.
        """
        name = str(item["o"])
        self.counters.gets += 1
        body = await self._blobs.get(name)
        if body is not None and crc32(body) != number(item, "g"):
            raise DamagedSegmentError(f"blob {name} is not what was written")
        return body

    def _hold(self, name: str, size_bytes: int, messages: list[Message]) -> None:
        """Keep a body for the next receives: its other messages are wanted soon."""
        if name not in self._held:
            self._held[name] = (size_bytes, messages)
            self._held_bytes += size_bytes
        while self._held_bytes > BODY_BYTES_HELD_MAX:
            _, (freed_bytes, _) = self._held.popitem(last=False)
            self._held_bytes -= freed_bytes

    # Deleting

    def unneeded(self, segments: Iterable[Key]) -> None:
        """Let the next sweeps remove the bodies of these segments, those that have one apart."""
        self.unneeded_names(blob_name(segment) for segment in segments)

    def unneeded_names(self, names: Iterable[str]) -> None:
        """Let the next sweeps remove these blobs."""
        self._unneeded.extend(names)

    async def sweep(self, cell: HeldSegments, waits: Waits, now_us: int) -> int:
        """Remove what is unneeded, and take a step of the walk over all names: a bounded part each.

        How many orphans it has removed. A walk begins six hours after the last one ended.
        """
        await self.delete_unneeded()
        if now_us < self._pass.begins_us:
            return 0
        walked = await self.walk_on(cell, waits, now_us, self._pass.after)
        self._pass.after = walked.after
        if not walked.after:
            self._pass = _Pass(begins_us=now_us + WALK_EVERY_US)
        return walked.orphans

    async def delete_unneeded(self) -> None:
        """Remove what is unneeded, a bounded part of it."""
        waiting = self._unneeded
        names = [waiting.popleft() for _ in range(min(len(waiting), DELETED_NAMES_MAX))]
        if names:
            try:
                await self._blobs.delete(names)
            except CellUnavailableError:
                waiting.extendleft(reversed(names))
                raise

    async def walk_on(self, cell: HeldSegments, waits: Waits, now_us: int, after: str) -> Walked:
        """A step of a walk over all names, those past `after`, that removes orphans."""
        found = await self._blobs.names(after, limit=SWEPT_NAMES_MAX)
        if cell.now_us() < now_us - ORPHAN_AGE_US_MIN:
            # Its time is not known yet, or no more: an answer tells it.
            named = [blob.name for blob in found if segment_of(blob.name) is not None]
            await _unnamed(cell, waits, named[:1], now_us)
        # The cell's time and the own clock: a blob is old only if both say so.
        orphans = await _orphans(cell, waits, found, min(now_us, cell.now_us()))
        await self._remove(orphans)
        return Walked(len(orphans), found[-1].name if found else "")

    async def remove_left(
        self, cell: HeldSegments, waits: Waits, names: Sequence[str], now_us: int
    ) -> int:
        """Remove the bodies of segments that were in the cell and are not any more; how many.

        At most DELETED_NAMES_MAX `names`. A body that a segment names is left where it is.
        """
        left = await _unnamed(cell, waits, names, min(now_us, cell.now_us()))
        await self._remove(left)
        return len(left)

    async def _remove(self, orphans: Sequence[str]) -> None:
        if orphans:
            await self._blobs.delete(orphans)
            self.counters.orphans += len(orphans)


def _has_room(attributes: Attributes) -> bool:
    """Whether an item can hold all of this; its other attributes are few bytes."""
    sizes = (len(value) for value in attributes.values() if isinstance(value, bytes))
    return sum(sizes) <= ITEM_BODY_BYTES_MAX


async def _orphans(cell: HeldSegments, waits: Waits, found: list[Blob], now_us: int) -> list[str]:
    """Names of blobs that are old enough, and whose segment is gone or may go."""
    old = [blob.name for blob in found if blob.stored_us + ORPHAN_AGE_US_MIN <= now_us]
    return await _unnamed(cell, waits, old, now_us)


async def _unnamed(
    cell: HeldSegments, waits: Waits, names: Sequence[str], now_us: int
) -> list[str]:
    """Those whose segment is gone, may go, or has its body under another name."""
    suspects = {name: segment for name in names if (segment := segment_of(name)) is not None}
    wanted = list(dict.fromkeys(suspects.values()))
    reads = await waits.all_of(
        [
            cell.get_many(wanted[start : start + GET_MANY_MAX])
            for start in range(0, len(wanted), GET_MANY_MAX)
        ]
    )
    for segments in reads:
        if isinstance(segments, Exception):
            raise segments
        for item in segments.values():
            # A slot's item names the blob of the write that got it, which may be another one.
            if number(item, "x") * 1_000_000 > now_us:
                suspects.pop(str(item.get("o", "")), None)
    return list(suspects)


def check_in_time(record: Append, appended: Appended) -> None:
    """Raises CellUnavailableError where the blob may have been taken for an orphan meanwhile."""
    took_us = appended.time_ms * 1000 - record.proposed_us
    if "o" in record.attributes and took_us > PUT_TO_APPEND_US_MAX:
        raise CellUnavailableError("the segment was stored too long after its body")
