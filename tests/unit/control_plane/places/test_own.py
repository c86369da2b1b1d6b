"""Where the registry itself lies: stored in every cell, and what is made of it at a start."""

import asyncio
import json
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pytest

from control_plane.core.identity import Found, judge
from control_plane.places.changes import without
from control_plane.places.items import StoredPlacement
from control_plane.places.own import (
    OWN,
    PUT_US_MAX,
    KnownService,
    OwnPlacement,
    StalePlanError,
    decode_manifest,
    encode_manifest,
    read_own,
)
from control_plane.places.starting import (
    Ground,
    StartRefusedError,
    begin,
    go_on,
    plan_start,
)
from data_plane.ports import CellUnavailableError, Written
from data_plane.replication.placement import Placement
from data_plane.runtime.event_loop import EventLoopWaits
from tests.unit.control_plane.cluster.test_hanging import LoopClock
from tests.unit.data_plane.runtime.virtual_loop import VirtualLoop
from tests.unit.data_plane.runtime.virtual_loop import run as virtual
from tests.unit.repeatable import HandClock, SeededEntropy

from .conftest import CellThatFails, run

PATHS = {name: f"/disks/{name}" for name in "abc"}


@dataclass
class Disks:
    """Three cells of one service, which can be opened again and again."""

    clock: HandClock = field(default_factory=HandClock)
    cells: dict[str, CellThatFails] = field(default_factory=dict)
    starts: int = 0
    manifest: str = ""
    keeps: bool = True

    def __post_init__(self) -> None:
        self.cells = {name: CellThatFails(self.clock) for name in PATHS}

    async def keep(self, known: KnownService) -> bool:
        if self.keeps:
            self.manifest = encode_manifest(known)
        return self.keeps

    def open(self, *names: str, gives_up: tuple[str, ...] = ()) -> OwnPlacement:
        return run(lambda: self._open(names or tuple(self.cells), gives_up))

    async def _open(self, names: tuple[str, ...], gives_up: tuple[str, ...]) -> OwnPlacement:
        self.starts += 1
        self.clock.advance(1)
        manifest = decode_manifest(self.manifest) if self.manifest else None
        owns = {name: await read_own(self.cells[name]) for name in names}
        found = [Found(f"/disks/{name}", own.said if own else None) for name, own in owns.items()]
        found += [Found(f"/disks/{name}", reason="gone") for name in self.cells if name not in owns]
        verdict = judge(manifest.knowledge if manifest else None, found)
        plan = plan_start(
            verdict,
            [*(own.known for own in owns.values() if own), *([manifest] if manifest else [])],
            has_manifest=manifest is not None,
            gives_up=gives_up,
            begins_anew=False,
        )
        waits, entropy = EventLoopWaits(self.clock), SeededEntropy(self.starts)
        places = {one.path: name for name, one in verdict.cells.items()}
        cells = {places.get(f"/disks/{name}", name): self.cells[name] for name in names}
        ground = Ground(cells, self.clock, entropy, waits, self.keep)
        if plan.known is None:
            return await begin(ground, PATHS)
        own, _ = await go_on(ground, plan, verdict)
        return own


def members(own: OwnPlacement) -> list[str]:
    return [member.cell for member in own.placement().members]


def leave(own: OwnPlacement, name: str, now_us: int = 0, nonce: bytes = b"nonce123") -> None:
    epoch = own.placement().epoch
    run(
        lambda: own.change(
            epoch, nonce, lambda held: without(held.placement, name, held.factor, now_us)
        )
    )


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
    with pytest.raises(StartRefusedError, match="needs all of its cells"):
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
    assert members(disks.open("a", "b", gives_up=("c",))) == ["b"]


def test_of_one_epoch_the_later_counts(disks: Disks) -> None:
    own = disks.open()
    disks.cells["b"].down = disks.cells["c"].down = True
    with pytest.raises(CellUnavailableError):
        leave(own, "c", 5)
    disks.cells["b"].down = disks.cells["c"].down = False
    disks.cells["a"].down = True
    leave(own, "a", 6, b"another1")
    disks.cells["a"].down = False
    assert members(disks.open("a", "b", gives_up=("c",))) == ["b"]


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
    with pytest.raises(
        StartRefusedError,
        match=r"^1 of 3 cells can be read.*c \(/disks/c\) cannot be opened: gone; .*--give-up b,c$",
    ):
        disks.open("a")
    own = disks.open("a", gives_up=("b", "c"))
    assert (members(own), own.paths) == (["a"], {"a": "/disks/a"})
    assert disks.open("a").paths == {"a": "/disks/a"}


def test_cells_may_change_their_places(disks: Disks) -> None:
    disks.open()
    disks.cells["a"], disks.cells["b"] = disks.cells["b"], disks.cells["a"]
    disks.open()
    assert dict(disks.cells["a"].items())[OWN]["n"] == "b"


