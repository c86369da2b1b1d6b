"""A service that keeps its own time, on a machine whose clock is anybody's guess."""

from data_plane.core.cell_clock import CellClock, ClockStep
from tests.simulation.faulty_cell import Store
from tests.simulation.process import Process
from tests.simulation.world import World


class ClockWorld(World):
    """One process after the other on cells of its own: they share cell time.

    `wrong_us` is by how much the machine's clock is wrong. `starts` says when a process started,
    and how far ahead it may have found the clock of where the one before had seen it. With
    `follows` what processes go by is that clock, as if there were no other: a planted bug.
    """

    wrong_us = 0
    starts: tuple[tuple[int, int], ...] = ()
    _lowest_us = 0
    follows = False
    clock: CellClock | None = None

    def set_clock(self, wrong_us: int) -> None:
        """Somebody sets the machine's clock."""
        self.wrong_us = wrong_us
        self._lowest_us = min(self._lowest_us, wrong_us)
        self.note(f"the machine's clock is wrong by {wrong_us // 1_000_000} s")

    def machine_us(self) -> int:
        """The machine's clock."""
        return self.scheduler.now_us + self.wrong_us

    def begin(self, process: Process) -> None:
        """A process starts where the one before has left its cells."""
        self.starts = (*self.starts, (self.scheduler.now_us, self.wrong_us - self._lowest_us))
        self._lowest_us = self.wrong_us
        if self.follows:
            process.clock_us = self.machine_us
            for store in self.stores:
                store.clock_us = self.machine_us
            return
        clock = CellClock(self.machine_us, lambda: self.scheduler.now_us, self._told)
        with clock.opening():
            for store in self.stores:
                if (left := self.left_in(store)) is not None:
                    clock.learn(*left, store.name)
        self.clock = clock
        process.clock_us = clock.now_us
        for store in self.stores:
            store.cell._clock = clock

    def left_in(self, store: Store) -> tuple[int, bytes] | None:
        """Present and eras as the process before has left them in a cell; None where none was."""
        if self.clock is None:
            return None
        return store.cell._present_us, self.clock.eras.to_bytes()

    def collect(self) -> None:
        """The cells remove what has expired, as servers let them."""
        now_us = self.machine_us() if self.clock is None else self.clock.removable_us()
        for store in self.stores:
            dead = [
                item.key
                for item in store.cell.items()
                if isinstance(x := item.attributes.get("x"), int) and x < now_us // 1_000_000
            ]
            store.cell.expire(dead)
            self.note(f"{store.name}: {len(dead)} items expire")

    def _told(self, step: ClockStep) -> None:
        self.note(f"a step is noticed: {step.by_us // 1_000_000} s {step.cell}")
