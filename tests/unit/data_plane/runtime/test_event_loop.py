import asyncio
from collections.abc import Awaitable, Callable, Sequence

import pytest

from data_plane.runtime import signals
from data_plane.runtime.event_loop import EventLoopWaits
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


def test_sleep_until_returns_at_the_time_and_not_before() -> None:
    async def scenario(waits: EventLoopWaits, loop: VirtualLoop) -> None:
        await waits.sleep_until(START_US + 200 * SECOND_US)
        assert loop.now_us() == START_US + 200 * SECOND_US
        await waits.sleep_until(START_US)
        assert loop.now_us() == START_US + 200 * SECOND_US

    play(scenario)


def test_all_of_overlaps_and_puts_errors_in_place() -> None:
    async def scenario(waits: EventLoopWaits, loop: VirtualLoop) -> None:
        error = ValueError("no")

        async def call(result: int) -> int:
            await waits.sleep_until(START_US + SECOND_US)
            if result == 2:
                raise error
            return result

        assert await waits.all_of([call(1), call(2), call(3)]) == [1, error, 3]
        assert loop.now_us() == START_US + SECOND_US
        assert await waits.all_of([call(2)]) == [error]
        assert await waits.all_of([]) == []

    play(scenario)


def test_all_of_lets_cancellation_through() -> None:
    async def scenario(waits: EventLoopWaits, _loop: VirtualLoop) -> None:
        async def cancelled() -> None:
            raise asyncio.CancelledError

        async def fine() -> None:
            return

        with pytest.raises(asyncio.CancelledError):
            await waits.all_of([cancelled(), fine()])

    play(scenario)


class Flusher:
    """Answers the entries times ten, a second after it was asked."""

    def __init__(self, waits: EventLoopWaits, loop: VirtualLoop) -> None:
        self.flushed: list[list[object]] = []
        self.running = 0
        self._waits = waits
        self._loop = loop

    async def __call__(self, entries: list[object]) -> Sequence[object | Exception]:
        self.running += 1
        assert self.running == 1, "two flushes of a lane at a time"
        self.flushed.append(entries)
        await self._waits.sleep_until(self._loop.now_us() + SECOND_US)
        self.running -= 1
        return [entry * 10 if isinstance(entry, int) else ValueError(entry) for entry in entries]


def test_coalesce_flushes_the_first_at_once_and_the_rest_together() -> None:
    async def scenario(waits: EventLoopWaits, loop: VirtualLoop) -> None:
        flush = Flusher(waits, loop)
        first = asyncio.create_task(waits.coalesce("lane", 1, flush))
        await settle()
        assert flush.flushed == [[1]]
        rest = [asyncio.create_task(waits.coalesce("lane", n, flush)) for n in (2, 3, 4)]
        assert [await first, *(await asyncio.gather(*rest))] == [10, 20, 30, 40]
        assert flush.flushed == [[1], [2, 3, 4]]
        assert loop.now_us() == START_US + 2 * SECOND_US

    play(scenario)


def test_coalesce_raises_an_outcome_to_its_owner_alone() -> None:
    async def scenario(waits: EventLoopWaits, loop: VirtualLoop) -> None:
        flush = Flusher(waits, loop)
        calls = [waits.coalesce("lane", entry, flush) for entry in (1, "bad", 3)]
        outcomes = await asyncio.gather(*calls, return_exceptions=True)
        assert outcomes[0] == 10
        assert isinstance(outcomes[1], ValueError)
        assert outcomes[2] == 30

    play(scenario)


def test_coalesce_tells_everyone_of_a_flush_that_fails_and_goes_on() -> None:
    async def scenario(waits: EventLoopWaits, loop: VirtualLoop) -> None:
        async def fail(_entries: list[object]) -> Sequence[object]:
            raise OSError("disk")

        async def miscount(_entries: list[object]) -> Sequence[object]:
            return []

        outcomes = await asyncio.gather(
            *(waits.coalesce("lane", n, fail) for n in range(2)), return_exceptions=True
        )
        assert [type(outcome) for outcome in outcomes] == [OSError, OSError]
        with pytest.raises(RuntimeError, match="0 outcomes for 1 entries"):
            await waits.coalesce("lane", 1, miscount)
        assert await waits.coalesce("lane", 1, Flusher(waits, loop)) == 10

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


def test_lanes_do_not_wait_for_each_other() -> None:
    async def scenario(waits: EventLoopWaits, loop: VirtualLoop) -> None:
        flushes = [Flusher(waits, loop) for _ in range(3)]
        calls = [waits.coalesce(n, n, flush) for n, flush in enumerate(flushes)]
        await asyncio.gather(*calls)
        assert loop.now_us() == START_US + SECOND_US

    play(scenario)


def waiting(waits: EventLoopWaits, names: str, woken: list[str]) -> list[asyncio.Task[None]]:
    async def wait(name: str) -> None:
        await waits.wait_for("channel", waits.signals("channel"), START_US + 20 * SECOND_US)
        woken.append(name)

    return [asyncio.create_task(wait(name)) for name in names]


def test_signal_wakes_as_many_as_said_and_the_longest_waiting_first() -> None:
    async def scenario(waits: EventLoopWaits, loop: VirtualLoop) -> None:
        woken: list[str] = []
        tasks = waiting(waits, "abcd", woken)
        await settle()
        waits.signal("other", 4)
        await settle()
        assert woken == []
        waits.signal("channel")
        await settle()
        assert woken == ["a"]
        waits.signal("channel", 2)
        await settle()
        assert woken == ["a", "b", "c"]
        await asyncio.gather(*tasks)
        assert loop.now_us() == START_US + 20 * SECOND_US

    play(scenario)


def test_a_signal_between_looking_and_waiting_is_not_lost() -> None:
    async def scenario(waits: EventLoopWaits, loop: VirtualLoop) -> None:
        seen = waits.signals("channel")
        waits.signal("channel")
        await waits.wait_for("channel", seen, START_US + 20 * SECOND_US)
        assert loop.now_us() == START_US
        await waits.wait_for("channel", waits.signals("channel"), START_US + SECOND_US)
        assert loop.now_us() == START_US + SECOND_US

    play(scenario)


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
