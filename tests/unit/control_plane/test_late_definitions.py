"""What a front end learnt late of a stream, or does for long, does not overtake what came since."""

import asyncio
from dataclasses import replace
from typing import Any, cast

import pytest

from control_plane.core import to_drop
from control_plane.core.definition import Definition
from control_plane.core.stream_definition import with_retention_lowered
from control_plane.core.stream_queue import POSITION, STREAM_ARN
from control_plane.operations.queue_messages import QueueMessages
from control_plane.operations.queue_over_stream import over_stream
from data_plane.core.stream import Shard, Stream
from data_plane.ports import Key
from data_plane.stored import keys
from data_plane.streams.reading import Place
from tests.unit.control_plane.test_streams import DAY_S, WHERE, Bench, split_first


@pytest.fixture
def bench() -> Bench:
    return Bench()


async def _made_anew(bench: Bench, stream: Stream) -> Stream:
    await bench.registry.delete(stream)
    return await bench.create()


def test_an_answer_of_before_does_not_bring_a_deleted_stream_back(bench: Bench) -> None:
    async def scenario() -> None:
        stream = await bench.create()
        anew: list[Stream] = []
        get = bench.cell.get

        async def get_late(key: Key, **asked: Any) -> Any:
            item = await get(key, **asked)
            bench.cell.get = get  # type: ignore[method-assign]
            anew.append(await _made_anew(bench, stream))
            return item

        bench.cell.get = get_late  # type: ignore[method-assign]
        await bench.registry.renewed(stream)
        found = await bench.registry.find(*WHERE)
        assert found is not None
        assert found.uid == anew[0].uid
        await bench.put(found, found.shards[0], "to the new one")
        page = await bench.engine.read(anew[0], anew[0].shards[0], Place(1), records_max=10)
        assert [record.data for record in page.records] == [b"to the new one"]

    asyncio.run(scenario())


def test_a_reply_that_comes_late_does_not_hide_a_later_change(bench: Bench) -> None:
    async def scenario() -> None:
        stream = await bench.create()
        put = bench.cell.put

        async def put_late(*args: Any, **kwargs: Any) -> Any:
            bench.cell.put = put  # type: ignore[method-assign]
            written = await put(*args, **kwargs)
            await bench.registry.change(stream, lambda known: replace(known, retention_hours=72))
            return written

        bench.cell.put = put_late  # type: ignore[method-assign]
        await bench.registry.change(stream, lambda known: replace(known, retention_hours=48))
        found = await bench.registry.find(*WHERE)
        assert found is not None
        assert found.retention_s == 3 * DAY_S

    asyncio.run(scenario())


async def _raised(bench: Bench, stream: Stream, hours: int) -> Stream:
    now_ms = bench.clock.now_us() // 1_000
    definition = await bench.registry.change(
        stream, lambda known: replace(known, retention_hours=hours, raised_ms=now_ms)
    )
    return bench.registry.stream(definition)


def _let_it_take_long(bench: Bench, hours: int, raised_to: int) -> None:
    """What is stored is re-stamped for some hours, at whose beginning the retention is raised."""
    restamp = bench.engine.restamp

    async def restamp_slowly(stream: Stream, shard: Shard) -> None:
        bench.engine.restamp = restamp  # type: ignore[method-assign]
        await _raised(bench, stream, raised_to)
        bench.clock.advance(hours * 3_600)
        await restamp(stream, shard)

    bench.engine.restamp = restamp_slowly  # type: ignore[method-assign]


def test_a_retention_that_is_raised_during_upkeep_keeps_what_was_to_be_trimmed(
    bench: Bench,
) -> None:
    async def scenario() -> None:
        stream = await _raised(bench, await bench.create(), 100)
        await bench.put(stream, stream.shards[0], "old")
        await bench.put(stream, stream.shards[0], "last")
        bench.clock.advance(25 * 3_600)
        now_ms = bench.clock.now_us() // 1_000
        await bench.registry.change(stream, lambda known: with_retention_lowered(known, 24, now_ms))
        stream = await _raised(bench, stream, 26)
        _let_it_take_long(bench, 3, raised_to=100)
        await bench.upkeep.step()
        assert len(await bench.slots(stream, 0)) == 2

    asyncio.run(scenario())


