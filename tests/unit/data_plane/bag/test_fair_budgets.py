"""What fair lanes cost at the cell port: docs/cost.md, "Fair queues"."""

from collections import Counter

import pytest

from data_plane.stored import ledger
from tests.unit.data_plane.bag.conftest import Bench
from tests.unit.data_plane.bag.tenancy import NOISY, QUIET, Tenancy


@pytest.fixture
def tenancy(bench: Bench) -> Tenancy:
    return Tenancy(bench)


def test_a_batch_of_many_quiet_groups_is_one_write(tenancy: Tenancy) -> None:
    async def story() -> None:
        bench = tenancy.bench
        batch = [tenancy.message(f"group {number}") for number in range(10)]
        requests, _ = await bench.cost_of(lambda: tenancy.send_batch(batch))
        assert requests == {"query": 1, "append": 1}  # asks once who is noisy
        requests, _ = await bench.cost_of(lambda: tenancy.send_batch(batch))
        assert requests == {"append": 1}
        bench.clock.advance(10)
        requests, _ = await bench.cost_of(lambda: tenancy.send_batch(batch))
        assert requests == {"query": 1, "append": 1}

    tenancy.bench.run(story())


def test_a_batch_over_all_lanes_is_three_writes(tenancy: Tenancy) -> None:
    async def story() -> None:
        bench = tenancy.bench
        await tenancy.send("very noisy", 1_000)
        await tenancy.send(NOISY, 40)
        groups = ["very noisy", NOISY, "a", "b", "c", "d", "e", "f", "", ""]
        batch = [tenancy.message(group) for group in groups]
        before = tenancy.messages_in_lanes()
        requests, _ = await bench.cost_of(lambda: tenancy.send_batch(batch))
        assert requests == {"append": 3}
        assert tenancy.messages_in_lanes() - before == {0: 8, 1: 1, 2: 1}

    tenancy.bench.run(story())


def test_who_goes_on_sending_too_much_costs_a_query_a_second_and_a_write_each_five(
    tenancy: Tenancy,
) -> None:
    async def story() -> None:
        bench = tenancy.bench
        await tenancy.send(NOISY, 1_000)
        spent = Counter[str]()
        for _ in range(600):
            bench.clock.advance(0.1)
            requests, _ = await bench.cost_of(lambda: tenancy.send(NOISY))
            spent.update(requests)
        assert spent["append"] == 600
        assert spent["query"] <= 60
        assert spent["update"] <= 60 / 5 + 1
        assert set(spent) == {"append", "query", "update"}

    tenancy.bench.run(story())


def test_to_open_the_other_lanes_is_three_writes_for_each_in_the_life_of_a_queue(
    tenancy: Tenancy,
) -> None:
    async def story() -> None:
        bench = tenancy.bench
        sends = 100
        requests, _ = await bench.cost_of(lambda: tenancy.send(NOISY, sends * 10))
        assert requests["append"] == sends + 2
        told = 2
        assert requests["update"] == 2 * 2 + told
        other = bench.front_end()
        requests, _ = await bench.cost_of(lambda: tenancy.send(NOISY, 10, bag=other))
        assert requests == {"query": 1, "append": 1, "update": 1}

    tenancy.bench.run(story())


def test_a_receive_has_two_extra_queries_at_most(tenancy: Tenancy) -> None:
    async def story() -> None:
        bench = tenancy.bench
        await tenancy.receive()
        empty, _ = await bench.cost_of(tenancy.receive)
        assert empty == {"query": 1}
        await tenancy.send(NOISY, 2_000)
        spent: list[int] = []
        for number in range(230):
            bench.clock.advance(0.01)
            if number % 3 == 0:
                await tenancy.send(QUIET)
            requests, items = await bench.cost_of(tenancy.receive)
            assert items <= 50
            spent.append(requests.get("query", 0))
        assert max(spent) <= 3 + 1  # once a second it is asked who is noisy
        assert sum(spent) / len(spent) < 2.2
        while await tenancy.receive():
            pass
        empty, _ = await bench.cost_of(tenancy.receive)
        assert empty == {"query": 3}

    tenancy.bench.run(story())


def test_hints_are_told_once_a_second_while_messages_are_handed_out(tenancy: Tenancy) -> None:
    async def story() -> None:
        bench = tenancy.bench
        await tenancy.send(NOISY, 2_000)
        spent = Counter[str]()
        for _ in range(100):
            bench.clock.advance(0.1)
            requests, _ = await bench.cost_of(tenancy.receive)
            spent.update(requests)
        leases = 100 + 100 * 10 // 64 + 1  # a receive may cross a block
        assert spent["update"] <= leases + 10
        await bench.drain()
        for _ in range(2):
            bench.clock.advance(10)
            requests, _ = await bench.cost_of(tenancy.receive)
        assert requests == {"query": 3}

    tenancy.bench.run(story())


def test_what_is_told_is_bounded(tenancy: Tenancy) -> None:
    async def story() -> None:
        bench = tenancy.bench
        for number in range(200):
            await tenancy.send(f"noisy {number}", 40)
        (hints,) = [item for item in bench.cell.items() if item.key.sort == b"groups"]
        assert sum(name[0] == "g" for name in hints.attributes) == 64
        await bench.drain()
        bench.clock.advance(10)
        await tenancy.send(NOISY, 40)
        (hints,) = [item for item in bench.cell.items() if item.key.sort == b"groups"]
        assert sum(name[0] == "g" for name in hints.attributes) == 1

    tenancy.bench.run(story())


def test_a_queue_without_groups_pays_nothing(bench: Bench) -> None:
    async def story() -> None:
        await bench.receive()
        for number in range(500):
            await bench.send(*(f"{number}.{position}" for position in range(10)))
        spent = Counter[str]()
        for _ in range(500):
            bench.clock.advance(0.5)
            requests, _ = await bench.cost_of(bench.receive)
            spent.update(requests)
        assert spent["query"] <= 500
        assert {item.key.partition for item in bench.cell.items()} == {ledger.PARTITION} | {
            f"{kind}|{bench.queue.uid}" + ("|00|0" if kind in "BS" else "") for kind in "BST"
        }

    bench.run(story())
