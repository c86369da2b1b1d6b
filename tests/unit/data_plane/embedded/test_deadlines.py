"""Writes that wait for a commit, and the deadlines of those who asked for them."""

import asyncio
from pathlib import Path

import pytest

from data_plane.core.deadline import deadline
from data_plane.embedded.cell import EmbeddedCell
from data_plane.ports import DeadlinePassedError, Key
from tests.unit.repeatable import HandClock

FIRST, LATE, IN_TIME, FOR_NOBODY = (Key("P", bytes([number])) for number in (1, 2, 3, 4))


def test_a_write_that_nobody_waits_for_any_more_is_not_begun(tmp_path: Path) -> None:
    async def main() -> None:
        clock = HandClock()
        cell = EmbeddedCell(tmp_path / "cell", clock)

        async def put(key: Key, left_s: float | None) -> bool:
            until_us = None if left_s is None else clock.now_us() + round(left_s * 1_000_000)
            with deadline(until_us):
                return (await cell.put(key, {"v": 1})).applied

        first = asyncio.create_task(put(FIRST, 1))
        while cell._committing is None:  # noqa: ASYNC110 - the next turns of the loop bring it about
            await asyncio.sleep(0)
        others = [
            asyncio.create_task(put(key, left_s))
            for key, left_s in ((LATE, 1), (IN_TIME, 2), (FOR_NOBODY, None))
        ]
        await asyncio.sleep(0)
        clock.advance(1)
        late, *in_time = await asyncio.gather(*others, return_exceptions=True)
        assert await first, "it had begun"
        assert isinstance(late, DeadlinePassedError)
        assert in_time == [True, True]
        stored = [await cell.get(key) for key in (FIRST, LATE, IN_TIME, FOR_NOBODY)]
        assert stored == [{"v": 1}, None, {"v": 1}, {"v": 1}]
        await cell.close()

    asyncio.run(main())


def test_a_write_whose_caller_has_gone_is_not_begun(tmp_path: Path) -> None:
    async def main() -> None:
        cell = EmbeddedCell(tmp_path / "cell", HandClock())
        first = asyncio.create_task(cell.put(FIRST, {"v": 1}))
        while cell._committing is None:  # noqa: ASYNC110 - the next turns of the loop bring it about
            await asyncio.sleep(0)
        gone, there = (asyncio.create_task(cell.put(key, {"v": 1})) for key in (LATE, IN_TIME))
        await asyncio.sleep(0)
        gone.cancel()
        await asyncio.wait({first, gone, there})
        assert gone.cancelled()
        assert [await cell.get(key) for key in (FIRST, LATE, IN_TIME)] == [{"v": 1}, None, {"v": 1}]
        await cell.close()

    asyncio.run(main())


@pytest.mark.parametrize("writes", [1, 50])
def test_where_all_are_late_the_cell_goes_on(tmp_path: Path, writes: int) -> None:
    async def main() -> None:
        clock = HandClock()
        cell = EmbeddedCell(tmp_path / "cell", clock)
        with deadline(clock.now_us()):
            outcomes = await asyncio.gather(
                *(cell.put(LATE, {"v": 1}) for _ in range(writes)), return_exceptions=True
            )
        assert {type(outcome) for outcome in outcomes} == {DeadlinePassedError}
        assert (await cell.put(FIRST, {"v": 1})).applied
        assert await cell.get(LATE) is None
        await cell.close()

    asyncio.run(main())
