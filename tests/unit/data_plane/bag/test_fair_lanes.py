"""Fair lanes: a group with much waiting does not keep the others waiting."""

from collections import Counter
from dataclasses import replace

import pytest

from data_plane.bag.bounds import DEEPER_LANE_FACTOR, GROUP_WAITING_MIN
from data_plane.bag.engine import Bag
from data_plane.memory.cell import MemoryCell
from data_plane.stored import keys
from tests.unit.data_plane.bag.conftest import QUEUE, Bench
from tests.unit.data_plane.bag.tenancy import NOISY, QUIET, Tenancy


@pytest.fixture(params=[True, False], ids=["stamps chosen", "stamps proposed"])
def tenancy(request: pytest.FixtureRequest) -> Tenancy:
    bench = Bench()
    bench.cell = MemoryCell(bench.clock, stamps=request.param)
    bench.bag = bench.front_end()
    return Tenancy(bench)


def test_a_quiet_message_passes_a_backlog(tenancy: Tenancy) -> None:
    async def story() -> None:
        await tenancy.send(NOISY, 500)
        await tenancy.send(QUIET)
        assert await tenancy.receive(1) == [QUIET]

    tenancy.bench.run(story())


@pytest.mark.parametrize("backlog", [5_000, 100_000])
def test_a_front_end_that_starts_afresh_finds_it_with_two_extra_queries(
    tenancy: Tenancy, backlog: int
) -> None:
    """The benchmark does the same behind 1,000,000 messages."""
    bench = tenancy.bench

    async def story() -> None:
        await tenancy.send(NOISY, backlog)
        await tenancy.send(QUIET)
        bag = bench.front_end()
        received: list[str] = []

        async def receive_one() -> None:
            received.extend(await tenancy.receive(1, bag=bag))

        requests, items = await bench.cost_of(receive_one)
        assert received == [QUIET]
        assert requests["query"] <= 1 + 1 + 2  # opening the queue, the receive, two more
        assert items < 100
        received.clear()
        requests, items = await bench.cost_of(receive_one)
        assert received == [NOISY]
        assert requests.get("query", 0) <= 1 + 2
        assert items < 100

    bench.run(story())


def test_every_message_is_delivered_once_and_every_lane_is_used(tenancy: Tenancy) -> None:
    async def story() -> None:
        sent = await tenancy.send(NOISY, 1_000)
        sent += await tenancy.send(QUIET, 20)
        sent += await tenancy.send("", 20)
        assert tenancy.lanes_used() == {0, 1, 2}
        assert sorted(await tenancy.bench.drain()) == sorted(sent)

    tenancy.bench.run(story())


def test_what_waits_in_a_lane_is_bounded_for_each_group(tenancy: Tenancy) -> None:
    async def story() -> None:
        for group in ("a", "b"):
            for _ in range(1_000):
                await tenancy.send(group)
        in_first = GROUP_WAITING_MIN * 2
        in_second = in_first * DEEPER_LANE_FACTOR
        assert tenancy.messages_in_lanes() == {
            0: in_first,
            1: in_second,
            2: 2_000 - in_first - in_second,
        }

    tenancy.bench.run(story())


def test_messages_of_a_group_stay_in_order(tenancy: Tenancy) -> None:
    async def story() -> None:
        bench = tenancy.bench
        sent, received = list[str](), list[str]()
        for number in range(200):
            if number % 5 < 3:
                sent += await tenancy.send(NOISY, 1 + number * 7 % 10)
            else:
                deliveries = await bench.receive(1 + number * 3 % 10)
                received += [d.message.body for d in deliveries]
                await bench.delete(deliveries)
        received += await bench.drain()
        assert received == sent
        assert len(tenancy.lanes_used()) > 1

    tenancy.bench.run(story())


