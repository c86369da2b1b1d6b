"""What only the blocking driver promises; the Waits port has a suite in tests/conformance."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Generator
from functools import partial
from typing import Any

import pytest

from data_plane.runtime import drive
from data_plane.runtime.blocking import BlockingDriver, BlockingWaits
from data_plane.runtime.drive import DriverError, ForeignAwaitableError
from tests.unit.data_plane.runtime.blocking_rig import LIMIT_S, Rig, here
from tests.unit.repeatable import HandClock

SECOND_US = 1_000_000


def in_another_thread(call: Callable[[], object]) -> None:
    thread = threading.Thread(target=call)
    thread.start()
    thread.join(LIMIT_S)


# Calls that block


def test_a_call_with_nothing_beside_it_is_made_in_the_callers_thread(rig: Rig) -> None:
    async def main() -> list[Any]:
        alone = await rig.driver.offload(here)
        assert await rig.threads_of(here) == [alone]

        async def flush(entries: list[object]) -> list[object]:
            return [await rig.driver.offload(here) for _ in entries]

        return [alone, await rig.waits.coalesce("lane", 1, flush)]

    assert rig.run(main()) == [here(), here()]
    assert rig.driver._pool is None


def test_calls_side_by_side_overlap(rig: Rig) -> None:
    meet = threading.Barrier(3, timeout=LIMIT_S)
    names = rig.run(rig.threads_of(*[meet.wait] * 3))
    assert len(set(names)) == 3
    assert all(name.startswith("blocking-call") for name in names)


def test_a_call_beside_one_who_waits_leaves_the_thread(rig: Rig) -> None:
    async def main() -> list[Any]:
        async def nap() -> str:
            await rig.waits.sleep_until(rig.clock.now_us() + SECOND_US)
            return await rig.driver.offload(here)

        return await rig.waits.all_of([nap(), rig.driver.offload(here)])

    napped, called = rig.run(main())
    assert (napped, called.startswith("blocking-call")) == (here(), True)


def test_there_are_no_more_threads_than_were_allowed() -> None:
    rig = Rig(threads_max=2)
    lock = threading.Lock()
    running = most = 0
    both = threading.Barrier(2, timeout=LIMIT_S)

    def call() -> None:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        both.wait()
        with lock:
            running -= 1

    names = rig.run(rig.threads_of(*[call] * 8))
    assert most == len(set(names)) == 2
    rig.driver.close()


def test_threads_survive_from_one_run_to_the_next(rig: Rig) -> None:
    def meet() -> Callable[[], object]:
        return threading.Barrier(2, timeout=LIMIT_S).wait

    first, second = meet(), meet()
    names = set(rig.run(rig.threads_of(first, first)))
    assert set(rig.run(rig.threads_of(second, second))) == names


def test_closing_ends_the_threads_and_the_driver() -> None:
    rig = Rig()
    rig.run(rig.threads_of(*[threading.Barrier(2, timeout=LIMIT_S).wait] * 2))
    assert rig.driver._pool is not None
    threads = list(rig.driver._pool._threads)  # type: ignore[attr-defined]
    assert [thread.is_alive() for thread in threads] == [True, True]
    rig.driver.close()
    assert [thread.is_alive() for thread in threads] == [False, False]
    with pytest.raises(DriverError, match="closed"):
        rig.run(rig.threads_of(here))
    rig.driver.close()


def test_a_slow_call_delays_neither_the_start_nor_the_end_of_another(rig: Rig) -> None:
    quick_is_over = threading.Event()
    order: list[str] = []

    async def main() -> list[Any]:
        async def slow() -> str:
            assert await rig.driver.offload(lambda: quick_is_over.wait(LIMIT_S))
            order.append("slow")
            return "slow"

        async def quick() -> str:
            for step in ("first", "second", "third"):
                await rig.driver.offload(partial(order.append, step))
            quick_is_over.set()
            return "quick"

        return await rig.waits.all_of([slow(), quick()])

    assert rig.run(main()) == ["slow", "quick"]
    assert order == ["first", "second", "third", "slow"]


def test_one_that_fails_waits_for_the_others_and_stands_in_its_place(rig: Rig) -> None:
    failed = threading.Event()
    error = OSError("reset")

    def fail() -> None:
        failed.set()
        raise error

    async def main() -> list[Any]:
        calls: list[Callable[[], object]] = [lambda: failed.wait(LIMIT_S), fail, lambda: 3]
        return await rig.waits.all_of([rig.driver.offload(call) for call in calls])

    assert rig.run(main()) == [True, error, 3]


def test_coroutines_run_in_one_thread_and_one_at_a_time(rig: Rig) -> None:
    inside = 0

    async def step(number: int) -> None:
        nonlocal inside
        for _ in range(5):
            assert inside == 0
            inside += 1
            assert threading.current_thread().name == main_thread
            inside -= 1
            await rig.driver.offload(lambda: number)

    main_thread = here()
    assert rig.run(rig.waits.all_of([step(number) for number in range(10)])) == [None] * 10


def test_a_run_lasts_until_everything_has_ended(rig: Rig) -> None:
    ended: list[str] = []

    async def part() -> None:
        await rig.driver.offload(here)
        await rig.waits.sleep_until(rig.clock.now_us() + SECOND_US)
        ended.append("part")

    async def main() -> str:
        rig.driver.drive.start(part())
        return "main"

    assert rig.run(main()) == "main"
    assert ended == ["part"]


# Time


def test_a_long_sleep_looks_at_the_clock_again(rig: Rig) -> None:
    rig.run(rig.waits.sleep_until(rig.clock.now_us() + 150 * SECOND_US))
    assert rig.naps == [drive.NAP_S_MAX, drive.NAP_S_MAX, 30.0]


def test_a_clock_that_jumps_ahead_ends_a_sleep() -> None:
    clock = HandClock()
    driver = BlockingDriver(clock, lambda _seconds: clock.advance(3600), threads_max=1)
    driver.run(BlockingWaits(driver).sleep_until(clock.now_us() + 3000 * SECOND_US))
    assert clock.now_us() == HandClock().now_us() + 3600 * SECOND_US


def test_one_whose_time_comes_does_not_wait_for_a_call() -> None:
    """The clock goes on while a call is under way: here, each time somebody looks."""

    class RunningClock(HandClock):
        def now_us(self) -> int:
            self.advance(0.01)
            return super().now_us()

    clock = RunningClock()
    driver = BlockingDriver(clock, clock.advance, threads_max=1)
    waits = BlockingWaits(driver)
    over = threading.Event()

    async def nap() -> str:
        await waits.sleep_until(clock.now_us() + SECOND_US // 10)
        over.set()
        return "napped"

    calls: list[Awaitable[object]] = [driver.offload(lambda: over.wait(LIMIT_S)), nap()]
    assert driver.run(waits.all_of(calls)) == [True, "napped"]
    driver.close()


# Signals and lanes from one run to the next


def test_signals_are_remembered_between_runs(rig: Rig) -> None:
    waits = rig.waits
    seen = waits.signals("channel")
    waits.signal("channel", 5)
    until_us = rig.clock.now_us() + SECOND_US
    assert rig.run(waits.wait_for("channel", seen, until_us))
    assert rig.naps == []
    assert rig.run(waits.wait_for("channel", waits.signals("channel"), until_us))
    assert rig.naps == [1.0]


def test_a_run_that_was_cut_off_leaves_no_lane_behind(rig: Rig) -> None:
    async def flush(entries: list[object]) -> list[object]:
        if entries == ["cut"]:
            raise KeyboardInterrupt
        return entries

    async def entry(name: str) -> object:
        return await rig.waits.coalesce("lane", name, flush)

    with pytest.raises(KeyboardInterrupt):
        rig.run(entry("cut"))
    assert rig.run(entry("next")) == "next"


# Mistakes


class Bare:
    """What a coroutine of some other library would yield."""

    def __await__(self) -> Generator[str, None, None]:
        yield "something"


def test_what_is_awaited_from_elsewhere_is_named(rig: Rig) -> None:
    async def main() -> None:
        await Bare()

    with pytest.raises(ForeignAwaitableError, match=r"main.* awaits 'something'"):
        rig.run(main())
    with pytest.raises(ForeignAwaitableError, match="awaits None"):
        rig.run(asyncio.sleep(0))


def test_a_future_of_an_event_loop_is_refused_where_it_is_awaited(rig: Rig) -> None:
    loop = asyncio.new_event_loop()

    async def wait() -> None:
        await loop.create_future()

    async def main() -> list[Any]:
        calls: list[Awaitable[Any]] = [wait(), rig.driver.offload(here), loop.create_future()]
        return await rig.waits.all_of(calls)

    refused, name, also_refused = rig.run(main())
    assert isinstance(refused, ForeignAwaitableError)
    assert "Future pending" in str(refused)
    assert isinstance(also_refused, ForeignAwaitableError)
    assert name.startswith("blocking-call")
    loop.close()


def test_outcomes_of_another_driver_are_refused(rig: Rig) -> None:
    other = Rig()

    async def inner() -> None:
        waiting = other.driver.drive.alarm(other.clock.now_us() + SECOND_US, "a time")

        async def wait() -> None:
            await waiting

        rig.run(wait())

    with pytest.raises(ForeignAwaitableError, match="Outcome"):
        other.run(inner())


def test_a_second_thread_is_refused(rig: Rig) -> None:
    refused: list[str] = []

    def enter(call: Callable[[], object]) -> None:
        try:
            call()
        except DriverError as error:
            refused.append(str(error))

    async def main() -> None:
        in_another_thread(lambda: enter(lambda: rig.run(rig.threads_of(here))))
        in_another_thread(lambda: enter(lambda: rig.driver.drive))

    rig.run(main())
    assert refused == [
        f"the driver is in use by thread {threading.get_ident()}",
        "the blocking driver does not run this coroutine",
    ]


def test_one_thread_after_the_other_is_served(rig: Rig) -> None:
    ran: list[list[str]] = []
    rig.run(rig.threads_of(here))
    in_another_thread(lambda: ran.append(rig.run(rig.threads_of(here))))
    assert len(ran) == 1
    assert ran[0] != [here()]


def test_a_run_within_a_run_is_refused(rig: Rig) -> None:
    async def main() -> None:
        rig.run(rig.threads_of(here))

    with pytest.raises(DriverError, match="in use"):
        rig.run(main())


@pytest.mark.parametrize("runs_before", [0, 1])
def test_nothing_is_awaited_outside_of_a_run(rig: Rig, runs_before: int) -> None:
    for _ in range(runs_before):
        rig.run(rig.threads_of(here))
    call = rig.driver.offload(here)
    with pytest.raises(DriverError, match="does not run this"):
        call.send(None)
