"""Planted bugs of streams; see bugs.py. They show in universes of streams over several cells."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

from control_plane.cluster import copies
from control_plane.cluster.cluster import Cluster
from control_plane.core import shard_map
from control_plane.core.stream_definition import Resharding, StreamDefinition
from control_plane.places.items import PlacedQueue
from control_plane.streams import StreamRegistry
from data_plane.core.stream import Shard, Stream
from data_plane.log import ends
from data_plane.operations.put_records import Puts, _Putting
from data_plane.ports import Attributes, Tallies, Value, no_tallies
from data_plane.replication import chain
from data_plane.streams import appending, producers, reading, repeats, tails
from data_plane.streams.bounds import ANCHOR_SURE_US
from data_plane.streams.desk import Access, Tail
from data_plane.streams.engine import Streams
from data_plane.streams.reading import Place, Read, _Page
from data_plane.streams.slots import END, Produced, RecordSlot, pack_produced
from tests.simulation.planted import PlantedBug
from tests.simulation.replicated.promised import ACKNOWLEDGED
from tests.simulation.streams.universe import run, run_kept, run_numbered

READ: Final = frozenset({"acknowledged is read"})
GIVEN: Final = frozenset({"numbers are given once"})
DENSE: Final = frozenset({"offsets are dense"})
STORED: Final = frozenset({"repeats are stored once"})
NUMBERED: Final = frozenset({"numbered is stored once"})
EXPIRED: Final = frozenset({"the expired stay away"})
ORDER: Final = frozenset({"keys stay in order", "children come after parents"})

_take = reading._take
_partitions = copies._partitions
_read = reading.read
_carried_out = shard_map.carried_out
_removable_us = StreamRegistry.removable_us


StreamBug: Final = partial(PlantedBug, run=run)


# Offsets


async def _open_at_the_first_offset(at: Access) -> bool:
    """The last slot was collected, and nothing says what its offset was."""
    asked_us = at.cell.now_us()
    last = await tails.newest(at)
    if last is not None and not ends.is_past(last.expires_s, asked_us):
        at.log.calls.begin(last.number)
        tail = Tail(last.number, last.number, 0, 0, asked_us, at.log.calls)
        tail.take_over(tails._item_of(last))
        at.log.tail = tail
        return True
    made_us = at.shard.made_s * 1_000_000
    expires_s = (asked_us + ANCHOR_SURE_US) // 1_000_000
    at.log.calls.begin(tails.FIRST_OFFSET)
    at.log.tail = Tail(0, tails.FIRST_OFFSET, made_us, expires_s, asked_us, at.log.calls)
    return True


async def _anchor_nothing(_at: Access) -> None:
    return None


# Calls


def _know_no_other_attempt(_at: Access, _parcels: Sequence[object], _tail: Tail) -> bool:
    return False


async def _find_nothing(_at: Access, _call: bytes, _wanted: object) -> dict[int, object]:
    return {}


# Shards


async def _close_nothing(self: Streams, stream: Stream, shard: Shard) -> int:
    at = self._at(stream, shard)
    return appending.next_stamp_us(at, await tails.current(at))


def _begin_before_the_parents(
    shards: Sequence[Shard], resharding: Resharding, ended_us: dict[int, int]
) -> tuple[Shard, ...]:
    made_s = min(shard.made_s for shard in shards) - 1
    children = {child.number for child in resharding.children}
    return tuple(
        one._replace(made_s=made_s) if one.number in children and one.is_open else one
        for one in _carried_out(shards, resharding, ended_us)
    )


async def _end_with_the_page(at: Access, page: _Page, slots: Sequence[RecordSlot]) -> None:
    await _take(at, page, slots)
    page.ended = page.ended or slots[-1].kind == END


async def _read_what_was_never_open(at: Access, place: Place, **options: Any) -> Read:
    return Read([], place, 0) if at.shard.was_never_open else await _read(at, place, **options)


# Retention


def _horizon_by_own_clock(at: Access) -> int:
    return at.now_us() - at.stream.retention_s * 1_000_000


def _horizon_of_what_is_kept(_at: Access) -> int:
    return 0


# Copies


async def _copy_no_streams(
    cluster: Cluster, queue: PlacedQueue | None
) -> tuple[Sequence[str], bool]:
    if queue is not None and queue.is_stream:
        return (), True
    return await _partitions(cluster, queue)


_hand_down = chain._hand_down


async def _hand_down_to_the_next(
    at: Any,
    others: Sequence[Any],
    key: Any,
    image: Attributes,
    tallies: Tallies = no_tallies,
) -> int:
    return await _hand_down(at, others[:-1], key, image, tallies)


# Producers that number their records


async def _look_nowhere(_at: Access, _offset: int) -> tuple[dict[bytes, Produced], int]:
    return {}, 1


async def _look_into_no_parents(*_puts: object) -> None:
    return None


def _hold_nothing_back(_putting: _Putting) -> None:
    return None


def _pack_without_a_way(
    produced: Iterable[Produced], slots_since_all: int, _before: int
) -> dict[str, Value]:
    return pack_produced(produced, slots_since_all, 0)


def _list_those_of_the_slot(
    _at: Access, tail: Tail, produced: Iterable[Produced], _stamp_us: int
) -> dict[str, Value]:
    return pack_produced(produced, (tail.slots_since_all + 1) % 4, tail.produced_at)


# Retentions that change


async def _restamp_nothing(*_of: object) -> None:
    """What is stored goes when it would have gone."""


def _none_has_expired(_self: StreamRegistry, definition: StreamDefinition) -> int:
    """A retention that is raised brings back what is still stored."""
    return definition.expired_us


def _forget_after_a_day(self: StreamRegistry, definition: StreamDefinition) -> int:
    return _removable_us(self, replace(definition, retention_hours=24, kept_hours=24))


NUMBERED_BUGS: Final = tuple(
    PlantedBug(name, NUMBERED, patches, first, run=run_numbered)
    for name, patches, first in (
        ("producers are forgotten with a tail", ((producers, "_look_back", _look_nowhere),), 1),
        ("the last slot leads nowhere", ((producers, "pack_produced", _pack_without_a_way),), 1),
        ("no slot lists all producers", ((producers, "attributes", _list_those_of_the_slot),), 9),
        (
            "what parents have is put into children",
            ((Puts, "_pass_over_in_closed", _look_into_no_parents),),
            0,
        ),
        (
            "what failed in one parent holds nothing back that comes from the other",
            ((_Putting, "stop_behind_failures", _hold_nothing_back),),
            2973,
        ),
    )
)
KEPT_BUGS: Final = tuple(
    PlantedBug(name, invariants, patches, first, run=run_kept)
    for name, invariants, patches, first in (
        (
            "retentions are raised for what comes",
            READ,
            ((Streams, "restamp", _restamp_nothing),),
            1,
        ),
        (
            "what has expired comes back",
            EXPIRED,
            ((StreamRegistry, "horizon_us", _none_has_expired),),
            0,
        ),
        (
            "shards are forgotten after a day",
            READ,
            ((StreamRegistry, "removable_us", _forget_after_a_day),),
            1,
        ),
    )
)
BUGS: Final = (
    StreamBug(
        "the end of a log is forgotten with its last slot",
        GIVEN,
        ((tails, "_open", _open_at_the_first_offset),),
    ),
    StreamBug(
        "old anchors are taken for the end of a log",
        GIVEN,
        ((tails, "OFFSETS_SKIPPED", 0),),
        2,
    ),
    StreamBug("no anchors", DENSE, ((tails, "anchor", _anchor_nothing),), 9),
    StreamBug(
        "an attempt does not know another one that it comes upon",
        STORED,
        ((appending, "_catch_up", _know_no_other_attempt),),
        18,
    ),
    StreamBug(
        "repeats are not looked for",
        STORED,
        ((repeats, "find", _find_nothing),),
        9,
    ),
    StreamBug("parents stay open", ORDER | READ, ((Streams, "close", _close_nothing),)),
    StreamBug(
        "children begin before their parents",
        ORDER,
        ((shard_map, "carried_out", _begin_before_the_parents),),
    ),
    StreamBug(
        "a shard ends with the page that has its end",
        READ | ORDER | DENSE,
        ((reading, "_take", _end_with_the_page),),
        2,
    ),
    StreamBug(
        "shards that were made on the way never end",
        READ,
        ((reading, "read", _read_what_was_never_open),),
        32,
    ),
    StreamBug(
        "retention by the clock of a front end",
        READ | EXPIRED,
        ((reading, "horizon_us", _horizon_by_own_clock),),
        2,
    ),
    StreamBug(
        "what is stored is read", EXPIRED, ((reading, "horizon_us", _horizon_of_what_is_kept),)
    ),
    StreamBug(
        "streams are not copied to who joins",
        READ | frozenset({ACKNOWLEDGED}),
        ((copies, "_partitions", _copy_no_streams),),
    ),
    StreamBug(
        "the last member is told nothing",
        READ | frozenset({ACKNOWLEDGED}),
        ((chain, "_hand_down", _hand_down_to_the_next),),
    ),
)
