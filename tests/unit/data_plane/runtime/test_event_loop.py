"""What only the waits of an event loop promise; the port has a suite in tests/conformance."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from data_plane.runtime import signals
from data_plane.runtime.event_loop import EventLoopWaits
from tests.conformance.waits_suite import Flusher
from tests.unit.data_plane.runtime.virtual_loop import START_US, VirtualLoop, run

Scenario = Callable[[EventLoopWaits, VirtualLoop], Awaitable[None]]
SECOND_US = 1_000_000


def play(scenario: Scenario) -> None:
    loop = VirtualLoop()

    async def main() -> None:
        waits = EventLoopWaits(loop)
        await scenario(waits, loop)
        assert not waits._lanes, "a lane was not forgotten"
        assert not waits._waiters, "a channel was not forgotten"

    run(main(), loop)


async def settle() -> None:
    """Let every task run until it waits."""
    for _ in range(10):
        await asyncio.sleep(0)


def test_all_of_lets_cancellation_through() -> None:
    async def scenario(waits: EventLoopWaits, _loop: VirtualLoop) -> None:
        async def cancelled() -> None:
            raise asyncio.CancelledError

        async def fine() -> None:
            return

        with pytest.raises(asyncio.CancelledError):
            await waits.all_of([cancelled(), fine()])

    play(scenario)


def test_a_cancelled_owner_takes_nobody_along() -> None:
    async def scenario(waits: EventLoopWaits, loop: VirtualLoop) -> None:
        flush = Flusher(waits, loop)
        doomed = asyncio.create_task(waits.coalesce("lane", 1, flush))
        other = asyncio.create_task(waits.coalesce("lane", 2, flush))
        await settle()
        doomed.cancel()
        assert await other == 20
        assert flush.flushed == [[1, 2]]

    play(scenario)


def waiting(waits: EventLoopWaits, names: str, woken: list[str]) -> list[asyncio.Task[None]]:
    async def wait(name: str) -> None:
        await waits.wait_for("channel", waits.signals("channel"), START_US + 20 * SECOND_US)
        woken.append(name)

    return [asyncio.create_task(wait(name)) for name in names]


def test_a_signal_to_one_who_was_cancelled_goes_to_the_next() -> None:
    async def scenario(waits: EventLoopWaits, _loop: VirtualLoop) -> None:
        woken: list[str] = []
        tasks = waiting(waits, "ab", woken)
        await settle()
        waits.signal("channel")
        tasks[0].cancel()
        await settle()
        assert woken == ["b"]

    play(scenario)


def test_a_cancelled_waiter_is_forgotten() -> None:
    async def scenario(waits: EventLoopWaits, _loop: VirtualLoop) -> None:
        woken: list[str] = []
        tasks = waiting(waits, "abc", woken)
        await settle()
        tasks[1].cancel()
        await settle()
        waits.signal("channel", 2)
        await settle()
        assert woken == ["a", "c"]

    play(scenario)


@pytest.mark.parametrize("others", [0, 1])
def test_a_signal_passes_over_one_whose_time_is_up(others: int) -> None:
    async def scenario(waits: EventLoopWaits, loop: VirtualLoop) -> None:
        soon_us, late_us = START_US + SECOND_US, START_US + 20 * SECOND_US
        first = asyncio.create_task(waits.wait_for("channel", 0, soon_us))
        # Due when the wait is, but made later: it runs before the wait has returned.
        loop.call_soon(lambda: loop.call_later(1.0, waits.signal, "channel"))
        rest = [asyncio.create_task(waits.wait_for("channel", 0, late_us)) for _ in range(others)]
        assert await first
        assert all(await asyncio.gather(*rest))
        assert loop.now_us() == soon_us

    play(scenario)


def test_signals_are_kept_for_a_bounded_number_of_channels(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(signals, "_REMEMBERED_SIGNALS_MAX", 3)

    async def scenario(waits: EventLoopWaits, loop: VirtualLoop) -> None:
        seen = waits.signals("channel")
        for channel in ("channel", *range(5)):
            waits.signal(channel)
        assert len(waits._signals._last) == 3
        # Forgotten, yet not lost: at worst somebody looks once more for nothing.
        await waits.wait_for("channel", seen, START_US + SECOND_US)
        assert loop.now_us() == START_US
        await waits.wait_for("channel", waits.signals("channel"), START_US + SECOND_US)
        assert loop.now_us() == START_US + SECOND_US

    play(scenario)


def test_stopping_ends_all_waiting_without_spinning() -> None:
    async def scenario(waits: EventLoopWaits, loop: VirtualLoop) -> None:
        until_us = START_US + 20 * SECOND_US
        poll = asyncio.create_task(waits.wait_for("channel", 0, until_us))
        await settle()
        waits.stop_waiting()
        assert await poll is False
        assert loop.now_us() == START_US
        assert await waits.wait_for("channel", 0, until_us) is False
        assert START_US < loop.now_us() < START_US + SECOND_US // 10

    play(scenario)
