"""What accounts may define: how many queues, and what their definitions take.

Embedded cells count what is written, and that is known as of about a second ago: an account may
exceed its quota by what it makes in that time. In tables: counted_definitions.py.
"""

from dataclasses import dataclass
from typing import NamedTuple, Protocol

from data_plane.core.errors import OVER_LIMIT, RefusedError
from data_plane.core.quotas import DefinitionQuota
from data_plane.ports import AccountQuotas


class DefinitionCount(NamedTuple):
    """How many queues an account has, and what their definitions take."""

    queues: int = 0
    size_bytes: int = 0


class Defined(Protocol):
    """What lies in the cells of a server."""

    def definitions_of(self, account: str) -> DefinitionCount:
        """The account's queues, and what their definitions take."""
        ...


def over(
    account: str, allowed: DefinitionQuota, known: DefinitionCount, more: DefinitionCount
) -> RefusedError | None:
    """OverLimit where so much more than is known is not allowed."""
    if more.queues and 0 < allowed.queues < known.queues + more.queues:
        return RefusedError(
            OVER_LIMIT,
            f"Account {account} has {known.queues} queues, and its quota is {allowed.queues}.",
        )
    if 0 < allowed.size_bytes < known.size_bytes + more.size_bytes:
        return RefusedError(
            OVER_LIMIT,
            f"Account {account} has {known.size_bytes} bytes of definitions of queues, and its"
            f" quota is {allowed.size_bytes}.",
        )
    return None


@dataclass(frozen=True, slots=True)
class DefinitionRoom:
    """Implements `control_plane.registry.RoomForDefinitions` by what the cells count themselves."""

    quotas: AccountQuotas
    defined: Defined

    async def take(self, account: str, _region: str, queues: int, size_bytes: int) -> None:
        """Raise RefusedError (OverLimit) where so many more queues, or bytes, are too much."""
        allowed = (await self.quotas.find_quotas(account)).defined
        known = self.defined.definitions_of(account)
        refusal = over(account, allowed, known, DefinitionCount(queues, size_bytes))
        if refusal is not None:
            raise refusal

    async def give_back(self, account: str, region: str, queues: int, size_bytes: int) -> None:
        """Nothing: the cells have counted it."""
