"""What a front end remembers of blocks: overtaken answers, and markers that it skipped."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from data_plane.bag import reading
from data_plane.bag.block import Block
from data_plane.bag.bounds import (
    BLOCK_FULL_MESSAGES,
    COLLECT_AFTER_US,
    READY_AGE_US_MAX,
    SEGMENTS_HELD_BYTES_MAX,
)
from data_plane.bag.desk import open_lane
from data_plane.bag.lane import Lane
from data_plane.core.long_answers import use_room
from data_plane.core.message import Delivery
from data_plane.ports import Attributes, Item, Key, Written
from data_plane.stored import keys, shelf
from data_plane.stored.lease import Lease
from data_plane.stored.segment import LoadedSegment
from tests.unit.data_plane.bag.conftest import QUEUE, Bench
from tests.unit.data_plane.bag.standing_still import collect_before_next_update
from tests.unit.data_plane.room_asked_for import RoomAskedFor, let_others_run


def lease(receive_count: int, first: int = 0) -> bytes:
    return Lease(50_000, receive_count, 20_000, 20_000, first, b"token".ljust(13)).to_bytes()


def test_an_answer_that_a_write_has_overtaken_is_not_believed() -> None:
    block = Block(bytes(10))
    block.learn({"v": 1, "m0": lease(2)}, 2_000)
    block.learn({"v": 1, "m1": lease(1)}, 1_000)
    assert block.leases == {0: lease(2), 1: lease(1)}
    block.learn({"v": 1, "m0": lease(1)}, 1_000)
    assert block.leases[0] == lease(2)


def test_a_marker_that_was_skipped_covers_nothing(bench: Bench) -> None:
    lane = Lane(bench.queue, b"writer")
    block = Block(bytes(10))
    lane.marked(block, 50_000, 50_000_000)
    assert lane._covered_from_ms(block) == 50_000
    lane.cursor = keys.segment_sort(60_000_000, bytes(10), 0)
    assert lane._covered_from_ms(block) > 50_000
    lane.marked(block, 70_000, 70_000_000)
    assert lane._covered_from_ms(block) == 70_000


def test_a_marker_leads_to_no_message_of_which_nobody_told_where_it_lies(bench: Bench) -> None:
    """A copy that let go of a block may be told late of a change of visibility in it."""
    lane = Lane(bench.queue, b"writer")
    block_id = bytes(10)
    marker = Item(Key(lane.segments, keys.be64(1) + block_id), {"v": 1, "k": "m", "b": block_id})
    state: Attributes = {"v": 1, "m0": lease(1), "m3": lease(1, first=3), "s3": keys.be64(1)}
    lane.absorb(bench.queue, [marker], {Key(lane.states, block_id): state}, 1)
    ((_, taken),) = lane.take(bench.queue, 9, 60_000_000, 60_000_000)
    assert taken == [3]


def test_segments_are_read_again_where_a_state_comes_after_a_long_time() -> None:
    """It may be that of a late delete, which knows nothing of the others of the block."""
    key = Key("segments", keys.segment_sort(1, bytes(10), 0))
    segment = LoadedSegment(key, {"v": 1, "k": "s", "i": 0, "n": 2, "y": 2, "t": 1, "z": bytes(8)})
    block = Block(bytes(10))
    block.learn({"v": 1, "m0": lease(1)}, 2_000)
    block.segments[0] = segment
    block.learn({"v": 1, "d": frozenset({0})}, 2_000 + READY_AGE_US_MAX)
    assert block.segments == {0: segment}
    block.learn({"v": 1, "d": frozenset({1})}, 2_001 + 2 * READY_AGE_US_MAX)
    assert not block.segments


def test_a_block_that_is_collected_before_its_lease_is_written_is_not_a_new_one(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The write finds nothing where a state was; the segments at hand are deleted ones."""
    update = bench.cell.update

    async def collected_before(*args: Any) -> Written:
        monkeypatch.undo()
        bench.cell.expire([item.key for item in bench.cell.items()])
        return await update(*args)

    async def story() -> None:
        await bench.send("deleted by another front end")
        assert await bench.receive(visibility_s=0)
        monkeypatch.setattr(bench.cell, "update", collected_before)
        assert await bench.receive() == []

    bench.run(story())


