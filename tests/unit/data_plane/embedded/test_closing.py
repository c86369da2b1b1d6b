"""Cells let go of their directory, whoever stops waiting for that."""

import asyncio
import threading
from pathlib import Path

import pytest

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


def test_a_server_goes_on_while_a_disk_that_hangs_keeps_a_cell_from_closing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hangs, answers = threading.Event(), threading.Event()
    stood_still: list[str] = []
    join = threading.Thread.join

    def hang() -> None:
        hangs.set()
        answers.wait()

    def note_join(thread: threading.Thread, timeout: float | None = None) -> None:
        if not answers.is_set():
            stood_still.append(thread.name)
            answers.set()
        join(thread, timeout)

    async def main() -> None:
        cell = EmbeddedCell(tmp_path / "cell", HandClock())
        monkeypatch.setattr(cell._store, "read_disk", hang)
        probe = asyncio.create_task(cell.read_disk())
        while not hangs.is_set():  # noqa: ASYNC110 - the next turns of the loop bring it about
            await asyncio.sleep(0)
        monkeypatch.setattr(threading.Thread, "join", note_join)
        closing = asyncio.create_task(cell.close())
        for _turn in range(5):
            await asyncio.sleep(0)
        assert not stood_still
        assert not closing.done()
        answers.set()
        await asyncio.gather(probe, closing)
        await EmbeddedCell(tmp_path / "cell", HandClock()).close()

    asyncio.run(main())
