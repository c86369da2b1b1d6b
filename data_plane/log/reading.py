"""Reading a partition: on from the cursor, states of blocks anew, bodies of what is claimed."""

from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from functools import partial

from data_plane.core.errors import RefusedError
from data_plane.core.long_answers import room_for
from data_plane.core.message import Message
from data_plane.log import dead_letters
from data_plane.log.block import Block, Pending
from data_plane.log.bounds import (
    CLAIM_AGE_US_MAX,
    COLLECT_AFTER_US,
    FETCH_ITEMS_MAX,
    LEASES_US,
    OTHERS_US,
    REFRESH_BLOCKS_MAX,
    REFRESH_US,
    SCAN_MESSAGES_MAX,
)
from data_plane.log.desk import Access, Desk
from data_plane.log.held_slots import Held
from data_plane.log.layers import meet_stream
from data_plane.log.reader import Reader
from data_plane.log.slots import END, Slot, generation_after, read_slot
from data_plane.log.sources import Piece
from data_plane.ports import Attributes, CellUnavailableError, Key
from data_plane.stored import keys
from data_plane.stored.bounds import GET_MANY_MAX, LONG_WORK_BYTES, QUERY_PAGE
from data_plane.stored.coalescing import coalesce
from data_plane.stored.data_keys import Opener
from data_plane.stored.low_water import read_mark
from data_plane.stored.segment import DamagedSegmentError, LoadedSegment, number, octets
from data_plane.stored.superfluous import is_emptied

_RANGE_BYTES = 16


async def fetch(at: Access) -> bool:
    """Read on; False where nothing more is to be read now. Concurrent receives share one page."""
    if at.partition.reader.end is not None:
        return False
    if at.queue.of_dead and not await dead_letters.may_be_behind(at):
        return False
    # A page leases nothing: whose time is over while it is read leaves nothing behind.
    lane = ("read", at.partition.states)
    return bool(await coalesce(at.desk, lane, None, partial(_fetch_for_all, at)))


async def _fetch_for_all(at: Access, receives: list[object]) -> list[object | Exception]:
    found = await _fetch(at)
    return [found] * len(receives)


async def _fetch(at: Access) -> bool:
    partition, reader = at.partition, at.partition.reader
    if reader.pending_count >= SCAN_MESSAGES_MAX:
        return False
    await _open(at)
    # Since the page before, and while this one is read, records may have been given more time.
    await meet_stream(at.desk, at.queue)
    asked_us = at.now_us()
    # Where much is read and nothing found, more at once gets past it.
    limit = FETCH_ITEMS_MAX if reader.pending_count < FETCH_ITEMS_MAX else QUERY_PAGE
    slots = await slots_behind(at, reader.skip(), limit)
    if _may_find_late_ones(at):
        return True  # The page came too late: it is read anew.
    await meet_stream(at.desk, at.queue)
    states, collected = await _states_of_new(at, slots)
    reader.absorb(at.newest, slots, states, asked_us, collected)
    if not slots:
        reader.read_us = asked_us
    for slot in slots[-1:]:
        if slot.kind == END and partition.source is None:
            at.desk.learn(at.queue, generation_after(slot))
    return bool(slots)


async def slots_behind(at: Access, after: int, limit: int) -> list[Slot]:
    """A page of the partition's slots behind this one; none where there are no more."""
    source = at.partition.source
    if source is not None:
        return await source.read(after, limit, at.over_us)
    items = await at.cell.query(at.partition.slots, after=keys.be64(after), limit=limit)
    return [read_slot(item) for item in items]


async def _states_of_new(
    at: Access, slots: Iterable[Slot]
) -> tuple[dict[int, Attributes], set[int]]:
    """States of blocks that are not known, and which of them were collected meanwhile."""
    reader = at.partition.reader
    states: dict[int, Attributes] = {}
    collected: set[int] = set()
    asked: set[int] = set()
    # Once more where a block was forgotten meanwhile: it is not one without a state.
    while wanted := {slot.block for slot in slots if reader.wants_state(slot)} - asked:
        asked |= wanted
        found = await _states(at, sorted(wanted))
        states |= found
        if at.partition.source is None:
            collected |= await _collected(at, slots, wanted - found.keys())
    return states, collected


async def _states(at: Access, blocks: Iterable[int]) -> dict[int, Attributes]:
    wanted = {at.partition.state_key(block): block for block in blocks}
    found: dict[int, Attributes] = {}
    state_keys = list(wanted)
    for start in range(0, len(state_keys), GET_MANY_MAX):
        states = await at.cell.get_many(state_keys[start : start + GET_MANY_MAX])
        found |= {wanted[key]: state for key, state in states.items()}
    return found


async def _collected(at: Access, slots: Iterable[Slot], stateless: Container[int]) -> set[int]:
    """Which of the blocks without a state were removed with it, after their slots were read.

    To be asked of old ones alone: what is sent now is not collected yet.
    """
    old_us = at.cell.now_us() - COLLECT_AFTER_US // 2
    doubtful = {
        slot.block: at.partition.slot_key(slot.number)
        for slot in slots
        if slot.block in stateless and slot.stamp_us <= old_us
    }
    slot_keys = list(doubtful.values())
    there: set[Key] = set()
    for start in range(0, len(slot_keys), GET_MANY_MAX):
        there.update(await at.cell.get_many(slot_keys[start : start + GET_MANY_MAX]))
    return {block for block, key in doubtful.items() if key not in there}