def test_what_is_let_go_while_another_segment_is_read_is_not_taken_for_gone(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An answer that comes late has the segments of a block read again, claimed ones, too."""
    get_many = bench.cell.get_many

    async def meanwhile(wanted: Sequence[Key], *, strong: bool = True) -> dict[Key, Attributes]:
        monkeypatch.undo()
        (lanes,) = bench.bag._desk.lanes.values()
        (block,) = lanes.lane(0).blocks.values()
        block.learn({"v": 1}, block.checked_us - 1)
        return await get_many(wanted, strong=strong)

    async def story() -> None:
        await bench.send("read again")
        await bench.send("at hand")
        assert len(await bench.receive(1, visibility_s=1)) == 1
        bench.clock.advance(1.001)
        monkeypatch.setattr(bench.cell, "get_many", meanwhile)
        assert [one.message.body for one in await bench.receive()] == ["read again"]
        assert [one.message.body for one in await bench.receive()] == ["at hand"]

    bench.run(story())


def test_the_state_of_a_block_that_is_forgotten_while_others_are_read_is_read_too(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the block would be taken for one that has no state, by an answer of just now."""
    get_many = bench.cell.get_many
    read: list[Key] = []

    async def meanwhile(wanted: Sequence[Key], *, strong: bool = True) -> dict[Key, Attributes]:
        (lanes,) = reader._desk.lanes.values()
        read.extend(wanted)
        lanes.lane(0).idle.clear()
        return await get_many(wanted, strong=strong)

    async def story() -> None:
        await bench.send("first", "second")
        assert await bench.drain(reader) == ["first", "second"]
        await bench.send("of the same block")
        await bench.send("of another block", bag=bench.front_end())
        (lanes,) = reader._desk.lanes.values()
        (block_id,) = lanes.lane(0).idle
        monkeypatch.setattr(bench.cell, "get_many", meanwhile)
        assert len(await bench.receive(bag=reader)) == 2
        assert Key(lanes.lane(0).states, block_id) in read

    reader = bench.front_end()
    bench.run(story())


def test_a_block_that_is_collected_while_the_rest_of_it_is_read(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another receive has found by then that what it had of the block is gone."""
    get_many = bench.cell.get_many
    behind, sender = bench.front_end(), bench.front_end()
    receives: list[asyncio.Task[list[Delivery]]] = []

    async def meanwhile(wanted: Sequence[Key], *, strong: bool = True) -> dict[Key, Attributes]:
        monkeypatch.undo()
        await bench.bag.sweep()
        receives.append(asyncio.create_task(bench.receive(1, bag=behind)))
        await let_others_run()
        return await get_many(wanted, strong=strong)

    async def story() -> None:
        await bench.send("held")
        await bench.send("known", bag=sender)
        assert len(await bench.receive(1, bag=behind)) == 1
        await bench.send("of another block", bag=bench.front_end())
        await bench.send(*("rest" for _ in range(BLOCK_FULL_MESSAGES - 1)), bag=sender)
        assert len(await bench.drain()) == BLOCK_FULL_MESSAGES + 1
        bench.clock.advance(COLLECT_AFTER_US / 1_000_000 + 1)
        monkeypatch.setattr(bench.cell, "get_many", meanwhile)
        at = open_lane(behind._desk, bench.queue)
        assert await reading.fetch(at)
        assert await receives[0] == []

    bench.run(story())


def test_a_lease_that_came_late_says_nothing_of_the_rest_of_its_block(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The receive that stood still may deliver what was deleted meanwhile; those behind it not."""
    late = bench.front_end()

    async def story() -> None:
        for _ in range(0, BLOCK_FULL_MESSAGES, 8):
            await bench.send(*("work" for _ in range(8)))
        collect_before_next_update(bench, monkeypatch)
        (late_one,) = await bench.receive(1, bag=late)
        await late.change_visibility(bench.queue, [(bench.handle(late_one), 60)])
        assert await bench.receive(bag=late) == []

    bench.run(story())


def _bytes_at_hand(bench: Bench) -> int:
    blocks = [b for lanes in bench.bag._desk.lanes.values() for b in lanes.lane(0).blocks.values()]
    return sum(segment.size_bytes for block in blocks for segment in block.segments.values())


def test_big_messages_that_wait_are_read_again_instead_of_kept(bench: Bench) -> None:
    """A visibility timeout of 0 leaves each message in the window, to be received again."""

    async def story() -> None:
        for number in range(40):
            await bench.send(f"{number:04}".ljust(250_000, "b"))
        for _ in range(3):
            bodies = []
            for _ in range(4):
                deliveries = await bench.receive(visibility_s=1)
                bodies += [one.message.body[:4] for one in deliveries]
                assert _bytes_at_hand(bench) <= SEGMENTS_HELD_BYTES_MAX
            assert sorted(bodies) == [f"{number:04}" for number in range(40)]
            bench.clock.advance(1.001)
        for _ in range(100):
            await bench.receive(visibility_s=0)
            assert _bytes_at_hand(bench) <= SEGMENTS_HELD_BYTES_MAX
        assert len(await bench.drain()) == 40

    bench.run(story())


class _RoomLater(RoomAskedFor):
    """There is room for nobody until `there_is` is set."""

    def __init__(self, there_is: asyncio.Event) -> None:
        super().__init__(is_busy=True)
        self._there_is = there_is

    async def take(self, size_bytes: int) -> None:
        await super().take(size_bytes)
        await self._there_is.wait()


def test_receives_that_wait_for_room_keep_no_messages_at_hand_meanwhile(bench: Bench) -> None:
    there_is = asyncio.Event()

    async def receive() -> list[Delivery]:
        use_room(_RoomLater(there_is))
        return await bench.receive()

    async def story() -> None:
        for number in range(40):
            await bench.send(f"{number:04}".ljust(250_000, "b"))
        waiting = [asyncio.create_task(receive()) for _ in range(8)]
        await let_others_run()
        assert not any(one.done() for one in waiting)
        assert _bytes_at_hand(bench) <= SEGMENTS_HELD_BYTES_MAX
        there_is.set()
        received = [one.message.body[:4] for got in waiting for one in await got]
        assert sorted(received) == [f"{number:04}" for number in range(40)]

    bench.run(story())


def test_many_queues_have_no_more_at_hand_than_a_few(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shelf, "SEGMENTS_HELD_TOGETHER_BYTES_MAX", 100_000)

    async def story() -> None:
        queues = [replace(QUEUE, name=f"q{n}", uid=f"{n:016x}") for n in range(10)]
        for bench.queue in queues:
            for number in range(4):
                await bench.send(f"{number}".ljust(10_000, "b"))
        for _ in range(2):
            for bench.queue in queues:
                assert len(await bench.receive(visibility_s=0)) == 4
                assert _bytes_at_hand(bench) <= 100_000
        assert _bytes_at_hand(bench) >= 60_000, "those of before stay as long as there is room"

    bench.run(story())


def test_what_was_delivered_takes_no_room_of_other_queues(bench: Bench) -> None:
    async def story() -> None:
        for _ in range(30):
            await bench.send("b" * 10_000)
            await bench.delete(await bench.receive())
            assert bench.bag._desk._shelf.bytes <= 20_000

    bench.run(story())


def test_what_deleted_and_forgotten_queues_had_at_hand_takes_no_room(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("data_plane.bag.desk.LANES_MAX", 2)

    async def story() -> None:
        for number in range(3):
            bench.queue = replace(QUEUE, name=f"q{number}", uid=f"{number:016x}")
            await bench.send("b" * 10_000)
            await bench.receive(visibility_s=0)
        assert bench.bag._desk._shelf.bytes == 20_000
        bench.bag.dropped(bench.queue)
        assert bench.bag._desk._shelf.bytes == 10_000

    bench.run(story())
