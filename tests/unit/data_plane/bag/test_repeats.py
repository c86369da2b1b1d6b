"""Sends that are repeated after their queue was purged, or its retention was raised."""

import asyncio
from dataclasses import replace

import pytest

from data_plane.core.message import Outgoing, SendCall
from data_plane.memory.cell import MemoryCell
from data_plane.ports import Append, Appended, CellUnavailableError
from data_plane.stored import keys
from data_plane.stored.segment import number
from tests.unit.data_plane.bag.conftest import QUEUE, Bench
from tests.unit.data_plane.room_asked_for import let_others_run

CALL = b"c" * 16
DAY_S = 86_400


@pytest.fixture(params=[True, False], ids=["stamps chosen", "stamps proposed"])
def bench(request: pytest.FixtureRequest) -> Bench:
    bench = Bench()
    bench.cell = MemoryCell(bench.clock, stamps=request.param)
    bench.bag = bench.front_end()
    return bench


def fail_once(bench: Bench, monkeypatch: pytest.MonkeyPatch, *, arrives: bool) -> None:
    """The next append is not answered, whether it arrives or not."""
    append = bench.cell.append

    async def unanswered(record: Append) -> Appended:
        monkeypatch.undo()
        if arrives:
            await append(record)
        raise CellUnavailableError("no answer in time")

    monkeypatch.setattr(bench.cell, "append", unanswered)


async def purge(bench: Bench) -> None:
    bench.clock.advance(0.5)
    bench.queue = replace(bench.queue, purged_us=await bench.bag.purge(bench.queue))
    bench.clock.advance(0.5)


@pytest.mark.parametrize("elsewhere", [False, True])
@pytest.mark.parametrize("arrives", [False, True])
@pytest.mark.parametrize("delay_s", [0, 20])
def test_an_attempt_that_nobody_answered_is_repeated_after_a_purge(
    bench: Bench,
    monkeypatch: pytest.MonkeyPatch,
    delay_s: int,
    *,
    arrives: bool,
    elsewhere: bool,
) -> None:
    async def story() -> None:
        fail_once(bench, monkeypatch, arrives=arrives)
        with pytest.raises(CellUnavailableError):
            await bench.send("m", call=CALL, delay_s=delay_s)
        await purge(bench)
        bag = bench.front_end() if elsewhere else bench.bag
        ids = await bench.send("m", call=CALL, repeated=True, bag=bag, delay_s=delay_s)
        for where in (bag, bench.bag, bench.front_end()):
            again = await bench.send("m", call=CALL, repeated=True, bag=where, delay_s=delay_s)
            assert again == ids
        bench.clock.advance(delay_s + 5)
        assert [d.message.id for d in await bench.receive()] == ids

    bench.run(story())


@pytest.mark.parametrize("elsewhere", [False, True])
def test_an_attempt_whose_answer_was_lost_is_repeated_after_a_purge(
    bench: Bench, *, elsewhere: bool
) -> None:
    async def story() -> None:
        before = await bench.send("m", "n", call=CALL)
        await purge(bench)
        bag = bench.front_end() if elsewhere else bench.bag
        ids = await bench.send("m", "n", call=CALL, repeated=True, bag=bag)
        assert not set(ids) & set(before)
        assert await bench.send("m", "n", call=CALL, repeated=True, bag=bag) == ids
        assert [d.message.id for d in await bench.receive()] == ids

    bench.run(story())


def test_an_attempt_that_is_still_under_way_is_purged(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    append, arrived = bench.cell.append, asyncio.Event()

    async def slow(record: Append) -> Appended:
        monkeypatch.undo()
        appended = await append(record)
        await arrived.wait()
        return appended

    async def story() -> None:
        monkeypatch.setattr(bench.cell, "append", slow)
        first = asyncio.create_task(bench.send("m", call=CALL))
        for _ in range(5):
            await asyncio.sleep(0)
        await purge(bench)
        second = asyncio.create_task(bench.send("m", call=CALL, repeated=True))
        await asyncio.sleep(0)
        arrived.set()
        assert await first != await second
        assert [d.message.id for d in await bench.receive()] == await second

    bench.run(story())


def test_parts_of_before_and_after_a_purge(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a batch with two delays one part was stored before it, and the other one after it."""

    async def story() -> None:
        batch = [Outgoing(body="now", size=3), Outgoing(body="later", size=5, delay_s=5)]
        fail_once(bench, monkeypatch, arrives=False)
        with pytest.raises(CellUnavailableError):
            await bench.bag.send(bench.queue, SendCall("1", batch, CALL))
        await purge(bench)
        fail_once(bench, monkeypatch, arrives=True)
        again = SendCall("1", batch, CALL, repeated=True)
        with pytest.raises(CellUnavailableError):
            await bench.bag.send(bench.queue, again)
        ids = await bench.bag.send(bench.queue, again)
        assert await bench.bag.send(bench.queue, again) == ids
        assert await bench.front_end().send(bench.queue, again) == ids
        bench.clock.advance(6)
        received = [d.message for d in await bench.receive()]
        assert {m.id: m.body for m in received} == dict(zip(ids, ["now", "later"], strict=True))

    bench.run(story())


@pytest.mark.parametrize("arrives", [False, True])
@pytest.mark.parametrize("retention_s", [60, 4 * DAY_S])
def test_a_repetition_takes_no_time_to_live_back(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, retention_s: int, *, arrives: bool
) -> None:
    """A raised retention lets live longer what is stored; a lowered one leaves it."""

    async def story() -> None:
        bench.queue = replace(QUEUE, retention_s=DAY_S)
        fail_once(bench, monkeypatch, arrives=arrives)
        with pytest.raises(CellUnavailableError):
            await bench.send("m", call=CALL)
        bench.queue = replace(QUEUE, retention_s=retention_s)
        await bench.bag.restamp(bench.queue)
        segments = keys.segments(QUEUE.uid, 0, 0)
        before = await bench.cell.query(segments, limit=10)
        sent_s = bench.clock.now_us() // 1_000_000
        await bench.send("m", call=CALL, repeated=True)
        (segment, *_) = await bench.cell.query(segments, limit=10)
        assert number(segment.attributes, "x") >= sent_s + retention_s
        if before:
            assert segment == before[0]

    bench.run(story())


def test_what_shares_an_append_with_a_send_of_before_a_purge_is_not_purged(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever purged has a clock that is ahead; the last one to join knows nothing of the purge."""
    purged = replace(QUEUE, version=2, purged_us=bench.clock.now_us() + 500_000)
    if bench.cell.chooses_stamps:
        purged = replace(purged, purged_us=bench.clock.now_us())
    append = bench.cell.append
    go_on = asyncio.Event()

    async def held(record: Append) -> Appended:
        await go_on.wait()
        return await append(record)

    async def story() -> None:
        monkeypatch.setattr(bench.cell, "append", held)
        sends = []
        for body, bench.queue in {"a": QUEUE, "b": purged, "c": QUEUE}.items():
            sends.append(asyncio.create_task(bench.send(body)))
            await let_others_run()
        go_on.set()
        await asyncio.gather(*sends)
        bench.queue = purged
        bench.clock.advance(1)
        assert {"b", "c"} <= set(await bench.drain())

    bench.run(story())
