"""Cells are asked once more before an act rests on what is known of them."""

from dataclasses import replace
from typing import Any, Final

import pytest

from control_plane.cluster import acting
from control_plane.cluster.acting import DONE, LATE, act
from control_plane.cluster.actions import Admit, Release, TakeOut
from control_plane.places.groups import REGISTRY
from control_plane.places.items import DRAINING, CellSeen, Heartbeat
from control_plane.places.own import KnownService, OwnPlacement, first_known
from control_plane.places.stored import Places
from data_plane.core.deadline import left_us
from data_plane.ports import DeadlinePassedError
from tests.unit.control_plane.cluster.scene import LATER_US, SECOND_US, Scene, execute

GROUP: Final = "g3.05"


@pytest.fixture
def scene() -> Scene:
    made = Scene("abcd")
    made.place(GROUP, "abc")
    return made


def outcome(scene: Scene, action: Any) -> str:
    return str(scene.run(act(scene.cluster, action, {}, LATER_US))["outcome"])


def test_a_member_is_released_only_while_those_that_stay_answer(scene: Scene) -> None:
    """What was planned waits behind copies that take hours."""
    scene.place("g1.06", "ac", factor=1)
    scene.cells["c"].down = True
    assert outcome(scene, Release("g1.06", 1, "a")) == LATE
    assert scene.members("g1.06") == "ac"
    scene.cells["c"].down = False
    assert outcome(scene, Release("g1.06", 1, "a")) == DONE
    scene.cells["c"].down = True
    assert outcome(scene, Release("g1.06", 1, "a")) == DONE  # it is done
    # One that joins has nothing that others lack.
    assert outcome(scene, Admit("g1.06", 2, "b")) == DONE
    assert outcome(scene, Release("g1.06", 3, "b")) == DONE


def test_a_cell_is_taken_out_only_of_groups_that_others_serve_by_now(scene: Scene) -> None:
    """The step was tried again for minutes: the cell is back, and the other copy is lost."""
    scene.place("g2.06", "ac", factor=2)
    scene.cells["c"].down = True
    late = TakeOut("a", {GROUP: 1, "g2.06": 1, "g2.07": 1})
    assert outcome(scene, late) == LATE
    assert (scene.members(GROUP), scene.members("g2.06")) == ("bc", "ac")
    # Where front ends see it answer it does not matter what the manager sees.
    scene.beat()
    assert outcome(scene, late) == LATE
    assert scene.members("g2.06") == "c"


def test_the_registry_does_not_leave_the_cell_that_is_back_to_one_that_is_lost(
    scene: Scene,
) -> None:
    """Of two cells one looked down, and by now it is the other one."""

    async def keep(_known: KnownService) -> bool:
        return True

    known = first_known("0" * 16, {"a": "/a", "c": "/c"}, b"12345678", scene.clock.now_us())
    cluster = scene.cluster
    own = OwnPlacement(scene.cells, scene.clock, cluster.waits, known, 0, keep)
    scene.run(own.advance("ac"))
    cluster = replace(cluster, places=Places(scene.control, scene.clock, scene.entropy, own))
    late = TakeOut("a", {REGISTRY: 1})

    def take_out() -> tuple[str, list[str]]:
        result = scene.run(act(cluster, late, {}, LATER_US))
        return str(result["outcome"]), [member.cell for member in own.placement().members]

    scene.cells["c"].down = True
    assert take_out() == (LATE, ["a", "c"])
    scene.cells["c"].down = False
    assert take_out() == (DONE, ["c"])


def test_a_first_copy_that_does_not_answer_is_left_to_be_taken_out(scene: Scene) -> None:
    """It drains, and fails when another cell has just been taken out."""
    scene.place("g1.06", "ac", factor=1)
    scene.cells["a"].down = True
    assert outcome(scene, Release("g1.06", 1, "a")) == LATE
    assert outcome(scene, TakeOut("a", {"g1.06": 1})) == DONE
    assert scene.members("g1.06") == "c"


def test_those_that_stay_are_asked_after_what_takes_long(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene.place("g1.06", "ac", factor=1)

    async def tell_on(*_args: Any, **_named: Any) -> tuple[None, int]:
        scene.cells["c"].down = True
        return None, 0

    monkeypatch.setattr(acting, "tell_on", tell_on)
    assert outcome(scene, Release("g1.06", 1, "a")) == LATE
    assert scene.members("g1.06") == "ac"


def test_nobody_is_asked_for_a_release_that_was_planned_upon_an_old_epoch(scene: Scene) -> None:
    assert outcome(scene, Admit(GROUP, 1, "d")) == DONE
    for cell in scene.cells.values():
        cell.requests.clear()
    assert outcome(scene, Release(GROUP, 1, "a")) == LATE
    assert not any(cell.requests for cell in scene.cells.values())


def test_a_registry_that_is_far_away_is_asked_for_all_groups(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While a cell drains each of them takes a request."""
    for number in range(48):
        scene.place(f"g2.{number:02}", "ab", factor=2)
    scene.run(scene.places.set_state("a", DRAINING))
    is_empty = scene.placing.is_empty

    async def slow(group: str) -> bool:
        if (left_us(scene.clock.now_us()) or 0) <= 0:
            raise DeadlinePassedError
        scene.clock.advance(0.03)
        return await is_empty(group)

    monkeypatch.setattr(scene.placing, "is_empty", slow)
    results = scene.run(execute(scene.cluster))
    assert {one["task"]["act"] for one in results} == {"admit"}
    assert len(results) == 1 + 48


def test_without_front_ends_a_cell_is_asked_until_it_counts_as_down(scene: Scene) -> None:
    scene.cells["b"].down = True
    (result,) = scene.run(execute(scene.cluster))
    assert result["task"]["act"] == "take_out"
    assert scene.members(GROUP) == "ac"


def test_where_front_ends_are_divided_a_cell_is_asked_until_it_counts_as_down(
    scene: Scene,
) -> None:
    scene.clock.advance(60)
    now_us = scene.clock.now_us()
    failing = CellSeen(answers=False, since_us=now_us - 5 * SECOND_US)
    for name, cells in (
        ("f", {"b": failing}),
        ("g", {"b": CellSeen(answers=True, since_us=0)}),
    ):
        scene.run(scene.places.beat(Heartbeat(name, now_us, cells)))
    assert scene.run(execute(scene.cluster)) == []
    scene.cells["b"].down = True
    (result,) = scene.run(execute(scene.cluster))
    assert result["task"]["act"] == "take_out"
    assert scene.members(GROUP) == "ac"
