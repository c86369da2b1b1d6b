"""What every adapter of the Waits port must do, in time that passes at once.

A test module for an adapter derives a class from `WaitsSuite` and defines its fixture `play`.
"""

from collections.abc import Awaitable, Callable, Coroutine, Sequence
from functools import partial
from typing import Any

import pytest

from data_plane.core.deadline import deadline, deadline_us
from data_plane.ports import Clock, Waits

SECOND_US = 1_000_000

Scenario = Callable[[Waits, Clock], Coroutine[Any, Any, None]]
Play = Callable[[Scenario], None]
"""Runs a scenario to its end, and checks that nothing of it is left."""


class FatalError(BaseException):
    """No Exception: nobody takes it for the outcome of a call."""


class Flusher:
    """Answers the entries times ten, a second after it was asked."""

    def __init__(self, waits: Waits, clock: Clock) -> None:
        self.flushed: list[list[object]] = []
        self._running = 0
        self._waits = waits
        self._clock = clock

    async def __call__(self, entries: list[object]) -> Sequence[object | Exception]:
        self._running += 1
        assert self._running == 1, "two flushes of a lane at a time"
        self.flushed.append(entries)
        await self._waits.sleep_until(self._clock.now_us() + SECOND_US)
        self._running -= 1
        return [entry * 10 if isinstance(entry, int) else ValueError(entry) for entry in entries]


async def after(waits: Waits, time_us: int, call: Callable[[], Awaitable[object]]) -> object:
    """Begin the call at this time."""
    await waits.sleep_until(time_us)
    return await call()


