"""Acts over memory cells: alone, killed after each request, and by two managers at once."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

import pytest

from control_plane.cluster import copies
from control_plane.cluster.acting import DONE, LATE, REFUSED, act
from control_plane.cluster.actions import Admit, ChangeCell, Complete, Release, TakeOut
from control_plane.cluster.cluster import Cluster
from control_plane.cluster.observation import Removal
from control_plane.cluster.tasks import perform
from control_plane.core.definition import Definition
from control_plane.places.changes import copies_kept
from control_plane.places.items import (
    ACTIVE,
    DRAINING,
    FAILED,
    FULL,
    REMOVED,
    CellSeen,
    FifoAppends,
    Heartbeat,
)
from data_plane.core.queue import Generation
from data_plane.ports import CellUnavailableError, Key
from data_plane.replication.copying import Position
from data_plane.replication.placement import partition_of
from data_plane.stored.keys import log_partitions, partitions, states
from tests.unit.control_plane.cluster.scene import LATER_US, SECOND_US, Cut, Scene, execute
from tests.unit.repeatable import SeededEntropy

ROUNDS_MAX: Final = 20
REQUESTS_MIN: Final = 5
"""Of an execution that finds nothing to do: what observing takes."""

GROUP: Final = "g3.05"
STORED: Final = bytes(10)
"""A key as blocks have."""
DAY_S: Final = 86_400


def fails(scene: Scene, for_s: float = 5) -> CellSeen:
    return CellSeen(answers=False, since_us=scene.clock.now_us() - round(for_s * SECOND_US))


# What the world is like, and what it is to become.


class Case:
    """A scene before the manager comes, and how it is to be in the end."""

    cells = "abcd"

    def prepare(self, scene: Scene) -> None:
        raise NotImplementedError

    def beat(self, scene: Scene) -> None:
        scene.beat()

    def check(self, scene: Scene) -> None:
        raise NotImplementedError


def store(scene: Scene, *, fifo: bool = False, **changed: Any) -> Definition:
    """A queue of the group, with an item in each of its partitions in each of its members."""
    definition = define(scene, fifo=fifo, **changed)
    for member in scene.placement(GROUP).members:
        for partition in stored_partitions(definition):
            key = Key(partition_of(member, partition), STORED)
            item = {"v": 1, "R": 3, "E": 1} if fifo else {"v": 1}
            scene.run(scene.cells[member.cell].put(key, item))
    return definition


def define(scene: Scene, *, fifo: bool = False, **changed: Any) -> Definition:
    """A queue of the group that has nothing yet."""
    name, attributes = ("q.fifo", {"FifoQueue": "true"}) if fifo else ("q", {})
    now_us = scene.clock.now_us()
    definition = scene.registry.define(
        account="1", region="r", name=name, attributes=attributes, tags={}, now_us=now_us
    )
    definition = replace(definition, cell=GROUP, **changed)
    scene.run(scene.placing.placed(definition))
    scene.run(scene.registry.create(definition, attributes, now_us))
    return definition


def stored_partitions(definition: Definition) -> tuple[str, ...]:
    logs = log_partitions(definition.uid, definition.generations) if definition.fifo else ()
    return (*partitions(definition.uid), *logs)


class FailOver(Case):
    """The first member is down, and so another one decides; a spare cell takes its place."""

    def prepare(self, scene: Scene) -> None:
        scene.place(GROUP, "abc")
        scene.place("g3.06", "bca")
        self.queues = [store(scene), store(scene, fifo=True)]
        scene.cells["a"].down = True

    def beat(self, scene: Scene) -> None:
        scene.beat(a=fails(scene))

    def check(self, scene: Scene) -> None:
        assert (scene.members(GROUP), scene.members("g3.06")) == ("bcd", "bcd")
        check_copies(scene, self.queues)
        last = scene.run(scene.places.removal())
        assert last is not None
        assert last.cell == "a"


def check_copies(scene: Scene, queues: list[Definition]) -> None:
    for member in scene.placement(GROUP).members:
        for queue in queues:
            for partition in stored_partitions(queue):
                key = Key(partition_of(member, partition), STORED)
                item = scene.run(scene.cells[member.cell].get(key))
                assert item is not None, (member, partition)


class Drain(Case):
    """A cell's members move away, its groups having all copies all the time."""

    def prepare(self, scene: Scene) -> None:
        scene.place(GROUP, "abc")
        scene.place("g3.06", "bda")
        self.queues = [store(scene)]
        scene.run(scene.places.set_state("a", DRAINING))

    def check(self, scene: Scene) -> None:
        assert {*scene.members(GROUP)} == {*scene.members("g3.06")} == {*"bcd"}
        check_copies(scene, self.queues)


