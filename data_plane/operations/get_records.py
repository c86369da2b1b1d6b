"""GetRecords: what there is from an iterator on, and the iterator that goes on from there."""

from collections.abc import Generator, Sequence
from typing import Any, Final

from data_plane.core.errors import INVALID_ARGUMENT, RefusedError, shard_not_found
from data_plane.core.message import LONG_TERM
from data_plane.core.sealing import TokenSeal
from data_plane.core.sequence_number import sequence_numbers
from data_plane.core.stream import Shard, Stream
from data_plane.core.turns import InTurns, at_once
from data_plane.operations import shard_iterator
from data_plane.operations.shard_iterator import ShardIterator
from data_plane.operations.stream_address import (
    KnownStreams,
    StreamName,
    end_dry_run,
    named,
    on_stream,
    shard_id,
    shard_numbered,
)
from data_plane.operations.strict_streams import StrictStreams
from data_plane.protocol.operation import Call, Operation, Params, Permission, Work
from data_plane.protocol.stream_shapes import GET_RECORDS_INPUT, GET_RECORDS_OUTPUT, WAIT
from data_plane.streams.bounds import READ_RECORDS_MAX
from data_plane.streams.engine import Streams
from data_plane.streams.reading import Read

_US_PER_S: Final = 1_000_000
_AT_A_TIME: Final = 1_000
"""Records that are rendered within a millisecond."""
_KMS: Final = {"EncryptionType": "KMS"}


def get_records(
    engine: Streams,
    streams: KnownStreams,
    seal: TokenSeal,
    in_turns: InTurns = at_once,
    strict: StrictStreams | None = None,
) -> Operation:
    """The operation over these streams; where they are `strict`, as seldom as AWS has it."""

    async def perform(call: Call) -> Params:
        params = call.params
        iterator = _iterator(seal, call.region, params)
        arn = params.get("StreamARN")
        if arn is not None and named(call.account, call.region, params) != iterator.stream:
            raise RefusedError(
                INVALID_ARGUMENT, f"The iterator and StreamARN {arn} name different streams."
            )
        stream, shard = await _shard(streams, iterator)
        if strict is not None:
            strict.check_iterator(iterator.made_ms)
            strict.check_read(stream, shard)
        end_dry_run(params)

        async def look_again() -> None:
            await _shard(streams, iterator)

        page = await engine.read(
            stream,
            shard,
            iterator.place,
            records_max=params.get("Limit", READ_RECORDS_MAX),
            until_us=call.now_us + params.get(WAIT, 0) * _US_PER_S,
            look_again=look_again,
        )
        if page.place is None and not stream.children_of(shard.number):
            stream = await streams.renewed(stream)
        call.stored.kind = LONG_TERM if page.long_term else ""
        output = await in_turns(_rendered(stream, shard, page))
        made_ms = 0
        if strict is not None:
            made_ms = strict.now_ms()
            strict.note_read(stream, shard, _measure(params, output).size)
        return {**output, **_going_on(stream, shard, page, seal, made_ms)}

    async def needed(account: str, region: str, params: Params) -> Sequence[Permission]:
        if not params.get("ShardIterator"):
            # It is refused for that, once somebody is known who may call at all.
            return [on_stream("GetRecords", StreamName(account, region, "*"))]
        return [on_stream("GetRecords", _iterator(seal, region, params).stream)]

    return Operation(
        "GetRecords",
        GET_RECORDS_INPUT,
        GET_RECORDS_OUTPUT,
        perform,
        on_queue=False,
        measure=_measure,
        permissions=needed,
        wait_member=WAIT,
    )


def _iterator(seal: TokenSeal, region: str, params: Params) -> ShardIterator:
    """What the call's iterator says. Raises RefusedError, also where it is of another region."""
    iterator = shard_iterator.from_text(seal, params["ShardIterator"])
    if iterator.region != region:
        raise _not_found(iterator)
    return iterator


async def _shard(streams: KnownStreams, iterator: ShardIterator) -> tuple[Stream, Shard]:
    """Where the iterator leads. Raises RefusedError (ResourceNotFound)."""
    stream, shard = await shard_numbered(streams, iterator.stream, iterator.shard)
    if stream.uid != iterator.uid:
        raise _not_found(iterator)
    return stream, shard


def _not_found(iterator: ShardIterator) -> RefusedError:
    return shard_not_found(shard_id(iterator.shard), iterator.name, iterator.account)


def _rendered(stream: Stream, shard: Shard, page: Read) -> Generator[None, None, dict[str, Any]]:
    """The records, so many at a time."""
    sealed_by = _KMS if stream.master_key_id else {}
    records: list[dict[str, Any]] = []
    for first in range(0, len(page.records), _AT_A_TIME):
        some = page.records[first : first + _AT_A_TIME]
        numbers = sequence_numbers(shard, [record[:2] for record in some])
        records += [
            {
                "SequenceNumber": number,
                "ApproximateArrivalTimestamp": record.arrived_us // 1_000,
                "Data": record.data,
                **({} if record.partition_key is None else {"PartitionKey": record.partition_key}),
                **sealed_by,
            }
            for record, number in zip(some, numbers, strict=True)
        ]
        yield
    return {"Records": records, "MillisBehindLatest": page.behind_ms}


def _going_on(
    stream: Stream, shard: Shard, page: Read, seal: TokenSeal, made_ms: int
) -> dict[str, Any]:
    """Where to read on: from the next iterator, or in the children of a shard that has ended."""
    if page.place is not None:
        return {
            "NextShardIterator": shard_iterator.to_text(seal, stream, shard, page.place, made_ms)
        }
    return {
        "ChildShards": [
            {
                "ShardId": shard_id(child.number),
                "ParentShards": [shard_id(parent) for parent in child.parents],
                "HashKeyRange": hash_key_range(child),
            }
            for child in stream.children_of(shard.number)
        ]
    }


def hash_key_range(shard: Shard) -> dict[str, str]:
    """A shard's hash keys, as clients see them."""
    return {"StartingHashKey": str(shard.first_hash), "EndingHashKey": str(shard.last_hash)}


def _measure(_params: Params, output: Params) -> Work:
    records = output["Records"]
    size_bytes = sum(
        len(record["Data"]) + len(record.get("PartitionKey", "").encode()) for record in records
    )
    return Work(len(records), size_bytes, behind_ms=output["MillisBehindLatest"])
