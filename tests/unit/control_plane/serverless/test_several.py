"""What a sandbox leaves behind of standard queues with copies: nothing that nobody knows."""

import asyncio

import pytest

from control_plane.places.items import DYNAMODB, CellRecord
from control_plane.serverless.several import SeveralTables
from data_plane.ports import Attributes, CellUnavailableError, Key, Update
from data_plane.runtime.event_loop import EventLoopWaits
from tests.unit.data_plane.replication.conftest import CellThatFails
from tests.unit.repeatable import HandClock, SeededEntropy

GROUP = "g3.00"
STATE = Key("S|0011223344556600|00|0", bytes(10))
DELETE = Update({"v": 1}, {"d": frozenset({1})})


class Sandbox:
    """Three tables, a registry beside them, and the clocks of the store and of the sandbox."""

    def __init__(self) -> None:
        self.clock = HandClock()
        self.of_store = HandClock()
        self.control = CellThatFails(self.clock)
        self.tables = {name: CellThatFails(self.of_store) for name in "abc"}
        self.several = SeveralTables(
            self.tables,
            {name: {} for name in self.tables},
            self.control,
            self.clock,
            SeededEntropy(),
            EventLoopWaits(self.clock),
        )

    async def begin(self) -> None:
        for name in self.tables:
            await self.several.places.put_cell(CellRecord(name, DYNAMODB, {}))
        await self.several.freshen()

    async def knowing(self) -> dict[str, Attributes | None]:
        return {name: await CellThatFails.get(cell, STATE) for name, cell in self.tables.items()}

    async def notes(self) -> list[int | None]:
        return [beat.told_us for beat in await self.several.places.heartbeats()]


@pytest.fixture
def sandbox() -> Sandbox:
    return Sandbox()


def test_copies_know_before_the_answer_however_far_the_time_of_the_store_is_ahead(
    sandbox: Sandbox,
) -> None:
    sandbox.of_store.advance(1)

    async def story() -> None:
        await sandbox.begin()
        await sandbox.several.standard[GROUP].update(STATE, DELETE)
        await sandbox.several.ship()
        assert {str(known) for known in (await sandbox.knowing()).values()} == {
            str({"v": 1, "d": frozenset({1})})
        }
        assert await sandbox.notes() == []

    asyncio.run(story())


def test_what_a_copy_does_not_take_is_noted_until_it_does(sandbox: Sandbox) -> None:
    async def story() -> None:
        await sandbox.begin()
        sandbox.tables["c"].down = True
        done_us = sandbox.clock.now_us()
        for _ in range(2):
            await sandbox.several.standard[GROUP].update(STATE, DELETE)
            await sandbox.several.ship()
            sandbox.clock.advance(5)
            sandbox.of_store.advance(5)
        assert await sandbox.notes() == [done_us]
        sandbox.tables["c"].down = False
        await sandbox.several.ship()
        assert await sandbox.notes() == []
        sandbox.control.requests.clear()
        await sandbox.several.ship()
        assert not sandbox.control.requests

    asyncio.run(story())


def test_where_nobody_hears_of_it_that_is_said(sandbox: Sandbox) -> None:
    async def story() -> None:
        await sandbox.begin()
        await sandbox.several.standard[GROUP].update(STATE, DELETE)
        sandbox.tables["c"].down = sandbox.control.down = True
        with pytest.raises(CellUnavailableError):
            await sandbox.several.ship()
        sandbox.tables["c"].down = sandbox.control.down = False
        await sandbox.several.ship()
        assert (await sandbox.knowing())["c"] == {"v": 1, "d": frozenset({1})}
        assert await sandbox.notes() == []

    asyncio.run(story())
