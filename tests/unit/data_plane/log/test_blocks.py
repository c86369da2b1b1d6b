"""What a front end knows of a block that others have filled and begun to consume."""

import pytest

from data_plane.log import appending, reader, reading
from tests.unit.data_plane.log.conftest import Bench, bodies


def test_a_block_is_known_until_all_of_it_was_read(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (appending, reader):
        monkeypatch.setattr(module, "BLOCK_FULL_MESSAGES", 4)
    monkeypatch.setattr(reading, "FETCH_ITEMS_MAX", 2)

    async def story() -> None:
        for number in range(4):
            await bench.send(f"a:{number}")
        await bench.receive(visibility_s=0)
        await bench.delete(await bench.receive(1))
        cold = bench.front_end()
        for number in range(1, 4):
            deliveries = await bench.receive(1, log=cold)
            assert bodies(deliveries) == [str(number)]
            assert not await bench.delete(deliveries, cold)

    bench.run(story())
