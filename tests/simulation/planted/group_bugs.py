"""Bugs planted into consumer groups, by the invariant that they break."""

from collections.abc import Callable
from functools import partial
from typing import Any, Final

from control_plane.consumer_groups.offsets import Offsets, _key
from control_plane.consumer_groups.registry import GroupRegistry
from control_plane.consumer_groups.sessions import Sessions
from control_plane.core import group_changes, group_offset
from control_plane.core.consumer_group import ConsumerGroup, GroupedStream, ShardKey
from control_plane.core.group_offset import Commit, GroupOffset, read_offset
from data_plane.core.stream import Stream
from data_plane.ports import ALWAYS, Condition, Update
from tests.simulation.groups.universe import run
from tests.simulation.planted import PlantedBug

GroupsBug: Final = partial(PlantedBug, run=run)

_committing = group_offset.committing
_put: Callable[..., Any] = GroupRegistry._put
_take_over: Callable[..., Any] = Offsets.take_over

_BETWEEN_US = 500_000
"""A slow look and a quick hand-over: without it one universe in a hundred shows the bug."""


def _by_anybody(commit: Commit, now_ms: int) -> tuple[Update, Condition]:
    change, (_, _, forward) = _committing(commit, now_ms)
    return change, (forward,)


def _also_backwards(commit: Commit, now_ms: int) -> tuple[Update, Condition]:
    change, (epoch, owner, _) = _committing(commit, now_ms)
    return change, (epoch, owner)


def _children_at_once(grouped: GroupedStream, stream: Stream) -> list[int]:
    return [one.number for one in stream.shards if not grouped.is_settled(one.number)]


async def _put_always(self: GroupRegistry, group: ConsumerGroup, _condition: Condition) -> Any:
    return await _put(self, group, ALWAYS)


async def _read_and_then_taken_over(
    self: Offsets, group: ConsumerGroup, key: ShardKey, member: str, epoch: int
) -> GroupOffset | None:
    before = read_offset(await self._cell.get(_key(group, key)))
    await self._waits.sleep_until(self._clock.now_us() + _BETWEEN_US)
    taken = await _take_over(self, group, key, member, epoch)
    return before if taken is not None else None


async def _nobody_dies(_self: Sessions, _group: ConsumerGroup) -> set[str]:
    return set()


def _never_at_its_end(_self: GroupOffset) -> bool:
    return False


GROUP_BUGS: Final = (
    GroupsBug(
        "a zombie commits late",
        frozenset({"commits are handed on"}),
        ((group_offset, "committing", _by_anybody),),
        first=17,
    ),
    GroupsBug(
        "a commit that goes back",
        frozenset({"commits never go back"}),
        ((group_offset, "committing", _also_backwards),),
        first=3,
    ),
    GroupsBug(
        "children before their parents",
        frozenset({"parents come first"}),
        ((group_changes, "readable", _children_at_once),),
        first=5,
    ),
    GroupsBug(
        "a shard owned twice",
        frozenset({"a shard has one owner"}),
        ((GroupRegistry, "_put", _put_always),),
    ),
    GroupsBug(
        "the position is read before the hand-over",
        frozenset({"commits are handed on"}),
        ((Offsets, "take_over", _read_and_then_taken_over),),
        first=2,
    ),
    GroupsBug(
        "the dead keep their shards",
        frozenset({"shards are taken over in time", "all is read"}),
        ((Sessions, "expired", _nobody_dies),),
        first=2,
    ),
    GroupsBug(
        "ends that the group is not told of",
        frozenset({"all is read"}),
        ((GroupOffset, "is_end", property(_never_at_its_end)),),
        first=6,
    ),
)
