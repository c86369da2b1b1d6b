"""A receive whose attempt the store does not take note of."""

from typing import Any

from data_plane.ports import CellUnavailableError, Key, Written
from data_plane.stored.keys import attempts
from tests.unit.data_plane.log.conftest import Bench


def test_what_was_taken_is_handed_out_although_the_attempt_cannot_be_noted(bench: Bench) -> None:
    put = bench.cell.put

    async def put_no_attempt(key: Key, *call: Any, **options: Any) -> Written:
        if key.partition == attempts(bench.queue.uid):
            raise CellUnavailableError("away for a moment")
        return await put(key, *call, **options)

    bench.cell.put = put_no_attempt  # type: ignore[method-assign]

    async def story() -> list[str]:
        await bench.send("g:a")
        taken = await bench.log.receive(
            bench.queue, count=1, visibility_s=30, until_us=0, attempt="x"
        )
        return [delivery.message.body for delivery in taken]

    assert bench.run(story()) == ["a"]
