"""Where the registry itself lies: stored in every cell, and what is made of it at a start."""

from dataclasses import dataclass, field

import pytest

from control_plane.places.changes import without
from control_plane.places.own import (
    OWN,
    OwnPlacement,
    OwnPlacementError,
    StalePlanError,
    open_own_placement,
)
from data_plane.ports import CellUnavailableError
from data_plane.runtime.event_loop import EventLoopWaits
from tests.unit.repeatable import HandClock, SeededEntropy

from .conftest import CellThatFails, run

PATHS = {name: f"/disks/{name}" for name in "abc"}


@dataclass
class Disks:
    """Three cells of one service, which can be opened again and again."""

    clock: HandClock = field(default_factory=HandClock)
    cells: dict[str, CellThatFails] = field(default_factory=dict)
    starts: int = 0

    def __post_init__(self) -> None:
        self.cells = {name: CellThatFails(self.clock) for name in PATHS}

    def open(self, *names: str) -> OwnPlacement:
        self.starts += 1
        cells = {name: self.cells[name] for name in names or PATHS}
        waits = EventLoopWaits(self.clock)
        entropy = SeededEntropy(self.starts)
        return run(lambda: open_own_placement(cells, PATHS, self.clock, entropy, waits))


def members(own: OwnPlacement) -> list[str]:
    return [member.cell for member in own.placement().members]


def leave(own: OwnPlacement, name: str, now_us: int = 0, nonce: bytes = b"nonce123") -> None:
    epoch = own.placement().epoch
    run(lambda: own.change(epoch, nonce, lambda held: without(held.placement, name, 3, now_us)))


@pytest.fixture
def disks() -> Disks:
    return Disks()


def test_a_new_service_has_it_in_all_cells(disks: Disks) -> None:
    own = disks.open()
    assert members(own) == ["a", "b", "c"]
    assert own.stored.factor == 3
    names = [dict(cell.items())[OWN]["n"] for cell in disks.cells.values()]
    assert names == ["a", "b", "c"]
    assert members(disks.open()) == ["a", "b", "c"]


def test_a_new_service_needs_all_of_its_cells(disks: Disks) -> None:
    with pytest.raises(OwnPlacementError, match="needs all of its cells"):
        disks.open("a", "b")


def test_a_change_counts_when_most_cells_have_stored_it(disks: Disks) -> None:
    own = disks.open()
    disks.cells["a"].down = True
    leave(own, "a")
    assert members(own) == ["b", "c"]
    assert members(disks.open("b", "c")) == ["b", "c"]
    disks.cells["a"].down = False
    assert members(disks.open()) == ["b", "c"]


def test_a_change_that_few_cells_have_stored_does_not_count(disks: Disks) -> None:
    own = disks.open()
    disks.cells["a"].down = disks.cells["b"].down = True
    with pytest.raises(CellUnavailableError, match="1 of 3 cells"):
        leave(own, "a")
    assert members(own) == ["a", "b", "c"]


def test_half_written_it_may_count_after_a_start_and_then_for_good(disks: Disks) -> None:
    own = disks.open()
    disks.cells["a"].down = disks.cells["b"].down = True
    with pytest.raises(CellUnavailableError):
        leave(own, "a")
    disks.cells["a"].down = disks.cells["b"].down = False
    assert members(disks.open()) == ["b", "c"]
    assert members(disks.open("a", "b")) == ["b", "c"]


def test_of_one_epoch_the_later_counts(disks: Disks) -> None:
    own = disks.open()
    disks.cells["b"].down = disks.cells["c"].down = True
    with pytest.raises(CellUnavailableError):
        leave(own, "c", 5)
    disks.cells["b"].down = disks.cells["c"].down = False
    disks.cells["a"].down = True
    leave(own, "a", 6, b"another1")
    disks.cells["a"].down = False
    assert members(disks.open("a", "b")) == ["b", "c"]


def test_a_cell_that_missed_it_is_told(disks: Disks) -> None:
    own = disks.open()
    disks.cells["c"].down = True
    leave(own, "c")
    disks.cells["c"].down = False
    before = dict(disks.cells["c"].items())[OWN]["e"]
    run(own.mend)
    assert (before, dict(disks.cells["c"].items())[OWN]["e"]) == (1, 2)


def test_without_most_cells_there_is_no_start(disks: Disks) -> None:
    disks.open()
    with pytest.raises(OwnPlacementError, match=r"1 of 3 cells can be read.*c \(/disks/c\)"):
        disks.open("a")


def test_a_cell_in_another_ones_place_is_noticed(disks: Disks) -> None:
    disks.open()
    disks.cells["a"], disks.cells["b"] = disks.cells["b"], disks.cells["a"]
    with pytest.raises(OwnPlacementError, match="what should be a is b"):
        disks.open()


def test_an_empty_cell_is_told_nothing_while_it_is_counted_on(disks: Disks) -> None:
    disks.open()
    disks.cells["c"] = CellThatFails(disks.clock)
    own = disks.open()
    assert own.empty == {"c"}
    leave(own, "c")
    run(own.mend)
    assert disks.cells["c"].items() == []
    own.empty.discard("c")
    run(own.mend)
    assert dict(disks.cells["c"].items())[OWN]["n"] == "c"


def test_changes_are_fenced_by_epoch_and_nonce(disks: Disks) -> None:
    own = disks.open()
    leave(own, "a")
    leave(own, "b")  # the same nonce: done before
    assert members(own) == ["b", "c"]
    with pytest.raises(StalePlanError, match="registry has epoch 2, not 1"):
        run(lambda: own.change(1, b"87654321", lambda held: held.placement))


def test_a_cell_is_added_and_removed(disks: Disks) -> None:
    own = disks.open()
    disks.cells["d"] = CellThatFails(disks.clock)
    own._cells["d"] = disks.cells["d"]  # type: ignore[index]
    run(lambda: own.change_cells({**PATHS, "d": "/disks/d"}, b"addition"))
    assert own.stored.factor == 4
    assert dict(disks.cells["d"].items())[OWN]["n"] == "d"
    assert disks.open().paths == {**PATHS, "d": "/disks/d"}
    run(lambda: own.change_cells(PATHS, b"removal!"))
    assert disks.open().paths == PATHS
