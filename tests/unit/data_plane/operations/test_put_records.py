"""Records follow shards that are closed while they are put; but not those whose fate is unknown."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from data_plane.core.record import Numbered, OutgoingRecord, Put, PutCall
from data_plane.core.stream import HASH_KEY_MAX, Shard, Stream
from data_plane.operations.put_records import Puts
from data_plane.ports import CellUnavailableError
from data_plane.protocol.operation import Call, Params
from data_plane.runtime.event_loop import EventLoopWaits
from data_plane.streams.appending import PutOutcome, ShardClosedError
from tests.unit.data_plane.streams.conftest import HALF, stream_at
from tests.unit.repeatable import HandClock

BEFORE = stream_at(1_800_000_000_000_000)
CHILD = Shard(2, 0, HASH_KEY_MAX, BEFORE.shards[0].made_s + 1, 0, 1)
AFTER = replace(BEFORE, shards=(*(one._replace(closed_us=10**16) for one in BEFORE.shards), CHILD))


class Engine:
    """Shard 0 does not answer, shard 1 was closed, and all else takes what it gets."""

    def __init__(self) -> None:
        self.asked: list[tuple[int, list[bytes], bool]] = []

    async def put(
        self,
        _stream: Stream,
        shard: Shard,
        records: Mapping[int, OutgoingRecord],
        call: PutCall,
        _numbered: Numbered | None,
    ) -> PutOutcome:
        self.asked.append(
            (shard.number, [record.data for record in records.values()], call.repeated)
        )
        if shard.number == 0:
            return PutOutcome({min(records): Put(7, 1)}, CellUnavailableError("no answer"))
        if shard.number == 1:
            return PutOutcome({}, ShardClosedError())
        return PutOutcome({position: Put(n + 1, 2) for n, position in enumerate(records)}, None)

    async def produced(self, *_of_whom: object) -> None:
        return None

    async def stored_of(self, *_of_what: object) -> dict[int, Put]:
        return {}


class Known:
    async def find(self, *_name: str) -> Stream:
        return BEFORE

    async def renewed(self, _stream: Stream) -> Stream:
        return AFTER


def put(engine: Any, params: Params, hashes: Sequence[int], **entry: str) -> Any:
    puts = Puts(engine, Known(), EventLoopWaits(HandClock()))
    call = Call("r", "123456789012", "eu-central-1", "", 1, params, invocation_id="i")
    entries = [
        {"PartitionKey": "k", "ExplicitHashKey": str(hash_key), "Data": b"%d" % n}
        | {name: text.format(n) for name, text in entry.items()}
        for n, hash_key in enumerate(hashes)
    ]
    return asyncio.run(puts.put("PutRecords", call, BEFORE, entries))


def test_what_may_be_stored_is_not_put_into_a_child() -> None:
    engine = Engine()
    putting = put(engine, {}, (0, 1, HALF, HALF + 1))
    assert engine.asked == [
        (0, [b"0", b"1"], False),
        (1, [b"2", b"3"], False),
        (2, [b"2", b"3"], True),
    ]
    where = {at: shard.number for at, (shard, _) in putting.stored.items()}
    assert where == {0: 0, 2: 2, 3: 2}
    assert putting.failed.keys() == {1}


def test_nothing_is_put_above_a_number_that_failed_in_another_parent() -> None:
    """A shard knows a producer by its last number: what failed could not be put again."""
    engine = Engine()
    params = {"TidegateProducerId": "p"}
    putting = put(engine, params, (HALF, 0, 1, HALF + 1), TidegateSequence="{}")
    assert engine.asked == [
        (1, [b"0", b"3"], False),
        (0, [b"1", b"2"], False),
        (2, [b"0"], True),
    ]
    assert {at: shard.number for at, (shard, _) in putting.stored.items()} == {1: 0, 0: 2}
    assert putting.failed.keys() == {2, 3}