def test_a_group_without_backlog_is_quiet_again(tenancy: Tenancy) -> None:
    async def story() -> None:
        await tenancy.send(NOISY, 500)
        tenancy.bench.clock.advance(0.001)
        await tenancy.bench.drain()
        before = tenancy.messages_in_lanes()[0]
        await tenancy.send(NOISY, 10)
        assert tenancy.messages_in_lanes()[0] == before + 10

    tenancy.bench.run(story())


def test_a_group_that_is_served_in_time_stays_quiet_whatever_it_sends(tenancy: Tenancy) -> None:
    async def story() -> None:
        for _ in range(100):
            await tenancy.send(NOISY, 10)
            await tenancy.bench.delete(await tenancy.bench.receive())
        assert tenancy.lanes_used() == {0}

    tenancy.bench.run(story())


def test_groups_keep_to_their_lanes_beside_one_with_a_backlog(tenancy: Tenancy) -> None:
    """Five groups with a fifth of the traffic each, after one of them has sent very much."""

    async def story() -> None:
        bench = tenancy.bench
        others = ["a", "b", "c", "d"]
        await tenancy.send(NOISY, 3_000)
        waiting_s: list[float] = []
        for _ in range(200):
            for group in others:
                await tenancy.send(group, 2)
            bench.clock.advance(0.05)
            deliveries = await bench.receive()
            waiting_s += [
                bench.clock.now_us() / 1e6 - d.message.sent_ms / 1000
                for d in deliveries
                if d.message.group in others
            ]
            await bench.delete(deliveries)
        assert len(waiting_s) > 1_500
        assert max(waiting_s) < 0.2

    tenancy.bench.run(story())


def test_the_rest_of_the_capacity_is_for_the_noisy(tenancy: Tenancy) -> None:
    async def story() -> None:
        await tenancy.send(NOISY, 1_000)
        served = Counter[str]()
        for _ in range(50):
            await tenancy.send(QUIET)
            deliveries = await tenancy.bench.receive()
            served.update(d.message.group for d in deliveries)
            await tenancy.bench.delete(deliveries)
        served.update(await tenancy.receive())
        assert served[QUIET] >= 49
        assert served[NOISY] >= 10

    tenancy.bench.run(story())


def test_two_front_ends_share_what_they_know(tenancy: Tenancy) -> None:
    """One sends, the other receives: neither sees what the other does but through the cell."""

    async def story() -> None:
        bench = tenancy.bench
        receiving = bench.front_end()
        assert await tenancy.receive(bag=receiving) == []
        await tenancy.send(NOISY, 1_000)
        bench.clock.advance(2)
        await tenancy.send(QUIET)
        assert await tenancy.receive(1, bag=receiving) == [QUIET]
        assert await tenancy.receive(1, bag=receiving) == [NOISY]
        assert len(await bench.drain(bag=receiving)) == 999

    tenancy.bench.run(story())


def test_another_sender_learns_who_is_noisy(tenancy: Tenancy) -> None:
    async def story() -> None:
        bench = tenancy.bench
        await tenancy.send(NOISY, 1_000)
        other = bench.front_end()
        before = tenancy.messages_in_lanes()
        await tenancy.send(NOISY, 100, bag=other)
        after = tenancy.messages_in_lanes()
        assert after[2] == before[2] + 100
        await tenancy.send(QUIET, bag=other)
        assert await tenancy.receive(1, bag=bench.front_end()) == [QUIET]

    tenancy.bench.run(story())


def test_senders_that_know_nothing_of_each_other_put_little_ahead(tenancy: Tenancy) -> None:
    """Many front ends that serve few calls each, as functions do."""

    async def story() -> None:
        bench = tenancy.bench
        bags: list[Bag] = [bench.front_end() for _ in range(20)]
        for _ in range(10):
            for bag in bags:
                await tenancy.send(NOISY, 10, bag=bag)
        await tenancy.send(QUIET, bag=bags[0])
        assert tenancy.messages_in_lanes()[0] <= 20 * GROUP_WAITING_MIN + 1
        assert await tenancy.receive(1, bag=bench.front_end()) == [QUIET]

    tenancy.bench.run(story())


