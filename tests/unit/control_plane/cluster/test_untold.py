"""A front end that crashes before it told the copies of queues what it did."""

import asyncio
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

import pytest

from control_plane.cluster import acting, untold
from control_plane.cluster.acting import DONE, act
from control_plane.cluster.actions import Reconcile, Release, TakeOut
from control_plane.cluster.copies import queues_of
from control_plane.cluster.tasks import perform
from control_plane.places.cached import CachedMap
from control_plane.places.group_cells import Members, standard_cells
from control_plane.places.items import CellSeen, Heartbeat
from data_plane.bag.engine import Bag
from data_plane.core.limits import RETENTION_S_MAX
from data_plane.core.message import Delivery, Outgoing, SendCall
from data_plane.core.queue import Queue
from data_plane.core.receipt_handle import decode
from data_plane.ports import Attributes, Key, Update
from data_plane.replication.fanout import Fanout
from data_plane.runtime.event_loop import EventLoopWaits
from data_plane.stored.bounds import STATE_TTL_SLACK_S
from data_plane.stored.keys import segments, states
from data_plane.stored.merging import lacking
from tests.unit.control_plane.cluster.scene import LATER_US, SECOND_US, Scene, SceneCell, execute

GROUP: Final = "g3.05"
SENT: Final = [str(number) for number in range(10)]
GONE_S: Final = 31


class FrontEnd:
    """One that has just started, with the map of now. What it never ships, nobody is told."""

    def __init__(self, scene: Scene, name: str) -> None:
        self._scene = scene
        waits = EventLoopWaits(scene.clock)
        known = CachedMap(scene.places.read_all, scene.clock)
        known.take(scene.run(scene.places.read_all()))
        cells = standard_cells(Members(scene.cells, known, scene.clock, waits))
        self.bag = Bag(cells, scene.clock, scene.entropy, waits)
        self.name = name
        self.beat()

    def beat(self) -> None:
        """That it lives, and has told everything until now."""
        cells = {name: CellSeen(answers=True, since_us=0) for name in self._scene.cells}
        now_us = self._scene.clock.now_us()
        self._scene.run(self._scene.places.beat(Heartbeat(self.name, now_us, cells)))

    def send(self, queue: Queue, *bodies: str) -> None:
        messages = [Outgoing(body=body, size=len(body)) for body in bodies]
        asyncio.run(self.bag.send(queue, SendCall(queue.account, messages)))

    def receive(self, queue: Queue) -> list[Delivery]:
        return asyncio.run(self.bag.receive(queue, count=10, visibility_s=30, until_us=0))

    def delete(self, queue: Queue, deliveries: list[Delivery]) -> None:
        handles = [decode(one.receipt_handle, queue) for one in deliveries]
        asyncio.run(self.bag.delete(queue, handles))


def make_queue(scene: Scene, name: str = "q", place: str = GROUP) -> Queue:
    now_us = scene.clock.now_us()
    definition = scene.registry.define(
        account="1", region="r", name=name, attributes={}, tags={}, now_us=now_us
    )
    definition = replace(definition, cell=place)
    scene.run(scene.placing.placed(definition))
    scene.run(scene.registry.create(definition, {}, now_us))
    return scene.registry.queue(definition)


def bodies(deliveries: list[Delivery]) -> list[str]:
    return sorted(one.message.body for one in deliveries)


@pytest.fixture
def scene() -> Scene:
    made = Scene("abc")
    made.place(GROUP, "abc")
    return made


def lose(scene: Scene, cell: str) -> None:
    """Fail over: the group's first member is gone for good."""
    scene.cells[cell].down = True
    epoch = scene.placement(GROUP).epoch
    result = scene.run(act(scene.cluster, TakeOut(cell, {GROUP: epoch}), {}, LATER_US))
    assert result["outcome"] == DONE


def crash_untold(scene: Scene, queue: Queue) -> None:
    """A front end sends, receives and deletes all but three, and is no more."""
    crashing = FrontEnd(scene, "crashed")
    crashing.send(queue, *SENT)
    scene.clock.advance(4)
    crashing.delete(queue, [one for one in crashing.receive(queue) if one.message.body > "2"])
    scene.clock.advance(GONE_S)


