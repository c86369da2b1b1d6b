"""The time of a service that keeps its own cells: it runs on, however the machine's clock is set.

Everything that such a cell stores is stamped with *cell time* (docs/adr/0019-cell-time.md). It
begins with the machine's clock and follows it as long as the two agree with a clock that nobody
sets. Where the machine's clock steps, cell time does not: it runs on at the pace of the other, and
what the world calls a moment of cell time is noted as an *era*.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple

from data_plane.core.eras import ONE_TIME, STEP_US, Era, Eras, eras_from
from data_plane.core.limits import VISIBILITY_TIMEOUT_S_MAX

LOOK_EVERY_US: Final = 100_000
"""How often the machine's clock is looked at: in between the running one is enough, and cheaper."""

HELD_UP_US: Final = 5_000
"""Two clocks are looked at one after the other; what took longer is looked at again."""

LOOKS_MAX: Final = 3

BELIEVED_AFTER_US: Final = 900_000_000
"""A clock that was set ahead, while serving, counts as right when it has stayed so for so long."""

WORKED_OFF_AFTER_US: Final = VISIBILITY_TIMEOUT_S_MAX * 1_000_000
"""A start leaves out what was closed for longer, as far as cell time is ahead of the world's."""


def eras_of(clock: object) -> Eras:
    """The eras of a clock: of one that is not cell time, ONE_TIME."""
    return clock.eras if isinstance(clock, CellClock) else ONE_TIME


class LeftCell(NamedTuple):
    """How a cell was left: its present, and the eras that it has stored."""

    present_us: int
    eras: Eras
    cell: str


class ClockStep(NamedTuple):
    """The machine's clock was set by so much (ahead: above 0), while this process runs.

    With `cell`, it is behind the latest stamp there, and was ahead before, or is wrong now.
    """

    by_us: int
    cell: str = ""


