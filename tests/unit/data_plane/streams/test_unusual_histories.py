"""What a front end delivers, whatever it was asked for before, and was not asked for."""

from dataclasses import replace

import pytest

from data_plane.core.message import Delivery
from data_plane.core.queue import Queue
from data_plane.core.receipt_handle import decode
from data_plane.core.settling import ACKNOWLEDGE, RESTORE, Wish
from data_plane.core.stream import hash_key_of
from data_plane.log import receiving
from data_plane.log.bounds import BLOCK_FULL_MESSAGES, FETCH_ITEMS_MAX
from data_plane.log.engine import Log
from tests.unit.data_plane.streams.queue_bench import QueueBench

HALF_A_DAY_S = 43_200
PAUSE_S = 600
MINUTE_S = 60
ONE = {"count": 1, "visibility_s": 30, "until_us": 0}
KEYS = [f"k{number}" for number in range(100)]


@pytest.fixture
def bench() -> QueueBench:
    return QueueBench()


def bodies(deliveries: list[Delivery]) -> list[str]:
    return [one.message.body for one in deliveries]


def key_between(first: int, last: int) -> str:
    """A partition key whose hash key lies there, in 2^128ths of 16."""
    return next(key for key in KEYS if first <= hash_key_of(key) >> 124 < last)


async def hold_all(bench: QueueBench, log: Log) -> list[Delivery]:
    """Receive whatever there is, for half a day."""
    found: list[Delivery] = []
    while more := await log.receive(bench.queue, count=10, visibility_s=HALF_A_DAY_S, until_us=0):
        found += more
    return found