def left(results: list[dict[str, Any]]) -> list[tuple[str, int]]:
    return [(one["task"]["act"], one["mended"]) for one in results]


def test_without_a_manager_what_was_deleted_comes_back(scene: Scene) -> None:
    """So the other tests show something."""
    queue = make_queue(scene)
    crash_untold(scene, queue)
    lose(scene, "a")
    assert bodies(FrontEnd(scene, "next").receive(queue)) == SENT


def test_what_a_crashed_front_end_deleted_stays_deleted(scene: Scene) -> None:
    queue = make_queue(scene)
    crash_untold(scene, queue)
    FrontEnd(scene, "living")
    assert left(scene.run(execute(scene.cluster))) == [("reconcile", 2)]
    assert [one.front_end for one in scene.run(scene.places.heartbeats())] == ["living"]
    assert scene.run(execute(scene.cluster)) == []
    lose(scene, "a")
    deliveries = FrontEnd(scene, "next").receive(queue)
    assert bodies(deliveries) == ["0", "1", "2"]
    assert [one.receive_count for one in deliveries] == [2, 2, 2]


@pytest.mark.parametrize("until_us", [LATER_US, 0])
def test_who_leaves_in_order_takes_nothing_along_that_it_alone_knows(
    scene: Scene, until_us: int
) -> None:
    """A front end crashed a moment ago, and nobody has missed it yet."""
    deleted = make_queue(scene)
    sent = make_queue(scene, "first", f"{GROUP}/first")
    crashing = FrontEnd(scene, "crashed")
    crashing.send(deleted, *SENT)
    crashing.send(sent, *SENT)
    scene.clock.advance(4)
    crashing.delete(deleted, crashing.receive(deleted))
    release(scene, "a", until_us)
    assert scene.members(GROUP) == "bc"
    following = FrontEnd(scene, "next")
    scene.clock.advance(GONE_S)
    assert bodies(following.receive(deleted)) == []
    assert bodies(following.receive(sent)) == SENT


@pytest.mark.parametrize("is_noted", [False, True])
def test_so_too_where_a_front_end_ends_while_copies_are_compared(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, *, is_noted: bool
) -> None:
    """It deletes what has been compared by then, and tells the one that leaves alone.

    A server crashes, a function leaves a note.
    """
    monkeypatch.setattr(untold, "ITEMS_PER_STEP", 1)
    queue, *_ = sorted((make_queue(scene), make_queue(scene, "q2")), key=lambda one: one.uid)
    crashing = FrontEnd(scene, "crashing")
    crashing.send(queue, *SENT)
    scene.clock.advance(4)
    received = crashing.receive(queue)
    crashing.beat()
    action = Release(GROUP, 1, "a")
    result = scene.run(act(scene.cluster, action, {}, 0))
    crashing.delete(queue, received)
    if is_noted:
        now_us = scene.clock.now_us()
        scene.run(scene.places.leave("crashing"))
        scene.run(scene.places.beat(Heartbeat("note", now_us, {}, told_us=now_us)))
    while result["more"]:
        scene.clock.advance(1 if is_noted else 15)
        result = scene.run(act(scene.cluster, action, result["after"], 0))
    assert scene.members(GROUP) == "bc"
    scene.clock.advance(GONE_S)
    assert bodies(FrontEnd(scene, "next").receive(queue)) == []


