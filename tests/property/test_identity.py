"""Directories of cells that are copied, put back, swapped, deleted, with crashes at any write.

No start takes a copy as current that lacks what its cell had, and none calls the newest one stale.
"""

import asyncio
from collections.abc import Awaitable, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final, NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from control_plane.core.identity import Found, Standing, Verdict, judge
from control_plane.places.own import (
    KnownService,
    OwnPlacement,
    decode_manifest,
    decode_own,
    encode_manifest,
)
from control_plane.places.starting import (
    Ground,
    StartRefusedError,
    begin,
    go_on,
    plan_start,
)
from data_plane.ports import Attributes, CellUnavailableError, Key
from tests.unit.repeatable import HandClock, SeededEntropy

PLACES: Final = ("one", "two", "three", "four")
NAMES: Final = {f"cell-{n}": path for n, path in enumerate(PLACES[:3], start=1)}


class Crash(BaseException):
    """The process ends here."""


@dataclass(eq=False)
class Disk:
    """A directory: what the cell stored of itself, and how many messages it has."""

    item: Attributes | None = None
    messages: int = 0
    fails: bool = False
    ground: Any = None

    async def put(self, key: Key, item: Attributes) -> None:
        del key
        if self.fails:
            raise CellUnavailableError("the disk is dead")
        self.ground.count()
        self.item = dict(item)

    def copied(self) -> "Disk":
        return Disk(deepcopy(self.item), self.messages)


class Newest(NamedTuple):
    """Of a cell: the directory that it was last, and what it had."""

    disk: Disk
    messages: int


