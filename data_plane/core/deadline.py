"""Until when a request is worth working on: known to whatever works on it, without a parameter.

The front end sets it; adapters bound by it how long they wait and repeat, and do not begin what is
asked for too late. It is a moment of the wall clock (ports.Clock), and it belongs to a context, as
asyncio and both drivers keep one for each of their tasks. A clock that is set ahead lets requests
under way fail; one that is set back lets adapters wait as long as they would without a deadline.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar, Token

_DEADLINE_US: ContextVar[int | None] = ContextVar("deadline_us", default=None)


def deadline_us() -> int | None:
    """When the request ends whose work this is; None for work that no request waits for."""
    return _DEADLINE_US.get()


def left_us(now_us: int) -> int | None:
    """The time that is left, 0 or less where it is over; None where there is no deadline."""
    until_us = _DEADLINE_US.get()
    return None if until_us is None else until_us - now_us


def set_deadline(until_us: int | None) -> Token[int | None]:
    """Replace the deadline in this context; `reset_deadline` takes what this returns."""
    return _DEADLINE_US.set(until_us)


def reset_deadline(before: Token[int | None]) -> None:
    """Put back the deadline that was there before."""
    _DEADLINE_US.reset(before)


@contextmanager
def deadline(until_us: int | None) -> Iterator[None]:
    """Work until this time, whatever the deadline around it is."""
    before = _DEADLINE_US.set(until_us)
    try:
        yield
    finally:
        _DEADLINE_US.reset(before)


@contextmanager
def deadline_at_most(until_us: int) -> Iterator[None]:
    """Work until this time, or until the deadline that is there, if it is sooner."""
    known_us = _DEADLINE_US.get()
    with deadline(until_us if known_us is None else min(known_us, until_us)):
        yield
