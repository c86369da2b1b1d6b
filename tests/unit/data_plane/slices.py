"""Work that is done in slices, counted."""

from collections.abc import Generator
from typing import TypeVar

T = TypeVar("T")


def counted(work: Generator[None, None, T]) -> tuple[int, T]:
    """How often the work paused, and what it returned."""
    pauses = 0
    while True:
        try:
            next(work)
        except StopIteration as done:
            result: T = done.value
            return pauses, result
        pauses += 1
