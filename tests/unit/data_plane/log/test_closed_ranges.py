"""What is said to be done above the low-water mark is done."""

from dataclasses import replace

import pytest

from data_plane.core.queue import Generation
from data_plane.log import reader, reading
from tests.unit.data_plane.log.conftest import Bench


def test_what_lies_behind_many_open_slots_is_not_closed(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "RANGES_LOOKED_AT_MAX", 3)
    monkeypatch.setattr(reader, "RANGE_SLOTS_MIN", 2)
    monkeypatch.setattr(reading, "FETCH_ITEMS_MAX", 3)

    async def story() -> None:
        for number in range(9):
            await bench.send(f"g{number}:{number}")
        assert len(await bench.receive(9, visibility_s=0)) == 9
        await bench.delete(await bench.receive(2))
        await bench.log.sweep()
        assert await bench.drain(bench.front_end()) == [str(number) for number in range(2, 9)]

    bench.run(story())


def test_the_end_of_a_log_is_in_no_range(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "RANGE_SLOTS_MIN", 2)
    monkeypatch.setattr(reading, "FETCH_ITEMS_MAX", 2)

    async def story() -> None:
        await bench.send("held:0")
        (held,) = await bench.receive()
        for number in range(1, 5):
            await bench.send(f"g:{number}")
            await bench.delete(await bench.receive())
        one, two = Generation(0, 1, 0), Generation(1, 2, 1)
        bench.queue = replace(bench.queue, generations=(one, two))
        await bench.send("g:5")
        await bench.delete(await bench.receive())
        await bench.log.sweep()
        await bench.send("g:6")
        cold = bench.front_end()
        await bench.delete([held], cold)
        assert await bench.drain(cold) == ["6"]

    bench.run(story())
