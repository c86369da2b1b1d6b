"""The same of a service of several embedded cells: groups over them, and one time for all."""

from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import partial
from random import Random
from typing import Any, Final

from data_plane.core.cell_clock import eras_of
from data_plane.core.eras import Eras
from tests.simulation.clock.universe import FIFO, STANDARD, ClockPlan, check, make_plan, story
from tests.simulation.clock.world import ClockWorld
from tests.simulation.faulty_cell import Store
from tests.simulation.oracle import Violation
from tests.simulation.process import Process
from tests.simulation.replicated.plan import Replication, hasty_places
from tests.simulation.replicated.promised import Promised, watched
from tests.simulation.replicated.world import ReplicatedWorld
from tests.simulation.universe import Outcome, live

OF_TIME: Final = ("times are the world's", "duplicates go by real time")
"""What nobody can know by whom the clock's last step was forgotten."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SeveralPlan(ClockPlan):
    """A queue in groups of cells, all on one machine."""

    replication: Replication

    @property
    def is_fifo(self) -> bool:
        """Whether groups are chains."""
        return self.queues == (FIFO,)

    @property
    def name(self) -> str:
        """Other randomness than in a universe of one cell."""
        return f"{self.seed}/several{'-fifo' if self.is_fifo else ''}"


class SeveralWorld(ClockWorld, ReplicatedWorld):
    """One process after the other with all cells, and the managers in it.

    A cell has the eras that were known when it last stored something. `left` is that, and what its
    time was by then. `forgot`: a process ended before any cell had stored that the clock was set,
    which is as if it had been set while nothing ran.
    """

    def __init__(self, plan: SeveralPlan, promised: Promised) -> None:
        self.left: dict[str, tuple[int, Eras]] = {}
        self.forgot = False
        whole: Any = plan  # It has all that a world of groups asks of one.
        super().__init__(whole, promised)

    def begin(self, process: Process) -> None:
        """All cells are opened, one after the other, and the managers' clock is theirs."""
        for store in self.stores:
            store.wrote = partial(self._wrote, store)
        super().begin(process)
        process.on_crash.append(self._end_managers)

    def begin_manager(self, process: Process) -> None:
        """It belongs to the process that serves."""
        process.clock_us = self._serving_us

    def left_in(self, store: Store) -> tuple[int, bytes] | None:
        """As of the cell's last write."""
        if store.name not in self.left:
            return None
        present_us, eras = self.left[store.name]
        last_us = max(left_us for left_us, _ in self.left.values())
        if present_us == last_us:
            self.forgot |= eras.lead_us != eras_of(store.cell._clock).lead_us
        store.cell._present_us = present_us
        return present_us, eras.to_bytes()

    def _serving_us(self) -> int:
        return self.slots[0].process.now_us()

    def _wrote(self, store: Store) -> None:
        clock = store.cell._clock
        self.left[store.name] = max(store.cell._present_us, clock.now_us()), eras_of(clock)

    def _end_managers(self) -> None:
        for manager in getattr(self, "managers", ()):
            manager.process.crash()


def make_several_plan(seed: int, *, fifo: bool) -> SeveralPlan:
    """The plan of a seed."""
    random = Random(f"{seed}/several/plan")
    alone = make_plan(seed)
    cells = random.choice((2, 3, 3, 4))
    same = {field.name: getattr(alone, field.name) for field in fields(alone)}
    return SeveralPlan(
        **{
            **same,
            "cells": cells,
            "queues": (FIFO,) if fifo else (STANDARD,),
            "replication": _replication(random, cells),
        }
    )


def _replication(random: Random, cells: int) -> Replication:
    """Cells do not fail; managers look after them all the same."""
    beats = random.random() < 0.7
    return Replication(
        groups=random.choice((1, 2)),
        factor=min(cells, 3),
        managers=1,
        strikes=(),
        between_strikes_us=1_000_000,
        loss="",
        unasked=0.0,
        rests=0.0,
        stops=0.0,
        errands=0.0,
        managers_apart_us=0,
        beats=beats,
        beside=beats,
        stalls=0.0,
    )


def run(
    seed: int, *, fifo: bool = False, make: Callable[[SeveralPlan, Promised], Any] = SeveralWorld
) -> Outcome:
    """Let the universe of a seed be, and judge it."""
    with hasty_places(), watched() as promised:

        def begin(plan: SeveralPlan) -> SeveralWorld:
            world: SeveralWorld = make(plan, promised)
            return world

        return live(make_several_plan(seed, fifo=fifo), story, _judge, begin)


def _judge(plan: SeveralPlan, world: SeveralWorld) -> list[Violation]:
    found = [Violation(invariant, text, []) for invariant, text in world.records.broken]
    found += check(plan, world)
    return [one for one in found if not world.forgot or one.invariant not in OF_TIME]
