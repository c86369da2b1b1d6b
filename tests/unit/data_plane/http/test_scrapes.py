import asyncio
import gzip
from collections.abc import Awaitable, Callable, Iterator
from time import monotonic

import pytest

from data_plane.http import scrapes as module
from data_plane.http.scrapes import Scrapes, Shared, Turns, takes_gzip, written
from data_plane.protocol.http import HttpResponse


class Maker:
    """Makes numbered answers, each when it may."""

    def __init__(self) -> None:
        self.made = 0
        self.began = asyncio.Event()
        self.may_end = asyncio.Event()
        self.error: Exception | None = None

    async def __call__(self) -> HttpResponse:
        self.made += 1
        self.began.set()
        await self.may_end.wait()
        if self.error is not None:
            raise self.error
        return HttpResponse(200, (("content-type", "text/plain"),), b"%d" % self.made)


class Clock:
    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    stopped = Clock()
    monkeypatch.setattr(module, "monotonic", stopped)
    return stopped


def play(story: Callable[[Maker], Awaitable[None]]) -> None:
    async def main() -> None:
        await story(Maker())

    asyncio.run(main())


def test_who_asks_together_gets_one_answer(clock: Clock) -> None:
    async def story(maker: Maker) -> None:
        shared = Shared(maker, 1.0)
        asked = [asyncio.create_task(shared.get()) for _ in range(50)]
        await asyncio.sleep(0)
        asked[0].cancel()  # whoever asked first may go; the others get theirs
        maker.may_end.set()
        answers = await asyncio.gather(*asked[1:])
        assert {answer.body for answer in answers} == {b"1"}
        clock.now_s += 0.99
        assert (await shared.get()).body == b"1"
        clock.now_s += 0.02
        assert (await shared.get()).body == b"2"

    play(story)


def test_what_takes_long_serves_for_as_long(clock: Clock) -> None:
    async def story(maker: Maker) -> None:
        shared = Shared(maker, 1.0)
        asked = asyncio.create_task(shared.get())
        await maker.began.wait()
        clock.now_s += 8
        maker.may_end.set()
        assert (await asked).body == b"1"
        clock.now_s += 7.9
        assert (await shared.get()).body == b"1"
        clock.now_s += 0.2
        assert (await shared.get()).body == b"2"

    play(story)


def test_a_failure_is_told_and_not_kept(clock: Clock) -> None:
    async def story(maker: Maker) -> None:
        maker.may_end.set()
        maker.error = ZeroDivisionError("once")
        shared = Shared(maker, 1.0)
        with pytest.raises(ZeroDivisionError):
            await shared.get()
        maker.error = None
        assert (await shared.get()).body == b"2"
        assert clock.now_s == 100

    play(story)


@pytest.mark.usefixtures("clock")
def test_compressed_answers_are_made_once_and_the_same() -> None:
    async def story(maker: Maker) -> None:
        maker.may_end.set()
        scrapes = Scrapes(maker)
        accepts = {"accept-encoding": "deflate, gzip;q=1.0"}
        first, second = await asyncio.gather(scrapes.get(accepts), scrapes.get(accepts))
        assert first is second
        assert gzip.decompress(first.body) == b"1"
        assert ("content-encoding", "gzip") in first.headers
        assert (await scrapes.get({})).body == b"1"
        assert maker.made == 1

    play(story)


@pytest.mark.parametrize(
    ("accepted", "takes"),
    [
        ("", False),
        ("gzip", True),
        ("deflate;q=0.5, GZIP ; q=0.1", True),
        ("gzip;q=0", False),
        ("gzip; q=0.0, br", False),
        ("x-gzip", False),
        ("identity", False),
    ],
)
def test_who_takes_gzip(accepted: str, takes: bool) -> None:  # noqa: FBT001 - a case
    assert takes_gzip(accepted) is takes


def test_long_work_lets_others_go_first() -> None:
    async def main() -> None:
        others = 0

        async def count() -> None:
            nonlocal others
            while True:
                others += 1
                await asyncio.sleep(0)

        def pieces() -> Iterator[bytes]:
            for number in range(5):
                until_s = monotonic() + 2 * module.TURN_S
                while monotonic() < until_s:
                    pass
                yield b"%d" % number

        counting = asyncio.create_task(count())
        assert await written(pieces(), Turns()) == b"01234"
        assert others >= 5
        counting.cancel()

    asyncio.run(main())


def test_who_asks_too_often_for_a_page_waits() -> None:
    async def main() -> None:
        maker = Maker()
        maker.may_end.set()
        shared = Shared(maker, 60)
        first = await shared.get()
        asked = [asyncio.create_task(shared.get()) for _ in range(module.AT_ONCE_MAX + 5)]
        await asyncio.sleep(0)
        assert sum(one.done() for one in asked) == module.AT_ONCE_MAX
        assert {one.body for one in await asyncio.gather(*asked)} == {first.body}

    asyncio.run(main())
