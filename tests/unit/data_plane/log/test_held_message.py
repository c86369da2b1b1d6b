"""One message that is held makes nothing grow: neither what is stored, nor read, nor remembered."""

from data_plane.core.message import Outgoing, SendCall
from data_plane.log import bounds
from tests.unit.data_plane.log.conftest import Bench, bodies

DONE = 20_000
TOGETHER = 10
EACH_S = 5


async def send_and_delete(bench: Bench, total: int) -> None:
    for number in range(0, total, TOGETHER):
        outgoing = [
            Outgoing(body="b", size=1, group=f"g{n}", deduplication_id=f"{number + n}")
            for n in range(TOGETHER)
        ]
        await bench.log.send(bench.queue, SendCall(bench.queue.account, outgoing))
        deliveries = await bench.receive()
        assert len(deliveries) == TOGETHER
        await bench.delete(deliveries)
        bench.clock.advance(EACH_S)
        await bench.log.sweep()


def test_many_messages_done_behind_one_that_is_held(bench: Bench) -> None:
    async def story() -> None:
        await bench.send("held:first")
        (held,) = await bench.receive(visibility_s=43_200)
        await send_and_delete(bench, DONE)
        (partition,) = bench.log._desk.partitions.values()
        reader = partition.reader
        assert reader.pending_count == 1
        assert len(reader.blocks) <= 2
        assert len(reader.due) <= 20
        assert partition.tail is not None
        assert len(partition.tail.window) <= TOGETHER * (
            bounds.WINDOW_US // 1_000_000 // EACH_S + 1
        )
        assert len(reader.finished) <= bounds.COLLECT_AFTER_US // 1_000_000 // EACH_S
        stored = [item for item in bench.cell.items() if item.key.partition[0] in "GF"]
        assert len(stored) < 2 * bounds.COLLECT_AFTER_US // 1_000_000 // EACH_S

        cold = bench.front_end()
        requests, items = await bench.cost_of(lambda: bench.receive(log=cold))
        assert sum(requests.values()) <= 8
        assert items <= 20
        await bench.send("held:second", "other:third")
        assert bodies(await bench.receive(log=cold)) == ["third"]
        await bench.delete([held], cold)
        assert bodies(await bench.receive(log=cold)) == ["second"]

    bench.run(story())


def test_a_group_that_waits_behind_many_keeps_no_other_waiting(bench: Bench) -> None:
    async def story() -> None:
        for start in range(0, 2_000, TOGETHER):
            await bench.send(*(f"slow:{n}" for n in range(start, start + TOGETHER)))
        await bench.receive(1)
        await bench.send("quick:next")
        cold = bench.front_end()
        assert bodies(await bench.receive(log=cold)) == ["next"]
        requests, items = await bench.cost_of(lambda: bench.receive(log=cold))
        assert items <= 5
        assert sum(requests.values()) <= 2

    bench.run(story())


def test_what_nobody_uses_is_forgotten(bench: Bench) -> None:
    async def story() -> None:
        (sent,) = await bench.send("a:1:x")
        assert await bench.drain() == ["1"]
        bench.clock.advance(bounds.IDLE_US_MAX // 1_000_000 + 1)
        await bench.log.sweep()
        assert not bench.log._desk.partitions
        (again,) = await bench.send("a:2:x")
        assert again.sequence > sent.sequence
        assert await bench.drain() == ["2"]

    bench.run(story())