class CellClock:
    """Implements the port Clock: cell time. One for all cells of a process.

    `machine_us` is the machine's clock and `running_us` one that nobody sets. `tell` hears of each
    step.
    """

    def __init__(
        self,
        machine_us: Callable[[], int],
        running_us: Callable[[], int],
        tell: Callable[[ClockStep], None],
    ) -> None:
        self.eras = Eras()
        self.steps = 0
        self._machine_us = machine_us
        self._running_us = running_us
        self._tell = tell
        self._present_us = machine_us()
        self._ran_us = running_us()
        self._ahead_us = self._present_us - self._ran_us
        self._look_us = 0
        self._lead_us = 0
        self._learned_us = 0
        self._noted = 0
        self._ahead_since_us: int | None = None
        self._opened: list[LeftCell] | None = None

    @property
    def lead_us(self) -> int:
        """By how much cell time is ahead of the machine's clock."""
        self.now_us()
        return self._lead_us if abs(self._lead_us) > STEP_US else 0

    @property
    def shown_us(self) -> int:
        """The world's time, as this process believes it to be."""
        return self.now_us() - self.eras.shift_us

    def now_us(self) -> int:
        """Cell time in microseconds: it never steps, and never goes back."""
        before_us = self._running_us()
        if before_us < self._look_us:
            self._present_us = present_us = before_us + self._ahead_us
            return present_us
        return self._looked_us(before_us)

    def _looked_us(self, before_us: int) -> int:
        """The same, when the machine's clock is to be looked at."""
        before_us, machine_us, running_us = self._look(before_us)
        present_us = machine_us + self._lead_us
        from_us, to_us = before_us + self._ahead_us, running_us + self._ahead_us
        self._ran_us = running_us
        steady_us = min(max(present_us, from_us), to_us)
        if not -STEP_US <= present_us - steady_us <= STEP_US:
            self._step(present_us - steady_us, steady_us)
            present_us = steady_us
        elif self._ahead_since_us is not None:
            self._believe(present_us, running_us)
        # Where the clock was set back a little, cell time waits for it.
        is_level = present_us >= self._present_us and running_us - before_us < HELD_UP_US
        self._look_us = running_us + LOOK_EVERY_US if is_level else 0
        self._present_us = max(self._present_us, present_us)
        self._ahead_us = self._present_us - running_us
        return self._present_us

    def _look(self, before_us: int) -> tuple[int, int, int]:
        """The machine's clock, and the running one before and after it was looked at.

        The last of them goes on: where this is held up, time is late for a moment, and not early.
        """
        machine_us, after_us = self._machine_us(), self._running_us()
        for _again in range(LOOKS_MAX - 1):
            if after_us - before_us < HELD_UP_US:
                break
            before_us, machine_us, after_us = after_us, self._machine_us(), self._running_us()
        return before_us, machine_us, after_us

    def removable_us(self) -> int:
        """What was to be kept until this moment of cell time may be removed for good.

        Not what only a clock that is ahead, or that was, takes for expired.
        """
        now_us = self.now_us()
        return now_us - self.eras.younger_us() - self.eras.kept_us(now_us)

    @contextmanager
    def opening(self) -> Iterator[None]:
        """While all cells are opened: the one that was written to last says how they were left.

        Whatever the order is in which they are. Nobody asks for the time meanwhile.
        """
        opened: list[LeftCell] = []
        self._opened = opened
        try:
            yield
        finally:
            self._opened = None
        if opened:
            self._go_on(max(opened, key=lambda left: (left.present_us, left.eras.version)))

    def learn(self, present_us: int, stored: bytes | None, cell: str) -> None:
        """Go on where a cell was left: at its present, with the eras that it has stored.

        Raises msgspec.DecodeError.
        """
        left = LeftCell(present_us, eras_from(stored), cell)
        if self._opened is not None:
            self._opened.append(left)
        else:
            self._go_on(left)

    def _go_on(self, left: LeftCell) -> None:
        present_us, eras, cell = left
        if present_us <= (self.now_us() if self._learned_us else 0):
            return
        self.eras, self._noted = eras, 0
        self._ran_us, machine_us, self._look_us = self._running_us(), self._machine_us(), 0
        closed_us = machine_us + self.eras.lead_us - present_us
        ahead_us = self.eras.shift_us - self.eras.lead_us
        # It was set ahead, and not believed yet: that it was wrong before shows in both together.
        unbelieved_us = ahead_us if ahead_us > STEP_US else 0
        undone = self.eras.undone_by(closed_us + unbelieved_us)
        for _ in range(undone):
            self.eras = self.eras.without_last()
        if not undone:
            self.eras = self.eras.with_leaps_undone(closed_us + unbelieved_us, present_us)
        if self.eras is not eras or closed_us < -STEP_US:
            closed_us += unbelieved_us + self.eras.shift_us - eras.shift_us
        whole_us = passed_us = max(0, closed_us)
        if self.eras.lead_us > STEP_US and passed_us > WORKED_OFF_AFTER_US:
            passed_us = max(WORKED_OFF_AFTER_US, machine_us - present_us)
        served_us = self._present_us if self._learned_us else 0
        self._present_us = max(served_us, present_us + passed_us)
        self._ahead_us = self._present_us - self._ran_us
        self._lead_us = self._present_us - machine_us
        if closed_us < -STEP_US:
            self._note_set_back(present_us)
            self._tell(ClockStep(closed_us, cell))
        elif passed_us != whole_us:
            self.eras = self.eras.with_era(Era(present_us, self._lead_us))
        elif self.eras.shift_us - self._lead_us > STEP_US:
            self._ahead_since_us = self._ran_us
        if abs(self._lead_us - self.eras.lead_us) > STEP_US:
            self.eras = self.eras.with_lead(self._lead_us)
        if passed_us > STEP_US:
            self.eras = self.eras.after_a_start(passed_us, self._present_us)
        self._learned_us = present_us

    def describe(self) -> str:
        """One line for people: "ok", or what the machine's clock is."""
        self.now_us()
        if self._ahead_since_us is not None:
            left_us = self._ahead_since_us + BELIEVED_AFTER_US - self._ran_us
            ahead_s = (self.eras.shift_us - self._lead_us) / 1_000_000
            return f"ahead of the store by {ahead_s:.0f} s, believed in {left_us / 1_000_000:.0f} s"
        if self._lead_us > STEP_US:
            return f"behind the store by {self._lead_us / 1_000_000:.0f} s"
        return "ok"

    def _step(self, by_us: int, steady_us: int) -> None:
        """The machine's clock was set; cell time runs on."""
        self.steps += 1
        self._lead_us -= by_us
        self._present_us = max(self._present_us, steady_us)
        while self._is_undone():
            self._noted = max(0, self._noted - 1)
            self.eras = self.eras.without_last()
        ahead_us = self.eras.shift_us - self._lead_us
        self.eras = self.eras.with_leaps_undone(ahead_us, steady_us)
        ahead_us = self.eras.shift_us - self._lead_us
        if ahead_us > STEP_US:
            if self._ahead_since_us is None or by_us > 0:
                self._ahead_since_us = self._ran_us
        else:
            self._ahead_since_us = None
            if ahead_us < -STEP_US:
                self._note_set_back(steady_us)
        self.eras = self.eras.with_lead(self._lead_us)
        self._tell(ClockStep(by_us))

    def _is_undone(self) -> bool:
        """Whether the clock is back where it was before the last era was noted."""
        step_us, ahead_us = self.eras.last_step_us, self.eras.shift_us - self._lead_us
        if step_us > STEP_US:
            was_noted = self._noted > 0 and ahead_us > step_us
            return was_noted or self.eras.undone_by(ahead_us) > 0
        return self._noted > 0 and step_us < -STEP_US and ahead_us <= step_us + STEP_US

    def _note_set_back(self, now_us: int) -> None:
        """Stamps were, for some time, so far ahead of the world as the lead is now."""
        before = self.eras
        self.eras = before.set_back(now_us, self._lead_us)
        self._noted += len(self.eras) - len(before)

    def _believe(self, present_us: int, running_us: int) -> None:
        """The clock has been ahead for so long that it counts as right."""
        if running_us - (self._ahead_since_us or 0) >= BELIEVED_AFTER_US:
            self._ahead_since_us = None
            self._present_us = max(self._present_us, present_us)
            self.eras = self.eras.with_era(Era(self._present_us - 1, self._lead_us))
            self._noted += 1
