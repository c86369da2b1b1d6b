"""Numbers of shards in their ids: 0 to 2147483647, with as many zeros before as there may be."""

import pytest

from data_plane.core.errors import RefusedError
from data_plane.operations.stream_address import StreamName, shard_number

STREAM = StreamName("123456789012", "eu-central-1", "clicks")


@pytest.mark.parametrize(
    ("shard", "number"),
    [
        ("shardId-000000000005", 5),
        ("5", 5),
        ("x-0", 0),
        ("2147483647", 2147483647),
        (f"{0:0100}7", 7),
    ],
)
def test_what_follows_a_dash_is_the_number(shard: str, number: int) -> None:
    assert shard_number(shard, STREAM) == number


@pytest.mark.parametrize(
    "shard", ["shardId-x", "shardId-", "x-1-2", "2147483648", f"{0:020}2147483648", "9" * 128]
)
def test_what_is_out_of_range_is_no_shard(shard: str) -> None:
    with pytest.raises(RefusedError, match=f"Could not find shard {shard} in"):
        shard_number(shard, STREAM)