class WaitsSuite:
    """The contract, as tests."""

    def test_sleep_until_returns_at_the_time_and_not_before(self, play: Play) -> None:
        async def scenario(waits: Waits, clock: Clock) -> None:
            start_us = clock.now_us()
            await waits.sleep_until(start_us + 200 * SECOND_US)
            assert clock.now_us() == start_us + 200 * SECOND_US
            await waits.sleep_until(start_us)
            assert clock.now_us() == start_us + 200 * SECOND_US

        play(scenario)

    def test_sleepers_wake_in_the_order_of_their_times(self, play: Play) -> None:
        async def scenario(waits: Waits, clock: Clock) -> None:
            start_us = clock.now_us()
            woken: list[tuple[int, int]] = []

            async def sleep(seconds: int) -> None:
                await waits.sleep_until(start_us + seconds * SECOND_US)
                woken.append((seconds, (clock.now_us() - start_us) // SECOND_US))

            await waits.all_of([sleep(seconds) for seconds in (3, 1, 90, 2, 1)])
            assert woken == [(1, 1), (1, 1), (2, 2), (3, 3), (90, 90)]

        play(scenario)

    def test_all_of_overlaps_and_puts_errors_in_place(self, play: Play) -> None:
        async def scenario(waits: Waits, clock: Clock) -> None:
            start_us = clock.now_us()
            error = ValueError("no")

            async def call(result: int) -> int:
                await waits.sleep_until(start_us + SECOND_US)
                if result == 2:
                    raise error
                return result

            assert await waits.all_of([call(1), call(2), call(3)]) == [1, error, 3]
            assert clock.now_us() == start_us + SECOND_US
            assert await waits.all_of([call(2)]) == [error]
            assert await waits.all_of([]) == []

        play(scenario)

    def test_the_calls_that_fail_do_not_end_the_others(self, play: Play) -> None:
        async def scenario(waits: Waits, clock: Clock) -> None:
            ended: list[int] = []

            async def call(seconds: int) -> int:
                await waits.sleep_until(clock.now_us() + seconds * SECOND_US)
                ended.append(seconds)
                if seconds < 3:
                    raise ValueError(seconds)
                return seconds

            outcomes = await waits.all_of([call(5), call(0), call(2), call(4)])
            assert [str(outcome) for outcome in outcomes] == ["5", "0", "2", "4"]
            assert [isinstance(outcome, ValueError) for outcome in outcomes] == [0, 1, 1, 0]
            assert ended == [0, 2, 4, 5]

        play(scenario)

    def test_all_of_within_all_of(self, play: Play) -> None:
        async def scenario(waits: Waits, clock: Clock) -> None:
            start_us = clock.now_us()

            async def leaf(number: int) -> int:
                await waits.sleep_until(start_us + number * SECOND_US)
                return number

            async def branch(first: int) -> list[int | Exception]:
                return await waits.all_of([leaf(first + step) for step in (2, 0, 1)])

            assert await waits.all_of([branch(3), branch(1)]) == [[5, 3, 4], [3, 1, 2]]
            assert clock.now_us() == start_us + 5 * SECOND_US

        play(scenario)

    @pytest.mark.parametrize("others", [0, 2])
    def test_all_of_lets_through_what_is_no_exception(self, play: Play, others: int) -> None:
        async def scenario(waits: Waits, clock: Clock) -> None:
            async def fatal() -> None:
                raise FatalError

            async def fine() -> None:
                await waits.sleep_until(clock.now_us() + SECOND_US)

            await waits.all_of([*(fine() for _ in range(others)), fatal()])

        with pytest.raises(FatalError):
            play(scenario)

    def test_coalesce_flushes_the_first_at_once_and_the_rest_together(self, play: Play) -> None:
        async def scenario(waits: Waits, clock: Clock) -> None:
            start_us = clock.now_us()
            flush = Flusher(waits, clock)

            def entry(number: int) -> Awaitable[object]:
                return waits.coalesce("lane", number, flush)

            async def rest() -> object:
                return await waits.all_of([entry(number) for number in (2, 3, 4)])

            half_us = start_us + SECOND_US // 2
            outcomes = await waits.all_of([entry(1), after(waits, half_us, rest)])
            assert outcomes == [10, [20, 30, 40]]
            assert flush.flushed == [[1], [2, 3, 4]]
            assert clock.now_us() == start_us + 2 * SECOND_US

        play(scenario)

    def test_what_arrives_together_is_flushed_together(self, play: Play) -> None:
        async def scenario(waits: Waits, clock: Clock) -> None:
            flush = Flusher(waits, clock)
            calls = [waits.coalesce("lane", number, flush) for number in range(3)]
            assert await waits.all_of(calls) == [0, 10, 20]
            assert flush.flushed == [[0, 1, 2]]

        play(scenario)

    def test_coalesce_raises_an_outcome_to_its_owner_alone(self, play: Play) -> None:
        async def scenario(waits: Waits, clock: Clock) -> None:
            flush = Flusher(waits, clock)
            calls = [waits.coalesce("lane", entry, flush) for entry in (1, "bad", 3)]
            outcomes = await waits.all_of(calls)
            assert outcomes[0] == 10
            assert isinstance(outcomes[1], ValueError)
            assert outcomes[2] == 30

        play(scenario)

    def test_coalesce_tells_everyone_of_a_flush_that_fails_and_goes_on(self, play: Play) -> None:
        async def scenario(waits: Waits, clock: Clock) -> None:
            async def fail(_entries: list[object]) -> Sequence[object]:
                raise OSError("disk")

            async def miscount(_entries: list[object]) -> Sequence[object]:
                return []

            outcomes = await waits.all_of([waits.coalesce("lane", n, fail) for n in range(2)])
            assert [type(outcome) for outcome in outcomes] == [OSError, OSError]
            with pytest.raises(RuntimeError, match="0 outcomes for 1 entries"):
                await waits.coalesce("lane", 1, miscount)
            assert await waits.coalesce("lane", 1, Flusher(waits, clock)) == 10

        play(scenario)

    def test_a_flush_that_ends_by_what_is_no_exception_ends_all(self, play: Play) -> None:
        async def scenario(waits: Waits, _clock: Clock) -> None:
            async def fatal(_entries: list[object]) -> Sequence[object]:
                raise KeyboardInterrupt

            await waits.all_of([waits.coalesce("lane", n, fatal) for n in range(2)])

        with pytest.raises(KeyboardInterrupt):
            play(scenario)

    def test_entries_are_flushed_as_the_last_of_them_says(self, play: Play) -> None:
        async def scenario(waits: Waits, clock: Clock) -> None:
            half_us = clock.now_us() + SECOND_US // 2
            flushes = [Flusher(waits, clock) for _ in range(3)]

            def entry(number: int) -> Awaitable[object]:
                return waits.coalesce("lane", number, flushes[number])

            later = [after(waits, half_us + number, partial(entry, number)) for number in (1, 2)]
            assert await waits.all_of([entry(0), *later]) == [0, 10, 20]
            assert [flush.flushed for flush in flushes] == [[[0]], [], [[1, 2]]]

        play(scenario)

    def test_lanes_do_not_wait_for_each_other(self, play: Play) -> None:
        async def scenario(waits: Waits, clock: Clock) -> None:
            start_us = clock.now_us()
            flushes = [Flusher(waits, clock) for _ in range(3)]
            await waits.all_of([waits.coalesce(n, n, flush) for n, flush in enumerate(flushes)])
            assert clock.now_us() == start_us + SECOND_US

        play(scenario)

    def test_a_flush_may_coalesce_in_another_lane(self, play: Play) -> None:
        async def scenario(waits: Waits, clock: Clock) -> None:
            inner = Flusher(waits, clock)

            async def outer(entries: list[object]) -> list[object | Exception]:
                return await waits.all_of([waits.coalesce("inner", e, inner) for e in entries])

            calls = [waits.coalesce("outer", number, outer) for number in range(3)]
            assert await waits.all_of(calls) == [0, 10, 20]
            assert inner.flushed == [[0, 1, 2]]

        play(scenario)

    def test_signal_wakes_as_many_as_said_and_the_longest_waiting_first(self, play: Play) -> None:
        async def scenario(waits: Waits, clock: Clock) -> None:
            start_us = clock.now_us()
            woken: list[tuple[str, int]] = []

            async def wait(name: str) -> None:
                until_us = start_us + 20 * SECOND_US
                assert await waits.wait_for("channel", waits.signals("channel"), until_us)
                woken.append((name, (clock.now_us() - start_us) // SECOND_US))

            async def signal() -> None:
                for second, (channel, count) in enumerate(
                    [("other", 4), ("channel", 1), ("channel", 2)], 1
                ):
                    await waits.sleep_until(start_us + second * SECOND_US)
                    waits.signal(channel, count)

            await waits.all_of([*(wait(name) for name in "abcd"), signal()])
            assert woken == [("a", 2), ("b", 3), ("c", 3), ("d", 20)]

        play(scenario)

    def test_a_signal_between_looking_and_waiting_is_not_lost(self, play: Play) -> None:
        async def scenario(waits: Waits, clock: Clock) -> None:
            start_us = clock.now_us()
            seen = waits.signals("channel")
            waits.signal("channel")
            assert await waits.wait_for("channel", seen, start_us + 20 * SECOND_US)
            assert clock.now_us() == start_us
            until_us = start_us + SECOND_US
            assert await waits.wait_for("channel", waits.signals("channel"), until_us)
            assert clock.now_us() == until_us
            assert await waits.wait_for("channel", waits.signals("channel"), until_us)
            assert clock.now_us() == until_us

        play(scenario)

    def test_a_signal_passes_over_one_whose_time_is_up(self, play: Play) -> None:
        async def scenario(waits: Waits, clock: Clock) -> None:
            start_us = clock.now_us()
            soon_us, late_us = start_us + SECOND_US, start_us + 20 * SECOND_US

            async def wait(until_us: int) -> int:
                await waits.wait_for("channel", waits.signals("channel"), until_us)
                return clock.now_us()

            async def signal() -> int:
                await waits.sleep_until(start_us + 2 * SECOND_US)
                waits.signal("channel")
                return clock.now_us()

            woken_us = await waits.all_of([wait(soon_us), wait(late_us), signal()])
            assert woken_us == [soon_us, soon_us + SECOND_US, soon_us + SECOND_US]

        play(scenario)

    def test_a_signal_passes_over_one_whose_time_is_just_up(self, play: Play) -> None:
        async def scenario(waits: Waits, clock: Clock) -> None:
            start_us = clock.now_us()
            soon_us, late_us = start_us + SECOND_US, start_us + 20 * SECOND_US

            async def signal() -> None:
                await waits.sleep_until(soon_us)
                waits.signal("channel")

            async def wait(until_us: int) -> int:
                await waits.wait_for("channel", waits.signals("channel"), until_us)
                return clock.now_us()

            _, *woken_us = await waits.all_of([signal(), wait(soon_us), wait(late_us)])
            assert woken_us == [soon_us, soon_us]

        play(scenario)

    def test_calls_begin_with_the_context_of_their_caller_and_keep_their_own(
        self, play: Play
    ) -> None:
        async def scenario(waits: Waits, clock: Clock) -> None:
            start_us = clock.now_us()
            seen: list[tuple[int, int | None]] = []

            async def call(number: int) -> None:
                seen.append((number, deadline_us()))
                with deadline(number):
                    await waits.sleep_until(start_us + number * SECOND_US)
                    await waits.all_of([look(number), look(number)])
                seen.append((number, deadline_us()))

            async def look(number: int) -> None:
                seen.append((number, deadline_us()))

            with deadline(7):
                await waits.all_of([call(number) for number in (3, 1, 2)])
            assert deadline_us() is None
            begun = [(number, 7) for number in (1, 2, 3)]
            inside = [(number, number) for number in (1, 1, 2, 2, 3, 3)]
            assert sorted(seen, key=str) == sorted([*begun, *inside, *begun], key=str)

        play(scenario)
