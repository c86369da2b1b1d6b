"""How a run of the blocking driver ends, by itself or otherwise."""

import threading
from collections.abc import Awaitable, Callable
from functools import partial

import pytest

from data_plane.runtime.drive import DeadlockError, Drive
from tests.unit.data_plane.runtime.blocking_rig import LIMIT_S, Rig, here

SECOND_US = 1_000_000


def test_what_a_coroutine_raises_is_raised(rig: Rig) -> None:
    async def main() -> None:
        await rig.driver.offload(lambda: int("x"))

    with pytest.raises(ValueError, match="invalid literal"):
        rig.run(main())


def test_an_interrupt_ends_everything_when_what_is_under_way_has_returned(rig: Rig) -> None:
    begun, go_on, returned = threading.Event(), threading.Event(), threading.Event()
    ended: list[str] = []

    def call() -> None:
        begun.set()
        assert go_on.wait(LIMIT_S)
        returned.set()

    async def part(name: str, wait: Callable[[], Awaitable[object]]) -> None:
        try:
            await wait()
        finally:
            ended.append(name)

    async def interrupt() -> None:
        # It has to be pressed while the call is under way, which returns only afterwards.
        begun.wait(LIMIT_S)
        threading.Timer(0.0, go_on.set).start()
        raise KeyboardInterrupt

    async def main() -> None:
        calls: list[Awaitable[object]] = [
            part("call", lambda: rig.driver.offload(call)),
            part("sleep", lambda: rig.waits.sleep_until(rig.clock.now_us() + SECOND_US)),
            interrupt(),
            part("not begun", lambda: rig.waits.sleep_until(0)),
        ]
        try:
            await rig.waits.all_of(calls)
        finally:
            assert returned.is_set()
            ended.append("main")

    with pytest.raises(KeyboardInterrupt):
        rig.run(main())
    assert ended == ["sleep", "call", "main"]
    assert rig.naps == []
    assert rig.run(rig.threads_of(here)) == [here()]


def test_calls_that_wait_for_a_thread_are_not_made_after_an_interrupt() -> None:
    rig = Rig(threads_max=1)
    begun, never = threading.Event(), threading.Event()
    made: list[int] = []

    def call(run: Drive, number: int) -> None:
        begun.set()
        looks = 0
        while len(run._calls) > 1:  # until the others were called off
            assert looks < 1000 * LIMIT_S
            looks += 1
            never.wait(0.001)
        made.append(number)

    async def interrupt() -> None:
        begun.wait(LIMIT_S)
        raise SystemExit

    async def main() -> None:
        run = rig.driver.drive
        calls = [rig.driver.offload(partial(call, run, number)) for number in range(10)]
        await rig.waits.all_of([*calls, interrupt()])

    with pytest.raises(SystemExit):
        rig.run(main())
    assert made == [0]
    rig.driver.close()
    assert made == [0]


def test_what_fails_while_everything_is_ended_is_told(rig: Rig) -> None:
    begun, go_on = threading.Event(), threading.Event()

    def call() -> None:
        begun.set()
        go_on.wait(LIMIT_S)
        raise OSError("reset")

    async def stubborn() -> None:
        try:
            await rig.driver.offload(call)
        finally:
            raise ValueError("in finally")

    async def interrupt() -> None:
        begun.wait(LIMIT_S)
        go_on.set()
        raise KeyboardInterrupt

    async def main() -> None:
        await rig.waits.all_of([stubborn(), interrupt()])

    with pytest.raises(KeyboardInterrupt) as raised:
        rig.run(main())
    assert raised.value.__notes__ == [
        "while everything was ended: OSError('reset')",
        "while everything was ended: ValueError('in finally')",
    ]


def test_an_exit_in_a_thread_ends_the_run(rig: Rig) -> None:
    def leave() -> None:
        raise SystemExit(3)

    async def main() -> None:
        await rig.waits.all_of([rig.driver.offload(leave), rig.driver.offload(here)])

    with pytest.raises(SystemExit):
        rig.run(main())


def test_a_deadlock_is_told(rig: Rig) -> None:
    async def flush(_entries: list[object]) -> list[object]:
        return [await rig.waits.coalesce("lane", 2, flush)]

    ended: list[str] = []

    async def main() -> None:
        try:
            await rig.waits.coalesce("lane", 1, flush)
        finally:
            ended.append("main")

    with pytest.raises(DeadlockError, match=r"awaited: \('lane', 'lane'\), \('lane', 'lane'\)"):
        rig.run(main())
    assert ended == ["main"]
