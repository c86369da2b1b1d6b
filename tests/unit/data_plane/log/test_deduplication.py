"""Duplicates are stored once, whoever sends them, for five minutes."""

from dataclasses import replace
from typing import Any

import pytest

from data_plane.core.message import Outgoing, SendCall, Sent
from data_plane.core.queue import Generation
from data_plane.log import appending, bounds
from data_plane.log.desk import Access
from tests.unit.data_plane.log.conftest import GROUP_SCOPE, HIGH_THROUGHPUT, Bench, bodies


def test_a_duplicate_gets_what_the_original_got(bench: Bench) -> None:
    async def story() -> None:
        (original,) = await bench.send("a:1:x")
        for log in (bench.log, bench.front_end()):
            assert await bench.send("b:2:x", log=log) == [original]
        assert bodies(await bench.receive()) == ["1"]

    bench.run(story())


def test_duplicates_within_one_batch_are_stored_once(bench: Bench) -> None:
    async def story() -> None:
        first, second, third = await bench.send("a:1:x", "a:2:y", "a:3:x")
        assert first == third != second
        assert bodies(await bench.receive()) == ["1", "2"]

    bench.run(story())


def test_a_duplicate_is_one_after_the_delete_and_none_after_five_minutes(bench: Bench) -> None:
    async def story() -> None:
        (original,) = await bench.send("a:1:x")
        await bench.drain()
        bench.clock.advance(299)
        assert await bench.send("a:2:x", log=bench.front_end()) == [original]
        bench.clock.advance(2)
        assert await bench.send("a:3:x") != [original]
        assert await bench.drain() == ["3"]

    bench.run(story())


def test_the_scope_may_be_the_group(bench: Bench) -> None:
    async def story() -> None:
        bench.queue = replace(bench.queue, attributes={"DeduplicationScope": "messageGroup"})
        one, other, again = await bench.send("a:1:x", "b:2:x", "a:3:x")
        assert one == again != other
        assert await bench.drain() == ["1", "2"]

    bench.run(story())


GROUPWISE = {"DeduplicationScope": "messageGroup"}


@pytest.mark.parametrize("together", [True, False])
def test_what_was_sent_under_the_scope_of_the_queue_keeps_it(
    bench: Bench, *, together: bool
) -> None:
    """For five minutes: a retry meets its original, whatever was changed in between."""
    queue = bench.queue
    by_group = replace(queue, attributes=GROUPWISE)
    if together:  # In other logs, too, as in the higher throughput.
        by_group = replace(by_group, generations=(*queue.generations, Generation(1, 8, 0)))

    async def story() -> None:
        (original,) = await bench.send("a:1:x")
        bench.queue = by_group
        for log in (bench.log, bench.front_end()):
            assert await bench.send("a:2:x", "b:3:x", log=log) == [original] * 2
        new, other = await bench.send("a:4:y", "b:5:y")
        assert len({original, new, other}) == 3
        bench.clock.advance(301)
        one, another = await bench.send("a:6:x", "b:7:x")
        assert len({original, one, another}) == 3
        assert sorted(await bench.drain()) == ["1", "4", "5", "6", "7"]

    bench.run(story())


def test_what_was_sent_under_the_scope_of_groups_keeps_it(bench: Bench) -> None:
    queue = bench.queue
    bench.queue = replace(queue, attributes=GROUPWISE)

    async def story() -> None:
        originals = await bench.send("a:1:x", "b:2:x")
        bench.queue = queue
        for log in (bench.log, bench.front_end()):
            assert await bench.send("a:3:x", "b:4:x", log=log) == originals
        (third,) = await bench.send("c:5:x")
        assert third not in originals
        # By now it is one of the queue, of which those of new groups are duplicates.
        assert await bench.send("d:6:x", "a:7:x") == [third, third]
        assert await bench.drain() == ["1", "2", "5"]

    bench.run(story())


