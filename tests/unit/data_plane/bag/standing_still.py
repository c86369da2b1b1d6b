"""A front end that stands still before a write."""

from typing import Any

import pytest

from data_plane.bag.bounds import BLOCK_FULL_MESSAGES, COLLECT_AFTER_US
from data_plane.ports import Written
from tests.unit.data_plane.bag.conftest import Bench
from tests.unit.data_plane.bag.pipe import Pipe


def collect_before_next_update(bench: Bench | Pipe, monkeypatch: pytest.MonkeyPatch) -> None:
    """The cell's next update comes when others have deleted all, and collected its block."""
    update = bench.cell.update

    async def held_up(*change: Any) -> Written:
        monkeypatch.undo()
        assert len(await bench.drain()) == BLOCK_FULL_MESSAGES
        bench.clock.advance(COLLECT_AFTER_US / 1_000_000 + 1)
        await bench.bag.sweep()
        return await update(*change)

    monkeypatch.setattr(bench.cell, "update", held_up)
