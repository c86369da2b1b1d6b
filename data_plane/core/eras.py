"""What the world's clock showed at moments of cell time (docs/adr/0019-cell-time.md)."""

from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec

STEP_US: Final = 2_000_000
"""What the machine's clock is set by at once, less than which cell time follows without a word."""

REMOVED_AFTER_US: Final = 3_600_000_000
"""What has expired by the time between two starts is removed only so long after the second."""

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

    @property
    def within_us(self) -> int:
        """A moment that no stamp is near: some are ahead of the present by microseconds."""
        return self.from_us + self.by_us // 2


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

    def removable_us(self, now_us: int, span_us: int) -> int:
        """As `before_us`, of what may go for good: not what a clock takes for old that is ahead."""
        return self.before_us(now_us, span_us) - self.kept_us(now_us)

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
        # Each is explained once, by the era that begins in it.
        unexplained = [
            leap
            for leap in self.leaps
            if not any(0 <= era.boundary_us - leap.from_us < leap.by_us for era in self._eras)
        ]
        for first in reversed(range(len(unexplained))) if now_us < self.kept_until_us else ():
            leaps = unexplained[first:]
            if -STEP_US <= sum(leap.by_us for leap in leaps) - back_us <= UNDONE_US_MAX:
                return self._with_leaps_back(leaps, back_us)
        return self.with_era(Era(now_us - back_us, lead_us))

    def _with_leaps_back(self, leaps: Sequence[Leap], back_us: int) -> "Eras":
        """As if cell time had been ahead by `back_us` more since these leaps, by each its part."""
        first_us = leaps[0].within_us
        later_us = [era.boundary_us for era in self._eras if era.boundary_us > first_us]
        eras = [era for era in self._eras if era.boundary_us <= first_us]
        for boundary_us in sorted({*later_us, *(leap.within_us for leap in leaps)}):
            to_come_us = sum(leap.by_us for leap in leaps if leap.within_us > boundary_us)
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
