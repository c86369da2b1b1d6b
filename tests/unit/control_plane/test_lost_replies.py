"""Writes of definitions whose reply was lost, and that the store's client repeats by itself."""

from dataclasses import replace
from typing import Any

import pytest

from control_plane.places.items import PlacedQueue
from control_plane.places.placing import GroupPlacing
from control_plane.streams import StreamRegistry
from data_plane.core.errors import RefusedError
from data_plane.ports import Condition, Key, Written
from tests.unit.control_plane.test_streams import WHERE, Bench
from tests.unit.repeatable import SECRET


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_a_stream_is_deleted_though_the_reply_was_lost(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    delete = bench.cell.delete

    async def delete_twice(*args: Any, **kwargs: Any) -> Written:
        await delete(*args, **kwargs)
        return await delete(*args, **kwargs)

    async def scenario() -> None:
        stream = await bench.create()
        monkeypatch.setattr(bench.cell, "delete", delete_twice)
        await bench.registry.delete(stream)
        assert await bench.registry.find(*WHERE) is None
        assert not await bench.registry.has_any()

    bench.run(scenario())


def test_a_stream_that_came_meanwhile_is_not_taken_for_the_deleted_one(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    delete = bench.cell.delete

    async def delete_late(key: Key, condition: Condition = ()) -> Written:
        monkeypatch.setattr(bench.cell, "delete", delete)
        await delete(key, condition)
        await bench.create()
        return await delete(key, condition)

    async def scenario() -> None:
        stream = await bench.create()
        monkeypatch.setattr(bench.cell, "delete", delete_late)
        with pytest.raises(RefusedError, match="not found"):
            await bench.registry.delete(stream)
        assert await bench.registry.find(*WHERE) is not None
        assert await bench.registry.has_any()

    bench.run(scenario())


def test_a_new_stream_that_was_changed_before_the_reply_came_stays(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who asks for it by its name finds it, and may change it, before its maker knows of it."""
    placing = GroupPlacing(bench.cell, lambda: 3)
    cells = ("a", "b", "c")
    several = StreamRegistry(
        bench.cell,
        cells,
        bench.clock,
        bench.entropy,
        bench.engine,
        secret=SECRET,
        placing=placing,
    )
    wanted = several.define(account=WHERE[0], region=WHERE[1], name=WHERE[2], shards=2, tags={})
    put = bench.cell.put

    async def put_late(key: Key, *args: Any) -> Written:
        written = await put(key, *args)
        if key.sort != WHERE[2].encode():
            return written
        monkeypatch.setattr(bench.cell, "put", put)
        known = await several.read(*WHERE)
        assert known is not None
        await several.change(known, lambda now: replace(now, tags={"team": "orders"}))
        return await put(key, *args)

    async def scenario() -> None:
        monkeypatch.setattr(bench.cell, "put", put_late)
        made = await several.create(wanted)
        assert (made.uid, made.tags) == (wanted.uid, {"team": "orders"})
        listed = PlacedQueue(*WHERE, wanted.uid, is_stream=True)
        assert await placing.queues_of(wanted.cell) == [listed]
        assert [one.uid async for one in several.everywhere()] == [wanted.uid]
        found = await several.find(*WHERE)
        assert found is not None
        assert found.uid == wanted.uid

    bench.run(scenario())
