import asyncio
import json
import os
import signal

import pytest

from control_plane.stopping import SECOND_S, Stopping
from data_plane.http.logs import LogWriter
from tests.unit.repeatable import HandClock


class Scene:
    """A server that hears signals; `did` is what they caused, in its order."""

    def __init__(self) -> None:
        self.did: list[str] = []
        self.now_s = 100.0
        log = LogWriter(self._write, HandClock(), "info")
        self.stopping = Stopping(lambda code: self.did.append(f"end {code}"), log)

    def _write(self, lines: bytes) -> None:
        line = json.loads(lines)
        self.did.append(f"{line['event']} {line['signal']}")

    def signal(self, number: int, after_s: float = 0.0) -> None:
        self.now_s += after_s
        self.stopping.signalled(number, lambda: self.now_s, lambda: self.did.append("begin"))


def test_the_first_signal_stops_before_it_is_logged() -> None:
    scene = Scene()
    scene.signal(signal.SIGTERM)
    assert scene.did == ["begin", "stopping SIGTERM"]


@pytest.mark.parametrize("second", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_what_comes_at_the_same_moment_is_the_same_stop(second: int) -> None:
    scene = Scene()
    scene.signal(signal.SIGTERM)
    scene.signal(second)
    scene.signal(second, SECOND_S - 0.01)
    assert scene.did == ["begin", "stopping SIGTERM"]


def test_a_second_one_later_ends_at_once() -> None:
    scene = Scene()
    scene.signal(signal.SIGTERM)
    scene.signal(signal.SIGINT, SECOND_S)
    assert scene.did == ["begin", "stopping SIGTERM", "end 130"]


def test_who_asks_again_after_the_end_changes_nothing() -> None:
    async def stop() -> None:
        loop, stopped = asyncio.get_running_loop(), asyncio.Event()
        scene.stopping.listen(loop, stopped.set)
        os.kill(os.getpid(), signal.SIGTERM)
        await stopped.wait()
        scene.stopping.ended(loop)

    scene, numbers = Scene(), (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = [signal.getsignal(number) for number in numbers]
    try:
        asyncio.run(stop())
        for number in numbers:
            os.kill(os.getpid(), number)
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)
    assert scene.did == ["stopping SIGTERM"]
