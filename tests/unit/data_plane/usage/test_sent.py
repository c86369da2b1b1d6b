import asyncio
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest

from data_plane.core.receipt_handle import decode
from data_plane.memory.cell import MemoryCell
from data_plane.ports import CellUnavailableError, Key
from data_plane.stored import keys
from data_plane.stored.sent_minutes import sent_to
from data_plane.usage.record import UsageRecord
from data_plane.usage.sent import PARTITION, SILENT_US, _queue_item, writer_of
from data_plane.usage.sent_reading import DeskMinute
from tests.property.test_sent_survives import FIFO, STANDARD, Send, World

MINUTE_US = 60_000_000
MESSAGES = 130
MINUTES_UNTIL_DONE = 12
"""Then a FIFO queue lets go of what was deleted."""


def send(number: int, *sizes: int, fifo: bool = False) -> Send:
    queue = FIFO if fifo else STANDARD
    return Send(queue, list(sizes), len(sizes) > 1, bytes([number]) * 16)


async def noted(world: World) -> list[bytes]:
    return [item.key.sort for item in await world.cell.query(PARTITION, limit=100)]


class Away(MemoryCell):
    """Takes nothing."""

    def __init__(self, world: World) -> None:
        super().__init__(world.clock)
        self.asked = 0

    async def put(self, *_: Any) -> Any:
        self.asked += 1
        raise CellUnavailableError("away")


def test_each_minute_of_a_desk_is_a_writer_that_counts_from_one() -> None:
    world = World()
    first = world.clock.time_us // MINUTE_US

    async def story() -> None:
        await world.send(0, send(1, 1, 1))
        await world.send(0, send(2, 1))
        await world.send(0, send(3, 1, fifo=True))
        world.clock.advance(60)
        await world.send(0, send(4, 70_000))
        for _ in range(3):
            await world.minute()

    asyncio.run(story())
    bag, log = world.servers[0].engine.bag.sent.desk, world.servers[0].engine.log.sent.desk
    now, later = DeskMinute(first, bag), DeskMinute(first + 1, bag)
    assert {
        (one.writer, one.number): (one.operation, one.requests, one.units, one.messages)
        for one in world.records.values()
    } == {
        (writer_of(now), 1): ("SendMessage", 1, 1, 1),
        (writer_of(now), 2): ("SendMessageBatch", 1, 1, 2),
        (writer_of(DeskMinute(first, log)), 1): ("SendMessage", 1, 1, 1),
        (writer_of(later), 1): ("SendMessage", 1, 2, 1),
    }


def test_a_queue_is_noted_before_the_first_send_to_it_and_not_again() -> None:
    world = World()

    async def story() -> None:
        for number in range(3):
            await world.send(0, send(number, 1))
        assert len(await noted(world)) == 2
        await world.send(1, send(8, 1))
        await world.send(0, send(9, 1, fifo=True))
        assert len(await noted(world)) == 5
        for server in world.servers[:2]:
            await server.sent.write_last()
        assert await noted(world) == []

    asyncio.run(story())


def test_sends_go_on_while_the_registry_is_away() -> None:
    world = World()
    sent, control = world.servers[0].sent, Away(world)
    sent._stores = sent._stores._replace(control=control)

    async def story() -> None:
        for number in range(3):
            await world.send(0, send(number, 1))

    asyncio.run(story())
    assert (control.asked, sent.failures, world.left) == (1, 1, [])


def test_a_server_that_cannot_store_records_is_not_taken_for_one_that_ended() -> None:
    """Else others forget to which queues it sends, and what it sent before a crash is in none."""
    world = World()
    cut_off = world.servers[0]

    async def story() -> None:
        await world.send(0, send(1, 1))
        cut_off.place.away = True
        for _ in range(70):
            await world.minute()
        cut_off.place.away = False
        await world.minute()
        await world.send(0, send(2, 1))
        world.servers[0] = world.start()
        await world.end()

    asyncio.run(story())
    assert world.counted() == world.told


