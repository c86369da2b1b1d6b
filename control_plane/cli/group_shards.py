"""How shards of consumer groups are shown."""

from data_plane.core.sequence_number import parse

_SHARD_END = "SHARD_END"


def stream_of(arn: str) -> str:
    """The name of a stream."""
    return arn.rpartition("/")[2]


def number_of(shard_id: str) -> int:
    """The number of a shard."""
    return int(shard_id.rpartition("-")[2])


def done(number: str | None) -> int | str | None:
    """How far a shard is done: the last record counts so many from the shard's first on."""
    if number is None:
        return None
    return "all" if number == _SHARD_END else parse(number).offset
