"""Which member of a consumer group is to have which shard: pure functions over the group.

With either way no member is to have more than one shard more than another one.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from control_plane.core.consumer_group import RANGE, STICKY, ConsumerGroup, ShardHold, ShardKey

Targets = Mapping[ShardKey, str]


def targets(group: ConsumerGroup) -> Targets:
    """The member that is to have each shard; none has any where there are no members."""
    if not group.members:
        return {}
    return _ASSIGNORS[group.assignor](group)


def sticky(group: ConsumerGroup) -> Targets:
    """As few shards as possible change hands.

    Each stays with whom it was to go to, or else with whoever has it, up to that one's share. Who
    has most keeps the one more that some must have.
    """
    holds = group.holds
    kept: dict[str, list[ShardKey]] = {member: [] for member in sorted(group.members)}
    free: list[ShardKey] = []
    # What a member does not have yet is the first that it lets go.
    for key in sorted(holds, key=lambda key: (holds[key].owner != holds[key].target, key)):
        kept.get(_stays_with(holds[key], group), free).append(key)
    order = sorted(kept, key=lambda member: (-len(kept[member]), member))
    shares = dict(zip(order, _shares(len(holds), len(order)), strict=True))
    for member, share in shares.items():
        free += kept[member][share:]
        del kept[member][share:]
    ordered = iter(sorted(free))
    for member, share in shares.items():
        kept[member] += [next(ordered) for _ in range(share - len(kept[member]))]
    return {key: member for member, keys in kept.items() for key in keys}


def _stays_with(hold: ShardHold, group: ConsumerGroup) -> str:
    return hold.target if hold.target in group.members else hold.owner


def by_range(group: ConsumerGroup) -> Targets:
    """Each member has shards that follow each other, in order of the members' names.

    The order is that of their instances, where they have such, so it stays when they come back.
    """
    members = sorted(group.members.values(), key=lambda one: (one.instance or one.id, one.id))
    ordered = iter(sorted(group.holds))
    return {
        next(ordered): member.id
        for member, share in zip(members, _shares(len(group.holds), len(members)), strict=True)
        for _ in range(share)
    }


def _shares(shards: int, members: int) -> Iterator[int]:
    """How many shards each member has: the first some have one more."""
    least, more = divmod(shards, members)
    return (least + (number < more) for number in range(members))


_ASSIGNORS: Final[Mapping[str, Callable[[ConsumerGroup], Targets]]] = {
    STICKY: sticky,
    RANGE: by_range,
}
ASSIGNORS: Final[Sequence[str]] = tuple(_ASSIGNORS)