def test_a_first_copy_leaves_in_the_end_however_many_notes_are_left(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    passes: list[int] = []

    async def tell_on(*_args: Any, **_named: Any) -> tuple[None, int]:
        passes.append(scene.clock.now_us())
        note = Heartbeat(f"note-{len(passes)}", scene.clock.now_us(), {}, told_us=1)
        await scene.places.beat(note)
        return None, 0

    monkeypatch.setattr(acting, "tell_on", tell_on)
    release(scene, "a", LATER_US)
    assert scene.members(GROUP) == "bc"
    assert len(passes) == 5


def test_others_leave_without_a_comparison(scene: Scene) -> None:
    make_queue(scene)
    scene.cells["b"].requests.clear()
    release(scene, "b", LATER_US)
    assert scene.cells["b"].requests == Counter()


def release(scene: Scene, cell: str, until_us: int) -> None:
    action = Release(GROUP, scene.placement(GROUP).epoch, cell)
    result: dict[str, Any] = {"more": True}
    while result["more"]:
        after = json.loads(json.dumps(result.get("after", {})))
        result = scene.run(act(scene.cluster, action, after, until_us))
    assert result["outcome"] == DONE


def test_what_was_sent_to_one_copy_is_copied(scene: Scene) -> None:
    queue = make_queue(scene, place=f"{GROUP}/first")
    FrontEnd(scene, "crashed").send(queue, *SENT)
    scene.clock.advance(GONE_S)
    FrontEnd(scene, "living")
    assert left(scene.run(execute(scene.cluster))) == [("reconcile", 2)]
    lose(scene, "a")
    assert bodies(FrontEnd(scene, "next").receive(queue)) == SENT


def test_nothing_is_compared_for_who_lives_or_while_a_cell_is_down(scene: Scene) -> None:
    crash_untold(scene, make_queue(scene))
    living = FrontEnd(scene, "living")
    failing = CellSeen(answers=False, since_us=scene.clock.now_us() - 5 * SECOND_US)
    scene.beat(c=failing)
    scene.run(scene.places.leave("living"))
    planned = scene.run(_plan(scene))
    assert [one["act"] for one in planned] == ["take_out"]
    scene.run(scene.places.leave("crashed"))
    scene.beat()
    living.beat()
    assert scene.run(_plan(scene)) == []


async def _plan(scene: Scene) -> list[dict[str, Any]]:
    observed = await perform({"task": "observe"}, scene.cluster, LATER_US)
    assert observed is not None
    event = {"task": "plan", "observed": json.loads(json.dumps(observed["observed"]))}
    planned = await perform(event, scene.cluster, LATER_US)
    assert planned is not None
    tasks: list[dict[str, Any]] = planned["tasks"]
    return tasks


def test_many_small_queues_are_compared_in_as_many_calls_as_it_takes(scene: Scene) -> None:
    """Who compared all of them before it answers would be cut off, and begin from the first."""
    queues = [make_queue(scene, f"q{number}") for number in range(5)]
    for queue in queues:
        crash_untold(scene, queue)
    result: dict[str, Any] = {"after": {}, "more": True}
    calls = 0
    while result["more"]:
        calls += 1
        action = Reconcile({"crashed": 0}, 0)
        until_us = scene.clock.now_us()  # is over with the first step
        result = scene.run(act(scene.cluster, action, result.get("after", {}), until_us))
    assert (calls, result["mended"]) == (len(queues), 2 * len(queues))


def test_a_queue_alone_that_is_deleted_meanwhile_ends_no_comparison(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone, other = make_queue(scene), make_queue(scene, "z", "g3.06")
    scene.place("g3.06", "abc")
    scene.run(scene.places.part(GROUP, alone.uid, epoch=1))
    crash_untold(scene, other)

    async def then_deleted(cluster: Any, group: str, left: Any) -> Sequence[Any]:
        queues = await queues_of(cluster, group, left)
        if group == f"{GROUP}.{alone.uid}":
            await scene.places.forget_own(GROUP, alone.uid)
        return queues

    monkeypatch.setattr(untold, "queues_of", then_deleted)
    action = Reconcile({"crashed": 0}, 0)
    result = scene.run(act(scene.cluster, action, {}, LATER_US))
    assert (result["outcome"], result["mended"]) == (DONE, 2)


def test_who_is_heard_of_meanwhile_is_not_forgotten(scene: Scene) -> None:
    front_end = FrontEnd(scene, "slow")
    seen_us = scene.clock.now_us()
    scene.clock.advance(GONE_S)
    front_end.beat()
    scene.run(act(scene.cluster, Reconcile({"slow": seen_us}, seen_us), {}, LATER_US))
    assert [one.front_end for one in scene.run(scene.places.heartbeats())] == ["slow"]


def test_what_is_compared_costs_a_request_for_each_hundred_states(scene: Scene) -> None:
    """Those that were not written since cost a part of a query; those behind a read and a write."""
    partition = states(make_queue(scene).uid, 0, 0)
    placement = scene.placement(GROUP)
    fanout = Fanout(lambda: placement, scene.cells, EventLoopWaits(scene.clock), lacking)

    async def delete_in(blocks: range) -> None:
        written_s = scene.clock.now_us() // SECOND_US
        for block in blocks:
            key = Key(partition, block.to_bytes(10, "big"))
            kept = {"v": 1, "x": written_s + RETENTION_S_MAX + STATE_TTL_SLACK_S}
            await fanout.update(key, Update(kept, {"d": frozenset({1})}))

    async def story() -> None:
        await delete_in(range(250))
        await fanout.ship()
        scene.clock.advance(2 * untold.GUARD_S)
        await delete_in(range(250, 255))

    asyncio.run(story())
    for since_us, pages, behind in ((scene.clock.now_us(), 1, 5), (0, 3, 0)):
        for cell in scene.cells.values():
            cell.requests.clear()
        result = scene.run(act(scene.cluster, Reconcile({}, since_us), {}, LATER_US))
        assert result["mended"] == 2 * behind
        # Three pages and the end of them, and two lanes without any.
        assert scene.cells["a"].requests == +Counter(query=4 + 2, get=2 * behind)
        for name in "bc":
            assert scene.cells[name].requests == +Counter(get_many=pages, put=behind)


def test_a_comparison_goes_on_where_it_was(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(untold, "ITEMS_PER_STEP", 1)
    queues = [make_queue(scene, f"q{number}") for number in range(3)]
    for queue in queues:
        crash_untold(scene, queue)
    after: dict[str, Any] = {}
    rounds = 0
    while True:
        action = Reconcile({"crashed": scene.clock.now_us()}, 0)
        result = scene.run(act(scene.cluster, action, json.loads(json.dumps(after)), 0))
        rounds += 1
        if not result["more"]:
            break
        after = result["after"]
    assert (result["mended"], rounds) == (6, 6)
    lose(scene, "a")
    following = FrontEnd(scene, "next")
    for queue in queues:
        assert bodies(following.receive(queue)) == ["0", "1", "2"]


def test_what_the_others_have_collected_meanwhile_does_not_come_back(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first member is the last to collect it; the states were compared before that."""
    queue = make_queue(scene, place=f"{GROUP}/first")
    crashing = FrontEnd(scene, "crashed")
    crashing.send(queue, *SENT)
    scene.clock.advance(4)
    crashing.delete(queue, crashing.receive(queue))
    scene.clock.advance(GONE_S)
    FrontEnd(scene, "living")

    for name in "bc":
        cell = scene.cells[name]

        async def late(
            keys: Sequence[Key], *, cell: SceneCell = cell, **options: Any
        ) -> dict[Key, Attributes]:
            if keys[0].partition[0] == "B":
                cell.expire([item.key for item in cell.items() if item.key.partition[0] in "BS"])
            return await SceneCell.get_many(cell, keys, **options)

        monkeypatch.setattr(cell, "get_many", late)
    assert left(scene.run(execute(scene.cluster))) == [("reconcile", 4)]
    lose(scene, "a")
    assert bodies(FrontEnd(scene, "next").receive(queue)) == []


def test_marks_among_segments_are_copied(scene: Scene) -> None:
    """Some are about no block."""
    queue = make_queue(scene, place=f"{GROUP}/first")
    FrontEnd(scene, "crashed")
    sort = scene.clock.now_us().to_bytes(8, "big") + bytes(10) + b"\xfe"
    mark = Key(segments(queue.uid, 0, 0), sort)
    asyncio.run(scene.cells["a"].put(mark, {"v": 1, "k": "p", "t": scene.clock.now_us()}))
    scene.clock.advance(GONE_S)
    FrontEnd(scene, "living")
    assert left(scene.run(execute(scene.cluster))) == [("reconcile", 2)]
    assert scene.cells["c"].items()[0].key == mark
