"""What front ends that are gone told no copy: all groups are compared, in steps.

Only standard queues with copies side by side have that: what a chain shows, all members have.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

from control_plane.cluster.cluster import Cluster
from control_plane.cluster.copies import members_known, position_in, queues_of
from control_plane.core.definition import Definition
from control_plane.places.groups import FIRST, REGISTRY, lies_on_chain, own_group, read_place
from control_plane.places.items import PlacedQueue
from data_plane.ports import Attributes, Condition, Item, Key, Update, Waits
from data_plane.replication.copying import Position
from data_plane.replication.giving import give_needed
from data_plane.replication.member_cell import MemberCell
from data_plane.replication.placement import Placement
from data_plane.replication.reconciling import Range, compare_some
from data_plane.stored.bounds import FAIR_LANES
from data_plane.stored.keys import be64, block_of, segments, states
from data_plane.stored.merging import is_needed, lacking, written_s

ITEMS_PER_STEP: Final = 1000

GUARD_S: Final = 300
"""By so much clocks may differ, and a write may have been under way when it was counted as told."""


async def tell_on(
    cluster: Cluster, since_us: int, after: Mapping[str, Any], until_us: int, *, only: str = ""
) -> tuple[dict[str, Any] | None, int]:
    """Let all copies know what the first members do of all that was done since.

    Where to go on, None at the end, and how many copies of an item were behind. `after` is what the
    call before answered, {} at first; without one step nothing is answered. Of `only` one group, if
    that is given. Raises CellUnavailableError.
    """
    since_s = since_us // 1_000_000 - GUARD_S
    mended, has_stepped = 0, False
    done = str(after.get("group", "")), str(after.get("uid", ""))
    for group, held in sorted((await cluster.places.read_all()).placements.items()):
        if group == REGISTRY or group < done[0] or len(held.placement.members) == 1:
            continue
        if only not in ("", group):
            continue
        for uid, queue in await queues_of(cluster, group, held.alone):
            if (group, uid) < done:
                continue
            if has_stepped and cluster.clock.now_us() >= until_us:
                return {"group": group, "uid": uid}, mended
            has_stepped = True
            ranges = await _ranges(cluster, queue, since_s)
            names = [one.partition for one in ranges]
            position = position_in(names, after) if (group, uid) == done else Position()
            while True:
                # The members of now: whoever decides now is the one who knows.
                placement = await _present(cluster, group, uid)
                if placement is None:
                    break
                members = [member for _, member in members_known(cluster, placement)]
                compared = await compare_some(
                    cluster.waits, members, ranges, position, ITEMS_PER_STEP
                )
                mended += compared.mended
                if compared.left is None:
                    break
                position = compared.left
                if cluster.clock.now_us() >= until_us:
                    partition = names[position.partition]
                    left = {"group": group, "uid": uid, "partition": partition}
                    return {**left, "after": position.after.hex()}, mended
    return None, mended


async def _present(cluster: Cluster, group: str, uid: str) -> Placement | None:
    """Where a queue of the group lies now: it may have left it since it was listed.

    None: it lay alone, and nothing is left of it.
    """
    try:
        held = await cluster.places.read(group)
        if uid in held.alone:
            held = await cluster.places.read(own_group(group, uid))
    except KeyError:
        return None
    return held.placement


async def _ranges(cluster: Cluster, queue: PlacedQueue | None, since_s: int) -> Sequence[Range]:
    """What is compared of a queue: nothing of one that is not there, or lies on a chain."""
    if queue is None or queue.is_stream:
        return ()
    definition = await cluster.registry.read(queue.account, queue.region, queue.name)
    if definition is None or definition.uid != queue.uid:
        return ()
    return () if definition.is_log else _of_queue(cluster.waits, definition, since_s)


def _of_queue(waits: Waits, definition: Definition, since_s: int) -> Sequence[Range]:
    if lies_on_chain(definition.cell):
        return ()

    def is_recent(state: Item) -> bool:
        return written_s(state.key.sort, state.attributes) >= since_s

    ranges = [
        Range(states(definition.uid, lane, 0), b"", is_recent, lacking)
        for lane in range(FAIR_LANES)
    ]
    place = read_place(definition.cell)
    if place is not None and place[1] == FIRST:
        # What is sent is told later, too. It lies under the time at which it becomes visible.
        after = be64(max(0, since_s) * 1_000_000)
        ranges += [
            Range(
                segments(definition.uid, lane, 0),
                after,
                _always,
                _nothing,
                _with_its_state(waits, states(definition.uid, lane, 0)),
            )
            for lane in range(FAIR_LANES)
        ]
    return ranges


def _with_its_state(
    waits: Waits, partition: str
) -> Callable[[MemberCell, MemberCell, Item], Awaitable[object]]:
    async def copied(first: MemberCell, other: MemberCell, segment: Item) -> object:
        state = Key(partition, block_of(segment.key.sort))
        return await give_needed(waits, first, [other], segment.key, state, is_needed, lacking)

    return copied


def _always(_item: Item) -> bool:
    return True


def _nothing(_item: Attributes, _copy: Attributes) -> tuple[Update, Condition] | None:
    """A segment is there, or it is not."""
    return None
