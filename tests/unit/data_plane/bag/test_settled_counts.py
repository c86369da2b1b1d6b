"""Counters that say what is not there, as those of a copy that joined may: they are let go of."""

import pytest

from data_plane.ports import Update
from data_plane.stored import counting, keys
from tests.unit.data_plane.bag.conftest import QUEUE, Bench


async def miscount(bench: Bench, by: int) -> None:
    """Let the counter of this minute say so much more than there is."""
    minute = bench.clock.now_us() // counting.MINUTE_US
    key = keys.counter(QUEUE.uid, QUEUE.purged_us, counting.ALIVE, minute)
    await bench.cell.update(key, Update(add={"n": by}))


async def visible(bench: Bench) -> int:
    return (await bench.bag.counts(QUEUE)).visible


@pytest.mark.parametrize("by", [61, -61])
def test_an_empty_queue_is_soon_counted_as_empty(bench: Bench, by: int) -> None:
    async def story() -> None:
        await bench.send("a", "b")
        assert await bench.drain() == ["a", "b"]
        await miscount(bench, by)
        wrong = max(0, by)
        await bench.bag.drop_past_counters(QUEUE)
        assert await visible(bench) == wrong, "more may be on its way to this minute's counter"
        bench.clock.advance(180)
        await bench.bag.drop_past_counters(QUEUE)
        await bench.send("c")
        assert await visible(bench) == 1

    bench.run(story())


@pytest.mark.parametrize("state", ["visible", "delayed", "in flight"])
def test_where_a_message_lies_counters_stay(bench: Bench, state: str) -> None:
    async def story() -> None:
        await bench.send("a", delay_s=900 if state == "delayed" else 0)
        if state == "in flight":
            await bench.receive(visibility_s=900)
        bench.clock.advance(180)
        await bench.bag.drop_past_counters(QUEUE)
        found = await bench.bag.counts(QUEUE)
        assert found.visible + found.in_flight + found.delayed == 1

    bench.run(story())


def test_a_counter_that_changed_meanwhile_stays(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        await miscount(bench, 61)
        bench.clock.advance(180)
        browse = bench.bag.browse

        async def dead_letter_comes(*args: object, **named: object) -> object:
            page = await browse(*args, **named)  # type: ignore[arg-type]
            counter = keys.counter(
                QUEUE.uid,
                QUEUE.purged_us,
                counting.ALIVE,
                (bench.clock.now_us() - 180_000_000) // 60_000_000,
            )
            await bench.cell.update(counter, Update(add={"n": 1}))
            return page

        monkeypatch.setattr(
            type(bench.bag), "browse", lambda _, *a, **n: dead_letter_comes(*a, **n)
        )
        await bench.bag.drop_past_counters(QUEUE)
        assert await visible(bench) == 62

    bench.run(story())
