"""The time of a service that keeps its own cells: it runs on, however the machine's clock is set.

Everything that such a cell stores is stamped with *cell time* (docs/adr/0019-cell-time.md). It
begins with the machine's clock and follows it as long as the two agree with a clock that nobody
sets. Where the machine's clock steps, cell time does not: it runs on at the pace of the other, and
what the world calls a moment of cell time is noted as an *era*.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final, NamedTuple

import msgspec

from data_plane.core.limits import VISIBILITY_TIMEOUT_S_MAX

STEP_US: Final = 2_000_000
"""What the machine's clock is set by at once, less than which cell time follows without a word."""

LOOK_EVERY_US: Final = 100_000
"""How often the machine's clock is looked at: in between the running one is enough, and cheaper."""

HELD_UP_US: Final = 5_000
"""Two clocks are looked at one after the other; what took longer is looked at again."""

LOOKS_MAX: Final = 3

BELIEVED_AFTER_US: Final = 900_000_000
"""A clock that was set ahead, while serving, counts as right when it has stayed so for so long."""

REMOVED_AFTER_US: Final = 3_600_000_000
"""What has expired by the time between two starts is removed only so long after the second."""

WORKED_OFF_AFTER_US: Final = VISIBILITY_TIMEOUT_S_MAX * 1_000_000
"""A start leaves out what was closed for longer, as far as cell time is ahead of the world's."""

UNDONE_US_MAX: Final = 600_000_000
"""A clock that is set ahead by what it was set back before, and at most so much more, was wrong in
between: also where the server was closed meanwhile."""

ERAS_MAX: Final = 32

LEAPS_MAX: Final = 8
"""How many stops since a clock was set back are remembered, in case that it is put right."""


class Era(NamedTuple):
    """Stamps above `boundary_us` are ahead of the world's time by `shift_us`."""

    boundary_us: int
    shift_us: int


class Leap(NamedTuple):
    """A start at which `by_us` of cell time passed for what may have been a clock that was set.

    They followed `from_us`; the last era was the one that begins at `boundary_us`.
    """

    boundary_us: int
    from_us: int
    by_us: int


class _StoredEras(msgspec.Struct, array_like=True):
    eras: tuple[Era, ...]
    version: int
    lead_us: int
    closed_us: int
    kept_until_us: int
    leaps: tuple[Leap, ...] = ()


