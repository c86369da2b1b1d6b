"""Services of several embedded cells that are started again and again in this process."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

from control_plane.core.definition import Definition
from control_plane.several_cells import SeveralCells
from control_plane.several_opening import as_opened, open_folders
from data_plane.ports import Key
from data_plane.settings import ServerSettings
from data_plane.system import SystemClock, SystemEntropy

Scenario = Callable[[SeveralCells], Awaitable[None]]
ITEM = Key("Q|1|us-east-1", b"orders")


def play(
    data: Path, *scenarios: Scenario, cells: int = 3, cell_data: str = "", give_up: str = ""
) -> None:
    """Start a service for each of the scenarios, one after the other."""
    for scenario in scenarios:

        async def main(scenario: Scenario = scenario) -> None:
            settings = ServerSettings(data=data, cells=cells, cell_data=cell_data, give_up=give_up)
            several = await open_folders(settings, SystemClock(), SystemEntropy())
            try:
                await scenario(several)
            finally:
                await as_opened(several).close()

        asyncio.run(main())


async def nothing(_several: SeveralCells) -> None:
    """Start and stop."""


def members(several: SeveralCells, group: str) -> list[str]:
    return [member.cell for member in several.known.placements[group].placement.members]


def groups_of(several: SeveralCells, name: str) -> list[str]:
    return [group for group in several.known.placements if name in members(several, group)]


def queue(uid: str, cell: str) -> Definition:
    return Definition("1" * 12, "us-east-1", "orders", uid, cell, 1, 1)