def test_a_sender_that_starts_afresh_goes_on_as_it_was(tenancy: Tenancy) -> None:
    async def story() -> None:
        bench = tenancy.bench
        await tenancy.send(NOISY, 1_000)
        await tenancy.send(NOISY, 10, bag=bench.front_end())
        in_first = tenancy.messages_in_lanes()[0]
        assert in_first <= GROUP_WAITING_MIN

    tenancy.bench.run(story())


def test_lanes_are_announced_once(tenancy: Tenancy) -> None:
    async def story() -> None:
        bench = tenancy.bench
        await tenancy.send(NOISY, 1_000)
        await tenancy.send(NOISY, 1_000, bag=bench.front_end())
        marks = [item for item in bench.cell.items() if item.attributes.get("k") == "n"]
        assert [mark.attributes["l"] for mark in marks] == [1, 2]
        assert {mark.key.partition for mark in marks} == {keys.segments(QUEUE.uid, 0, 0)}

    tenancy.bench.run(story())


def test_readers_under_way_are_told_of_lanes(tenancy: Tenancy) -> None:
    """Before anything has waited for so long that they would ask."""

    async def story() -> None:
        bench = tenancy.bench
        readers = [bench.front_end() for _ in range(2)]
        for reader in readers:
            assert await tenancy.receive(bag=reader) == []
        sent = await tenancy.send(NOISY, 400)
        first = await bench.drain(bag=readers[0])
        assert sorted(first) == sorted(sent)
        again = await tenancy.send(NOISY, 400)
        assert sorted(await bench.drain(bag=readers[1])) == sorted(again)

    tenancy.bench.run(story())


def test_a_reader_that_skipped_the_announcement_finds_the_lanes(tenancy: Tenancy) -> None:
    async def story() -> None:
        bench = tenancy.bench
        reader = bench.front_end()
        await tenancy.send("before")
        assert await tenancy.receive(bag=reader) == ["before"]
        await tenancy.send(NOISY, 100)
        bench.clock.advance(1)
        bench.queue = replace(QUEUE, purged_us=await bench.bag.purge(QUEUE))
        bench.clock.advance(1)
        # The other sender still takes the group for one with a backlog.
        sent = await tenancy.send(NOISY, 60)
        assert len(await bench.drain(bag=reader)) == len(sent)

    tenancy.bench.run(story())


def test_purged_messages_of_all_lanes_are_gone(tenancy: Tenancy) -> None:
    async def story() -> None:
        bench = tenancy.bench
        await tenancy.send(NOISY, 1_000)
        bench.clock.advance(1)
        bench.queue = replace(QUEUE, purged_us=await bench.bag.purge(QUEUE))
        assert await bench.receive() == []
        assert await bench.receive(bag=bench.front_end()) == []
        await tenancy.send(NOISY)
        assert tenancy.messages_in_lanes()[0] == GROUP_WAITING_MIN + 1
        assert await tenancy.receive() == [NOISY]

    tenancy.bench.run(story())


def test_counts_are_those_of_all_lanes(tenancy: Tenancy) -> None:
    async def story() -> None:
        bench = tenancy.bench
        await tenancy.send(NOISY, 1_000)
        await tenancy.send(NOISY, 30, delay_s=60)
        await tenancy.receive()
        counts = await bench.bag.counts(QUEUE)
        assert (counts.visible, counts.in_flight, counts.delayed) == (990, 10, 30)

    tenancy.bench.run(story())


def test_visibility_holds_in_all_lanes(tenancy: Tenancy) -> None:
    async def story() -> None:
        bench = tenancy.bench
        sent = await tenancy.send(NOISY, 400)
        held = {}
        for _ in range(40):
            for delivery in await bench.receive(visibility_s=30):
                held[delivery.message.body] = delivery
        assert sorted(held) == sorted(sent)
        assert {bench.handle(d).lane for d in held.values()} == {0, 1, 2}
        assert await bench.receive() == []
        back = [d for d in held.values() if bench.handle(d).index % 7 == 0]
        await bench.bag.change_visibility(QUEUE, [(bench.handle(d), 0) for d in back])
        assert sorted(await bench.drain()) == sorted(d.message.body for d in back)
        bench.clock.advance(31)
        assert len(await bench.drain(bag=bench.front_end())) == 400 - len(back)

    tenancy.bench.run(story())