class Eras:
    """What the world's clock showed at moments of cell time, by what is known today.

    What was decided by another `version` may be wrong: what had expired may be young. `lead_us` is
    by how much cell time was ahead of the machine's clock when these were noted. Until
    `kept_until_us`, what has expired in the `closed_us` before the last starts is kept, and it may
    turn out that those starts were `leaps` of a clock.
    """

    __slots__ = ("_eras", "closed_us", "kept_until_us", "lead_us", "leaps", "version")

    def __init__(  # noqa: PLR0913, PLR0917 - as it is stored
        self,
        eras: tuple[Era, ...] = (Era(0, 0),),
        version: int = 0,
        lead_us: int = 0,
        closed_us: int = 0,
        kept_until_us: int = 0,
        leaps: tuple[Leap, ...] = (),
    ) -> None:
        self._eras = eras
        self.version = version
        self.lead_us = lead_us
        self.closed_us = closed_us
        self.kept_until_us = kept_until_us
        self.leaps = leaps

    def __len__(self) -> int:
        return len(self._eras)

    @property
    def is_plain(self) -> bool:
        """Whether cell time always was the world's, as far as is known."""
        return len(self._eras) == 1 and not self._eras[0].shift_us

    def kept_us(self, now_us: int) -> int:
        """By how much later than its time something is removed now."""
        return self.closed_us if now_us < self.kept_until_us else 0

    @property
    def shift_us(self) -> int:
        """By how much cell time is ahead of the world's now."""
        return self._eras[-1].shift_us

    def world_us(self, stamp_us: int) -> int:
        """The world's time at a moment of cell time."""
        for era in reversed(self._eras):
            if stamp_us > era.boundary_us:
                return stamp_us - era.shift_us
        return stamp_us - self._eras[0].shift_us

    def world_ms(self, stamp_ms: int) -> int:
        """The same in milliseconds."""
        if len(self._eras) == 1:
            return stamp_ms - self._eras[0].shift_us // 1000
        return self.world_us(stamp_ms * 1000) // 1000

    def between_us(self, from_us: int, to_us: int) -> int:
        """How much of the world's time lies between two moments."""
        if len(self._eras) == 1:
            return to_us - from_us
        return self.world_us(to_us) - self.world_us(from_us)

    def before_us(self, now_us: int, span_us: int) -> int:
        """A moment: it, and all before it, lie `span_us` or more of the world's time before now."""
        if len(self._eras) == 1:
            return now_us - span_us
        until_us = self.world_us(now_us) - span_us
        for era, following in zip(self._eras, self._eras[1:], strict=False):
            latest_us = until_us + era.shift_us
            if latest_us < following.boundary_us:
                return max(latest_us, era.boundary_us)
        return max(until_us + self._eras[-1].shift_us, self._eras[-1].boundary_us)

    def younger_us(self) -> int:
        """By how much things of any era may be younger than cell time says."""
        return max(0, *(self.shift_us - era.shift_us for era in self._eras))

    def with_era(self, era: Era) -> "Eras":
        """With another one, which begins behind the others."""
        boundary_us = max(era.boundary_us, self._eras[-1].boundary_us + 1)
        kept = self._eras[1 - ERAS_MAX :]
        eras = (*kept, era._replace(boundary_us=boundary_us))
        return self._with(eras, self.version + 1, era.shift_us)

    def set_back(self, now_us: int, lead_us: int) -> "Eras":
        """With a machine's clock that was set back, so that cell time is ahead by `lead_us`.

        It was ahead for as long as cell time is since then; but where starts leapt by as much in
        all, since each of them by what had been leapt until then.
        """
        back_us = lead_us - self.shift_us
        # Each is explained once.
        explained = {era.boundary_us for era in self._eras}
        unexplained = [leap for leap in self.leaps if leap.from_us not in explained]
        for first in reversed(range(len(unexplained))) if now_us < self.kept_until_us else ():
            leaps = unexplained[first:]
            if -STEP_US <= sum(leap.by_us for leap in leaps) - back_us <= UNDONE_US_MAX:
                return self._with_leaps_back(leaps, back_us)
        return self.with_era(Era(now_us - back_us, lead_us))

    def _with_leaps_back(self, leaps: Sequence[Leap], back_us: int) -> "Eras":
        """As if cell time had been ahead by `back_us` more since these leaps, by each its part."""
        first_us = leaps[0].from_us
        later_us = [era.boundary_us for era in self._eras if era.boundary_us > first_us]
        eras = [era for era in self._eras if era.boundary_us <= first_us]
        for boundary_us in sorted({*later_us, *(leap.from_us for leap in leaps)}):
            to_come_us = sum(leap.by_us for leap in leaps if leap.from_us > boundary_us)
            shift_us = boundary_us + 1 - self.world_us(boundary_us + 1) + back_us - to_come_us
            eras.append(Era(boundary_us, shift_us))
        return self._with(tuple(eras[-ERAS_MAX:]), self.version + 1, self.lead_us)

    def without_last(self) -> "Eras":
        """As if the last one had not been."""
        return self._with(self._eras[:-1], self.version + 1, self.lead_us)

    def with_lead(self, lead_us: int) -> "Eras":
        """The same, with a machine's clock that was set."""
        return self._with(self._eras, self.version, lead_us)

    def after_a_start(self, closed_us: int, now_us: int) -> "Eras":
        """The same, when the service was closed for so long, by clocks that may have been wrong."""
        from_us = now_us - closed_us
        leaps = self.leaps if from_us < self.kept_until_us else ()
        if closed_us > UNDONE_US_MAX:
            leap = Leap(self._eras[-1].boundary_us, from_us, closed_us)
            leaps = (*leaps, leap)[-LEAPS_MAX:]
        closed_us += self.kept_us(from_us)
        until_us = now_us + REMOVED_AFTER_US
        return Eras(self._eras, self.version, self.lead_us, closed_us, until_us, leaps)

    def _with(self, eras: tuple[Era, ...], version: int, lead_us: int) -> "Eras":
        return Eras(eras, version, lead_us, self.closed_us, self.kept_until_us, self.leaps)

    @property
    def last_step_us(self) -> int:
        """By how much the last era differs from the one before."""
        return self._eras[-1].shift_us - self._eras[-2].shift_us if len(self._eras) > 1 else 0

    def undone_by(self, ahead_us: int) -> int:
        """How many of the last ones were a wrong clock that is right now: it is ahead by so much.

        None where it was not set back by about as much in all.
        """
        shift_us = self._eras[-1].shift_us
        for count, (before, era) in enumerate(
            zip(self._eras[-2::-1], self._eras[:0:-1], strict=False), start=1
        ):
            if era.shift_us - before.shift_us <= STEP_US:
                break
            back_us = shift_us - before.shift_us
            if back_us - STEP_US <= ahead_us <= back_us + UNDONE_US_MAX:
                return count
        return 0

    def with_leaps_undone(self, ahead_us: int, now_us: int) -> "Eras":
        """Without a clock that was set back and is right now, ahead by so much: the same if none.

        It was put right by several starts, and the time that these took for passed had not passed:
        what was stamped after each is ahead by that.
        """
        if now_us >= self.kept_until_us:
            return self
        for count in range(1, len(self._eras)):
            before, era = self._eras[-count - 1], self._eras[-count]
            leaps = [leap for leap in self.leaps if leap.boundary_us >= era.boundary_us]
            leapt_us = sum(leap.by_us for leap in leaps)
            late_us = ahead_us + leapt_us - (self.shift_us - before.shift_us)
            was_set_back = era.shift_us - before.shift_us > STEP_US
            if leaps and was_set_back and -STEP_US <= late_us <= UNDONE_US_MAX:
                undone = self._with(self._eras[:-count], self.version + 1, self.lead_us)
                for leap in leaps:
                    undone = undone.with_era(Era(leap.from_us, undone.shift_us + leap.by_us))
                return undone.with_lead(self.lead_us)
        return self

    def to_bytes(self) -> bytes:
        """As stored."""
        kept: tuple[object, ...] = (self.closed_us, self.kept_until_us)
        if self.leaps:
            kept = (*kept, self.leaps)
        return msgspec.msgpack.encode((self._eras, self.version, self.lead_us, *kept))


ONE_TIME: Final = Eras()
"""Of cells that have no time of their own."""


def eras_from(stored: bytes | None) -> Eras:
    """Read stored eras. Raises msgspec.DecodeError."""
    if not stored:
        return Eras()
    return Eras(*msgspec.structs.astuple(msgspec.msgpack.decode(stored, type=_StoredEras)))


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
