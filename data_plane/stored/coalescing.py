"""Writes and reads that several requests share, and the deadlines of those requests.

What is shared belongs to no single request. So it is bounded by the latest deadline among them: who
came last is not failed because somebody else's time is over. Whose time is over before the shared
call begins is left out of it, and nothing is written for it.
"""

from collections.abc import Awaitable, Callable, Hashable, Sequence
from functools import partial
from typing import NamedTuple, Protocol

from data_plane.core.deadline import deadline, deadline_us
from data_plane.ports import Clock, DeadlinePassedError, Waits

Flush = Callable[[list[object]], Awaitable[Sequence[object | Exception]]]


class _Entry(NamedTuple):
    """What a request hands over, and until when it is of use to it."""

    content: object
    until_us: int | None


class Desk(Protocol):
    """What a front end's engine has at hand: how it waits, and its clock."""

    @property
    def waits(self) -> Waits:
        """The port."""
        ...

    @property
    def clock(self) -> Clock:
        """The port."""
        ...


async def coalesce(desk: Desk, lane: Hashable, entry: object, flush: Flush) -> object:
    """Hand the entry to `flush` together with all that arrive in the lane meanwhile.

    As `Waits.coalesce`. Raises DeadlinePassedError where the time of the request that asks is over
    before its entry is flushed.
    """
    return await desk.waits.coalesce(
        lane, _Entry(entry, deadline_us()), partial(_flush_in_time, desk.clock, flush)
    )


async def _flush_in_time(
    clock: Clock, flush: Flush, entries: list[object]
) -> Sequence[object | Exception]:
    given = [entry for entry in entries if isinstance(entry, _Entry)]
    now_us = clock.now_us()
    wanted = [one for one in given if one.until_us is None or now_us < one.until_us]
    if not wanted:
        return [_too_late()] * len(given)
    # This runs in the context of whoever began the lane, which has nothing to say here.
    with deadline(_latest([one.until_us for one in wanted])):
        flushed = await flush([one.content for one in wanted])
    if len(wanted) == len(given):
        return flushed
    outcomes = iter(flushed)
    return [
        next(outcomes) if one.until_us is None or now_us < one.until_us else _too_late()
        for one in given
    ]


def _latest(times_us: Sequence[int | None]) -> int | None:
    known_us = [time_us for time_us in times_us if time_us is not None]
    return max(known_us) if len(known_us) == len(times_us) else None


def _too_late() -> DeadlinePassedError:
    return DeadlinePassedError("the request's time was over before its turn came")