async def _open(at: Access) -> None:
    """Start from the durable low-water mark, or go on from there after a long time."""
    reader = at.partition.reader
    was_opened = reader.opened
    if was_opened and not _may_find_late_ones(at):
        return
    asked_us = at.now_us()
    mark = await at.cell.get(at.partition.low_water_key)
    low, doubted = read_mark(mark, at.partition.eras)
    ranges = unpack_ranges(octets(mark, "r")) if mark is not None and low else []
    if was_opened:
        reader.pass_over(keys.slot_of(low) if low else 0, ranges)
    else:
        reader.start_at(keys.slot_of(low) if low else 0, ranges)
        reader.low_doubted = doubted
        # What is read from now on is known as of then, and others may be asked at once.
        reader.refreshed_us = reader.looked_us = asked_us - REFRESH_US
    reader.read_us = asked_us


def _may_find_late_ones(at: Access) -> bool:
    """Whether it is long ago that the mark was read, or nothing lay behind the cursor.

    What was collected since may have been taken for free slots by an append that stood still for
    long: it counts for nothing, and nobody is to find it.
    """
    reader = at.partition.reader
    return not (reader.keeps or 0 <= at.now_us() - reader.read_us <= COLLECT_AFTER_US // 2)


def pack_ranges(ranges: list[tuple[int, int]]) -> bytes:
    """As the low-water mark has them."""
    return b"".join(keys.be64(first) + keys.be64(last) for first, last in ranges)


def unpack_ranges(packed: bytes) -> list[tuple[int, int]]:
    """The ranges of a low-water mark, in order."""
    return [
        (keys.slot_of(packed[start : start + 8]), keys.slot_of(packed[start + 8 : start + 16]))
        for start in range(0, len(packed), _RANGE_BYTES)
    ]


async def refresh(at: Access) -> bool:
    """See what others did to messages in flight; whether that was asked for just now."""
    reader = at.partition.reader
    asked_us = at.now_us()
    if 0 <= asked_us - _refreshed_us(at) < REFRESH_US:
        return False
    if at.queue.of_dead:
        reader.looked_us = asked_us
        await dead_letters.look(at)
        return True
    blocks = [block for block in reader.blocks.values() if block.leases][:REFRESH_BLOCKS_MAX]
    if not blocks:
        return False
    reader.refreshed_us = asked_us
    for block in blocks:
        reader.blocks.move_to_end(block.first)
    states = await _states(at, [block.first for block in blocks])
    for block in blocks:
        # Their leases were there when they were asked for.
        reader.learn(block, states.get(block.first), asked_us, touched=True)
    return True


def _refreshed_us(at: Access) -> int:
    reader = at.partition.reader
    return reader.looked_us if at.queue.of_dead else reader.refreshed_us


async def look_at_others(desk: Desk, partitions: Iterable[Access]) -> None:
    """See now and then what others did, also where there always are more to deliver.

    Whom nobody waits for, no time tells of a group that another front end has freed, or of a
    record that is a dead letter by now, or is none any more.
    """
    due = [at for at in partitions if not _is_recent(at)]
    for outcome in await desk.waits.all_of([refresh(at) for at in due]) if due else ():
        if isinstance(outcome, Exception) and not isinstance(outcome, CellUnavailableError):
            raise outcome


def _is_recent(at: Access) -> bool:
    if at.partition.reader.due and not at.queue.of_dead:
        looks_us = LEASES_US
    elif at.queue.is_kinesis:
        looks_us = OTHERS_US
    else:
        return True
    return 0 <= at.now_us() - _refreshed_us(at) < looks_us


async def load(at: Access, block: Block, messages: list[Pending]) -> dict[int, Message]:
    """Bodies of these messages by index, after a look at the block's state if that is old.

    Those that are no more are marked done; those that cannot be read stay away.
    """
    partition, reader = at.partition, at.partition.reader
    asked_us = at.now_us()
    age_us = asked_us - block.checked_us
    stale = not 0 <= age_us <= CLAIM_AGE_US_MAX
    # Others may let go of what is held while this one waits for the cell.
    segments = (
        {}
        if stale and not reader.keeps
        else {m.slot: held for m in messages if (held := reader.held.get(m.slot)) is not None}
    )
    missing = {m.slot: m.key for m in messages if m.slot not in segments}
    # Pieces of a shard's slot have one key.
    wanted: list[Key] = list(dict.fromkeys(missing.values()))
    state_key = partition.state_key(block.first)
    found: dict[Key, Attributes] = {}
    touched = block.touched
    await room_for(len(messages) * reader.held.mean_bytes)
    if wanted or stale:
        found = await at.cell.get_many([*wanted, state_key] if stale else wanted)
        if stale:
            reader.learn(block, found.get(state_key), asked_us, touched=touched)
            if not 0 <= age_us <= COLLECT_AFTER_US // 2:
                _doubt(reader, block)
    messages = [message for message in messages if not message.done]
    for message in messages:
        if message.slot in missing:
            item = found.get(missing[message.slot])
            if item is None:
                # More of a block that was collected may be on its way here: it is looked for then.
                block.checked_us = min(block.checked_us, asked_us - CLAIM_AGE_US_MAX - 1)
            if item is None or _has_lost(item, message, keeps=reader.keeps):
                reader.vanished(message)
            else:
                segments.setdefault(message.slot, reader.held_as(message.slot, message.key, item))
    waiting = [message for message in messages if message.slot in segments and not message.done]
    heads = {message.group: message.slot for message in reversed(waiting)}.values()
    try:
        opened = await open_all(at, segments, heads)
    except RefusedError:
        reader.put_aside(segments, at.now_us() // 1000)
        raise
    reader.put_aside(segments.keys() - opened.keys(), at.now_us() // 1000)
    loaded: dict[int, Message] = {}
    for message in messages:
        bodies = opened.get(message.slot)
        if bodies is None and message.slot in opened:
            reader.vanished(message)  # Damaged: it stays stored, and its group goes on.
        if bodies is not None and not message.done:
            loaded[message.index] = bodies[message.position]
            reader.note_opened(message)
    return loaded


def _has_lost(slot: Attributes, message: Pending, *, keeps: bool) -> bool:
    """Whether the slot was emptied; or collected, and stored by a late append that was not it."""
    return is_emptied(slot) or (not keeps and number(slot, "t") != message.stamp_us)


def _doubt(reader: Reader, block: Block) -> None:
    """The block may have been collected since it was seen: its slots are to be read anew.

    Receives that come next would take the look at the state for one at what they hold. A late
    write may have made a state anew, that knows of no other deletes.
    """
    if not reader.keeps:
        for slot in {message.slot for message in block.pending.values()}:
            reader.held.done(slot)


def _openable(
    at: Access,
    segments: dict[int, LoadedSegment],
    opener: Opener,
    opened: dict[int, Sequence[Message] | None],
    needed: Collection[int],
) -> dict[int, LoadedSegment]:
    """Those whose keys are at hand; those that have lost theirs are noted as damaged.

    Raises why the keys are not to be had where they are so of all that are `needed`.
    """
    failures = {slot: opener.failure(segment) for slot, segment in segments.items()}
    for slot, failure in failures.items():
        if isinstance(failure, DamagedSegmentError):
            at.desk.damaged_segments += 1
            opened[slot] = None
        elif failure is not None and not isinstance(failure, (RefusedError, CellUnavailableError)):
            raise failure
    openable = {slot: one for slot, one in segments.items() if failures[slot] is None}
    shut = [failure for slot in needed if slot not in opened and (failure := failures[slot])]
    if shut and len(shut) == len(needed):
        raise shut[0]
    return openable


async def open_all(
    at: Access, segments: Mapping[int, Held], needed: Collection[int] = ()
) -> dict[int, Sequence[Message] | None]:
    """The messages of each slot that can be had; None where they are damaged.

    Raises RefusedError with a fault of KMS, or CellUnavailableError, where no key is to be had of
    the slots that are `needed` (all, if none are named).
    """
    if at.partition.source is None:
        own = {slot: one for slot, one in segments.items() if isinstance(one, LoadedSegment)}
        return await _open_own(at, own, needed or own)
    pieces = {slot: one for slot, one in segments.items() if isinstance(one, Piece)}
    opened = await at.partition.source.open(pieces)
    for slot, messages in opened.items():
        if messages is None:
            at.desk.damaged_segments += 1
        else:
            at.partition.reader.held.add(slot, pieces[slot])
    return opened


async def _open_own(
    at: Access, segments: dict[int, LoadedSegment], needed: Collection[int]
) -> dict[int, Sequence[Message] | None]:
    opener = await at.data_keys.opener(segments.values())
    opened: dict[int, Sequence[Message] | None] = {}
    if opener.failures:
        segments = _openable(at, segments, opener, opened, needed)
    apart = {slot: segment for slot, segment in segments.items() if segment.blob}
    for slot, segment in segments.items():
        if slot not in apart:
            try:
                if segment.size_bytes > LONG_WORK_BYTES:
                    await at.desk.waits.in_turns(segment.opening(opener.unseal))
                opened[slot] = segment.messages(opener.unseal)
            except DamagedSegmentError:
                at.desk.damaged_segments += 1
                opened[slot] = None
            else:
                at.partition.reader.held.add(slot, segment)
    if apart and at.bodies is not None:
        bodies = at.bodies
        fetched = await at.desk.waits.all_of(
            [bodies.fetch(one, opener.unseal) for one in apart.values()]
        )
        for slot, body in zip(apart, fetched, strict=True):
            if isinstance(body, list):
                opened[slot] = body
            elif body is None or isinstance(body, DamagedSegmentError):
                at.desk.damaged_segments += 1
                opened[slot] = None
            elif not isinstance(body, CellUnavailableError):
                raise body
    return opened
