"""Cells let go of their directory, whoever stops waiting for that."""

import asyncio
from pathlib import Path

from data_plane.embedded.cell import EmbeddedCell
from data_plane.embedded.failable import FailableCell
from data_plane.ports import Key
from tests.unit.repeatable import HandClock

KEY = Key("P", b"1")


def test_a_cell_that_was_failed_comes_back_though_who_failed_it_had_gone(tmp_path: Path) -> None:
    async def main() -> None:
        clock = HandClock()

        def opened() -> EmbeddedCell:
            return EmbeddedCell(tmp_path / "cell", clock)

        cell = FailableCell(opened, clock, first := opened())
        put = asyncio.create_task(cell.put(KEY, {"v": 1}))
        while first._committing is None:  # noqa: ASYNC110 - the next turns of the loop bring it about
            await asyncio.sleep(0)
        failing = asyncio.create_task(cell.fail("an operator did it"))
        await asyncio.sleep(0)
        failing.cancel()
        await asyncio.wait({failing, put})
        assert failing.cancelled()
        await first.close()
        cell.restore()
        assert await cell.get(KEY) == {"v": 1}
        await cell.close()

    asyncio.run(main())