@dataclass
class World:
    """A service on its machine, and an operator with copies of everything."""

    random: Random
    clock: HandClock = field(default_factory=HandClock)
    disks: dict[str, Disk] = field(default_factory=dict)
    manifest: str | None = None
    newest: dict[str, Newest] = field(default_factory=dict)
    incarnations: dict[str, int] = field(default_factory=dict)
    copies: list[tuple[str, Disk]] = field(default_factory=list)
    manifests: list[str | None] = field(default_factory=list)
    writes_left: int = 1000
    starts: int = 0
    served: int = 0
    running: dict[str, Disk] = field(default_factory=dict)
    own: OwnPlacement | None = None

    def count(self) -> None:
        """A write: the last one that is left does not happen."""
        self.writes_left -= 1
        if self.writes_left < 0:
            raise Crash

    async def coalesce(self, _lane: object, entry: Any, flush: Any, _until_us: object) -> Any:
        """Alone."""
        return (await flush([entry]))[0]

    async def all_of(self, calls: Sequence[Awaitable[Any]]) -> list[Any]:
        """In any order; a crash in between leaves the others undone."""
        outcomes: dict[int, Any] = {}
        order = list(enumerate(calls))
        self.random.shuffle(order)
        try:
            for at, call in order:
                try:
                    outcomes[at] = await call
                except CellUnavailableError as error:
                    outcomes[at] = error
        finally:
            for at, call in order:
                if at not in outcomes:
                    call.close()  # type: ignore[attr-defined]
        return [outcomes[at] for at in range(len(order))]

    async def keep(self, known: KnownService) -> bool:
        self.count()
        self.manifest = encode_manifest(known)
        return True

    # What a server does

    async def start(self) -> None:
        self.clock.advance(1)
        self.starts += 1
        manifest = decode_manifest(self.manifest) if self.manifest else None
        found = [
            Found(path, decode_own(one.item).said if one.item is not None else None)
            for path, one in self.disks.items()
        ]
        verdict = judge(manifest.knowledge if manifest else None, found)
        self._check(verdict, manifest)
        known = [decode_own(one.item).known for one in self.disks.values() if one.item]
        try:
            plan = plan_start(
                verdict,
                [*known, *([manifest] if manifest else [])],
                has_manifest=manifest is not None,
                gives_up=(),
                begins_anew=False,
            )
        except StartRefusedError:
            return
        cells = self._current(verdict)
        entropy = SeededEntropy(self.starts)
        ground = Ground(cells, self.clock, entropy, self, self.keep)  # type: ignore[arg-type]
        if plan.known is None:
            paths = dict(NAMES)
            cells.update(
                {name: self.disks.setdefault(path, Disk()) for name, path in paths.items()}
            )
            self._connect(cells)
            self._served(await begin(ground, paths), cells)
            return
        self._connect(cells)
        own, refused = await go_on(ground, plan, verdict)
        for one in refused:
            del cells[one.name]
        self._served(own, cells)
        for name in sorted(own.empty):
            disk = Disk(None, max(one.messages for one in cells.values()), ground=self)
            await own.let_in(name, disk)  # type: ignore[arg-type]
            self.disks[own.paths[name]] = cells[name] = disk
            self._served(own, cells)

    def _current(self, verdict: Verdict) -> dict[str, Disk]:
        cells = verdict.cells
        return {name: self.disks[cells[name].path] for name in verdict.of(Standing.CURRENT)}

    def _connect(self, cells: dict[str, Disk]) -> None:
        for disk in cells.values():
            disk.ground = self

    def _served(self, own: OwnPlacement, cells: dict[str, Disk]) -> None:
        """Something is sent; from now on copies of before lack it."""
        self.own, self.running = own, cells
        self.incarnations = dict(own.incarnations)
        self.served += 1
        for name, disk in cells.items():
            disk.messages += 1
            self.newest[name] = Newest(disk, disk.messages)
            assert disk.item is not None
            assert dict(decode_own(disk.item).known.incarnations) == self.incarnations
        assert self.manifest is not None
        assert dict(decode_manifest(self.manifest).incarnations) == self.incarnations

    def _check(self, verdict: Verdict, manifest: KnownService | None) -> None:
        """What is true of it, if anybody is left who knows the last start."""
        known = [decode_own(disk.item).known for disk in self.disks.values() if disk.item]
        known += [manifest] if manifest else []
        if not any(self._knows_last(one) for one in known):
            return
        if manifest is not None or self.newest:
            assert verdict.cells, "a known service begins anew"
        for name, one in self._current(verdict).items():
            assert one.messages == self.newest[name].messages, f"{name} is stale"
        for name, newest in self.newest.items():
            places = [path for path, disk in self.disks.items() if disk is newest.disk]
            if places:
                assert verdict.cells[name].standing is Standing.CURRENT, f"{name} is the newest"

    def _knows_last(self, known: KnownService) -> bool:
        least = known.incarnations
        return all(least.get(name, 0) >= one for name, one in self.incarnations.items())

    # What an operator does, and what happens

    def back_up(self, at: int) -> None:
        path = PLACES[at % len(PLACES)]
        if path in self.disks:
            self.copies.append((path, self.disks[path].copied()))
        self.manifests.append(self.manifest)

    def put_back(self, at: int) -> None:
        if self.copies:
            path, disk = self.copies[at % len(self.copies)]
            self.disks[path] = disk.copied()

    def put_elsewhere(self, at: int) -> None:
        if self.copies:
            _, disk = self.copies[at % len(self.copies)]
            self.disks[PLACES[at % len(PLACES)]] = disk.copied()

    def put_back_manifest(self, at: int) -> None:
        if self.manifests:
            self.manifest = self.manifests[at % len(self.manifests)]

    def swap(self, at: int) -> None:
        a, b = PLACES[at % len(PLACES)], PLACES[at // len(PLACES) % len(PLACES)]
        there = {a: self.disks.pop(a, None), b: self.disks.pop(b, None)}
        self.disks |= {x: disk for x, y in ((a, b), (b, a)) if (disk := there[y]) is not None}

    def delete(self, at: int) -> None:
        self.disks.pop(PLACES[at % len(PLACES)], None)

    def lose_manifest(self, _at: int) -> None:
        self.manifest = None

    def let_crash(self, at: int) -> None:
        self.writes_left = at % 12

    def let_fail(self, at: int) -> None:
        for path, disk in self.disks.items():
            disk.fails = path == PLACES[at % len(PLACES)]

    def start_again(self, _at: int) -> None:
        for path in PLACES[:3]:
            self.disks.setdefault(path, Disk())  # a place that is empty
        try:
            asyncio.run(self.start())
        except (Crash, CellUnavailableError):
            pass
        except StartRefusedError:
            pass
        self.writes_left = 1000


STEPS: Final = (
    *[World.start_again] * 4,
    *(World.back_up, World.put_back, World.put_elsewhere, World.swap, World.delete),
    *(World.lose_manifest, World.put_back_manifest, World.let_crash, World.let_fail),
)


@given(
    st.integers(0, 2**32),
    st.lists(st.tuples(st.sampled_from(STEPS), st.integers(0, 999)), max_size=40),
)
@settings(max_examples=300)
def test_no_stale_copy_is_taken_as_current_and_the_newest_is_never_called_stale(
    seed: int, steps: list[tuple[Any, int]]
) -> None:
    world = World(Random(seed))
    world.start_again(0)
    assert world.served
    for step, at in steps:
        step(world, at)
    for disk in world.disks.values():
        disk.fails = False
    world.start_again(0)