def test_an_empty_cell_is_told_nothing_before_it_is_let_in(disks: Disks) -> None:
    disks.open()
    disks.cells["c"] = CellThatFails(disks.clock)
    own = disks.open()
    assert own.empty == {"c"}
    assert members(own) == ["a", "b"]
    run(own.mend)
    assert disks.cells["c"].items() == []
    run(lambda: own.let_in("c", disks.cells["c"]))
    assert dict(disks.cells["c"].items())[OWN]["n"] == "c"
    assert own.empty == set()


def test_what_is_opened_gets_an_incarnation_that_all_know(disks: Disks) -> None:
    first = dict(disks.open().incarnations)
    again = dict(disks.open().incarnations)
    assert first.keys() == again.keys() == PATHS.keys()
    assert all(again[name] > first[name] for name in PATHS)
    for name, cell in disks.cells.items():
        item = dict(cell.items())[OWN]
        assert (item["i"], json.loads(str(item["k"]))) == (again[name], again)
    assert decode_manifest(disks.manifest).incarnations == again


def test_nothing_is_stored_in_what_was_closed_before_it_is_let_in_again(disks: Disks) -> None:
    own = disks.open()
    disks.cells["c"].down = True
    leave(own, "c")
    own.shut("c")
    disks.cells["c"].down = False
    before = dict(disks.cells["c"].items())[OWN]
    run(own.mend)
    assert dict(disks.cells["c"].items())[OWN] == before
    run(lambda: own.let_in("c", disks.cells["c"]))
    after = dict(disks.cells["c"].items())[OWN]
    assert (after["e"], after["i"]) == (2, own.incarnations["c"])
    assert own.incarnations["c"] > own.incarnations["a"]


def test_of_two_cells_one_is_enough_with_the_manifest(disks: Disks) -> None:
    own = disks.open()
    leave(own, "c", 0, b"leaves c")
    run(lambda: own.change_cells({"a": PATHS["a"], "b": PATHS["b"]}, b"two of 3"))
    del disks.cells["c"]
    own = disks.open()
    disks.keeps = False
    disks.cells["a"].down = True
    with pytest.raises(CellUnavailableError, match="1 of 2 cells"):
        leave(own, "a")
    disks.keeps = True
    leave(own, "a")
    assert members(own) == ["b"]
    disks.cells["a"].down = False
    with pytest.raises(StartRefusedError, match=r"^no cell that can be read has all of the reg"):
        disks.open("a")
    with pytest.raises(StartRefusedError, match=r"or write what is whole of a into a new store"):
        disks.open("a")
    kept, disks.manifest = disks.manifest, ""
    with pytest.raises(StartRefusedError, match=r"^1 of 2 cells can be read"):
        disks.open("b")
    disks.manifest = kept
    assert members(disks.open("b")) == ["b"]


def test_a_manifest_that_could_not_be_written_is_written_later(disks: Disks) -> None:
    own = disks.open()
    disks.keeps = False
    leave(own, "c")
    assert decode_manifest(disks.manifest).stored.placement.epoch == 1
    disks.keeps = True
    run(own.mend)
    assert decode_manifest(disks.manifest).stored.placement.epoch == 2


def test_the_format_of_before_is_taken_over(disks: Disks) -> None:
    disks.open()
    for name, cell in disks.cells.items():
        item = {**dict(cell.items())[OWN], "v": 1}
        before = {key: value for key, value in item.items() if key not in "uik"}
        run(lambda cell=cell, before=before: cell.put(OWN, before))  # type: ignore[misc]
        assert "u" not in dict(disks.cells[name].items())[OWN]
    disks.manifest = ""
    own = disks.open()
    assert len(own.service) == 16
    assert {dict(cell.items())[OWN]["u"] for cell in disks.cells.values()} == {own.service}
    assert disks.open().service == own.service


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


def test_a_cell_that_never_answers_holds_up_no_change() -> None:
    """A disk may hang for ever, and the registry has to leave it, or nothing is decided."""
    loop = VirtualLoop()
    disks = Disks(LoopClock(loop))
    hanging = disks.cells["c"]
    put, answers = hanging.put, asyncio.Event()

    async def hang(*call: Any, **options: Any) -> Written:
        await answers.wait()
        return await put(*call, **options)

    def leaves(name: str, held: StoredPlacement) -> Placement:
        return without(held.placement, name, 1, 0)

    async def story() -> None:
        own = await disks._open(tuple(disks.cells), ())
        hanging.put = hang  # type: ignore[method-assign]
        for left in ("c", "b"):
            began_s = loop.time()
            await own.change(own.placement().epoch, left.encode(), partial(leaves, left))
            await own.mend()
            assert loop.time() - began_s < PUT_US_MAX / 1_000_000 + 1
        assert members(own) == ["a"]
        answers.set()
        await asyncio.sleep(1)
        await own.mend()
        for cell in disks.cells.values():
            stored = await read_own(cell)
            assert stored is not None
            assert stored.known.stored == own.stored

    virtual(story(), loop)
