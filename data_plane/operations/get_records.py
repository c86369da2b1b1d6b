"""GetRecords: what there is from an iterator on, and the iterator that goes on from there."""

from collections.abc import Sequence
from typing import Any, Final

from data_plane.core.errors import shard_not_found
from data_plane.core.sealing import TokenSeal
from data_plane.core.sequence_number import sequence_number
from data_plane.core.stream import Shard, Stream
from data_plane.operations import shard_iterator
from data_plane.operations.stream_address import (
    KnownStreams,
    StreamName,
    end_dry_run,
    on_stream,
    shard_id,
)
from data_plane.protocol.operation import Call, Operation, Params, Permission, Work
from data_plane.protocol.stream_shapes import GET_RECORDS_INPUT, GET_RECORDS_OUTPUT, WAIT
from data_plane.streams.bounds import READ_RECORDS_MAX
from data_plane.streams.engine import Streams
from data_plane.streams.reading import Read

_US_PER_S: Final = 1_000_000
_KMS: Final = {"EncryptionType": "KMS"}


def get_records(engine: Streams, streams: KnownStreams, seal: TokenSeal) -> Operation:
    """The operation over these streams."""

    async def perform(call: Call) -> Params:
        params = call.params
        iterator = shard_iterator.from_text(seal, params["ShardIterator"])
        stream = await streams.find(*iterator.stream)
        shard = stream.shard(iterator.shard) if stream is not None else None
        if stream is None or shard is None or stream.uid != iterator.uid:
            raise shard_not_found(shard_id(iterator.shard), iterator.name, iterator.account)
        end_dry_run(params)
        page = await engine.read(
            stream,
            shard,
            iterator.place,
            records_max=params.get("Limit", READ_RECORDS_MAX),
            until_us=call.now_us + params.get(WAIT, 0) * _US_PER_S,
        )
        if page.place is None and not stream.children_of(shard.number):
            stream = await streams.renewed(stream)
        return _rendered(stream, shard, page, seal)

    async def needed(account: str, region: str, params: Params) -> Sequence[Permission]:
        text = params.get("ShardIterator")
        if not text:  # It is refused for that, once somebody is known who may call at all.
            return [on_stream("GetRecords", StreamName(account, region, "*"))]
        return [on_stream("GetRecords", shard_iterator.from_text(seal, text).stream)]

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


def _rendered(stream: Stream, shard: Shard, page: Read, seal: TokenSeal) -> dict[str, Any]:
    sealed_by = _KMS if stream.master_key_id else {}
    records: list[dict[str, Any]] = [
        {
            "SequenceNumber": sequence_number(shard, record.offset, record.stamp_us),
            "ApproximateArrivalTimestamp": record.arrived_us // 1_000,
            "Data": record.data,
            **({"PartitionKey": record.partition_key} if record.partition_key is not None else {}),
            **sealed_by,
        }
        for record in page.records
    ]
    output: dict[str, Any] = {"Records": records, "MillisBehindLatest": page.behind_ms}
    if page.place is not None:
        output["NextShardIterator"] = shard_iterator.to_text(seal, stream, shard, page.place)
    else:
        output["ChildShards"] = [
            {
                "ShardId": shard_id(child.number),
                "ParentShards": [shard_id(parent) for parent in child.parents],
                "HashKeyRange": hash_key_range(child),
            }
            for child in stream.children_of(shard.number)
        ]
    return output


def hash_key_range(shard: Shard) -> dict[str, str]:
    """A shard's hash keys, as clients see them."""
    return {"StartingHashKey": str(shard.first_hash), "EndingHashKey": str(shard.last_hash)}


def _measure(_params: Params, output: Params) -> Work:
    records = output["Records"]
    size_bytes = sum(
        len(record["Data"]) + len(record.get("PartitionKey", "").encode()) for record in records
    )
    return Work(len(records), size_bytes, behind_ms=output["MillisBehindLatest"])
