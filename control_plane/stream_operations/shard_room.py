"""How many open shards a stream, and an account in a region, may have."""

from dataclasses import dataclass
from typing import NamedTuple

from control_plane.core.stream_definition import ON_DEMAND
from control_plane.streams import StreamRegistry
from data_plane.core.errors import LIMIT_EXCEEDED, RefusedError
from data_plane.core.limits import ACCOUNT_SHARDS_MAX, QUOTA_STREAMS_DEFAULT, STREAM_SHARDS_MAX
from data_plane.core.quotas import UNLIMITED, DefinitionQuota
from data_plane.ports import AccountQuotas


class ShardLimits(NamedTuple):
    """What an account is told that it may have."""

    shards: int
    streams: int


class _Opened(NamedTuple):
    """The open shards of an account in a region, and its streams on demand there."""

    shards: int
    on_demand: int


async def count_open(registry: StreamRegistry, account: str, region: str) -> _Opened:
    """How many open shards the account has in a region, and streams on demand."""
    opened = on_demand = 0
    async for definition in registry.all_of(account, region):
        opened += sum(shard.is_open for shard in definition.shards)
        on_demand += definition.mode == ON_DEMAND
    return _Opened(opened, on_demand)


@dataclass(frozen=True, slots=True)
class ShardRoom:
    """What accounts may have of shards by their `quotas` (None: nobody has one).

    Streams that are made, or split, at the same moment may exceed an account's quota.
    """

    registry: StreamRegistry
    quotas: AccountQuotas | None = None

    async def limits(self, account: str) -> ShardLimits:
        """What the account is told; of what has no limit, what accounts get by default."""
        allowed = await self._allowed(account)
        return ShardLimits(
            allowed.shards or ACCOUNT_SHARDS_MAX, allowed.streams or QUOTA_STREAMS_DEFAULT
        )

    async def check(self, account: str, region: str, of_stream: int, more: int) -> None:
        """Raise RefusedError (LimitExceeded) where a stream would have, by so many more, too many.

        So many `of_stream` it would have then.
        """
        if more <= 0:
            return
        allowed = (await self._allowed(account)).shards
        is_too_big = of_stream > STREAM_SHARDS_MAX
        if not allowed and not is_too_big:
            return
        if is_too_big:
            raise RefusedError(
                LIMIT_EXCEEDED,
                f"This request would exceed the shard limit of a stream. It would have {of_stream}"
                f" open shards. Limit: {STREAM_SHARDS_MAX}.",
            )
        opened = (await count_open(self.registry, account, region)).shards
        if opened + more > allowed:
            raise _refusal(account, region, opened, allowed, more)

    async def _allowed(self, account: str) -> DefinitionQuota:
        allowed = UNLIMITED if self.quotas is None else await self.quotas.find_quotas(account)
        return allowed.defined


def _refusal(account: str, region: str, opened: int, limit: int, more: int) -> RefusedError:
    return RefusedError(
        LIMIT_EXCEEDED,
        f"This request would exceed the shard limit for the account {account} in"
        f" {region}. Current shard count for the account: {opened}. Limit: {limit}."
        f" Number of additional shards that would have resulted from this request: {more}."
        " Refer to the AWS Service Limits page"
        " (http://docs.aws.amazon.com/general/latest/gr/aws_service_limits.html) for current"
        " limits and how to request higher limits.",
    )
