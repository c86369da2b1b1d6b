"""Times to live never fall from slot to slot, and a write that came too late does not count."""

from dataclasses import replace
from typing import Any

import pytest

from data_plane.core.queue import Generation
from data_plane.log import bounds
from data_plane.ports import CellUnavailableError, Written
from data_plane.stored.segment import number
from tests.unit.data_plane.log.conftest import GROUP_SCOPE, Bench, bodies


def lives(bench: Bench) -> list[tuple[int, int]]:
    """Stamp and time to live of each slot, in order."""
    return [
        (number(item.attributes, "t"), number(item.attributes, "x"))
        for item in bench.cell.items()
        if item.key.partition[0] == "G"
    ]


def test_a_lowered_retention_does_not_let_them_fall(bench: Bench) -> None:
    async def story() -> None:
        await bench.send("a:1")
        bench.queue = replace(bench.queue, retention_s=60)
        await bench.send("a:2")
        expires = [expires_s for _, expires_s in lives(bench)]
        assert expires == sorted(expires)

    bench.run(story())


def test_a_raised_retention_keeps_all_that_is_there(bench: Bench) -> None:
    async def story() -> None:
        bench.queue = replace(bench.queue, retention_s=60)
        for number_ in range(250):
            await bench.send(f"a:{number_}")
        held = await bench.receive(1)
        old, bench.queue = bench.queue, replace(bench.queue, retention_s=1_209_600)
        await bench.log.restamp(bench.queue)
        bench.queue = old
        await bench.send("a:late")
        found = lives(bench)
        expires = [expires_s for _, expires_s in found]
        assert expires == sorted(expires)
        slack_s = bounds.SLOT_TTL_SLACK_S
        assert all(at_s >= at_us // 1_000_000 + 1_209_600 + slack_s for at_us, at_s in found)
        states = [item for item in bench.cell.items() if item.key.partition[0] == "F"]
        assert [number(state.attributes, "x") > expires[-1] for state in states] == [True]
        await bench.delete(held)
        assert len(await bench.drain()) == 250

    bench.run(story())


@pytest.mark.parametrize("late_s", [bounds.APPEND_AGE_US_MAX // 1_000_000 + 1, 345_600 + 3_600])
def test_a_slot_that_was_stored_too_late_does_not_count(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, late_s: int
) -> None:
    """Whoever sends it is told so, and a repetition is stored where the log is by then."""

    async def story() -> None:
        await bench.send("a:1")
        put = bench.cell.put

        async def late(*args: Any, **options: Any) -> Written:
            bench.clock.advance(late_s)
            return await put(*args, **options)

        with monkeypatch.context() as patched:
            patched.setattr(bench.cell, "put", late)
            with pytest.raises(CellUnavailableError):
                await bench.send("a:2")
        again = await bench.send("a:2", "a:3")
        assert again[0].sequence < again[1].sequence
        assert bodies(await bench.receive())[-2:] == ["2", "3"]

    bench.run(story())


def test_a_last_slot_that_is_past_its_time_is_not_the_end(bench: Bench) -> None:
    """Those behind it may have been removed, in whatever order a cell removes."""

    async def story() -> None:
        behind = bench.front_end()
        await bench.send("a:1", log=behind)
        await bench.send("a:2")
        assert await bench.drain() == ["1", "2"]
        bench.clock.advance(bench.queue.retention_s + bounds.SLOT_TTL_SLACK_S + 1)
        last = [item.key for item in bench.cell.items() if item.key.partition[0] == "G"][-1]
        bench.cell.expire([last])
        await bench.send("a:3", log=behind)
        assert await bench.drain() == ["3"]

    bench.run(story())


def test_a_front_end_with_the_old_retention_writes_no_state_that_goes_too_early(
    bench: Bench,
) -> None:
    async def story() -> None:
        bench.queue = replace(bench.queue, retention_s=60)
        await bench.send("a:1", "b:2")
        old, bench.queue = bench.queue, replace(bench.queue, retention_s=1_209_600)
        await bench.log.restamp(bench.queue)
        bench.queue = old
        await bench.delete(await bench.receive(1))
        (state,) = [item for item in bench.cell.items() if item.key.partition[0] == "F"]
        assert number(state.attributes, "x") > max(expires_s for _, expires_s in lives(bench))

    bench.run(story())


@pytest.mark.parametrize("is_known", [False, True])
def test_a_raised_retention_holds_in_the_logs_that_follow(
    bench: Bench,
    is_known: bool,  # noqa: FBT001
) -> None:
    """The throughput limit changes, too: before the retention, unseen, or while that is raised."""

    async def story() -> None:
        behind, other = bench.front_end(), bench.front_end()
        one = replace(bench.queue, retention_s=60, attributes=GROUP_SCOPE)
        eight = replace(one, generations=(Generation(0, 1, 0), Generation(1, 8, 100)))
        bench.queue = one
        await bench.send("a:1")
        if is_known:
            bench.queue = eight
            await bench.send("b:2", log=other)
        await bench.log.restamp(replace(one, retention_s=1_209_600))
        # Who has the old definition sends last, maybe where nobody has sent before.
        bench.queue = eight
        await bench.send("b:3", "c:4", log=behind)
        bench.clock.advance(60 + bounds.SLOT_TTL_SLACK_S + 1)
        now_s = bench.clock.now_us() // 1_000_000
        assert all(expires_s > now_s + 1_000_000 for _, expires_s in lives(bench))

    bench.run(story())
