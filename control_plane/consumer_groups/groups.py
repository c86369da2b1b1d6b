"""Consumer groups put together: what operations on them stand on."""

from dataclasses import dataclass

from control_plane.consumer_groups.commits import Commits
from control_plane.consumer_groups.forgetting import Forgetting
from control_plane.consumer_groups.heartbeats import Heartbeats
from control_plane.consumer_groups.offsets import Offsets
from control_plane.consumer_groups.positions import Positions, ShardPlaces
from control_plane.consumer_groups.registry import GroupRegistry
from control_plane.consumer_groups.room import GroupRoom
from data_plane.operations.stream_address import KnownStreams
from data_plane.ports import AccountQuotas, Cell, Clock, Entropy, Waits


@dataclass(frozen=True, slots=True)
class ConsumerGroups:
    """All of it, over the registry's cell; `streams` are those there are, `places` their engine."""

    registry: GroupRegistry
    offsets: Offsets
    heartbeats: Heartbeats
    commits: Commits
    positions: Positions
    forgetting: Forgetting
    streams: KnownStreams
    places: ShardPlaces
    entropy: Entropy


def consumer_groups(  # noqa: PLR0913, PLR0917 - a front end is these ports
    cell: Cell,
    streams: KnownStreams,
    places: ShardPlaces,
    clock: Clock,
    entropy: Entropy,
    waits: Waits,
    quotas: AccountQuotas | None = None,
) -> ConsumerGroups:
    """One front end's side of the groups in a cell; without `quotas` nobody has one."""
    registry = GroupRegistry(cell, streams, clock, entropy, waits, GroupRoom(quotas))
    offsets = Offsets(cell, clock, waits)
    return ConsumerGroups(
        registry=registry,
        offsets=offsets,
        heartbeats=Heartbeats(registry, offsets, clock, waits),
        commits=Commits(registry, offsets),
        positions=Positions(registry, offsets, places),
        forgetting=Forgetting(registry, offsets),
        streams=streams,
        places=places,
        entropy=entropy,
    )
