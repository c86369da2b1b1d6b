"""How shards of consumer groups are shown."""

from data_plane.core.sequence_number import parse

NOTHING = "-"
_SHARD_END = "SHARD_END"


def stream_of(arn: str) -> str:
    """The name of a stream."""
    return arn.rpartition("/")[2]


def number_of(shard_id: str) -> str:
    """The number of a shard."""
    return str(int(shard_id.rpartition("-")[2]))


def done(number: str | None) -> str:
    """How far a shard is done: the last record counts so many from the shard's first on."""
    if number is None:
        return NOTHING
    return "all" if number == _SHARD_END else str(parse(number).offset)