def test_a_retention_that_is_raised_during_upkeep_keeps_closed_shards(bench: Bench) -> None:
    async def scenario() -> None:
        stream = await bench.create()
        await bench.put(stream, stream.shards[0], "old")
        await bench.registry.reshard(stream, split_first)
        bench.clock.advance(23 * 3_600)
        await _raised(bench, stream, 24)
        _let_it_take_long(bench, 3, raised_to=100)
        await bench.upkeep.step()
        kept = await bench.registry.read(*WHERE)
        assert kept is not None
        assert [shard.number for shard in kept.shards] == [0, 1, 2, 3]

    asyncio.run(scenario())


def test_upkeep_goes_on_behind_a_stream_that_is_deleted_meanwhile(bench: Bench) -> None:
    async def scenario() -> None:
        first = await bench.create()
        second = await bench.create("later")
        await _raised(bench, first, 48)
        restamp = bench.engine.restamp

        async def deleted(stream: Stream, shard: Shard) -> None:
            bench.engine.restamp = restamp  # type: ignore[method-assign]
            await bench.registry.delete(first)
            await restamp(stream, shard)

        bench.engine.restamp = deleted  # type: ignore[method-assign]
        bench.clock.advance(20 * 60)
        await bench.upkeep.step()
        anchor = await bench.cell.get(keys.anchor(second.uid, 0))
        assert anchor is not None

    asyncio.run(scenario())


class _FromNow:
    """Messages of queues that begin with what comes."""

    def starting_us(self, *_: object) -> int:
        return 1


def test_a_queue_is_made_over_the_stream_that_is_there_and_not_a_former_one(bench: Bench) -> None:
    async def scenario() -> None:
        stream = await bench.create()
        elsewhere = bench.another(bench.engine)
        assert await elsewhere.find(*WHERE) == stream
        anew = await _made_anew(bench, stream)
        attributes = {STREAM_ARN: stream.arn, POSITION: "LATEST"}
        wanted = Definition(
            *WHERE[:2], "readers", "ffee112233445566", "a", 0, 0, attributes=attributes
        )
        messages = cast(QueueMessages, _FromNow())
        made = await over_stream(wanted, elsewhere, messages, bench.clock.now_us())
        assert made.stream_uid == anew.uid

    asyncio.run(scenario())


@pytest.mark.parametrize("late", ["put", "get"])
def test_an_answer_that_comes_late_does_not_bring_back_what_another_server_deleted(
    bench: Bench, late: str
) -> None:
    other = bench.another(bench.engine)

    async def scenario() -> None:
        stream = await bench.create()
        call = getattr(bench.cell, late)
        anew: list[Stream] = []

        async def comes_late(*args: Any, **kwargs: Any) -> Any:
            setattr(bench.cell, late, call)
            answer = await call(*args, **kwargs)
            await other.delete(stream)
            wanted = other.define(
                account=WHERE[0], region=WHERE[1], name=WHERE[2], shards=1, tags={}
            )
            anew.append(other.stream(await other.create(wanted)))
            bench.clock.advance(5)
            return answer

        setattr(bench.cell, late, comes_late)
        if late == "put":
            await bench.registry.change(stream, lambda known: replace(known, retention_hours=48))
        else:
            await bench.registry.renewed(stream)
        found = await bench.registry.find(*WHERE)
        assert found is not None
        assert found.uid == anew[0].uid

    asyncio.run(scenario())


@pytest.mark.parametrize("is_late", [False, True], ids=["before", "meanwhile"])
def test_of_a_stream_that_is_deleted_shards_go_that_another_server_has_just_made(
    bench: Bench, *, is_late: bool
) -> None:
    other = bench.another(bench.engine)

    async def scenario() -> None:
        stream = await bench.create()
        get = bench.cell.get

        async def get_and_split(key: Key, **asked: Any) -> Any:
            bench.cell.get = get  # type: ignore[method-assign]
            item = await get(key, **asked)
            await other.reshard(stream, split_first)
            return item

        if is_late:
            bench.cell.get = get_and_split  # type: ignore[method-assign]
        else:
            await other.reshard(stream, split_first)
        await bench.registry.delete(stream)
        (dropped,) = await bench.cell.query(to_drop.DELETED, limit=9)
        assert to_drop.read(dropped).shards == (0, 1, 2, 3)

    asyncio.run(scenario())
