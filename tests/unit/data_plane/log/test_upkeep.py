"""What receives do on the side costs about one write for LOW_WATER_MESSAGES messages."""

import asyncio

import pytest

from data_plane.core.message import Delivery
from data_plane.log.bounds import LOW_WATER_MESSAGES
from data_plane.ports import CellUnavailableError, Written
from tests.unit.data_plane.log.conftest import Bench

AT_A_TIME = 10
RECEIVES = 8


async def receive_and_delete(bench: Bench) -> None:
    """As many messages as make the low-water mark due, all of them before it is."""
    for start in range(0, LOW_WATER_MESSAGES + RECEIVES, AT_A_TIME):
        await bench.send(*(f"g{n}:{n}" for n in range(start, start + AT_A_TIME)))
    held: list[Delivery] = []
    while len(held) < LOW_WATER_MESSAGES:
        held += await bench.receive(min(AT_A_TIME, LOW_WATER_MESSAGES - len(held)))
    assert not await bench.delete(held)


def test_receives_at_the_same_time_write_one_low_water_mark(bench: Bench) -> None:
    async def story() -> None:
        await receive_and_delete(bench)

        async def receive_at_the_same_time() -> None:
            received = await asyncio.gather(*(bench.receive(1) for _ in range(RECEIVES)))
            assert [len(deliveries) for deliveries in received] == [1] * RECEIVES

        requests, _ = await bench.cost_of(receive_at_the_same_time)
        assert requests["update"] == RECEIVES + 1

    bench.run(story())


def test_a_mark_that_the_cell_did_not_take_stays_due(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(*_: object) -> Written:
        raise CellUnavailableError("no")

    async def story() -> None:
        await receive_and_delete(bench)
        with monkeypatch.context() as broken:
            broken.setattr(bench.cell, "update", refuse)
            with pytest.raises(CellUnavailableError):
                await bench.log.sweep()
        requests, _ = await bench.cost_of(lambda: bench.receive(1))
        assert requests["update"] == 1 + 1

    bench.run(story())
