"""GetShardIterator: a place in a shard, by the five ways to say which."""

from typing import Final

from data_plane.core.errors import INVALID_ARGUMENT, RefusedError, stream_not_found
from data_plane.core.sealing import TokenSeal
from data_plane.core.sequence_number import parse
from data_plane.core.stream import Shard, Stream
from data_plane.operations import shard_iterator
from data_plane.operations.stream_address import (
    KnownStreams,
    end_dry_run,
    named,
    permission,
    shard_id,
    shard_of,
)
from data_plane.operations.strict_streams import StrictStreams
from data_plane.protocol.operation import Call, Operation, Params
from data_plane.protocol.stream_shapes import GET_SHARD_ITERATOR_INPUT, GET_SHARD_ITERATOR_OUTPUT
from data_plane.streams.engine import Streams
from data_plane.streams.reading import Place

_BY_NUMBER: Final = ("AT_SEQUENCE_NUMBER", "AFTER_SEQUENCE_NUMBER")
_OLDEST: Final = Place(1)


def get_shard_iterator(
    engine: Streams, streams: KnownStreams, seal: TokenSeal, strict: StrictStreams | None = None
) -> Operation:
    """The operation over these streams; where they are `strict`, iterators expire."""

    async def perform(call: Call) -> Params:
        params = call.params
        name = named(call.account, call.region, params)
        stream, shard = await shard_of(streams, name, params["ShardId"])
        if stream.creating_until_us > call.now_us:
            raise stream_not_found(name.name, name.account)
        _check(params, call.now_us)
        end_dry_run(params)
        place = await _place(engine, stream, shard, params)
        made_ms = 0 if strict is None else strict.now_ms()
        return {"ShardIterator": shard_iterator.to_text(seal, stream, shard, place, made_ms)}

    return Operation(
        "GetShardIterator",
        GET_SHARD_ITERATOR_INPUT,
        GET_SHARD_ITERATOR_OUTPUT,
        perform,
        on_queue=False,
        permissions=permission("GetShardIterator"),
    )


def _check(params: Params, now_us: int) -> None:
    """Raise RefusedError where the type and what goes with it do not fit."""
    kind = params["ShardIteratorType"]
    number, time_ms = params.get("StartingSequenceNumber"), params.get("Timestamp")
    if (kind in _BY_NUMBER) != (number is not None):
        given = "no StartingSequenceNumber" if number is None else "also a StartingSequenceNumber"
        raise RefusedError(
            INVALID_ARGUMENT,
            "Must either specify (1) AT_SEQUENCE_NUMBER or AFTER_SEQUENCE_NUMBER and"
            " StartingSequenceNumber or (2) TRIM_HORIZON or LATEST and no StartingSequenceNumber."
            f" Request specified {kind} and {given}.",
        )
    if kind != "AT_TIMESTAMP":
        return
    if time_ms is None:
        raise RefusedError(
            INVALID_ARGUMENT,
            "Must specify timestampInMillis parameter for iterator of type AT_TIMESTAMP. Current"
            " request has no timestamp parameter.",
        )
    now_ms = now_us // 1_000
    if time_ms > now_ms:
        raise RefusedError(
            INVALID_ARGUMENT,
            "The timestampInMillis parameter cannot be greater than the currentTimestampInMillis."
            f" timestampInMillis: {time_ms}, currentTimestampInMillis: {now_ms}",
        )


async def _place(engine: Streams, stream: Stream, shard: Shard, params: Params) -> Place:
    match params["ShardIteratorType"]:
        case "TRIM_HORIZON":
            return _OLDEST
        case "LATEST":
            return await engine.latest(stream, shard)
        case "AT_TIMESTAMP":
            return await engine.since(stream, shard, params["Timestamp"] * 1_000)
        case kind:
            offset = _offset(stream, shard, params["StartingSequenceNumber"])
            return await engine.place_of(stream, shard, offset + (kind == _BY_NUMBER[1]))


def _offset(stream: Stream, shard: Shard, text: str) -> int:
    """The offset of a sequence number of this very shard. Raises RefusedError."""
    used = (
        f"StartingSequenceNumber {text} used in GetShardIterator on shard {shard_id(shard.number)}"
        f" in stream {stream.name} under account {stream.account} is invalid"
    )
    try:
        number = parse(text)
    except ValueError:
        raise RefusedError(INVALID_ARGUMENT, f"{used}.") from None
    if number.shard != shard.number:
        raise RefusedError(
            INVALID_ARGUMENT,
            f"Invalid StartingSequenceNumber. It encodes {shard_id(number.shard)}, while it was"
            f" used in a call to a shard with {shard_id(shard.number)}",
        )
    if number.made_s != shard.made_s:
        why = "because it did not come from this stream."
        raise RefusedError(INVALID_ARGUMENT, f"{used} {why}")
    return number.offset