def test_a_group_waits_for_a_shard_that_was_forgotten_and_is_read_anew(
    bench: QueueBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Shard 0 is split into 2 and 3, and 2 into 6 and 7; 1 is split, too."""
    other = bench.consumer()
    waiting, also_there = key_between(0, 2), key_between(4, 8)

    async def story() -> list[str]:
        for number in range(FETCH_ITEMS_MAX):
            await bench.put_for(also_there, f"{number}")
        await bench.put_for(waiting, "first")
        assert "first" in bodies(await hold_all(bench, other))
        await bench.split(0)
        await bench.split(1)
        await bench.put_for(key_between(2, 4), "kept")
        await bench.split(2)
        await bench.put_for(waiting, "second")
        kept = await hold_all(bench, bench.log)
        assert bodies(kept) == ["kept"]
        handle = decode(kept[0].receipt_handle, bench.queue)
        for _ in range(2):
            bench.clock.advance(PAUSE_S)
            changes = [(handle, HALF_A_DAY_S // 2)]
            assert await bench.log.change_visibility(bench.queue, changes) == [None]
        await bench.log.sweep()
        # As a receive that reads no more of a long shard at a time.
        monkeypatch.setattr(receiving, "FETCH_ROUNDS_MAX", 1)
        return bodies(await bench.receive())

    assert bench.run(story()) == []


def test_a_group_goes_on_though_another_one_came_when_it_got_free(bench: QueueBench) -> None:
    """So as many groups have something in shards before as had when it was looked at last."""
    moved_on, staying = key_between(0, 8), key_between(8, 16)
    new = next(key for key in KEYS if key != staying and hash_key_of(key) >> 124 >= 8)

    async def story() -> list[str]:
        await bench.put_for(moved_on, "first")
        await bench.split(0)
        await bench.put_for(moved_on, "second")
        await bench.put_for(staying, "held")
        held = await hold_all(bench, bench.log)
        assert sorted(bodies(held)) == ["first", "held"]
        await bench.put_for(new, "new")
        assert await bench.delete([one for one in held if one.message.body == "first"]) == ["first"]
        return bodies(await hold_all(bench, bench.log))

    assert sorted(bench.run(story())) == ["new", "second"]


class Mortal(QueueBench):
    """A queue of the Kinesis API whose records die when they were received once."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.queue = self.over("!work", dies_after=1)
        self.dead = replace(self.queue, of_dead=True)
        self.other = self.consumer()

    async def take(self, queue: Queue, log: Log) -> list[Delivery]:
        return await log.receive_records(queue, count=10, visibility_s=30, until_us=0)

    async def settle(self, act: str, queue: Queue, found: list[Delivery], log: Log) -> None:
        wishes = [Wish(decode(one.receipt_handle, queue), act) for one in found]
        assert await log.settle(queue, wishes) == [None] * len(found)

    async def take_all(self, queue: Queue, log: Log) -> list[str]:
        """Receive and acknowledge what one receive finds: the bodies."""
        found = await self.take(queue, log)
        await self.settle(ACKNOWLEDGE, queue, found, log)
        return bodies(found)

    async def put_block(self, first: str) -> None:
        """Fill a block: what comes next is in another one."""
        await self.put_for("ann", first, *("old",) * (BLOCK_FULL_MESSAGES - 1))


def test_what_another_front_end_restored_comes_where_there_always_is_something_else() -> None:
    bench = Mortal()

    async def story() -> set[str]:
        await bench.put_block("restored")
        assert bodies(await bench.log.receive_records(bench.queue, **ONE)) == ["restored"]
        while await bench.take_all(bench.queue, bench.log):
            pass
        bench.clock.advance(31)
        dead = await bench.take(bench.dead, bench.other)
        await bench.settle(RESTORE, bench.dead, dead, bench.other)
        found: set[str] = set()
        for number in range(30):
            await bench.put_for("ann", f"new {number}")
            bench.clock.advance(MINUTE_S)
            found |= set(await bench.take_all(bench.queue, bench.log))
        return found

    assert "restored" in bench.run(story())


def test_what_died_at_another_front_end_comes_where_there_always_is_something_else() -> None:
    """Both have lain in blocks that were read before; nobody acknowledges the first."""
    bench = Mortal()

    async def story() -> set[str]:
        await bench.put_block("first")
        await bench.put_block("late")
        assert bodies(await bench.other.receive_records(bench.queue, **ONE)) == ["first"]
        bench.clock.advance(31)
        assert bodies(await bench.take(bench.dead, bench.log)) == ["first"]
        while found := await bench.take(bench.queue, bench.other):
            old = [one for one in found if one.message.body == "old"]
            await bench.settle(ACKNOWLEDGE, bench.queue, old, bench.other)
        seen: set[str] = set()
        for _ in range(30):
            bench.clock.advance(MINUTE_S)
            seen |= set(bodies(await bench.take(bench.dead, bench.log)))
        return seen

    assert bench.run(story()) == {"first", "late"}


def test_a_receive_is_repeated_where_nobody_knows_the_deleted_stream(
    bench: QueueBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def nothing(*_name: str) -> None:
        return None

    async def story() -> list[list[str]]:
        await bench.put_for("ann", "a")
        first = await bench.log.receive(bench.queue, **ONE, attempt="again")
        monkeypatch.setattr(bench, "find", nothing)
        repeated = await bench.consumer().receive(bench.queue, **ONE, attempt="again")
        return [bodies(first), bodies(repeated)]

    assert bench.run(story()) == [["a"], []]


def test_a_walk_shows_all_though_a_shard_is_forgotten_meanwhile(bench: QueueBench) -> None:
    key = key_between(0, 4)

    async def story() -> list[str]:
        await bench.split(0)
        for text in "abc":
            await bench.put_for(key, text)
        page = await bench.log.browse(bench.queue, count=1)
        shown = [one.message.body for one in page.messages]
        left = [shard for shard in bench.stream.shards if shard.number]
        bench.stream = replace(bench.stream, shards=tuple(left))
        while page.next_position:
            page = await bench.log.browse(bench.queue, count=1, position=page.next_position)
            shown += [one.message.body for one in page.messages]
        return shown

    assert bench.run(story()) == ["a", "b", "c"]


@pytest.mark.parametrize("name", ["standard", "orders.fifo"])
def test_shards_that_came_of_a_split_get_their_turns_where_another_has_a_backlog(
    bench: QueueBench, name: str
) -> None:
    """What their parent has held has nothing to do with that: in a FIFO queue, once it is done."""
    split_up, busy = key_between(0, 8), key_between(8, 16)
    queue = bench.over(name)

    async def story() -> set[str]:
        await bench.put_for(split_up, "before")
        held = await bench.log.receive(queue, count=1, visibility_s=HALF_A_DAY_S, until_us=0)
        await bench.split(0)
        assert await bench.receive(queue=queue) == []
        if queue.fifo:
            await bench.delete(held, queue=queue)
        await bench.put_for(split_up, "after")
        await bench.put_for(busy, *["busy"] * 10)
        found: set[str] = set()
        for _ in range(30):
            await bench.put_for(busy, *["busy"] * 10)
            deliveries = await bench.receive(queue=queue)
            found |= set(await bench.delete(deliveries, queue=queue))
        return found

    assert bench.run(story()) == {"busy", "after"}
