"""The book of a stream tells what readers lack, have twice, out of order, or elsewhere."""

import pytest

from data_plane.core.sequence_number import sequence_number
from data_plane.core.stream import HASH_KEY_MAX, Shard
from tests.drills.stream_book import StreamBook
from tests.simulation.streams.reading import Reading

FIRST, SECOND = (Shard(number, 0, HASH_KEY_MAX, 1_800_000_000) for number in range(2))


def record(data: str, offset: int, shard: Shard = FIRST) -> dict[str, str]:
    return {"SequenceNumber": sequence_number(shard, offset, 1), "Data": data}


def book() -> StreamBook:
    """Two records of a key were acknowledged, and one of another; a fourth was not."""
    made = StreamBook("s")
    assert made.put_asked("a", 2) == ["a:0", "a:1"]
    made.put_answered(["a:0", "a:1"], [record("", 1), record("", 2)])
    made.put_answered(made.put_asked("b", 1), [record("", 1, SECOND)])
    made.put_answered(made.put_asked("b", 1), [{"ErrorCode": "InternalFailure"}])
    assert made.tally["sends"] == 3
    return made


WELL = (record("a:0", 1), record("a:1", 2), record("b:0", 1, SECOND))


@pytest.mark.parametrize(
    ("read", "kinds"),
    [
        (WELL, []),
        ((*WELL, record("b:1", 2, SECOND)), []),
        (WELL[:2], ["lost"]),
        ((WELL[0], record("a:1", 2, SECOND), WELL[2]), ["altered", "count"]),
        ((*WELL, record("a:1", 3)), ["duplicate"]),
        ((record("a:1", 2), record("a:0", 1), WELL[2]), ["order", "count"]),
        ((*WELL, record("b:1", 3, SECOND)), ["count"]),
    ],
)
def test_what_readers_lack_or_have_too_much_is_told(
    read: tuple[dict[str, str], ...], kinds: list[str]
) -> None:
    made, reading = book(), Reading("reader", "s", 0)
    for one in read:
        reading.take(0, {"Records": [one], "NextShardIterator": "more"})
    made.check(reading, made.known())
    assert sorted({one.kind for one in made.violations}) == sorted(kinds)