class BecomeFull(Case):
    """A cell that has no room gets no more groups, and gives some away."""

    def prepare(self, scene: Scene) -> None:
        scene.place(GROUP, "abc")

    def beat(self, scene: Scene) -> None:
        full = CellSeen(answers=True, since_us=0, full=True)
        scene.beat(a=full)

    def check(self, scene: Scene) -> None:
        known = scene.run(scene.places.read_all())
        assert known.cells["a"].state == FULL
        assert {*scene.members(GROUP)} == {*"bcd"}


class SplitHot(Case):
    """A FIFO queue with more appends than its partitions take has twice as many, once."""

    def prepare(self, scene: Scene) -> None:
        scene.place(GROUP, "abc")
        high = {"FifoQueue": "true", "FifoThroughputLimit": "perMessageGroupId"}
        begun = Generation(0, 8, scene.clock.now_us() // SECOND_US - 2 * DAY_S)
        store(scene, fifo=True, attributes=high, generations=(begun,))

    def beat(self, scene: Scene) -> None:
        scene.beat(FifoAppends("1", "r", "q.fifo", 200.0))

    def check(self, scene: Scene) -> None:
        assert partitions_of(scene) == [8, 16]


class RetireDrained(Case):
    """Generations without messages are forgotten; the last one stays."""

    def prepare(self, scene: Scene) -> None:
        scene.place(GROUP, "abc")
        now_s = scene.clock.now_us() // SECOND_US
        generations = (
            Generation(0, 1, now_s - 30 * DAY_S),
            Generation(1, 2, now_s - 20 * DAY_S),
            Generation(2, 4, now_s - 3 * DAY_S),
        )
        store(scene, fifo=True, generations=generations)

    def beat(self, scene: Scene) -> None:
        scene.beat(FifoAppends("1", "r", "q.fifo", 1.0))

    def check(self, scene: Scene) -> None:
        assert partitions_of(scene) == [2, 4]


def partitions_of(scene: Scene) -> list[int]:
    definition = scene.run(scene.registry.read("1", "r", "q.fifo"))
    assert definition is not None
    return [generation.partitions for generation in definition.generations]


class FrontEndGone(Case):
    """What a front end that is no more has told nobody all copies get to know."""

    def prepare(self, scene: Scene) -> None:
        scene.place(GROUP, "abc")
        self.state = Key(states(define(scene).uid, 0, 0), bytes(10))
        now_us = scene.clock.now_us()
        deleted = {"v": 1, "x": now_us // SECOND_US + 30 * DAY_S, "d": frozenset({1})}
        scene.run(scene.cells["a"].put(self.state, deleted))
        scene.run(scene.places.beat(Heartbeat("gone", now_us, {})))
        scene.clock.advance(31)

    def check(self, scene: Scene) -> None:
        for name in "abc":
            item = scene.run(scene.cells[name].get(self.state))
            assert item is not None
            assert item["d"] == frozenset({1})
        assert [one.front_end for one in scene.run(scene.places.heartbeats())] == ["f"]


CASES: Final = [FailOver, Drain, BecomeFull, SplitHot, RetireDrained, FrontEndGone]


def prepared(case: Case) -> Scene:
    scene = Scene(case.cells)
    case.prepare(scene)
    scene.line.requests = 0
    return scene


def settle(case: Case, scene: Scene, run: Callable[[Scene], object]) -> None:
    """Let managers come again and again, until there is nothing left to be done."""
    for _ in range(ROUNDS_MAX):
        case.beat(scene)
        run(scene)
        check_groups(scene)
        case.beat(scene)
        if not scene.run(execute(scene.cluster)) and "(" not in "".join(groups(scene)):
            case.check(scene)
            return
        check_groups(scene)
        scene.clock.advance(11)
    raise AssertionError("the managers never end")


def groups(scene: Scene) -> list[str]:
    known = scene.run(scene.places.read_all())
    return [scene.members(group) for group in known.placements]


def check_groups(scene: Scene) -> None:
    for stored in scene.run(scene.places.read_all()).placements.values():
        full = [member for member in stored.placement.members if member.full]
        assert len(full) >= copies_kept(stored.factor)


@pytest.mark.parametrize("kind", CASES)
def test_the_manager_brings_things_to_their_end(kind: type[Case]) -> None:
    case = kind()
    settle(case, prepared(case), lambda scene: scene.run(execute(scene.cluster)))


@pytest.mark.parametrize("kind", CASES)
def test_a_manager_that_is_killed_after_any_request_does_no_harm(kind: type[Case]) -> None:
    """Killed in its first execution, or in the one in which a member that joined is copied to."""
    for executions in (1, 2):
        cut_at = 1
        while True:
            case = kind()
            scene = prepared(case)
            case.beat(scene)
            for _ in range(1, executions):
                scene.run(execute(scene.cluster))
                scene.clock.advance(11)
                case.beat(scene)
            if not killed(scene, cut_at):
                break
            settle(case, scene, lambda scene: scene.run(execute(scene.cluster)))
            cut_at += 1
        assert cut_at > REQUESTS_MIN


def killed(scene: Scene, cut_at: int) -> bool:
    """Whether the manager made so many requests, and was killed after the last of them."""
    scene.line.requests, scene.line.cut_at = 0, cut_at
    try:
        scene.run(execute(scene.cluster))
    except Cut:
        return True
    finally:
        scene.line.cut_at = 0
    return False


@pytest.mark.parametrize("kind", CASES)
@pytest.mark.parametrize("seed", range(20))
def test_two_managers_at_once_do_what_one_does(kind: type[Case], seed: int) -> None:
    case, chance = kind(), SeededEntropy(seed)

    def both(scene: Scene) -> None:
        scene.run_together(chance, tolerant(scene.cluster), tolerant(scene.cluster))

    settle(case, prepared(case), both)


async def tolerant(cluster: Cluster) -> None:
    """An execution as the state machine repeats it where a cell does not answer."""
    try:
        await execute(cluster)
    except CellUnavailableError:
        return


# Single acts


@pytest.fixture
def scene() -> Scene:
    made = Scene("abcd")
    made.place(GROUP, "abc")
    return made


def outcome(scene: Scene, action: Any) -> str:
    result = scene.run(act(scene.cluster, action, {}, LATER_US))
    return str(result["outcome"])


def test_an_act_that_was_planned_upon_an_old_epoch_is_late(scene: Scene) -> None:
    assert outcome(scene, TakeOut("a", {GROUP: 1})) == DONE
    assert outcome(scene, TakeOut("a", {GROUP: 1})) == DONE  # it is done
    for action in (
        TakeOut("c", {GROUP: 0}),
        Admit(GROUP, 1, "d"),
        Release(GROUP, 1, "b"),
        Complete(GROUP, 1, "d"),
        Admit("g3.99", 1, "d"),
        Complete("g3.99", 1, "d"),
        ChangeCell("b", FULL, DRAINING),
        ChangeCell("x", FULL, ACTIVE),
    ):
        expected = REFUSED if isinstance(action, TakeOut) else LATE
        assert outcome(scene, action) == expected, action
    assert scene.members(GROUP) == "bc"


def test_no_act_takes_more_than_half_of_the_copies(scene: Scene) -> None:
    assert outcome(scene, TakeOut("a", {GROUP: 1})) == DONE
    assert outcome(scene, Release(GROUP, 2, "b")) == REFUSED
    scene.clock.advance(61)
    assert outcome(scene, TakeOut("b", {GROUP: 2})) == REFUSED
    assert scene.members(GROUP) == "bc"


def test_only_a_group_without_queues_is_forced_to_give_up_more(scene: Scene) -> None:
    scene.place("g3.06", "abc", factor=7)
    scene.place("g3.07", "abc", factor=7)
    queue = Definition("1" * 12, "us-east-1", "orders", "0" * 16, "g3.07", 1, 1)
    scene.run(scene.placing.placed(queue))
    answer = scene.run(perform({"task": "observe"}, scene.cluster, LATER_US))
    assert answer is not None
    told = {group["name"]: group.get("empty", False) for group in answer["observed"]["groups"]}
    assert (told["g3.06"], told["g3.07"]) == (True, False)
    assert outcome(scene, Release("g3.06", 1, "a")) == REFUSED
    assert outcome(scene, Release("g3.06", 1, "a", forced=True)) == DONE
    assert outcome(scene, Release("g3.07", 1, "a", forced=True)) == LATE
    assert (scene.members("g3.06"), scene.members("g3.07")) == ("bc", "abc")


@pytest.mark.parametrize("state", [DRAINING, FAILED, REMOVED])
def test_what_an_operator_says_of_a_cell_meanwhile_stays(state: str) -> None:
    for seed in range(30):
        scene, chance = Scene("abcd"), SeededEntropy(seed)

        async def call(scene: Scene = scene) -> None:
            await scene.places.set_state("a", state)

        fills = act(scene.cluster, ChangeCell("a", ACTIVE, FULL), {}, LATER_US)
        scene.run_together(chance, fills, call())
        assert scene.run(scene.places.read_all()).cells["a"].state == state


def test_groups_lose_one_cell_within_safe_unless_an_operator_says_so(scene: Scene) -> None:
    scene.place("g3.06", "bcd")
    assert outcome(scene, TakeOut("a", {GROUP: 1})) == DONE
    assert outcome(scene, TakeOut("d", {"g3.06": 1})) == REFUSED
    scene.run(scene.places.set_state("d", FAILED))
    assert outcome(scene, TakeOut("d", {"g3.06": 1})) == DONE
    scene.place("g3.07", "bcd")
    scene.run(scene.places.set_state("d", ACTIVE))
    scene.clock.advance(60)
    assert outcome(scene, TakeOut("d", {"g3.07": 1})) == DONE


def test_of_two_managers_that_fail_over_two_cells_one_is_refused() -> None:
    for seed in range(30):
        scene, chance = Scene("abcdef"), SeededEntropy(seed)
        scene.place(GROUP, "abc")
        scene.place("g3.06", "def")
        results: list[str] = []

        async def take_out(
            cell: str, group: str, scene: Scene = scene, results: list[str] = results
        ) -> None:
            action = TakeOut(cell, {group: 1})
            results.append((await act(scene.cluster, action, {}, LATER_US))["outcome"])

        scene.run_together(chance, take_out("a", GROUP), take_out("d", "g3.06"))
        assert sorted(results) == [DONE, REFUSED]
        assert {scene.members(GROUP), scene.members("g3.06")} in ({"bc", "def"}, {"abc", "ef"})


def test_a_copy_that_takes_long_goes_on_where_it_was(scene: Scene) -> None:
    queue = store(scene)
    (partition, *_) = partitions(queue.uid)
    for number in range(2_000):
        key = Key(partition, b"n%06d" % number)
        scene.run(scene.cells["a"].put(key, {"v": 1}))
    assert outcome(scene, Admit(GROUP, 1, "d")) == DONE
    joining = scene.placement(GROUP).members[-1]
    after: dict[str, Any] = {}
    rounds = 0
    while True:
        action = Complete(GROUP, 2, "d")
        result = scene.run(act(scene.cluster, action, json.loads(json.dumps(after)), 0))
        rounds += 1
        if not result["more"]:
            break
        after = result["after"]
    assert (result["outcome"], rounds > 3) == (DONE, True)
    assert scene.members(GROUP) == "abcd"
    copied = partition_of(joining, partition)
    items = scene.run(scene.cells["d"].query(copied, limit=10_000))
    assert len(items) == 2_001


def test_of_a_chain_only_what_its_tail_has_is_copied(scene: Scene) -> None:
    """The head alone may have what nobody acknowledged: who reads the new tail must not see it."""
    queue = store(scene, fifo=True)
    partition = log_partitions(queue.uid, queue.generations)[0]
    half_written = Key(partition, b"half written")
    scene.run(scene.cells["a"].put(half_written, {"v": 1, "R": 1, "E": 1}))
    assert outcome(scene, Admit(GROUP, 1, "d")) == DONE
    assert outcome(scene, Complete(GROUP, 2, "d")) == DONE
    copied = partition_of(scene.placement(GROUP).members[-1], partition)
    items = scene.run(scene.cells["d"].query(copied, limit=10))
    assert [item.key.sort for item in items] == [STORED]


def test_a_removal_is_told_in_the_observation(scene: Scene) -> None:
    assert outcome(scene, TakeOut("a", {GROUP: 1})) == DONE
    answer = scene.run(perform({"task": "observe"}, scene.cluster, LATER_US))
    assert answer is not None
    told = answer["observed"]["removal"]
    assert Removal(**told) == Removal("a", scene.clock.now_us())


def test_a_task_of_others_is_left_to_them(scene: Scene) -> None:
    assert scene.run(perform({"task": "sweep_bodies"}, scene.cluster, LATER_US)) is None


def test_a_copy_goes_on_at_the_partition_whatever_has_come_or_gone_before_it() -> None:
    after = {"uid": "u", "partition": "b", "after": STORED.hex()}
    assert copies.position_in(("a", "b", "c"), after) == Position(1, STORED)
    assert copies.position_in(("b", "c"), after) == Position(0, STORED)
    assert copies.position_in(("a", "c"), after) == Position()
