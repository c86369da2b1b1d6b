"""A machine whose clock can be wrong, and services that start on it and end."""

from dataclasses import dataclass, field

from data_plane.core.cell_clock import CellClock, ClockStep

SECOND_US = 1_000_000
HOUR_US = 3_600 * SECOND_US
DAY_US = 24 * HOUR_US
START_US = 1_800_000_000 * SECOND_US


@dataclass
class Machine:
    """The true time, and by how much the machine's clock is wrong.

    The next look at the clock comes late by `held_up_us`, and takes `held_after_us` to be told.
    """

    true_us: int = START_US
    wrong_us: int = 0
    held_up_us: int = 0
    held_after_us: int = 0
    told: list[ClockStep] = field(default_factory=list)

    def clock_us(self) -> int:
        self.true_us += self.held_up_us
        shown_us = self.true_us + self.wrong_us
        self.true_us += self.held_after_us
        self.held_up_us = self.held_after_us = 0
        return shown_us

    def ran_us(self) -> int:
        return self.true_us - START_US + 5

    def start(self) -> CellClock:
        return CellClock(self.clock_us, self.ran_us, self.told.append)

    def start_again(self, before: CellClock) -> CellClock:
        """A process on the cells of an earlier one."""
        clock = self.start()
        clock.learn(before._present_us, before.eras.to_bytes(), "cell")
        return clock

    def passes(self, us: int, *clocks: CellClock) -> None:
        self.true_us += us
        for clock in clocks:
            clock.now_us()
