"""What accounts may define: how many queues and streams, and what their definitions take.

Embedded cells count what is written, and that is known as of about a second ago: an account may
exceed its quota by what it makes in that time. In tables: counted_definitions.py.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from data_plane.core.errors import OVER_LIMIT, RefusedError
from data_plane.core.quotas import DefinitionQuota
from data_plane.ports import AccountQuotas


class DefinitionCount(NamedTuple):
    """How many queues and streams an account has, and what their definitions take."""

    queues: int = 0
    size_bytes: int = 0
    streams: int = 0


class Defined(Protocol):
    """What lies in the cells of a server."""

    def definitions_of(self, account: str) -> DefinitionCount:
        """The account's queues and streams, and what their definitions take."""
        ...


def text_bytes(item: Mapping[str, object]) -> int:
    """What may be long of a definition: its texts."""
    return sum(
        len(value.encode("utf-8", "surrogatepass"))
        for value in item.values()
        if isinstance(value, str)
    )


def over(
    account: str, allowed: DefinitionQuota, known: DefinitionCount, more: DefinitionCount
) -> RefusedError | None:
    """OverLimit where so much more than is known is not allowed."""
    if more.queues and 0 < allowed.queues < known.queues + more.queues:
        return RefusedError(
            OVER_LIMIT,
            f"Account {account} has {known.queues} queues, and its quota is {allowed.queues}.",
        )
    if more.streams and 0 < allowed.streams < known.streams + more.streams:
        return RefusedError(
            OVER_LIMIT,
            f"Account {account} has {known.streams} streams, and its quota is {allowed.streams}.",
        )
    if 0 < allowed.size_bytes < known.size_bytes + more.size_bytes:
        return RefusedError(
            OVER_LIMIT,
            f"Account {account} has {known.size_bytes} bytes of definitions, and its quota is"
            f" {allowed.size_bytes}.",
        )
    return None


@dataclass(frozen=True, slots=True)
class DefinitionRoom:
    """Implements `control_plane.registry.RoomForDefinitions` by what the cells count themselves."""

    quotas: AccountQuotas
    defined: Defined

    async def take(self, account: str, _region: str, more: DefinitionCount) -> None:
        """Raise RefusedError (OverLimit) where so much more is too much."""
        allowed = (await self.quotas.find_quotas(account)).defined
        known = self.defined.definitions_of(account)
        refusal = over(account, allowed, known, more)
        if refusal is not None:
            raise refusal

    async def give_back(self, account: str, region: str, less: DefinitionCount) -> None:
        """Nothing: the cells have counted it."""
