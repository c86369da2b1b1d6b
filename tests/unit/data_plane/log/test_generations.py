"""A change of the throughput limit while messages are there: order, duplicates, old definitions."""

import asyncio
from dataclasses import replace

import pytest

from data_plane.core.digests import group_hash
from data_plane.core.message import Outgoing, SendCall, Sent
from data_plane.core.queue import Generation, Queue
from data_plane.log import receiving
from data_plane.log.desk import Access
from data_plane.log.generations import ended
from data_plane.log.partition import Tail
from data_plane.ports import CellUnavailableError
from tests.unit.data_plane.log.conftest import GROUP_SCOPE, Bench, bodies

ONE = Generation(0, 1, 0)
EIGHT = Generation(1, 8, 100)
ONE_AGAIN = Generation(2, 1, 200)


def at(bench: Bench, *generations: Generation) -> Queue:
    return replace(bench.queue, attributes=GROUP_SCOPE, generations=generations)


@pytest.mark.parametrize("restarted", [False, True])
def test_order_holds_over_a_change(bench: Bench, restarted: bool) -> None:  # noqa: FBT001
    async def story() -> None:
        bench.queue = at(bench, ONE)
        await bench.send("a:1", "b:2", "a:3")
        bench.queue = at(bench, ONE, EIGHT)
        await bench.send("a:4", "c:5")
        log = bench.front_end() if restarted else bench.log
        one, three = [d for d in await bench.receive(3, log=log) if d.message.group == "a"]
        assert bodies([one, three]) == ["1", "3"]
        assert bodies(await bench.receive(log=log)) == ["5"]
        await bench.delete([one], log)
        assert await bench.receive(log=log) == []
        await bench.delete([three], log)
        bench.clock.advance(1)
        (four,) = await bench.receive(log=log)
        assert four.message.body == "4"
        assert four.message.sequence > three.message.sequence
        bench.queue = at(bench, ONE, EIGHT, ONE_AGAIN)
        await bench.send("a:6", log=log)
        assert await bench.receive(log=log) == []
        await bench.delete([four], log)
        bench.clock.advance(1)
        assert bodies(await bench.receive(log=log)) == ["6"]

    bench.run(story())


