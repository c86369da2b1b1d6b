"""Where a group begins in its streams: fixed once, when it is made or reset.

So nothing that comes later is missed, however long it takes until a member reads a shard.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final, NamedTuple, Protocol

from control_plane.consumer_groups.offsets import Offsets
from control_plane.consumer_groups.registry import GroupRegistry, check_empty
from control_plane.core import group_changes
from control_plane.core.consumer_group import ConsumerGroup, GroupedStream, ShardKey, readable
from control_plane.core.group_offset import GroupOffset
from data_plane.core.errors import (
    LIMIT_EXCEEDED,
    RESOURCE_IN_USE,
    RefusedError,
    stream_not_found,
)
from data_plane.core.limits import GROUP_SHARDS_MAX
from data_plane.core.stream import Shard, Stream
from data_plane.streams.lag import Lag
from data_plane.streams.reading import Place

TRIM_HORIZON: Final = "TRIM_HORIZON"
LATEST: Final = "LATEST"
AT_TIMESTAMP: Final = "AT_TIMESTAMP"
_NOTHING: Final = Lag(0, 0)


class ShardPlaces(Protocol):
    """What groups ask of the engine of streams."""

    async def latest(self, stream: Stream, shard: Shard) -> Place:
        """The place behind the last record that there is now."""
        ...

    async def since(self, stream: Stream, shard: Shard, time_us: int) -> Place:
        """The place of the first record that arrived at this time or later."""
        ...

    async def lag(self, stream: Stream, shard: Shard, offset: int) -> Lag:
        """How much there is behind this offset, up to which a reader has read all."""
        ...


class StartingPosition(NamedTuple):
    """Where to begin in shards that are there, as an iterator's type says.

    `offset` is for a type that names a record: all up to it is done.
    """

    kind: str
    time_us: int = 0
    offset: int = 0


def beginning(stream: Stream, position: StartingPosition) -> GroupedStream:
    """The stream as a group has it that begins there: which of its shards are read."""
    whole = GroupedStream(stream.name, stream.uid, stream.version)
    if position.kind == TRIM_HORIZON:
        return whole
    since_us = position.time_us if position.kind == AT_TIMESTAMP else None
    first = frozenset(
        shard.number
        for shard in stream.shards
        if shard.is_open or (since_us is not None and shard.closed_us >= since_us)
    )
    return whole._replace(next_shard=1 + max(shard.number for shard in stream.shards), first=first)


class ResetShard(NamedTuple):
    """What a reset does to a shard, of which all up to `known` is done before.

    After it all up to `then` is, and the group does not read it where that is None. The lags are
    what there is to read before and after.
    """

    stream: Stream
    shard: Shard
    known: GroupOffset
    then: GroupOffset | None
    lag: Lag
    lag_then: Lag


def _all_of(streams: Sequence[Stream]) -> list[tuple[Stream, int]]:
    return [(stream, shard.number) for stream in streams for shard in stream.shards]


def _is_read_from(stream: Stream, shard: int, position: StartingPosition) -> bool:
    return not beginning(stream, position).is_settled(shard)


def _is_read(group: ConsumerGroup, stream: Stream, shard: int) -> bool:
    """Whether a group reads a shard, or has read it to its end."""
    at = group.position_of(stream.name)
    if at is None or group.streams[at].uid != stream.uid:
        return False
    return not group.streams[at]._replace(done=frozenset()).is_settled(shard)


class Positions:
    """Finds and sets where groups begin. Methods raise CellUnavailableError."""

    def __init__(self, registry: GroupRegistry, offsets: Offsets, places: ShardPlaces) -> None:
        self._registry = registry
        self._offsets = offsets
        self._places = places

    async def create(
        self, wanted: ConsumerGroup, streams: Sequence[Stream], position: StartingPosition
    ) -> ConsumerGroup:
        """Store a new group that begins there. Raises RefusedError.

        Until its offsets are stored it is marked as one that is removed: nobody finds it without
        them, and who comes for the name after a crash removes what is there of it.
        """
        await self._registry.check_room(wanted)
        found: dict[ShardKey, int] = {}
        readable_now = 0
        for at, (known, stream) in enumerate(zip(wanted.streams, streams, strict=True)):
            readable_now += len(readable(known, stream))
            if readable_now > GROUP_SHARDS_MAX:
                raise RefusedError(
                    LIMIT_EXCEEDED, f"A group reads {GROUP_SHARDS_MAX} shards at most at a time."
                )
            if position.kind != TRIM_HORIZON:
                numbers = sorted(known.first)
                offsets = await self._find(stream, numbers, position)
                found |= {
                    ShardKey(at, number): offset or 0
                    for number, offset in zip(numbers, offsets, strict=True)
                }
        if not found:
            return await self._registry.create(wanted)
        marked = await self._registry.create(replace(wanted, is_deleted=True))
        await self._offsets.begin(marked, found)
        return await self._registry.complete(marked)

    async def reset(
        self, group: ConsumerGroup, streams: Sequence[Stream], position: StartingPosition
    ) -> None:
        """Let a group without members begin there in these of its streams. Raises RefusedError."""

        def begun(known: ConsumerGroup) -> ConsumerGroup:
            for stream in streams:
                at = known.position_of(stream.name)
                # Not where others have found meanwhile that it was made anew.
                uids = (stream.uid, group.streams[at].uid) if at is not None else ()
                if at is not None and known.streams[at].uid in uids:
                    known = group_changes.begun_again(known, at, beginning(stream, position))
            return known

        wanted = [one for one in _all_of(streams) if _is_read_from(*one, position)]
        await self._reset(group, begun, wanted, position)

    async def reset_shards(
        self,
        group: ConsumerGroup,
        shards: Sequence[tuple[Stream, int]],
        position: StartingPosition,
    ) -> None:
        """The same in these shards alone. Those that follow them wait until they are read again."""

        def begun(known: ConsumerGroup) -> ConsumerGroup:
            for stream, number in shards:
                at = known.position_of(stream.name)
                if at is None or known.streams[at].uid != stream.uid:
                    continue
                one = known.streams[at]
                read = one._replace(first=one.first | {number}, done=one.done - {number})
                known = group_changes.begun_again(known, at, read)
            return known

        await self._reset(group, begun, shards, position)

    async def preview(
        self, group: ConsumerGroup, streams: Sequence[Stream], position: StartingPosition
    ) -> list[ResetShard]:
        """What `reset` would do to each shard that is read before or after. Raises as that."""
        group = await self._checked(group)
        shards = [
            (*one, _is_read_from(*one, position))
            for one in _all_of(streams)
            if _is_read_from(*one, position) or _is_read(group, *one)
        ]
        return await self._foreseen(group, shards, position)

    async def preview_shards(
        self,
        group: ConsumerGroup,
        shards: Sequence[tuple[Stream, int]],
        position: StartingPosition,
    ) -> list[ResetShard]:
        """What `reset_shards` would do. Raises as that."""
        group = await self._checked(group)
        return await self._foreseen(group, [(*one, True) for one in shards], position)

    async def _checked(self, group: ConsumerGroup) -> ConsumerGroup:
        """The group without members that are gone. Raises RefusedError where there are others."""
        group = await self._registry.change(group, lambda known: known)
        check_empty(group)
        return group

    async def _foreseen(
        self,
        group: ConsumerGroup,
        shards: Sequence[tuple[Stream, int, bool]],
        position: StartingPosition,
    ) -> list[ResetShard]:
        """The shards as they are and would be; True: they are read after it."""
        wanted = [
            (ShardKey(at, number), stream, shard, is_read)
            for stream, number, is_read in shards
            if (at := group.position_of(stream.name)) is not None
            and (shard := stream.shard(number)) is not None
        ]
        known = await self._offsets.read(group, {key for key, *_ in wanted})
        return await self._offsets.all_of(
            [
                self._foresee(group, stream, shard, known[key], position if is_read else None)
                for key, stream, shard, is_read in wanted
            ]
        )

    async def _foresee(
        self,
        group: ConsumerGroup,
        stream: Stream,
        shard: Shard,
        known: GroupOffset,
        position: StartingPosition | None,
    ) -> ResetShard:
        then, lag, lag_then = None, _NOTHING, _NOTHING
        if _is_read(group, stream, shard.number):
            lag = await self._places.lag(stream, shard, known.offset or 0)
        if position is not None:
            [offset] = await self._find(stream, [shard.number], position)
            then = GroupOffset(offset)
            lag_then = await self._places.lag(stream, shard, offset or 0)
        return ResetShard(stream, shard, known, then, lag, lag_then)

    async def _reset(
        self,
        group: ConsumerGroup,
        begun: group_changes.Edit,
        shards: Sequence[tuple[Stream, int]],
        position: StartingPosition,
    ) -> None:
        offsets = [
            offset
            for stream, number in shards
            for offset in await self._find(stream, [number], position)
        ]
        fenced = await self._registry.fence(group, begun)
        for stream, _ in shards:
            # Of one that was made anew these offsets are not.
            at = fenced.position_of(stream.name)
            if at is not None and fenced.streams[at].uid != stream.uid:
                raise stream_not_found(stream.name, stream.account)
        calls = [
            self._offsets.reset(fenced, ShardKey(at, number), offset)
            for (stream, number), offset in zip(shards, offsets, strict=True)
            if (at := fenced.position_of(stream.name)) is not None
        ]
        if not all(await self._offsets.all_of(calls)):
            raise RefusedError(
                RESOURCE_IN_USE,
                f"Members have joined group {group.name} under account {group.account} meanwhile.",
            )

    async def _find(
        self, stream: Stream, numbers: Sequence[int], position: StartingPosition
    ) -> list[int | None]:
        """Up to which offset shards are done if a group begins there; None: nothing is."""
        shards = [shard for number in numbers if (shard := stream.shard(number)) is not None]
        match position.kind:
            case "TRIM_HORIZON":
                return [None] * len(shards)
            case "LATEST":
                calls = [self._places.latest(stream, shard) for shard in shards]
            case "AT_TIMESTAMP":
                calls = [self._places.since(stream, shard, position.time_us) for shard in shards]
            case _:
                return [position.offset] * len(shards)
        return [place.offset - 1 for place in await self._offsets.all_of(calls)]
