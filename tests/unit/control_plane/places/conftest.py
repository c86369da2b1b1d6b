"""A registry over a memory cell that can be cut off, and what is kept there of places."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import pytest

from control_plane.places.stored import Places
from data_plane.memory.cell import MemoryCell
from data_plane.ports import Attributes, CellUnavailableError, Item, Key, Written
from tests.unit.repeatable import HandClock, SeededEntropy

T = TypeVar("T")


class CellThatFails(MemoryCell):
    """A cell that answers nothing while `down`, and may lose the reply of a put.

    While it `repeats`, a put meets its own traces, as after a lost reply. While it `dawdles`,
    others come in between a read and its answer.
    """

    down = False
    loses_replies = False
    dawdles = False
    repeats = False

    async def put(self, *call: Any, **options: Any) -> Written:
        self._check()
        written = await super().put(*call, **options)
        if self.repeats:
            written = await super().put(*call, **options)
        if self.loses_replies:
            raise CellUnavailableError("the reply was lost")
        return written

    async def get(self, key: Key, *, strong: bool = True) -> Attributes | None:
        self._check()
        item = await super().get(key, strong=strong)
        if self.dawdles:
            await asyncio.sleep(0)
        return item

    async def query(self, partition: str, **options: Any) -> list[Item]:
        self._check()
        return await super().query(partition, **options)

    def _check(self) -> None:
        if self.down:
            raise CellUnavailableError("cut off")


class Site:
    """Places in a cell, with three cells to lay groups in."""

    def __init__(self) -> None:
        self.clock = HandClock()
        self.cell = CellThatFails(self.clock)
        self.noted: list[Any] = []
        self.places = self.other()

    def other(self, seed: int = 0) -> Places:
        """What another process has of the same registry."""
        return Places(self.cell, self.clock, SeededEntropy(seed), noted=self.noted.append)


def run(call: Callable[[], Awaitable[T]]) -> T:
    async def main() -> T:
        return await call()

    return asyncio.run(main())


@pytest.fixture
def site() -> Site:
    return Site()
