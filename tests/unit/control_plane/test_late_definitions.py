"""What a front end learnt late of a stream, or does for long, does not overtake what came since."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from data_plane.core.stream import Stream
from data_plane.ports import Key
from data_plane.streams.reading import Place
from tests.unit.control_plane.test_streams import DAY_S, WHERE, Bench


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
