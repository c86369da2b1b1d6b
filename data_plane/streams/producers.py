"""Producers that number their records: what each has put into a shard already.

Each slot with such records says it of their producers, and every so many-th of all; every slot
leads to the last one of these. So from the end of the log few slots say everything, and an append
that others were faster than learns of it as it reads on (docs/storage.md, "Producers").
"""

from collections.abc import Iterable, Mapping, Sequence

from data_plane.core.errors import FENCED_PRODUCER, LIMIT_EXCEEDED, RefusedError
from data_plane.core.record import Numbered
from data_plane.ports import Item, Value
from data_plane.streams import tails
from data_plane.streams.bounds import PRODUCER_SLOTS_MAX, PRODUCERS_MAX, SHARDS_PRODUCED_MAX
from data_plane.streams.desk import Access, Tail
from data_plane.streams.slots import Produced, RecordSlot, pack_produced, read_slot


async def of_closed(at: Access) -> Mapping[bytes, Produced]:
    """What producers have put into a shard that is closed. Raises CellUnavailableError."""
    tail = await tails.current(at)
    if tail.end is None:
        # It is from before the end, unless that is gone with all that lies below.
        at.log.tail = None
        tail = await tails.current(at)
    return await known(at, tail)


async def known(at: Access, tail: Tail) -> dict[bytes, Produced]:
    """The same, as of this tail: what follows it knows as well. Raises CellUnavailableError."""
    while tail.producers is None:
        began_at = tail.produced_at
        found, slots_since_all = await _look_back(at, began_at)
        if tail.produced_at == began_at:  # Nothing was appended meanwhile.
            tail.producers, tail.slots_since_all = found, slots_since_all
    _remember(at)
    return tail.producers


async def _look_back(at: Access, offset: int) -> tuple[dict[bytes, Produced], int]:
    """What the slots say from this one down, and how far above one that lists all it is."""
    found: dict[bytes, Produced] = {}
    first: RecordSlot | None = None
    while offset:
        key = at.log.slot_key(offset)
        item = await at.cell.get(key)
        if item is None:
            # It was kept for as long as records are, and so what lies below it.
            return found, PRODUCER_SLOTS_MAX
        slot = read_slot(Item(key, item))
        first = first or slot
        for one in slot.produced:
            found.setdefault(one.producer, one)
        offset = slot.produced_before if slot.slots_since_all else 0
    return found, first.slots_since_all if first else PRODUCER_SLOTS_MAX


def _remember(at: Access) -> None:
    """Forget those of the shard that was not asked for longest, if there are too many."""
    shards = at.desk.with_producers
    shards[at.log.slots] = at.log
    shards.move_to_end(at.log.slots)
    if len(shards) > SHARDS_PRODUCED_MAX:
        _, log = shards.popitem(last=False)
        if log.tail is not None:
            log.tail.producers = None


def put_already(
    at: Access, producers: dict[bytes, Produced], numbered: Numbered, left: Sequence[int]
) -> list[int]:
    """The positions of those of these records that are stored, as their numbers say.

    Raises RefusedError: FencedProducer where another one has taken over, LimitExceeded where there
    are too many producers.
    """
    last = producers.get(numbered.name)
    if last is None:
        _make_room(at, producers)
        return []
    check_epoch(numbered, last)
    return [position for position in left if numbered.sequences[position] <= last.sequence]


def check_epoch(numbered: Numbered, last: Produced) -> None:
    """Raise RefusedError (FencedProducer) where another one has taken over."""
    if numbered.epoch < last.epoch:
        raise RefusedError(
            FENCED_PRODUCER,
            f"Another producer has put records with epoch {last.epoch}: this one has to end.",
        )


def _make_room(at: Access, producers: dict[bytes, Produced]) -> None:
    if len(producers) < PRODUCERS_MAX:
        return
    for name in [name for name, one in producers.items() if _is_over(at, one, at.cell.now_us())]:
        del producers[name]
    if len(producers) >= PRODUCERS_MAX:
        raise RefusedError(
            LIMIT_EXCEEDED,
            f"A shard of stream {at.stream.name} under account {at.stream.account} has"
            f" {PRODUCERS_MAX} producers that number their records.",
        )


def _is_over(at: Access, one: Produced, now_us: int) -> bool:
    """Whether nobody can read any more what it has put."""
    return one.stamp_us < at.log.eras.removable_us(now_us, at.stream.kept_s * 1_000_000)


def attributes(
    at: Access, tail: Tail, produced: Iterable[Produced], stamp_us: int
) -> dict[str, Value]:
    """What a slot behind the tail says of producers; where any are `produced`, they are known."""
    here = {one.producer: one for one in produced}
    slots_since_all = tail.slots_since_all + 1
    if here and (not tail.produced_at or slots_since_all >= PRODUCER_SLOTS_MAX):
        slots_since_all = 0
        everywhere = {**(tail.producers or {}), **here}.values()
        here = {one.producer: one for one in everywhere if not _is_over(at, one, stamp_us)}
    return pack_produced(here.values(), slots_since_all, tail.produced_at)
