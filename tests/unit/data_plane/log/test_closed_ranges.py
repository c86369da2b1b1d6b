"""What is said to be done above the low-water mark is done."""

import pytest

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
