"""What accounts define in a table, counted where it is defined, so that quotas hold exactly.

docs/storage.md, "Definitions of an account, on tables".
"""

from collections.abc import Iterable
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
_STREAMS: Final = "s"
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

    async def take(self, account: str, region: str, more: DefinitionCount) -> None:
        """Count so much more. Raises RefusedError (OverLimit; ServiceUnavailable for races)."""
        allowed = (await self.quotas.find_quotas(account)).defined
        others = await counted(self.cell, account)
        here = others.pop(region, DefinitionCount())
        elsewhere = _sum(others.values())
        limits = (
            (_QUEUES, more.queues, allowed.queues, elsewhere.queues),
            (_STREAMS, more.streams, allowed.streams, elsewhere.streams),
            (_SIZE, more.size_bytes, allowed.size_bytes, elsewhere.size_bytes),
        )
        condition: Condition = tuple(
            (Absent(name), LessThan(name, quota - others_have - amount + 1))
            for name, amount, quota, others_have in limits
            if amount and quota
        )
        for _ in range(_ATTEMPTS_MAX):
            refusal = over(account, allowed, _sum((elsewhere, here)), more)
            if refusal is not None:
                raise refusal
            written = await self._add(account, region, more, condition)
            if written is None:
                return
            here = _count(written)
        raise RefusedError(
            SERVICE_UNAVAILABLE, f"Too many concurrent changes of definitions of account {account}."
        )

    async def give_back(self, account: str, region: str, less: DefinitionCount) -> None:
        """Count so much less; where nothing is left, nothing is counted any more."""
        key = _key(account, region)
        written = await self.cell.update(key, _moved(DefinitionCount(*(-one for one in less))))
        before = _count(written.before or {})
        if (less.queues or less.streams) and (
            before.queues <= less.queues and before.streams <= less.streams
        ):
            none_left = tuple((Absent(name), LessThan(name, 1)) for name in (_QUEUES, _STREAMS))
            await self.cell.delete(key, none_left)

    async def _add(
        self, account: str, region: str, more: DefinitionCount, condition: Condition
    ) -> Attributes | None:
        """Add so much; what is counted where there is no room for it."""
        written = await self.cell.update(_key(account, region), _moved(more), condition)
        return None if written.applied else written.before or {}


def _moved(amounts: DefinitionCount) -> Update:
    named = {_QUEUES: amounts.queues, _SIZE: amounts.size_bytes, _STREAMS: amounts.streams}
    return Update({"v": _FORMAT}, {name: amount for name, amount in named.items() if amount})


def _sum(counts: Iterable[DefinitionCount]) -> DefinitionCount:
    return DefinitionCount(*map(sum, zip(DefinitionCount(), *counts, strict=True)))


def _count(item: Attributes) -> DefinitionCount:
    """What an item says; below 0 it lacks what was defined before anybody counted."""
    found = (item.get(name, 0) for name in (_QUEUES, _SIZE, _STREAMS))
    return DefinitionCount(*(max(0, one) if isinstance(one, int) else 0 for one in found))
