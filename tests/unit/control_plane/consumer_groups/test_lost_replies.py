"""Groups that are made by a write whose reply was lost, which the store's client repeats."""

from typing import Any

import pytest

from control_plane.consumer_groups.heartbeats import JOINS, Beat
from control_plane.consumer_groups.positions import (
    LATEST,
    TRIM_HORIZON,
    StartingPosition,
    beginning,
)
from control_plane.core import group_keys
from control_plane.core.consumer_group import STICKY, ConsumerGroup, ShardKey
from data_plane.core.errors import RefusedError
from data_plane.ports import Key, Written
from tests.unit.control_plane.test_streams import WHERE, Bench

GROUP = (*WHERE[:2], "readers")


@pytest.mark.parametrize(
    ("kind", "offsets"), [(LATEST, {0: 1, 1: 0}), (TRIM_HORIZON, {0: None, 1: None})]
)
def test_a_group_that_was_joined_before_the_reply_came_keeps_what_it_has(
    kind: str, offsets: dict[int, int | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = Bench()
    put = bench.cell.put

    async def put_late(key: Key, *args: Any) -> Written:
        written = await put(key, *args)
        if key != group_keys.group(*GROUP):
            return written
        try:
            group = await bench.groups.registry.read(*GROUP)
        except RefusedError:
            return written  # It is not there before it has offsets.
        monkeypatch.setattr(bench.cell, "put", put)
        await bench.groups.heartbeats.join(group, Beat("a member", JOINS))
        return await put(key, *args)

    async def scenario() -> None:
        stream = await bench.create()
        await bench.put(stream, stream.shards[0], "of before")
        position = StartingPosition(kind)
        wanted = ConsumerGroup(
            *GROUP,
            uid=bench.groups.registry.new_uid(),
            created_ms=1,
            epoch=bench.clock.now_us(),
            session_s=30,
            rebalance_s=60,
            assignor=STICKY,
            streams=(beginning(stream, position),),
        )
        monkeypatch.setattr(bench.cell, "put", put_late)
        made = await bench.groups.positions.create(wanted, [stream], position)
        assert (made.uid, list(made.members)) == (wanted.uid, ["a member"])
        known = await bench.groups.offsets.read(made, [ShardKey(0, n) for n in offsets])
        assert {key.shard: one.offset for key, one in known.items()} == offsets
        assert await bench.groups.registry.sessions.go_on(made, "a member")

    bench.run(scenario())
