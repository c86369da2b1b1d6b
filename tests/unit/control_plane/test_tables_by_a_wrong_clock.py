"""Servers on DynamoDB whose machine's clock is wrong: they go by the time of their table."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest
from moto import mock_aws

from control_plane.one_cell import open_cell
from control_plane.service_clock import clock_of
from control_plane.several_opening import as_opened, open_several
from data_plane.core.deadline import deadline
from data_plane.ports import Key
from data_plane.runtime.event_loop import EventLoopWaits
from data_plane.settings import ServerSettings
from data_plane.stored.bodies import HeldSegments
from data_plane.system import SystemClock, SystemEntropy

pytestmark = pytest.mark.usefixtures("patience", "tables")

ITEM = Key("S|0011223344556600|00|0", bytes(10))
HOUR_US, MINUTE_US = 3_600_000_000, 60_000_000


class WrongClock:
    """A machine's clock that was set by so much."""

    def __init__(self, by_us: int) -> None:
        self._by_us = by_us

    def now_us(self) -> int:
        return SystemClock().now_us() + self._by_us


@pytest.fixture
def tables() -> Iterator[None]:
    with mock_aws():
        yield


@pytest.fixture(params=[HOUR_US, -HOUR_US], ids=["ahead", "behind"])
def machine(request: pytest.FixtureRequest) -> WrongClock:
    return WrongClock(request.param)


def test_requests_have_the_time_that_they_were_given(tmp_path: Path, machine: WrongClock) -> None:
    settings = ServerSettings(cell="dynamodb", table="one", data=tmp_path)

    async def main() -> None:
        opened = await open_cell(settings, machine)
        now_us = clock_of(machine, opened).now_us()
        assert abs(now_us - SystemClock().now_us()) < MINUTE_US
        for cell in (opened.cell, opened.control):
            with deadline(now_us + MINUTE_US):
                assert await cell.get(ITEM) is None
        assert opened.bodies is not None
        with deadline(now_us + MINUTE_US):
            await opened.bodies.sweep(cast(HeldSegments, opened.cell), EventLoopWaits(machine), 0)
        await opened.close()

    asyncio.run(main())


def test_cells_are_seen_and_groups_placed_by_the_time_of_the_first_table(
    tmp_path: Path, machine: WrongClock
) -> None:
    settings = ServerSettings(cell="dynamodb", table="one", cells_dynamodb="two=two", data=tmp_path)

    async def main() -> None:
        several = await open_several(settings, machine, SystemEntropy())
        await several.look()
        await asyncio.gather(*several._probes)
        beat = several.heart.beat()
        assert all(seen.answers for seen in beat.cells.values())
        (stored,) = await several.places.heartbeats()
        placed = several.known.placements["g2.00"].placement
        times_us = beat.time_us, stored.time_us, placed.since_us, beat.cells["two"].since_us
        right_us = SystemClock().now_us()
        assert all(abs(time_us - right_us) < MINUTE_US for time_us in times_us)
        with deadline(clock_of(machine, as_opened(several)).now_us() + MINUTE_US):
            assert await several.standard["g2.00"].get(ITEM) is None
            assert await several.plain["two"].get(ITEM) is None
        await as_opened(several).close()

    asyncio.run(main())
