"""What several requests share, and until when."""

import asyncio
import gc
import weakref
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

import pytest

from data_plane.core.deadline import deadline, deadline_us
from data_plane.ports import DeadlinePassedError
from data_plane.runtime.event_loop import EventLoopWaits
from data_plane.stored.coalescing import coalesce
from tests.unit.repeatable import HandClock


@dataclass
class Desk:
    """An engine's means, and a flush that a test holds up."""

    clock: HandClock = field(default_factory=HandClock)
    flushed: list[tuple[list[object], int | None]] = field(default_factory=list)
    gate: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self.waits = EventLoopWaits(self.clock)

    async def flush(self, entries: list[object]) -> Sequence[object | Exception]:
        self.flushed.append((entries, deadline_us()))
        await self.gate.wait()
        return [f"done {entry}" for entry in entries]

    async def ask(self, entry: object, left_s: float | None) -> object:
        """A request for this entry that has so long."""
        until_us = None if left_s is None else self.clock.now_us() + round(left_s * 1_000_000)
        with deadline(until_us):
            return await coalesce(self, "lane", entry, self.flush)

    def after(self, seconds: float) -> int:
        return self.clock.now_us() + round(seconds * 1_000_000)


def start(desk: Desk, asked: dict[str, float | None]) -> list[asyncio.Task[object]]:
    return [asyncio.create_task(desk.ask(entry, left_s)) for entry, left_s in asked.items()]


async def settle() -> None:
    """Let everything run that can."""
    for _ in range(10):
        await asyncio.sleep(0)


@pytest.mark.parametrize(
    ("asked", "latest_s"),
    [({"a": 5, "b": 9, "c": 7}, 9), ({"a": 5, "b": None}, None), ({"a": 5}, 5)],
)
def test_what_is_shared_has_until_the_latest_deadline(
    asked: dict[str, float | None], latest_s: float | None
) -> None:
    async def main() -> None:
        desk = Desk()
        first = start(desk, {"first": 1})
        await settle()
        others = start(desk, asked)
        await settle()
        desk.gate.set()
        assert await asyncio.gather(*first, *others) == [
            "done first",
            *(f"done {a}" for a in asked),
        ]
        until_us = None if latest_s is None else desk.after(latest_s)
        assert desk.flushed == [(["first"], desk.after(1)), ([*asked], until_us)]

    asyncio.run(main())


def test_whose_time_was_over_before_the_turn_came_is_left_out() -> None:
    async def main() -> None:
        desk = Desk()
        first = start(desk, {"first": 1})
        await settle()
        others = start(desk, {"a": 2, "b": 9, "c": 3, "d": None})
        await settle()
        desk.clock.advance(3)
        desk.gate.set()
        outcomes = await asyncio.gather(*first, *others, return_exceptions=True)
        assert [type(outcome) for outcome in outcomes] == [
            *(str, DeadlinePassedError, str, DeadlinePassedError, str)
        ], "the first had begun in time"
        assert [entries for entries, _ in desk.flushed] == [["first"], ["b", "d"]]

    asyncio.run(main())


def test_where_all_are_late_nothing_is_flushed() -> None:
    async def main() -> None:
        desk = Desk()
        first = start(desk, {"first": 1})
        await settle()
        others = start(desk, {"a": 2, "b": 2})
        await settle()
        desk.clock.advance(2)
        desk.gate.set()
        outcomes = await asyncio.gather(*first, *others, return_exceptions=True)
        assert [type(one) for one in outcomes] == [str, DeadlinePassedError, DeadlinePassedError]
        assert len(desk.flushed) == 1

    asyncio.run(main())


def test_a_lane_does_not_keep_the_deadline_of_whoever_began_it() -> None:
    async def main() -> None:
        desk = Desk()
        desk.gate.set()
        first = start(desk, {"first": 1})
        await settle()
        desk.clock.advance(10)
        assert await asyncio.gather(*start(desk, {"next": 5}), *first) == [
            "done next",
            "done first",
        ]
        assert desk.flushed[-1][1] == desk.after(5)

    asyncio.run(main())


class Content:
    """Something big."""


@pytest.mark.parametrize("is_cancelled", [True, False], ids=["cancelled", "let go"])
def test_nothing_is_kept_for_whoever_waits_no_more(*, is_cancelled: bool) -> None:
    """However long the store hangs, and however many came and went meanwhile."""

    async def main() -> None:
        desk = Desk()
        ended: list[str] = []
        first = start(desk, {"first": None})
        await settle()

        async def ask(content: Content) -> object:
            with deadline(desk.after(1)):
                tell = partial(ended.append, "ended")
                return await coalesce(desk, "lane", content, desk.flush, tell)

        content = Content()
        held = weakref.ref(content)
        asked = asyncio.create_task(ask(content))
        del content
        await settle()
        if is_cancelled:
            asked.cancel()
        else:
            desk.clock.advance(2)
        with pytest.raises((DeadlinePassedError, asyncio.CancelledError)):
            await asked
        del asked
        await asyncio.sleep(0.2)  # looked for ten times a second
        gc.collect()
        assert held() is None
        assert ended == ["ended"]
        desk.gate.set()
        assert await asyncio.gather(*first, *start(desk, {"next": 5})) == [
            "done first",
            "done next",
        ]
        assert [entries for entries, _ in desk.flushed] == [["first"], ["next"]]
        assert ended == ["ended"]

    asyncio.run(main())
