"""How far groups are: the items of their offsets, each written by one conditional update."""

from collections.abc import Awaitable, Iterable, Mapping, Sequence
from typing import Final, TypeVar

from control_plane.core import group_keys, group_offset
from control_plane.core.consumer_group import ConsumerGroup, ShardKey
from control_plane.core.group_offset import Commit, GroupOffset, read_offset
from data_plane.ports import ITEM_ABSENT, Cell, Clock, Key, Waits

_AT_ONCE: Final = 100
T = TypeVar("T")


class Offsets:
    """Offsets of groups in a cell. Methods raise CellUnavailableError."""

    def __init__(self, cell: Cell, clock: Clock, waits: Waits) -> None:
        self._cell = cell
        self._clock = clock
        self._waits = waits

    async def begin(self, group: ConsumerGroup, first: Mapping[ShardKey, int]) -> None:
        """Let shards of a group that is not stored yet be done up to these offsets."""
        await self.all_of(
            [
                self._cell.put(_key(group, key), group_offset.first_item(offset), ITEM_ABSENT)
                for key, offset in first.items()
            ]
        )

    async def take_over(
        self, group: ConsumerGroup, key: ShardKey, member: str, epoch: int
    ) -> GroupOffset | None:
        """Take commits from this member alone: how far the shard is done when it takes over.

        None where somebody has taken it over later.
        """
        change, condition = group_offset.handing_over(member, epoch)
        written = await self._cell.update(_key(group, key), change, condition)
        if written.applied or group_offset.has_taken_over(written.before, member, epoch):
            return read_offset(written.before)
        return None

    async def commit(
        self, group: ConsumerGroup, key: ShardKey, commit: Commit
    ) -> GroupOffset | None:
        """Note how far a member is: how far the shard is done by now.

        None where the shard is not the member's any more, under this epoch.
        """
        now_ms = self._clock.now_us() // 1_000
        change, condition = group_offset.committing(commit, now_ms)
        written = await self._cell.update(_key(group, key), change, condition)
        if written.applied:
            return GroupOffset(*commit[2:], commit.member, commit.epoch, now_ms)
        if group_offset.is_committed(written.before, commit):
            return read_offset(written.before)
        return None

    async def reset(self, group: ConsumerGroup, key: ShardKey, offset: int | None) -> bool:
        """Let all up to this offset be done (None: nothing); False where somebody was faster.

        The group is as it was fenced for it.
        """
        change, condition = group_offset.resetting(offset, group.epoch)
        written = await self._cell.update(_key(group, key), change, condition)
        return written.applied or group_offset.is_reset(written.before, group.epoch)

    async def remove(self, group: ConsumerGroup, keys: Iterable[ShardKey]) -> None:
        """Note nothing of these shards any more."""
        await self.all_of([self._cell.delete(_key(group, key)) for key in keys])

    async def read(
        self, group: ConsumerGroup, keys: Iterable[ShardKey]
    ) -> dict[ShardKey, GroupOffset]:
        """How far these shards are."""
        found: dict[ShardKey, GroupOffset] = {}
        wanted = list(keys)
        for start in range(0, len(wanted), _AT_ONCE):
            some = {_key(group, key): key for key in wanted[start : start + _AT_ONCE]}
            items = await self._cell.get_many(list(some))
            found |= {key: read_offset(items.get(place)) for place, key in some.items()}
        return found

    async def all_of(self, calls: Sequence[Awaitable[T]]) -> list[T]:
        """Do all of these, some at a time; the first failure is raised, when all are over."""
        done: list[T] = []
        failure: Exception | None = None
        for start in range(0, len(calls), _AT_ONCE):
            for outcome in await self._waits.all_of(calls[start : start + _AT_ONCE]):
                if isinstance(outcome, Exception):
                    failure = failure or outcome
                else:
                    done.append(outcome)
        if failure is not None:
            raise failure
        return done


def _key(group: ConsumerGroup, key: ShardKey) -> Key:
    return group_keys.offset(group.uid, group.streams[key.stream].uid, key.shard)