def test_a_purge_forgets_all_duplicates_on_every_front_end(bench: Bench) -> None:
    async def story() -> None:
        other = bench.front_end()
        await bench.send("a:1:x")
        await bench.send("a:2:y", log=other)
        stamp_us = await bench.log.purge(bench.queue)
        old = bench.queue
        bench.queue = replace(bench.queue, purged_us=stamp_us)
        await bench.send("a:3:x", log=other)
        await bench.send("a:4:y", log=bench.front_end())
        assert await bench.drain() == ["3", "4"]
        assert old.purged_us == 0

    bench.run(story())


def test_what_was_sent_during_a_purge_and_stays_is_known(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A partition that is brought forward after the others forgets no more than they do."""
    bench.queue = replace(bench.queue, attributes=GROUP_SCOPE, generations=HIGH_THROUGHPUT)
    append_record = appending.append_record
    sent: list[Sent] = []

    async def story() -> None:
        other = bench.front_end()
        for number in range(5):
            await bench.send(f"a:{number}")

        async def append(at: Access, *call: Any, **more: Any) -> int:
            if more and not sent:
                bench.clock.advance(1)
                for group in "abcdefgh":
                    sent.extend(await bench.send(f"{group}:{group}", log=other))
            return await append_record(at, *call, **more)

        monkeypatch.setattr(appending, "append_record", append)
        purged_us = await bench.log.purge(bench.queue)
        bench.queue = replace(bench.queue, purged_us=purged_us)
        assert sent
        for log in (bench.log, other, bench.front_end()):
            again = [await bench.send(f"{group}:{group}", log=log) for group in "abcdefgh"]
            assert [one for (one,) in again] == sent
        assert sorted(await bench.drain()) == list("abcdefgh")

    bench.run(story())


@pytest.mark.parametrize("together", [1, 10])
def test_a_cold_front_end_knows_75_000_duplicates(bench: Bench, together: int) -> None:
    """It reads pages and the end of the log, not the log: some queries, whatever was sent."""
    count = 75_000 if together == 10 else 3_000

    async def story() -> None:
        outgoing = [
            Outgoing(body="b", size=1, group=f"g{n % 100}", deduplication_id=str(n))
            for n in range(count)
        ]
        first = []
        for start in range(0, count, together):
            first += await bench.log.send(
                bench.queue, SendCall(bench.queue.account, outgoing[start : start + together])
            )
        cold = bench.front_end()
        requests = bench.cell.requests.copy()
        probes = [0, 1, count // 2, count - 300, count - 1]
        for probe in probes:
            again = await cold.send(bench.queue, SendCall(bench.queue.account, [outgoing[probe]]))
            assert again == [first[probe]]
        spent = bench.cell.requests - requests
        assert spent["query"] <= 12
        assert spent["get"] <= 1
        assert spent["put"] == 0
        new = await cold.send(
            bench.queue,
            SendCall(
                bench.queue.account, [Outgoing(body="b", size=1, group="g", deduplication_id="new")]
            ),
        )
        assert new[0].sequence > first[-1].sequence

    bench.run(story())


def test_two_front_ends_write_every_slot_once(bench: Bench) -> None:
    async def story() -> None:
        other = bench.front_end()
        sent = []
        for number in range(20):
            sent += await bench.send(f"a:{number}", log=(bench.log, other)[number % 2])
        sequences = [one.sequence for one in sent]
        assert sequences == sorted(set(sequences))
        assert await bench.drain() == [str(number) for number in range(20)]

    bench.run(story())


def test_a_log_begins_anew_above_all_slots_that_were_ever_used(bench: Bench) -> None:
    """What the time to live collects first may be the end of the log."""

    async def story() -> None:
        bench.queue = replace(bench.queue, retention_s=60)
        await bench.send("a:1")
        (before,) = await bench.send("a:2")
        stale = bench.front_end()
        await bench.send("a:3", log=stale)
        bench.clock.advance(60 + bounds.SLOT_TTL_SLACK_S + 1)
        slots = [item for item in bench.cell.items() if item.key.partition[0] == "G"]
        bench.cell.expire([item.key for item in slots[1:]])
        (after,) = await bench.send("a:4", log=bench.front_end())
        (more,) = await bench.send("a:5", log=stale)
        assert before.sequence < after.sequence < more.sequence
        assert await bench.drain() == ["4", "5"]
        assert await bench.drain(stale) == []

    bench.run(story())
