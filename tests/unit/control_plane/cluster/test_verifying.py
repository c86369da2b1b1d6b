"""What acts say that they did has to show in the registry, or what came of it."""

from typing import Any, Final

import pytest

from control_plane.cluster.acting import DONE, LATE
from control_plane.cluster.actions import Action, Admit, ChangeCell, TakeOut
from control_plane.cluster.observation import to_json
from control_plane.cluster.verifying import unmet
from control_plane.places.items import ACTIVE, FULL
from tests.unit.control_plane.cluster.scene import Scene

GROUP: Final = "g3.05"


@pytest.fixture
def scene() -> Scene:
    made = Scene("abcd")
    made.place(GROUP, "abc")
    return made


def told(scene: Scene, action: Action, outcome: str = DONE) -> list[str]:
    results: list[dict[str, Any]] = [{"task": to_json(action), "outcome": outcome}]
    return unmet(results, scene.run(scene.places.read_all()))


def test_an_epoch_that_did_not_end_is_told(scene: Scene) -> None:
    epoch = scene.placement(GROUP).epoch
    line = f"group {GROUP} still has epoch {epoch}"
    assert told(scene, TakeOut("a", {GROUP: epoch})) == [line]
    assert told(scene, Admit(GROUP, epoch, "d")) == [line]
    assert told(scene, Admit(GROUP, epoch - 1, "d")) == []  # somebody has gone on from there
    assert told(scene, TakeOut("a", {GROUP: epoch}), LATE) == []  # it does not say that it did it


def test_a_state_that_somebody_has_set_back_since_is_no_failure(scene: Scene) -> None:
    assert told(scene, ChangeCell("a", ACTIVE, FULL)) == []