def test_what_cannot_be_read_lets_nothing_else_be_recorded_again_and_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World()
    server = world.servers[0]
    put, recorded = server.place.put, list[int]()

    async def counted(records: list[UsageRecord]) -> None:
        recorded.append(len(records))
        await put(records)

    async def unreadable(*_its: Any, **_more: Any) -> Any:
        raise CellUnavailableError("away")

    async def story() -> None:
        await world.send(0, send(0, 1), fails=True)
        world.left.clear()
        for _ in range(60):
            await world.send(0, send(1, 1))
            await world.send(0, send(1, 1, fifo=True))
            world.clock.advance(60)
            with suppress(CellUnavailableError):
                await server.sent.write()

    monkeypatch.setattr(server.place, "put", counted)
    monkeypatch.setattr(server.sent._reader, "read", unreadable)
    asyncio.run(story())
    assert sum(recorded) < 2 * 60


@pytest.mark.parametrize("minutes", [0, 1])
def test_a_server_that_others_took_for_one_that_ended_notes_its_queues_again(minutes: int) -> None:
    """It was frozen, or cut off from the registry for an hour."""
    world = World()
    frozen = world.servers[0]

    async def story() -> None:
        await world.send(0, send(1, 1))
        await world.send(0, send(2, 1, fifo=True))
        world.servers[0] = world.start()
        for _ in range(70):
            await world.minute()
        assert not [key for key in await noted(world) if key.startswith(frozen.sent._name)]
        world.servers[0] = frozen
        await world.send(0, send(3, 1))
        for _ in range(minutes):
            await world.minute()
        await world.send(0, send(4, 1, fifo=True))
        world.servers[0] = world.start()  # the frozen one has crashed
        await world.end()

    asyncio.run(story())
    assert world.counted() == world.told


def test_a_cell_that_is_away_keeps_no_records_of_other_queues_from_being_made() -> None:
    world = World()
    elsewhere = replace(STANDARD, uid="e" * 16, cell="gone")

    async def story() -> None:
        for which in (0, 1):
            await world.send(which, send(which, 1))
        servers = [server.sent for server in world.servers]
        # Whichever of the two comes first: it was to send to a queue in a cell that is no more.
        name = min(one._name for one in servers[:2])
        await world.cell.put(
            Key(PARTITION, name + b"|" + elsewhere.uid.encode()),
            _queue_item(sent_to(elsewhere), world.clock.now_us()),
        )
        world.servers = [world.start()]
        world.clock.advance(SILENT_US / 1_000_000 + 61)
        with pytest.raises(CellUnavailableError, match="gone, unknown here"):
            await world.servers[0].sent.write()

    asyncio.run(story())
    assert len(world.records) == 1


@pytest.mark.parametrize("fifo", [False, True])
def test_nothing_is_collected_before_it_is_recorded(*, fifo: bool) -> None:
    world = World()
    server = world.servers[0]
    queue = FIFO if fifo else STANDARD
    partition = keys.slots(FIFO.uid, 0, 0) if fifo else keys.segments(STANDARD.uid, 0, 0)

    async def stored() -> int:
        page = await world.cell.query(partition, limit=1000)
        return sum(item.attributes["k"] == "s" for item in page)

    async def story() -> None:
        for number in range(MESSAGES):
            await world.send(0, send(number, 1, fifo=fifo))
        while got := await server.engine.receive(queue, count=10, visibility_s=30, until_us=0):
            handles = [decode(one.receipt_handle, queue) for one in got]
            assert not any(await server.engine.delete(queue, handles))
        server.place.away = True
        for _ in range(MINUTES_UNTIL_DONE):
            await world.minute()
            await server.engine.sweep()
        assert await stored() == MESSAGES
        server.place.away = False
        await world.minute()
        await server.engine.sweep()
        assert await stored() < MESSAGES

    asyncio.run(story())
