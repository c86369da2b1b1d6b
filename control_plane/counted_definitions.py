"""What accounts define in a table, counted where it is defined, so that quotas hold exactly.

docs/storage.md, "Definitions of an account, on tables".
"""

from dataclasses import dataclass
from typing import Final

from control_plane.definition_room import DefinitionCount, over
from data_plane.core.errors import SERVICE_UNAVAILABLE, RefusedError
from data_plane.ports import (
    Absent,
    AccountQuotas,
    Attributes,
    Cell,
    Condition,
    Key,
    LessThan,
    Update,
)

_QUEUES: Final = "q"
_SIZE: Final = "n"
_FORMAT: Final = 1
_PAGE: Final = 500
_ATTEMPTS_MAX: Final = 8


def _key(account: str, region: str) -> Key:
    return Key(f"V|{account}", region.encode())


async def counted(cell: Cell, account: str) -> dict[str, DefinitionCount]:
    """What the account has in each region. Raises CellUnavailableError."""
    found: dict[str, DefinitionCount] = {}
    after = b""
    while page := await cell.query(_key(account, "").partition, after=after, limit=_PAGE):
        after = page[-1].key.sort
        found |= {item.key.sort.decode(): _count(item.attributes) for item in page}
    return found


@dataclass(frozen=True, slots=True)
class CountedDefinitions:
    """Implements `control_plane.registry.RoomForDefinitions`: a count for each account and region.

    A count is moved before the write that it counts, under the condition that there is room, so
    that several front ends together make no more than one may. In other regions of the account
    there is what a read has found just before. Methods raise CellUnavailableError.
    """

    quotas: AccountQuotas
    cell: Cell

    async def take(self, account: str, region: str, queues: int, size_bytes: int) -> None:
        """Count so many more. Raises RefusedError (OverLimit; ServiceUnavailable for races)."""
        allowed = (await self.quotas.find_quotas(account)).defined
        others = await counted(self.cell, account)
        here = others.pop(region, DefinitionCount())
        other_queues = sum(each.queues for each in others.values())
        other_bytes = sum(each.size_bytes for each in others.values())
        most_queues = allowed.queues - other_queues - queues
        most_bytes = allowed.size_bytes - other_bytes - size_bytes
        condition: Condition = (
            *(_at_most(_QUEUES, most_queues) if queues and allowed.queues else ()),
            *(_at_most(_SIZE, most_bytes) if allowed.size_bytes else ()),
        )
        for _ in range(_ATTEMPTS_MAX):
            known = DefinitionCount(other_queues + here.queues, other_bytes + here.size_bytes)
            refusal = over(account, allowed, known, DefinitionCount(queues, size_bytes))
            if refusal is not None:
                raise refusal
            written = await self._add(account, region, queues, size_bytes, condition)
            if written is None:
                return
            here = _count(written)
        raise RefusedError(
            SERVICE_UNAVAILABLE, f"Too many concurrent changes of queues of account {account}."
        )

    async def give_back(self, account: str, region: str, queues: int, size_bytes: int) -> None:
        """Count so many less; where no queue is left, nothing is counted any more."""
        key = _key(account, region)
        written = await self.cell.update(key, _moved({_QUEUES: -queues, _SIZE: -size_bytes}))
        if queues and _count(written.before or {}).queues <= queues:
            await self.cell.delete(key, ((Absent(_QUEUES), LessThan(_QUEUES, 1)),))

    async def _add(
        self, account: str, region: str, queues: int, size_bytes: int, condition: Condition
    ) -> Attributes | None:
        """Add so much; what is counted where there is no room for it."""
        change = _moved({_QUEUES: queues, _SIZE: size_bytes})
        written = await self.cell.update(_key(account, region), change, condition)
        return None if written.applied else written.before or {}


def _moved(amounts: Attributes) -> Update:
    return Update({"v": _FORMAT}, {name: amount for name, amount in amounts.items() if amount})


def _at_most(name: str, most: int) -> Condition:
    return ((Absent(name), LessThan(name, most + 1)),)


def _count(item: Attributes) -> DefinitionCount:
    """What an item says; below 0 it lacks what was defined before anybody counted."""
    queues, size_bytes = (item.get(name, 0) for name in (_QUEUES, _SIZE))
    return DefinitionCount(
        max(0, queues) if isinstance(queues, int) else 0,
        max(0, size_bytes) if isinstance(size_bytes, int) else 0,
    )
