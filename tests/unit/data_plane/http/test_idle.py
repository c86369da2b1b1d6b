"""Idle connections are looked for as long as the server runs."""

import asyncio
import errno
import os
import sys

import pytest

from data_plane.http.idle import IdleConnections

IDLE_S = 0.01


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells of connections")
def test_a_look_that_fails_is_not_the_last_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """There may be no file left to look with, which passes."""
    looks: list[str] = []

    def listdir(path: str) -> list[str]:
        looks.append(path)
        if len(looks) == 1:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return []

    async def story() -> None:
        monkeypatch.setattr(os, "listdir", listdir)
        running = asyncio.create_task(IdleConnections(1, IDLE_S, lambda _port: False).run())
        await asyncio.wait({running}, timeout=50 * IDLE_S)
        assert len(looks) > 1
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    asyncio.run(story())
