"""Which stream, and which shard of it, a request means."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol

from data_plane.core.errors import (
    DRY_RUN,
    INVALID_ARGUMENT,
    RefusedError,
    no_such_shard,
    shard_not_found,
    stream_not_found,
)
from data_plane.core.limits import INTEGER_MAX
from data_plane.core.stream import Shard, Stream, read_stream_arn
from data_plane.protocol.constraints import missing, refuse
from data_plane.protocol.operation import Params, Permission

SERVICE: Final = "kinesis"
_SHARD_PREFIX: Final = "shardId-"


class StreamName(NamedTuple):
    """Whose stream it is, where, and what it is called."""

    account: str
    region: str
    name: str


class KnownStreams(Protocol):
    """Where the data plane learns what a stream is; the control plane answers, from a cache."""

    async def find(self, account: str, region: str, name: str) -> Stream | None:
        """The stream's definition, or None where there is none."""
        ...

    async def renewed(self, stream: Stream) -> Stream:
        """The definition as it is now, once a change of its shards that is under way is done.

        Raises RefusedError where the stream is not there any more.
        """
        ...


def named(account: str, region: str, params: Mapping[str, Any]) -> StreamName:
    """The stream of a request by its name, or its ARN, or both.

    Raises RefusedError, also (ResourceNotFound) for one of another region than the request's, which
    policies go by.
    """
    name, arn = params.get("StreamName"), params.get("StreamARN")
    if not arn:
        if name is None:
            refuse([missing("streamName")])
        return StreamName(account, region, name)
    parts = read_stream_arn(arn)
    if parts is None:
        raise RefusedError(INVALID_ARGUMENT, f"StreamARN {arn} is not the ARN of a stream.")
    found = StreamName(*parts)
    if name and name != found.name:
        raise RefusedError(
            INVALID_ARGUMENT, f"StreamName {name} and StreamARN {arn} name different streams."
        )
    if found.region != region:
        raise stream_not_found(found.name, found.account)
    return found


async def stream_of(streams: KnownStreams, name: StreamName) -> Stream:
    """The stream of this name. Raises RefusedError (ResourceNotFound)."""
    stream = await streams.find(*name)
    if stream is None:
        raise stream_not_found(name.name, name.account)
    return stream


async def present_stream_of(streams: KnownStreams, name: StreamName) -> Stream:
    """The same as it is now, be there another one of its name by now than was known."""
    known = await stream_of(streams, name)
    try:
        return await streams.renewed(known)
    except RefusedError:
        return await streams.renewed(await stream_of(streams, name))


def permission(action: str) -> Callable[[str, str, Params], Awaitable[Sequence[Permission]]]:
    """What a call on the stream that its parameters name needs."""

    async def needed(account: str, region: str, params: Params) -> Sequence[Permission]:
        return [on_stream(action, named(account, region, params))]

    return needed


def on_stream(action: str, name: StreamName) -> Permission:
    """An action on a stream."""
    resource = f"stream/{name.name}"
    return Permission(action, name.account, name.region, resource, SERVICE)


def shard_id(number: int) -> str:
    """A shard's id, as clients see it."""
    return f"{_SHARD_PREFIX}{number:012}"


def shard_number(shard: str, name: StreamName) -> int:
    """The number of a shard's id: of what follows a dash, or of all of it (recorded from AWS).

    Raises RefusedError for what is no number in range.
    """
    _, dash, behind = shard.partition("-")
    digits = behind if dash else shard
    if not (digits.isascii() and digits.isdigit()) or int(digits) > INTEGER_MAX:
        raise no_such_shard(shard, name.name, name.account)
    return int(digits)


async def shard_of(streams: KnownStreams, name: StreamName, shard: str) -> tuple[Stream, Shard]:
    """The stream and its shard; where either is missing, the shard is said to be (AWS)."""
    return await shard_numbered(streams, name, shard_number(shard, name))


async def shard_numbered(
    streams: KnownStreams, name: StreamName, number: int
) -> tuple[Stream, Shard]:
    """The same by the shard's number."""
    stream = await streams.find(*name)
    found = stream.shard(number) if stream is not None else None
    if stream is not None and found is None:
        # Another server may have made it a moment ago.
        stream = await streams.renewed(stream)
        found = stream.shard(number)
    if stream is None or found is None:
        raise shard_not_found(shard_id(number), name.name, name.account)
    return stream, found


def end_dry_run(params: Params) -> None:
    """Raise RefusedError (DryRunOperation) where all was to be checked, and nothing done."""
    if params.get("DryRun"):
        raise RefusedError(DRY_RUN, "The request would have succeeded, and DryRun is set.")
