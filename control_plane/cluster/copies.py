"""What is copied to a member that joins a group, in steps that say where to go on."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from control_plane.cluster.cluster import Cluster
from control_plane.core.definition import Definition
from control_plane.core.stream_queue import STREAM_ARN
from control_plane.places.groups import REGISTRY, lies_on_chain
from control_plane.places.items import PlacedQueue
from data_plane.core.stream import read_stream_arn
from data_plane.ports import CellUnavailableError
from data_plane.replication.copying import COPY_US_MAX, PAGE, Position, copy_some
from data_plane.replication.member_cell import MemberCell, members_of
from data_plane.replication.placement import Member, Placement
from data_plane.stored.keys import (
    attempts,
    log_partitions,
    partitions,
    reader_states,
    stream_partitions,
)
from data_plane.stored.merging import lacking

ITEMS_PER_STEP: Final = 512

PUTS_MAX: Final = 4
"""At a time, in a cell that has a bounded number of connections, 32 by default: four groups are
copied to at a time, and half is for messages and probes. With more they wait behind copies for so
long that the cell looks down, loses its groups, joins again, and is copied to from the beginning.
Embedded cells take a page in one write."""

_ALL: Final = ""
"""Stands for the queue where the registry is copied, which is none."""


async def copy_on(  # noqa: PLR0913 - what, where to, from where on, until when
    cluster: Cluster,
    placement: Placement,
    cell: str,
    after: Mapping[str, Any],
    until_us: int,
    *,
    alone: Collection[str] = (),
) -> dict[str, Any] | None:
    """Copy what the group has to its member in `cell`: where to go on, or None when all is there.

    `placement` was read just now, and is to be read anew for the next call; so were the queues that
    lie `alone`, which nobody copies here. `after` is what the
    call before answered, {} at first; without one step nothing is answered. Raises
    CellUnavailableError.
    """
    target = {one.cell: member for one, member in members_known(cluster, placement)}[cell]
    if target.plain.chooses_stamps:
        target = target.within(COPY_US_MAX)
        # No step begins so late that its last items would be refused.
        until_us = min(until_us, cluster.clock.now_us() + COPY_US_MAX // 2)
    puts_max = PAGE if target.plain.chooses_stamps else PUTS_MAX
    source, tail = _sources(cluster, placement)
    queues = await queues_of(cluster, placement.group, alone)
    done, has_stepped = str(after.get("uid", "")), False
    for uid, queue in queues:
        if uid < done:
            continue
        if has_stepped and cluster.clock.now_us() >= until_us:
            return {"uid": uid}
        has_stepped = True
        names, is_chain = await _partitions(cluster, queue)
        position = position_in(names, after) if uid == done else Position()
        while True:
            left = await copy_some(
                cluster.waits,
                tail if is_chain else source,
                target,
                lacking,
                names,
                position,
                ITEMS_PER_STEP,
                puts_max,
            )
            if left is None:
                break
            position = left
            if cluster.clock.now_us() >= until_us:
                return {"uid": uid, "partition": names[left.partition], "after": left.after.hex()}
    return None


def members_known(cluster: Cluster, placement: Placement) -> list[tuple[Member, MemberCell]]:
    """The members with their cells, in order. Raises CellUnavailableError for an unknown one."""
    missing = [one.cell for one in placement.members if one.cell not in cluster.cells]
    if missing:
        raise CellUnavailableError(f"this process knows nothing of {', '.join(missing)}")
    return list(zip(placement.members, members_of(placement, cluster.cells), strict=True))


def _sources(cluster: Cluster, placement: Placement) -> tuple[MemberCell, MemberCell]:
    """The first member, and the last full one, which alone has only complete items of a chain."""
    members = [member for _, member in members_known(cluster, placement)]
    return members[0], members[placement.tail]


async def queues_of(
    cluster: Cluster, group: str, alone: Collection[str]
) -> Sequence[tuple[str, PlacedQueue | None]]:
    """The group's queues by their uids, in order; of the registry None alone."""
    if group == REGISTRY:
        return [(_ALL, None)]
    return sorted((queue.uid, queue) for queue in await cluster.placing.queues_of(group, alone))


async def _partitions(cluster: Cluster, queue: PlacedQueue | None) -> tuple[Sequence[str], bool]:
    """What is stored of a queue, and whether on a chain; nothing of one that is not there."""
    if queue is None:
        if cluster.registry_partitions is None:
            raise CellUnavailableError("this process has no registry to copy")
        return await cluster.registry_partitions(), True
    if queue.is_stream:
        # A child that begins from now on is written to all members, who joins included.
        shards = await cluster.placing.shards_of(queue)
        return stream_partitions(queue.uid, shards) if shards else (), True
    definition = await cluster.registry.read(queue.account, queue.region, queue.name)
    if definition is None or definition.uid != queue.uid:
        return (), False
    is_chain = definition.is_log or lies_on_chain(definition.cell)
    return (*await _of_shards(cluster, definition), *_of_queue(definition)), is_chain


async def _of_shards(cluster: Cluster, definition: Definition) -> tuple[str, ...]:
    """What a queue that reads a stream knows of its shards, those of now."""
    name = read_stream_arn(definition.attributes.get(STREAM_ARN, ""))
    if name is None:
        return ()
    stream = PlacedQueue(*name, definition.stream_uid, is_stream=True)
    shards = await cluster.placing.shards_of(stream)
    return (*(reader_states(definition.uid, shard) for shard in shards), attempts(definition.uid))


def _of_queue(definition: Definition) -> tuple[str, ...]:
    """Counters come last: they are to say what has become of all that was copied before."""
    uid = definition.uid
    *items, sums = partitions(uid)
    if definition.fifo:
        items += log_partitions(uid, definition.generations)
    return (*items, sums)


def position_in(names: Sequence[str], after: Mapping[str, Any]) -> Position:
    """Where to go on in these partitions, which may be others than the call before had."""
    if after.get("partition") not in names:
        return Position()
    return Position(names.index(after["partition"]), bytes.fromhex(after["after"]))
