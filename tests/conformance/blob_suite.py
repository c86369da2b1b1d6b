"""What every adapter of the Blobs port must do.

A test module for an adapter derives a class from `BlobSuite` and defines its fixture `blobs`.
"""

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any, TypeVar

import pytest

from data_plane.ports import Blobs
from data_plane.runtime.blocking import BlockingDriver, BlockingWaits

T = TypeVar("T")

NAMES = [
    "00112233445566aa/00.0/00065c1f/aa",
    "00112233445566aa/00.0/00065c1f/ab",
    "00112233445566aa/00.0/00065c20/00",
    "00112233445566aa/00.1/00065c1f/aa",
    "00112233445566aa/01.0/00065c1f/aa",
    "ff112233445566aa/00.0/00065c1f/aa",
    "cell",
]
BODY = bytes(range(256)) * 50


def run(call: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(call)


async def listed(blobs: Blobs, after: str = "", limit: int = 1000) -> list[str]:
    return [blob.name for blob in await blobs.names(after, limit=limit)]


class BlobSuite:
    """The contract, as tests. The store is empty when a test begins."""

    def run(self, story: Coroutine[Any, Any, None]) -> None:
        """Play it on an event loop."""
        asyncio.run(story)

    async def side_by_side(
        self, calls: Sequence[Coroutine[Any, Any, T]]
    ) -> Sequence[T | Exception]:
        """Make the calls at the same time."""
        results: Sequence[T | Exception] = await asyncio.gather(*calls)
        return results

    def test_what_was_put_is_there_byte_by_byte(self, blobs: Blobs) -> None:
        async def story() -> None:
            await blobs.put("a/b", BODY)
            assert await blobs.get("a/b") == BODY

        self.run(story())

    @pytest.mark.parametrize("size", [1, 8192, 1_048_576 + 50_000])
    def test_bodies_of_all_sizes(self, blobs: Blobs, size: int) -> None:
        async def story() -> None:
            body = (BODY * (size // len(BODY) + 1))[:size]
            await blobs.put("a/b", body)
            assert await blobs.get("a/b") == body

        self.run(story())

    def test_no_body_under_other_names(self, blobs: Blobs) -> None:
        async def story() -> None:
            assert await blobs.get("a/b") is None
            await blobs.put("a/b", BODY)
            for name in ("a/a", "a/bb", "a/b/c", "b"):
                assert await blobs.get(name) is None

        self.run(story())

    def test_the_same_again_is_harmless(self, blobs: Blobs) -> None:
        async def story() -> None:
            await blobs.put("a/b", BODY)
            await blobs.put("a/b", BODY)
            assert await blobs.get("a/b") == BODY
            assert await listed(blobs) == ["a/b"]

        self.run(story())

    def test_names_come_in_order_page_by_page(self, blobs: Blobs) -> None:
        async def story() -> None:
            assert await listed(blobs) == []
            for name in reversed(NAMES):
                await blobs.put(name, b"x")
            expected = sorted(NAMES)
            assert await listed(blobs) == expected
            assert await listed(blobs, limit=3) == expected[:3]
            assert await listed(blobs, expected[2], limit=2) == expected[3:5]
            assert await listed(blobs, expected[-1]) == []
            assert await listed(blobs, "00112233445566aa/00.0/00065c1f/aaa") == expected[1:]
            assert await listed(blobs, "00112233445566aa/00.0") == expected
            assert await listed(blobs, "00112233445566aa/00.0/zz") == expected[3:]

        self.run(story())

    def test_a_listing_says_when_each_was_stored(self, blobs: Blobs) -> None:
        async def story() -> None:
            await blobs.put("a", BODY)
            await blobs.put("b", BODY)
            first, second = await blobs.names(limit=10)
            assert 0 <= second.stored_us - first.stored_us < 60_000_000
            assert first.stored_us > 1_600_000_000_000_000

        self.run(story())

    def test_what_was_deleted_is_gone_and_nothing_else(self, blobs: Blobs) -> None:
        async def story() -> None:
            for name in NAMES:
                await blobs.put(name, b"x")
            await blobs.delete([NAMES[0], NAMES[5], "no/such", "no"])
            left = [name for name in NAMES if name not in (NAMES[0], NAMES[5])]
            assert await listed(blobs) == sorted(left)
            assert await blobs.get(NAMES[0]) is None
            assert await blobs.get(NAMES[1]) == b"x"
            await blobs.delete([])
            await blobs.delete(left)
            assert await listed(blobs) == []
            await blobs.put(NAMES[0], BODY)
            assert await blobs.get(NAMES[0]) == BODY

        self.run(story())

    def test_a_thousand_are_deleted_at_once(self, blobs: Blobs) -> None:
        async def story() -> None:
            kept = ["u/0", "u/9"]
            for name in kept:
                await blobs.put(name, b"x")
            await blobs.delete([f"u/1{number:03}" for number in range(1000)])
            assert await listed(blobs) == kept

        self.run(story())

    def test_many_at_once(self, blobs: Blobs) -> None:
        async def story() -> None:
            names = [f"u/{number:02}/x" for number in range(40)]
            puts = [blobs.put(name, name.encode()) for name in names]
            assert list(await self.side_by_side(puts)) == [None] * 40
            found = await self.side_by_side([blobs.get(name) for name in names])
            assert list(found) == [name.encode() for name in names]

        self.run(story())


class BlobSuiteOnTheBlockingDriver(BlobSuite):
    """The same under the blocking driver; `blobs` offload to the fixture `driver`."""

    @pytest.fixture(autouse=True)
    def _use(self, driver: BlockingDriver) -> None:
        self._driver = driver

    def run(self, story: Coroutine[Any, Any, None]) -> None:
        self._driver.run(story)

    async def side_by_side(
        self, calls: Sequence[Coroutine[Any, Any, T]]
    ) -> Sequence[T | Exception]:
        return await BlockingWaits(self._driver).all_of(calls)
