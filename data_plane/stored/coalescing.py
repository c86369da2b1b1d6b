"""Writes and reads that several requests share, and the deadlines of those requests.

What is shared belongs to no single request. So it is bounded by the latest deadline among them: who
came last is not failed because somebody else's time is over. Whose time is over before the shared
call begins is left out of it, and nothing is written for it. Whose time is over while it is under
way is let go: a long poll, which has more time than others, keeps nobody waiting.
"""

from collections.abc import Awaitable, Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from data_plane.core.deadline import deadline_us, reset_deadline, set_deadline
from data_plane.ports import Clock, DeadlinePassedError, Waits

Flush = Callable[[list[object]], Awaitable[Sequence[object | Exception]]]


def _tell_nobody() -> None:
    pass


@dataclass(slots=True, eq=False)
class _Entry:
    """What a request hands over, until when it is of use to it, and what to call at its end.

    It has `begun` once it is to be flushed. Before, it may be `left`: its request waits no more.
    """

    content: object
    until_us: int | None
    ended: Callable[[], object]
    begun: bool = False
    left: bool = False


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


async def coalesce(
    desk: Desk,
    lane: Hashable,
    entry: object,
    flush: Flush,
    ended: Callable[[], object] = _tell_nobody,
) -> object:
    """Hand the entry to `flush` together with all that arrive in the lane meanwhile.

    As `Waits.coalesce`. Raises DeadlinePassedError where the time of the request that asks is over
    before its entry is flushed, or before its outcome is there. `ended` is called when nothing
    happens any more with the entry, which may be later.
    """
    until_us = deadline_us()
    given = _Entry(entry, until_us, ended)
    try:
        return await desk.waits.coalesce(
            lane, given, partial(_flush_in_time, desk.clock, flush), until_us
        )
    except BaseException:
        if not given.begun:
            given.left = True
            ended()
        raise


async def _flush_in_time(
    clock: Clock, flush: Flush, entries: list[object]
) -> Sequence[object | Exception]:
    given = [entry for entry in entries if isinstance(entry, _Entry)]
    now_us = clock.now_us()
    for one in given:
        one.begun = True
    wanted = [one for one in given if _is_wanted(one, now_us)]
    # This runs in the context of whoever began the lane, which has nothing to say here.
    before = set_deadline(_latest([one.until_us for one in wanted]))
    try:
        if not wanted:
            return [_too_late()] * len(given)
        flushed = await flush([one.content for one in wanted])
    finally:
        reset_deadline(before)
        for one in given:
            if not one.left:
                one.ended()
    if len(wanted) == len(given):
        return flushed
    outcomes = iter(flushed)
    return [next(outcomes) if _is_wanted(one, now_us) else _too_late() for one in given]


def _is_wanted(entry: _Entry, now_us: int) -> bool:
    return not entry.left and (entry.until_us is None or now_us < entry.until_us)


def _latest(times_us: Sequence[int | None]) -> int | None:
    known_us = [time_us for time_us in times_us if time_us is not None]
    return max(known_us, default=None) if len(known_us) == len(times_us) else None


def _too_late() -> DeadlinePassedError:
    return DeadlinePassedError("the request's time was over before its turn came")
