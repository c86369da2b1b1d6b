"""How often a long poll looks for what other front ends have written."""

from typing import Final

from data_plane.core.begun import start_progress

POLL_US: Final = 1_000_000
LOOK_SHARE: Final = 4
"""A look may take a fifth of the time: while a store is slow, its time is for who has work."""


def next_look_us(began_us: int, now_us: int) -> int:
    """When to look again, after a look that took from then until now."""
    return now_us + max(POLL_US, LOOK_SHARE * (now_us - began_us))


def look_again() -> None:
    """A long poll looks anew: what is under way for others comes first (core/begun.py)."""
    start_progress()
