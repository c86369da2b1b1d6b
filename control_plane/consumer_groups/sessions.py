"""Sessions of members: each has an item with a deadline, which a heartbeat moves on.

A clock only starts an eviction: whoever removes a member's item, on the condition that it is as it
was read, has ended its session. What the member does after that, the epochs of its shards decide.
"""

from collections import OrderedDict
from typing import Final

from control_plane.core import group_keys
from control_plane.core.consumer_group import ConsumerGroup
from control_plane.core.definition import FORMAT
from data_plane.ports import Absent, Cell, Clock, Equals, LessThan, Update

GUARD_US: Final = 250_000
"""So long after its deadline a member is taken for dead."""

GROUPS_HELD_MAX: Final = 10_000
"""Groups of which a front end remembers when it has to look."""

_KEPT_S: Final = 3_600
_PAGE: Final = 1_000
_US_PER_S: Final = 1_000_000


class Sessions:
    """One front end's side of the sessions in a cell. Methods raise CellUnavailableError."""

    def __init__(self, cell: Cell, clock: Clock) -> None:
        self._cell = cell
        self._clock = clock
        self._look_us: OrderedDict[str, int] = OrderedDict()

    async def begin(self, group: ConsumerGroup, member: str) -> None:
        """A member joins; to be called before it is one of the group's."""
        deadline_us = self._deadline_us(group)
        await self._cell.update(
            group_keys.member(group.uid, member),
            Update(assign={"v": FORMAT, **_until(deadline_us)}),
            ((Absent("d"), LessThan("d", deadline_us)),),
        )

    async def go_on(self, group: ConsumerGroup, member: str) -> bool:
        """A heartbeat came; False where the session has ended."""
        deadline_us = self._deadline_us(group)
        key, change = group_keys.member(group.uid, member), Update(assign=_until(deadline_us))
        written = await self._cell.update(key, change, ((LessThan("d", deadline_us),),))
        known_us = (written.before or {}).get("d")
        if written.applied or not isinstance(known_us, int):
            return written.applied
        if known_us > deadline_us + _session_us(group):
            # By a clock that was ahead: with it a member that dies would be there for as long.
            await self._cell.update(key, change, ((Equals("d", known_us),),))
        return True

    async def end(self, group: ConsumerGroup, member: str) -> None:
        """A member has left."""
        await self._cell.delete(group_keys.member(group.uid, member))

    def is_due(self, group: ConsumerGroup) -> bool:
        """Whether the session of a member may have ended since this front end looked last."""
        now_us = self._clock.now_us()
        look_us = self._look_us.get(group.uid, 0)
        return not now_us < look_us <= now_us + _session_us(group) + GUARD_US + 1

    def next_look_us(self, group: ConsumerGroup) -> int:
        """When it is due again."""
        return self._look_us.get(group.uid, 0)

    async def expired(self, group: ConsumerGroup) -> set[str]:
        """End the sessions that are over: the members that are gone."""
        now_us = self._clock.now_us()
        deadlines_us = await self._deadlines_us(group)
        gone = {member for member in group.members if member not in deadlines_us}
        look_us = now_us + _session_us(group) + GUARD_US + 1
        for member in group.members:
            if member in gone:
                continue
            over_us = deadlines_us[member] + GUARD_US
            if over_us >= now_us:
                look_us = min(look_us, over_us + 1)
            elif await self._evict(group, member, deadlines_us[member]):
                gone.add(member)
        if not gone:  # Until they are removed from the group they are looked for again.
            self._remember(group, look_us)
        return gone

    async def _evict(self, group: ConsumerGroup, member: str, deadline_us: int) -> bool:
        key = group_keys.member(group.uid, member)
        written = await self._cell.delete(key, ((Equals("d", deadline_us),),))
        return written.applied or written.before is None

    async def _deadlines_us(self, group: ConsumerGroup) -> dict[str, int]:
        found: dict[str, int] = {}
        position = b""
        partition = group_keys.members(group.uid)
        while items := await self._cell.query(partition, after=position, limit=_PAGE):
            position = items[-1].key.sort
            found |= {item.key.sort.decode(): int(str(item.attributes["d"])) for item in items}
        return found

    def _deadline_us(self, group: ConsumerGroup) -> int:
        return self._clock.now_us() + _session_us(group)

    def _remember(self, group: ConsumerGroup, look_us: int) -> None:
        self._look_us[group.uid] = look_us
        self._look_us.move_to_end(group.uid)
        if len(self._look_us) > GROUPS_HELD_MAX:
            self._look_us.popitem(last=False)


def _session_us(group: ConsumerGroup) -> int:
    return group.session_s * _US_PER_S


def _until(deadline_us: int) -> dict[str, int]:
    return {"d": deadline_us, "x": deadline_us // _US_PER_S + _KEPT_S}
