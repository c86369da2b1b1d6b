"""Which shards of a stream take records, and the hash keys of each."""

from collections.abc import Iterable
from typing import Any

from tidegate_sdk.outbox import HashRange


def open_shards(client: Any, stream: dict[str, str]) -> Iterable[HashRange]:
    """Ask for them, page by page. Raises what the client raises."""
    asked: dict[str, Any] = {**stream, "ShardFilter": {"Type": "AT_LATEST"}}
    while asked:
        page = client.list_shards(**asked)
        for shard in page["Shards"]:
            keys = shard["HashKeyRange"]
            if "EndingSequenceNumber" not in shard["SequenceNumberRange"]:
                yield HashRange(
                    int(keys["StartingHashKey"]), int(keys["EndingHashKey"]), shard["ShardId"]
                )
        token = page.get("NextToken")
        asked = {"NextToken": token} if token else {}
