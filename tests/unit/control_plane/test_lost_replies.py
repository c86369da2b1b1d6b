"""Writes of definitions whose reply was lost, and that the store's client repeats by itself."""

from typing import Any

import pytest

from data_plane.core.errors import RefusedError
from data_plane.ports import Condition, Key, Written
from tests.unit.control_plane.test_streams import WHERE, Bench


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
