"""What a sandbox leaves behind of standard queues with copies: nothing that nobody knows."""

import asyncio

import pytest

from control_plane.places.items import DYNAMODB, CellRecord
from control_plane.places.tables import IDENTITY, TablesRefusedError
from control_plane.serverless.several import SeveralTables
from data_plane.ports import Attributes, CellUnavailableError, Key, Update
from data_plane.replication import fanout
from data_plane.runtime.event_loop import EventLoopWaits
from tests.unit.data_plane.replication.conftest import CellThatFails
from tests.unit.repeatable import HandClock, SeededEntropy

GROUP = "g3.00"
UID = "0011223344556600"
STATE = Key(f"S|{UID}|00|0", bytes(10))
DELETE = Update({"v": 1}, {"d": frozenset({1})})


class Sandbox:
    """Three tables, a registry beside them, and the clocks of the store and of the sandbox."""

    def __init__(self) -> None:
        self.clock = HandClock()
        self.of_store = HandClock()
        self.control = CellThatFails(self.clock)
        self.tables = {name: CellThatFails(self.of_store) for name in "abc"}
        self.several = SeveralTables(
            "first",
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


def test_what_a_sandbox_forgets_to_tell_stays_noted(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fanout, "PENDING_MAX", 1)

    async def story() -> None:
        await sandbox.begin()
        sandbox.tables["c"].down = True
        done_us = []
        for block in range(3):
            done_us.append(sandbox.clock.now_us())
            state = Key(STATE.partition, bytes((*bytes(9), block)))
            await sandbox.several.standard[GROUP].update(state, DELETE)
            await sandbox.several.ship()
            sandbox.clock.advance(1)
            sandbox.of_store.advance(1)
        assert sorted(filter(None, await sandbox.notes())) == done_us
        sandbox.tables["c"].down = False
        await sandbox.several.ship()
        assert sorted(filter(None, await sandbox.notes())) == done_us[:2]

    asyncio.run(story())


@pytest.mark.parametrize("takes", [True, False])
def test_what_the_own_group_of_a_queue_is_handed_on_the_way_is_told_or_noted(
    sandbox: Sandbox, *, takes: bool
) -> None:
    async def story() -> None:
        several = sandbox.several
        await sandbox.begin()
        done_us = sandbox.clock.now_us()
        await several.standard[GROUP].update(STATE, DELETE)
        held = await several.places.read(GROUP)
        await several.places.part(GROUP, UID, epoch=held.placement.epoch)
        sandbox.clock.advance(60)
        await several.freshen()
        assert UID in several.known.alone(GROUP)
        sandbox.tables["c"].down = not takes
        await several.ship()
        assert await sandbox.notes() == ([] if takes else [done_us])
        sandbox.tables["c"].down = False
        assert ((await sandbox.knowing())["c"] is not None) is takes

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


def test_a_table_that_was_put_back_is_refused(sandbox: Sandbox) -> None:
    async def story() -> None:
        several = sandbox.several
        await sandbox.begin()
        assert set(await several.judge()) == set("abc")
        await several.advance()
        before = await CellThatFails.get(sandbox.tables["b"], IDENTITY)
        await several.advance()  # within the hour nothing is written
        assert await CellThatFails.get(sandbox.tables["b"], IDENTITY) == before
        assert before is not None
        sandbox.clock.advance(3601)
        await several.advance()
        sandbox.tables["a"].down = True  # that is no reason
        assert set(await several.judge()) == set("bc")
        sandbox.tables["a"].down = False

        await CellThatFails.put(sandbox.tables["b"], IDENTITY, before)
        with pytest.raises(TablesRefusedError, match=r"b .*is stale.*start a server on all tables"):
            await several.judge()
        sandbox.clock.advance(3601)
        with pytest.raises(TablesRefusedError, match="is stale"):
            await several.advance()  # which would make it current
        await CellThatFails.put(sandbox.tables["b"], IDENTITY, {**before, "u": "other"})
        with pytest.raises(TablesRefusedError, match="b is foreign"):
            await several.judge()
        await CellThatFails.delete(sandbox.tables["b"], IDENTITY)
        with pytest.raises(TablesRefusedError, match=r"b .*is empty"):
            await several.judge()

    asyncio.run(story())


def test_a_table_that_was_made_anew_may_be_filled_once_it_serves_nothing(sandbox: Sandbox) -> None:
    async def story() -> None:
        several, lost = sandbox.several, sandbox.tables["b"]
        await sandbox.begin()
        await several.judge()
        await several.advance()
        stale = await CellThatFails.get(lost, IDENTITY)
        assert stale is not None
        await CellThatFails.delete(lost, IDENTITY)
        with pytest.raises(TablesRefusedError, match=r"b .*is empty"):
            await several.judge()
        for group, held in (await several.places.read_all()).placements.items():
            epoch = held.placement.epoch
            if held.factor > 1:
                await several.places.drop_member(group, "b", epoch=epoch, forced=True)
        sandbox.clock.advance(60)
        await several.freshen()
        await several.advance()
        assert await CellThatFails.get(lost, IDENTITY) is not None
        assert set(await several.judge()) == set("abc")

        await CellThatFails.put(lost, IDENTITY, stale)
        with pytest.raises(TablesRefusedError, match=r"b .*is stale"):
            await several.advance()

    asyncio.run(story())