def test_what_is_claimed_is_handed_out_though_a_later_generation_fails(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fails(at: Access, following: Generation) -> Tail:
        if following.number == ONE_AGAIN.number:
            raise CellUnavailableError("its partition does not answer")
        return await ended(at, following)

    async def story() -> None:
        bench.queue = at(bench, ONE)
        await bench.send("a:1")
        bench.queue = at(bench, ONE, EIGHT, ONE_AGAIN)
        monkeypatch.setattr(receiving, "ended", fails)
        assert bodies(await bench.receive()) == ["1"]
        with pytest.raises(CellUnavailableError):
            await bench.receive()

    bench.run(story())


def test_a_front_end_with_an_old_definition_goes_on_where_the_log_does(bench: Bench) -> None:
    async def story() -> None:
        old, new = at(bench, ONE), at(bench, ONE, EIGHT)
        behind = bench.front_end()
        bench.queue = old
        await bench.send("a:1", log=behind)
        bench.queue = new
        await bench.send("a:2")
        bench.queue = old
        await bench.send("a:3", log=behind)
        assert await bench.drain(behind) == ["1", "2", "3"]
        bench.queue = new
        assert await bench.drain() == []

    bench.run(story())


def test_duplicates_are_found_in_the_generation_before(bench: Bench) -> None:
    async def story() -> None:
        bench.queue = at(bench, ONE)
        (original,) = await bench.send("a:1:x")
        bench.queue = at(bench, ONE, EIGHT)
        for log in (bench.log, bench.front_end()):
            assert await bench.send("a:2:x", log=log) == [original]
        bench.clock.advance(302)
        assert await bench.send("a:3:x") != [original]
        assert await bench.drain() == ["1", "3"]

    bench.run(story())


def test_duplicates_are_found_over_several_changes(bench: Bench) -> None:
    async def story() -> None:
        bench.queue = at(bench, ONE)
        (original,) = await bench.send("a:1:x")
        bench.queue = at(bench, ONE, EIGHT, ONE_AGAIN)
        for log in (bench.log, bench.front_end()):
            assert await bench.send("a:2:x", log=log) == [original]

    bench.run(story())


def test_no_earlier_generation_goes_on_when_one_is_left_out(bench: Bench) -> None:
    async def story() -> None:
        old, new = at(bench, ONE), at(bench, ONE, EIGHT, ONE_AGAIN)
        behind = bench.front_end()
        bench.queue = old
        await bench.send("a:1", log=behind)
        bench.queue = new
        (two,) = await bench.send("a:2")
        bench.queue = old
        (three,) = await bench.send("a:3", log=behind)
        assert two.sequence < three.sequence
        bench.queue = new
        assert await bench.drain() == ["1", "2", "3"]

    bench.run(story())


def test_a_purge_is_known_where_the_definition_is_old(bench: Bench) -> None:
    """A log that has an end gets no purge any more: the one behind it counts."""

    async def story() -> None:
        bench.queue = at(bench, ONE)
        (original,) = await bench.send("a:1:x")
        bench.queue = at(bench, ONE, EIGHT)
        await bench.send("a:2:y")
        await bench.log.purge(bench.queue)
        for log in (bench.log, bench.front_end()):
            assert await bench.send("a:3:x", log=log) != [original]

    bench.run(story())


def test_a_purge_by_an_old_definition_takes_what_lies_in_later_generations(bench: Bench) -> None:
    async def story() -> None:
        old, new = at(bench, ONE), at(bench, ONE, EIGHT)
        behind = bench.front_end()
        bench.queue = old
        await bench.send("a:1", log=behind)
        bench.queue = new
        bench.clock.advance(1)
        await bench.send("a:2")
        purged_us = await behind.purge(old)
        bench.queue = replace(new, purged_us=purged_us)
        await bench.send("a:3")
        assert await bench.drain() == ["3"]

    bench.run(story())


def test_a_call_with_an_older_definition_knows_no_less_than_before(bench: Bench) -> None:
    desk = bench.log._desk
    old, new = at(bench, ONE, EIGHT), at(bench, ONE, EIGHT, ONE_AGAIN)
    desk.learn(old, ONE_AGAIN)
    for queue in (old, new, old):
        assert desk.generations(queue) == (ONE, EIGHT, ONE_AGAIN)


def test_sends_of_two_generations_share_no_slot(bench: Bench) -> None:
    """A group lies in one partition, and only there are its duplicates looked for."""
    eighths = {group_hash(bench.queue, f"g{n}")[0] % 8: f"g{n}" for n in range(100)}

    async def send(queue: Queue, group: str) -> list[Sent]:
        message = Outgoing(body="b", size=1, group=group, deduplication_id="x")
        return await bench.log.send(queue, SendCall(queue.account, [message]))

    async def story() -> None:
        old, bench.queue = at(bench, ONE), at(bench, ONE, EIGHT)
        await send(bench.queue, eighths[0])
        one, _ = await asyncio.gather(send(old, eighths[1]), send(bench.queue, eighths[0]))
        assert await send(bench.queue, eighths[1]) == one

    bench.run(story())


def test_what_is_drained_costs_nothing_any_more(bench: Bench) -> None:
    async def story() -> None:
        bench.queue = at(bench, ONE)
        await bench.send("a:1")
        bench.queue = at(bench, ONE, EIGHT)
        await bench.send("a:2")
        assert await bench.drain() == ["1", "2"]
        bench.clock.advance(302)
        await bench.receive()
        requests, _ = await bench.cost_of(bench.receive)
        assert requests == {"query": 8}

    bench.run(story())
