"""Repeated calls whose messages went to several lanes, or only in part."""

import pytest

from data_plane.bag.calls import CallPart, find_parts, ids_of_parts, known_ids, merge_ids
from data_plane.core.message import Outgoing, SendCall
from data_plane.memory.cell import MemoryCell
from data_plane.ports import Append, Appended, Attributes, CellUnavailableError, Key
from data_plane.stored import keys
from data_plane.stored.segment import (
    CallInSegment,
    LoadedSegment,
    pack_calls,
    pack_message,
    seal,
)
from tests.unit.data_plane.bag.conftest import QUEUE, Bench
from tests.unit.data_plane.bag.tenancy import NOISY, QUIET, Tenancy

CALL, OTHER_CALL = bytes(range(16)), bytes(range(1, 17))


class PartlyFailingCell(MemoryCell):
    """Refuses, or loses the replies of, appends to one lane."""

    failing_lane = -1
    loses_replies = False

    async def append(self, record: Append) -> Appended:
        fails = record.partition == keys.segments(QUEUE.uid, self.failing_lane, 0)
        if fails and not self.loses_replies:
            raise CellUnavailableError("lost")
        appended = await super().append(record)
        if fails:
            raise CellUnavailableError("the reply was lost")
        return appended


@pytest.fixture(params=[True, False], ids=["stamps chosen", "stamps proposed"])
def tenancy(request: pytest.FixtureRequest) -> Tenancy:
    bench = Bench()
    bench.cell = PartlyFailingCell(bench.clock, stamps=request.param)
    bench.bag = bench.front_end()
    return Tenancy(bench)


async def mixed_batch(tenancy: Tenancy) -> list[Outgoing]:
    """A batch over three lanes."""
    await tenancy.send("very noisy", 1_000)
    await tenancy.send(NOISY, 100)
    groups = {QUIET: 0, "very noisy": 0, NOISY: 0, "": 0, "another": 1, "one more": 1}
    return [tenancy.message(group, delay_s) for group, delay_s in groups.items()]


def stored_copies(tenancy: Tenancy) -> int:
    return tenancy.messages_in_lanes().total() - 1_100


@pytest.mark.parametrize("where", ["same", "other", "one that knows nothing"])
def test_a_repetition_finds_all_parts(tenancy: Tenancy, where: str) -> None:
    async def story() -> None:
        bench = tenancy.bench
        other = bench.front_end()
        await tenancy.send("to know the queue", bag=other)
        batch = await mixed_batch(tenancy)
        ids = await bench.bag.send(QUEUE, SendCall("1", batch, name=CALL))
        bags = {"same": bench.bag, "other": other, "one that knows nothing": bench.front_end()}
        again = await bags[where].send(QUEUE, SendCall("1", batch, name=CALL, repeated=True))
        assert again == ids
        assert stored_copies(tenancy) == 6 + 1

    tenancy.bench.run(story())


@pytest.mark.parametrize("lane", [0, 1, 2])
@pytest.mark.parametrize("loses_replies", [False, True], ids=["request lost", "reply lost"])
@pytest.mark.parametrize("same", [False, True], ids=["elsewhere", "same front end"])
def test_a_repetition_sends_what_is_missing(
    tenancy: Tenancy, lane: int, *, loses_replies: bool, same: bool
) -> None:
    async def story() -> None:
        bench = tenancy.bench
        batch = await mixed_batch(tenancy)
        assert isinstance(bench.cell, PartlyFailingCell)
        bench.cell.failing_lane, bench.cell.loses_replies = lane, loses_replies
        with pytest.raises(CellUnavailableError):
            await bench.bag.send(QUEUE, SendCall("1", batch, name=CALL))
        bench.cell.failing_lane = -1
        bag = bench.bag if same else bench.front_end()
        ids = await bag.send(QUEUE, SendCall("1", batch, name=CALL, repeated=True))
        assert stored_copies(tenancy) == 6
        bench.clock.advance(2)
        delivered: dict[str, bytes] = {}
        while deliveries := await bench.receive():
            delivered |= {d.message.body: d.message.id for d in deliveries}
        assert [delivered[message.body] for message in batch] == ids

    tenancy.bench.run(story())


def test_parts_are_found_by_the_name_of_the_call() -> None:
    def found_in(part: CallPart, call: bytes) -> dict[int, bytes]:
        messages = [pack_message(i, Outgoing(body="x"), "1") for i in part.ids]
        calls = pack_calls([CallInSegment(part.name, 0, len(messages))])
        item: Attributes = {"v": 1, "k": "s", "t": 1, "i": 0, "n": len(messages), "c": calls}
        segment = LoadedSegment(Key("B|0|00|0", b""), {**item, **seal(messages, None, "")})
        return ids_of_parts(segment, find_parts(segment.item, call, 10), lambda *_: b"")

    ids = [bytes((number,)) * 16 for number in range(1, 11)]
    whole = CallPart(CALL, range(10), 10, ids)
    assert whole.name == CALL
    assert found_in(whole, CALL) == dict(enumerate(ids))
    for positions in ([0], [9], [0, 9], list(range(9)), [3, 4, 7]):
        part = CallPart(CALL, positions, 10, [ids[position] for position in positions])
        found = found_in(part, CALL)
        assert found == {position: ids[position] for position in positions}
        assert found_in(part, OTHER_CALL) == {}
        assert known_ids(merge_ids(None, part)) == found
        others = [position for position in range(10) if position not in positions]
        rest = CallPart(CALL, others, 10, [ids[position] for position in others])
        assert merge_ids(merge_ids(None, part), rest) == b"".join(ids)
