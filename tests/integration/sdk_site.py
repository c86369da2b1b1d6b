"""What tests of the SDK's producers and consumers share: clients, streams, ledgers."""

import time
from collections.abc import Callable
from typing import Any, Final

from botocore.config import Config

import tidegate_sdk

FACT_S_MAX: Final = 120
"""A fact that takes seconds comes within this."""

_QUICK: Final = Config(
    retries={"total_max_attempts": 2, "mode": "standard"}, connect_timeout=10, read_timeout=60
)


def sdk_client(url: str, service: str) -> Any:
    return tidegate_sdk.client(
        url,
        service,
        region_name="eu-west-1",
        aws_access_key_id="any",
        aws_secret_access_key="any",
        config=_QUICK,
    )


def wait_until(is_so: Callable[[], object], what: str) -> None:
    until_s = time.monotonic() + FACT_S_MAX
    while not is_so():
        assert time.monotonic() < until_s, f"not within {FACT_S_MAX} s: {what}"
        time.sleep(0.02)  # between two looks


def records_of(kinesis: Any, stream: str) -> dict[str, list[dict[str, Any]]]:
    """All records of a stream, by shard, as they lie there."""
    found: dict[str, list[dict[str, Any]]] = {}
    for shard in kinesis.list_shards(StreamName=stream)["Shards"]:
        found[shard["ShardId"]] = records = []
        iterator = kinesis.get_shard_iterator(
            StreamName=stream, ShardId=shard["ShardId"], ShardIteratorType="TRIM_HORIZON"
        )["ShardIterator"]
        while iterator:
            page = kinesis.get_records(ShardIterator=iterator)
            records += page["Records"]
            iterator = page.get("NextShardIterator")
            if not page["Records"] and not page["MillisBehindLatest"]:
                break
    return found
