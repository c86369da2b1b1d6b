"""Copies to cells that collect, by a manager that stands still, while another one has copied."""

from typing import Any

import pytest

from control_plane.cluster.acting import DONE, act
from control_plane.cluster.actions import Complete
from control_plane.cluster.copies import copy_on
from data_plane.ports import CellUnavailableError, Item, Key
from data_plane.replication.copying import COPY_US_MAX
from data_plane.replication.placement import partition_of
from data_plane.stored.keys import counters, segments
from tests.unit.control_plane.cluster.scene import LATER_US, Scene
from tests.unit.control_plane.cluster.test_untold import GROUP, make_queue

STOPS_S = COPY_US_MAX / 1_000_000 + 1


@pytest.fixture
def scene() -> Scene:
    made = Scene("abcd")
    made.place(GROUP, "abc")
    return made


@pytest.mark.parametrize("stops_s", [1.0, STOPS_S])
def test_what_was_read_long_ago_is_not_put_where_it_may_be_collected_by_now(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, stops_s: float
) -> None:
    partition = segments(make_queue(scene).uid, 0, 0)
    key = Key(partition, b"12345678segment123")
    scene.run(scene.cells["a"].put(key, {"v": 1, "k": "s"}))
    scene.run(scene.places.add_joining(GROUP, "d", epoch=1, nonce=b"1" * 8))
    joining = scene.placement(GROUP)
    first = scene.cells["a"]
    query = first.query

    async def late(asked: str, **options: object) -> list[Item]:
        page = await query(asked, **options)
        if page and asked == partition:
            monkeypatch.undo()
            if stops_s == STOPS_S:
                complete = Complete(GROUP, joining.epoch, "d")
                assert (await act(scene.cluster, complete, {}, LATER_US))["outcome"] == DONE
                copied = Key(partition_of(joining.members[-1], partition), key.sort)
                scene.cells["d"].expire([copied])
            scene.clock.advance(stops_s)
        return page

    monkeypatch.setattr(first, "query", late)
    copying = copy_on(scene.cluster, joining, "d", {}, LATER_US)
    if stops_s == STOPS_S:
        with pytest.raises(CellUnavailableError):
            scene.run(copying)
    else:
        assert scene.run(copying) is None
    copies = [item for item in scene.cells["d"].items() if item.key.partition.startswith(partition)]
    assert bool(copies) is (stops_s != STOPS_S)


def test_a_task_that_copies_looks_at_the_group_again_before_it_takes_too_long(scene: Scene) -> None:
    partition = segments(make_queue(scene).uid, 0, 0)
    for number in range(2_000):
        scene.run(scene.cells["a"].put(Key(partition, b"%018d" % number), {"v": 1}))
    scene.run(scene.places.add_joining(GROUP, "d", epoch=1, nonce=b"1" * 8))
    first = scene.cells["a"]
    query = first.query

    async def slow(asked: str, **options: object) -> list[Item]:
        scene.clock.advance(4)
        return await query(asked, **options)

    first.query = slow  # type: ignore[method-assign]
    left = scene.run(copy_on(scene.cluster, scene.placement(GROUP), "d", {}, LATER_US))
    assert left is not None
    assert left["partition"] == partition


def test_counters_are_copied_last(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """They say what has become of all that was copied before."""
    uid = make_queue(scene).uid
    scene.run(scene.places.add_joining(GROUP, "d", epoch=1, nonce=b"1" * 8))
    first = scene.cells["a"]
    query, asked = first.query, []

    async def noted(partition: str, **options: object) -> list[Item]:
        asked.append(partition)
        return await query(partition, **options)

    monkeypatch.setattr(first, "query", noted)
    scene.run(copy_on(scene.cluster, scene.placement(GROUP), "d", {}, LATER_US))
    assert asked.index(counters(uid)) == len(asked) - 1
    assert segments(uid, 0, 0) in asked


def test_copies_of_many_small_queues_are_made_in_as_many_calls_as_it_takes(scene: Scene) -> None:
    """Who copied all of them before it answers would be cut off, and begin from the first again."""
    keys = [
        Key(segments(make_queue(scene, f"q{number}").uid, 0, 0), b"12345678segment123")
        for number in range(5)
    ]
    for key in keys:
        scene.run(scene.cells["a"].put(key, {"v": 1, "k": "s"}))
    scene.run(scene.places.add_joining(GROUP, "d", epoch=1, nonce=b"1" * 8))
    joining = scene.placement(GROUP)

    def copy_more(after: dict[str, Any]) -> dict[str, Any] | None:
        until_us = scene.clock.now_us()  # is over with the first step
        return scene.run(copy_on(scene.cluster, joining, "d", after, until_us))

    calls, left = 1, copy_more({})
    while left is not None:
        calls, left = calls + 1, copy_more(left)
    assert calls == len(keys)
    copied = {item.key for item in scene.cells["d"].items()}
    assert copied >= {
        Key(partition_of(joining.members[-1], key.partition), key.sort) for key in keys
    }