def test_a_raised_retention_reaches_all_lanes(tenancy: Tenancy) -> None:
    async def story() -> None:
        bench = tenancy.bench
        await tenancy.send(NOISY, 1_000)
        longer = replace(QUEUE, retention_s=QUEUE.retention_s + 86_400)
        await bench.front_end().restamp(longer)
        needed_s = bench.clock.now_us() // 1_000_000 + longer.retention_s
        segments = [i for i in bench.cell.items() if i.attributes.get("k") == "s"]
        assert len(segments) > 90
        assert all(int(str(i.attributes["x"])) > needed_s for i in segments)

    tenancy.bench.run(story())


def test_delayed_messages_of_a_noisy_group_wait_elsewhere(tenancy: Tenancy) -> None:
    async def story() -> None:
        bench = tenancy.bench
        for _ in range(50):
            await tenancy.send(NOISY, 10, delay_s=60)
            bench.clock.advance(0.01)
        bench.clock.advance(61)
        await tenancy.send(QUIET)
        assert await tenancy.receive(1) == [QUIET]
        assert tenancy.messages_in_lanes()[0] <= GROUP_WAITING_MIN + 1

    tenancy.bench.run(story())


def test_a_message_that_comes_late_is_found_in_its_lane(tenancy: Tenancy) -> None:
    """A handle of a lane deletes there, though another front end has leased."""

    async def story() -> None:
        bench = tenancy.bench
        await tenancy.send(NOISY, 400)
        deliveries = [d for _ in range(40) for d in await bench.receive()]
        await bench.delete(deliveries[::10], bag=bench.front_end())
        bench.clock.advance(31)
        assert len(await bench.drain()) == 400 - 40

    tenancy.bench.run(story())


def test_who_is_slow_to_consume_lets_others_pass(tenancy: Tenancy) -> None:
    """SQS's rule: noisy is also who takes a tenth of the consumers' time, with little waiting."""

    async def story() -> None:
        bench = tenancy.bench
        for _ in range(10):
            await tenancy.send(NOISY)
            await tenancy.send("others")
            for delivery in await bench.receive():
                bench.clock.advance(5 if delivery.message.group == NOISY else 0.01)
                await bench.delete([delivery])
        await tenancy.send(NOISY, 5)
        bench.clock.advance(2)
        assert await tenancy.receive(1) == [NOISY]  # it has waited, and nobody else is there
        await tenancy.send(NOISY, 5)
        await tenancy.send(QUIET)
        assert tenancy.messages_in_lanes()[1] == 5
        assert await tenancy.receive(1) == [QUIET]
        assert await tenancy.receive(1) == [NOISY]

    tenancy.bench.run(story())


def test_what_was_put_aside_stays_bounded_and_is_delivered(tenancy: Tenancy) -> None:
    """Many senders that did not know: their first messages lie in the quiet lane."""

    async def story() -> None:
        bench = tenancy.bench
        sent = 0
        for _ in range(60):
            sent += len(await tenancy.send(NOISY, 30, bag=bench.front_end()))
            bench.clock.advance(0.001)
        await tenancy.send(NOISY, 400)
        bench.clock.advance(2)
        reader = bench.front_end()
        received = 0
        for number in range(100):
            quiet = await tenancy.send(f"quiet {number}", bag=reader)
            deliveries = await bench.receive(2, bag=reader)
            received += len(deliveries)
            await bench.delete(deliveries, bag=reader)
            if number > 20:
                assert [d.message.body for d in deliveries] == quiet
        left = await bench.drain(bag=reader)
        assert received + len(left) == sent + 400 + 100

    tenancy.bench.run(story())
