"""Long work in slices: others have their turn between them."""

from collections.abc import Awaitable, Generator
from typing import Protocol, TypeVar

T = TypeVar("T")


class InTurns(Protocol):
    """Does work that yields where it may be interrupted, and lets others go on meanwhile."""

    def __call__(self, work: Generator[None, None, T]) -> Awaitable[T]:
        """What the work returns."""
        ...


async def at_once(work: Generator[None, None, T]) -> T:
    """Where nothing else goes on there is nobody to wait for."""
    while True:
        try:
            next(work)
        except StopIteration as done:
            result: T = done.value
            return result
