"""A server on a table that nobody uses any more: what it reads, in virtual time."""

import asyncio
from collections.abc import Awaitable, Callable
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import pytest

from control_plane import server as server_module
from control_plane.cells import OpenedCell
from control_plane.core.price_list import MILLION, PRICES, SECONDS_A_MONTH
from control_plane.master_keys import OpenedKeys
from control_plane.server import TidegateServer
from control_plane.stored_on_tables import StoredOnTables
from data_plane.http.logs import LogWriter
from data_plane.settings import ServerSettings
from tests.conformance.capacity_cell import CapacityCell
from tests.conformance.cost_page import IDLE_USD_MAX, SCRAPED_USD_MAX
from tests.conformance.cost_table import WRITES
from tests.unit.control_plane.one_queue import hold_to_one_queue
from tests.unit.data_plane.http.test_metrics import served
from tests.unit.data_plane.master_keys import HeldKeys
from tests.unit.data_plane.runtime.virtual_loop import VirtualLoop, run
from tests.unit.repeatable import SECRET

QUEUES: Final = 500
HOUR_S: Final = 3_600
DAY_S: Final = 24 * HOUR_S
ACCOUNT, REGION = "0" * 12, "us-east-1"


async def nothing(*_: object) -> None:
    pass


@pytest.fixture(autouse=True)
def _no_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory is given back by a thread, for which a loop of virtual time cannot wait."""
    monkeypatch.setattr(server_module, "_MEMORY_PERIOD_S", float(DAY_S))


def server_on(loop: VirtualLoop, cell: Any, data: Path, auth: str = "off") -> TidegateServer:
    settings = ServerSettings(data=data, auth=auth, cell="dynamodb", usage="off")
    opened = OpenedCell(
        name="table",
        where="a table",
        cell=cell,
        control=cell,
        forgets=False,
        upkeep=nothing,
        is_full=lambda: False,
        gauges=dict,
        close=nothing,
    )
    keys = OpenedKeys(HeldKeys(), SECRET, "", lambda: None)
    return TidegateServer(settings, opened, keys, loop, LogWriter(lambda _: None, loop, "info"))


def usd_a_month(cell: CapacityCell, seconds: float) -> float:
    """What these units cost if it goes on so all month."""
    units = cell.units
    written = sum(units[name] for name in WRITES)
    spent = written * PRICES["write unit"].first
    spent += Decimal(sum(units.values()) - written) * PRICES["read unit"].first
    return float(spent / MILLION * SECONDS_A_MONTH) / seconds


async def use_all(server: TidegateServer) -> None:
    for number in range(QUEUES):
        name = f"queue-{number}"
        definition = server.registry.define(
            account=ACCOUNT, region=REGION, name=name, attributes={}, tags={}, now_us=1
        )
        await server.registry.create(definition, {}, 1)
        long_ago_us = server.clock.now_us() - DAY_S * 1_000_000
        told = served(
            "SendMessage", account=ACCOUNT, queue=name, messages=1, finished_us=long_ago_us
        )
        server.metrics.served(told)


def play(
    data: Path, scenario: Callable[[TidegateServer, VirtualLoop, CapacityCell], Awaitable[None]]
) -> None:
    loop = VirtualLoop()

    async def main() -> None:
        cell = CapacityCell(loop)
        server = server_on(loop, cell, data)
        try:
            await scenario(server, loop, cell)
        finally:
            await server._upkeep.end()

    run(main(), loop)


@pytest.mark.parametrize(
    ("scraped_every_s", "usd_max"), [(None, IDLE_USD_MAX), (15, SCRAPED_USD_MAX)]
)
def test_five_hundred_idle_queues_cost_less_than_a_dollar_a_month(
    tmp_path: Path, scraped_every_s: int | None, usd_max: float
) -> None:
    async def scenario(server: TidegateServer, _loop: VirtualLoop, cell: CapacityCell) -> None:
        await use_all(server)
        server._begin_upkeep()
        if scraped_every_s:
            server._upkeep.repeat(server._metrics, scraped_every_s)
        await asyncio.sleep(120)  # of the loop's time, which passes at once: it is at rest then
        cell.units.clear()
        await asyncio.sleep(HOUR_S)  # likewise
        usd = usd_a_month(cell, HOUR_S)
        assert usd < usd_max, dict(cell.units)

    play(tmp_path, scenario)


def test_a_queue_that_was_deleted_elsewhere_leaves_the_metrics_of_an_idle_server(
    tmp_path: Path,
) -> None:
    async def scenario(server: TidegateServer, loop: VirtualLoop, _cell: CapacityCell) -> None:
        await use_all(server)
        server._begin_upkeep()
        await asyncio.sleep(60)  # of the loop's time
        gone = (ACCOUNT, REGION, "queue-7")
        queue = await server.registry.find(*gone)
        assert queue is not None
        await server.registry.delete(queue, loop.now_us())
        assert gone in server.metrics.queues
        await asyncio.sleep(HOUR_S / 2 + 60)  # likewise
        assert gone not in server.metrics.queues

    play(tmp_path, scenario)


def test_a_server_on_a_table_holds_accounts_to_what_they_may_store_and_define(
    tmp_path: Path,
) -> None:
    loop = VirtualLoop()

    async def story() -> None:
        server = server_on(loop, CapacityCell(loop), tmp_path, auth="on")
        assert isinstance(server._stored, StoredOnTables)
        await hold_to_one_queue(server.service)

    run(story(), loop)
