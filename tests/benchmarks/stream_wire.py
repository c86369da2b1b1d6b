"""Requests on streams, prepared as those on queues are (wire.py), and what is read of responses."""

import base64
import random
import re
from typing import Final

from tests.benchmarks.wire import BODY_BYTES, STREAMS, VARIANTS, Request, message_body, request

KEYS: Final = 1_000
"""Distinct partition keys."""

_BATCH_VARIANTS: Final = 8
"""Distinct requests of many records."""

_NEXT: Final = re.compile(rb'"NextShardIterator" ?: ?"([^"]+)"')
_ITERATOR: Final = re.compile(rb'"ShardIterator" ?: ?"([^"]+)"')
_FAILED_COUNT: Final = re.compile(rb'"FailedRecordCount" ?: ?([1-9]\d*)')
_NUMBER: Final = b'"SequenceNumber"'


def put_requests(
    port: int, stream: str, records: int, size_bytes: int, keys: int = 0
) -> list[Request]:
    """PutRecord of one record of such a size, or PutRecords of several.

    With `keys` all of a call have one, of so many; without, each has one that is drawn.
    """
    if records == 1:
        return [
            request(
                port,
                "PutRecord",
                {"StreamName": stream, **_record(random.Random(seed), size_bytes)},
                seed,
                service=STREAMS,
            )
            for seed in range(VARIANTS)
        ]
    requests = []
    for seed in range(keys or _BATCH_VARIANTS):
        source = random.Random(seed)
        entries = [_record(source, size_bytes) for _ in range(records)]
        if keys:
            entries = [{**entry, "PartitionKey": f"key-{seed}"} for entry in entries]
        params = {"StreamName": stream, "Records": entries}
        requests.append(request(port, "PutRecords", params, seed, service=STREAMS))
    return requests


def _record(source: random.Random, size_bytes: int) -> dict[str, str]:
    text = message_body(source) if size_bytes == BODY_BYTES else source.randbytes(size_bytes).hex()
    data = base64.b64encode(text.encode()[:size_bytes]).decode()
    return {"Data": data, "PartitionKey": f"key-{source.randrange(KEYS)}"}


def iterator_request(port: int, stream: str, shard: int) -> Request:
    """GetShardIterator at the oldest record of a shard."""
    params = {
        "StreamName": stream,
        "ShardId": f"shardId-{shard:012}",
        "ShardIteratorType": "TRIM_HORIZON",
    }
    return request(port, "GetShardIterator", params, service=STREAMS)


def iterator_after_request(port: int, stream: str, shard: int, number: str) -> Request:
    """GetShardIterator behind a record."""
    params = {
        "StreamName": stream,
        "ShardId": f"shardId-{shard:012}",
        "ShardIteratorType": "AFTER_SEQUENCE_NUMBER",
        "StartingSequenceNumber": number,
    }
    return request(port, "GetShardIterator", params, service=STREAMS)


def get_request(port: int, iterator: bytes, limit: int) -> Request:
    """GetRecords of so many."""
    params = {"ShardIterator": iterator.decode(), "Limit": limit}
    return request(port, "GetRecords", params, service=STREAMS)


def shard_iterator(received: bytes) -> bytes:
    """The iterator in a response of GetShardIterator."""
    found = _ITERATOR.search(received)
    assert found is not None
    return found[1]


def next_iterator(received: bytes) -> bytes | None:
    """Where a response of GetRecords ends; None at the end of a shard."""
    found = _NEXT.search(received, len(received) // 2) or _NEXT.search(received)
    return found[1] if found else None


def record_count(received: bytes) -> int:
    """How many records a response of GetRecords has."""
    return received.count(_NUMBER)


def failed_records(received: bytes) -> int:
    """How many records a response of PutRecords says were not stored."""
    found = _FAILED_COUNT.search(received)
    return int(found[1]) if found else 0
