"""Several managers copy to members that join: together not much more than one alone."""

from collections.abc import Awaitable, Sequence
from dataclasses import replace
from typing import Any, Final, TypeVar

import pytest

from control_plane.cluster.acting import DONE, act
from control_plane.cluster.actions import Action, Admit, Complete
from control_plane.cluster.copies import PUTS_MAX
from control_plane.cluster.planning import in_own_order
from control_plane.cluster.tasks import perform
from data_plane.ports import Key
from data_plane.replication.copying import PAGE
from data_plane.stored.keys import partitions
from tests.unit.control_plane.cluster.scene import LATER_US, Scene, SceneWaits
from tests.unit.repeatable import SeededEntropy

T = TypeVar("T")

GROUPS: Final = [f"g3.{number:02}" for number in range(16)]
ITEMS: Final = 100


def joining() -> Scene:
    """Groups in cells a, b and c with a queue each, which d has joined."""
    scene = Scene("abcd")
    for group in GROUPS:
        scene.place(group, "abc")
        now_us = scene.clock.now_us()
        definition = scene.registry.define(
            account="1", region="r", name=f"q-{group[-2:]}", attributes={}, tags={}, now_us=now_us
        )
        definition = replace(definition, cell=group)
        scene.run(scene.placing.placed(definition))
        scene.run(scene.registry.create(definition, {}, now_us))
        for number in range(ITEMS):
            key = Key(partitions(definition.uid)[0], b"%04d" % number)
            scene.run(scene.cells["a"].put(key, {"v": 1}))
        scene.run(act(scene.cluster, Admit(group, 1, "d"), {}, LATER_US))
    return scene


async def manage(scene: Scene, own: str) -> None:
    """Copy to all of them, as the manager of this name does."""
    copies: list[Action] = [Complete(group, 2, "d") for group in GROUPS]
    for action in in_own_order(copies, own):
        result = await act(scene.cluster, action, {}, LATER_US)
        assert result["outcome"] == DONE


def requests_of(scene: Scene, *managers: str) -> int:
    """How many requests these managers make, in turns, until all is copied."""
    scene.line.requests = 0
    scene.run_together(SeededEntropy(1), *(manage(scene, own) for own in managers))
    assert {scene.members(group) for group in GROUPS} == {"abcd"}
    return scene.line.requests


@pytest.fixture(scope="module")
def alone() -> int:
    return requests_of(joining(), "one")


def test_who_comes_later_finds_it_done(alone: int) -> None:
    scene = joining()
    assert requests_of(scene, "one") == alone
    assert requests_of(scene, "two") <= 3 * len(GROUPS)


@pytest.mark.parametrize(
    ("managers", "most"), [(("one", "two"), 1.3), (("one", "two", "six"), 1.7)]
)
def test_managers_share_what_is_to_be_copied(
    alone: int, managers: tuple[str, ...], most: float
) -> None:
    assert requests_of(joining(), *managers) < most * alone


def test_in_one_order_each_would_copy_everything(alone: int) -> None:
    """What the one above is there for."""
    assert requests_of(joining(), "one", "one") > 1.8 * alone


def test_executions_that_begin_one_after_the_other_copy_in_orders_of_their_own() -> None:
    """A state machine has no front end's name, and begins one each minute while others copy."""
    scene, orders = joining(), []
    scene.clock.advance(60)
    for _ in range(2):
        scene.clock.advance(60)
        observed = scene.run(perform({"task": "observe"}, scene.cluster, LATER_US))
        assert observed is not None
        event = {"task": "plan", "observed": observed["observed"]}
        planned = scene.run(perform(event, scene.cluster, LATER_US))
        assert planned is not None
        orders.append([one["group"] for one in planned["tasks"] if one["act"] == "complete"])
    assert sorted(orders[0]) == sorted(orders[1]) == GROUPS
    assert orders[0] != orders[1]


@pytest.mark.parametrize(("chooses_stamps", "most"), [(True, PAGE), (False, PUTS_MAX)])
def test_a_table_is_left_connections_for_others(chooses_stamps: bool, most: int) -> None:  # noqa: FBT001 - a case
    """A directory takes in one write whatever comes together."""
    scene, at_a_time = joining(), []

    class Counting(SceneWaits):
        async def all_of(self, calls: Sequence[Awaitable[T]]) -> list[T | Exception]:
            at_a_time.append(len(calls))
            return await super().all_of(calls)

    scene.cells["d"]._stamps = chooses_stamps
    waits: Any = Counting(scene.clock)
    cluster = replace(scene.cluster, waits=waits)
    scene.run(act(cluster, Complete(GROUPS[0], 2, "d"), {}, LATER_US))
    assert (max(at_a_time), sum(at_a_time)) == (most, ITEMS)
