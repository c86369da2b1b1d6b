"""Counts of what accounts define, on each cell that registries of tables may lie in."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from control_plane.core.stream_definition import StreamDefinition
from control_plane.counted_definitions import CountedDefinitions, counted
from control_plane.definition_room import DefinitionCount
from control_plane.registry import Registry
from control_plane.streams import StreamRegistry
from data_plane.core.errors import RefusedError
from data_plane.core.quotas import Quotas, parse_quotas
from data_plane.core.stream import Shard, Stream
from data_plane.memory.cell import MemoryCell
from data_plane.ports import Cell, CellUnavailableError
from data_plane.system import SystemClock, SystemEntropy
from tests.conformance.dynamodb_suite import on_a_table_of_its_own
from tests.unit.repeatable import SECRET

ACCOUNT, OTHER = "111122223333", "444455556666"
HERE, THERE = "eu-west-1", "us-east-2"


class NoLogs:
    """Of streams whose shards nobody changes."""

    async def close(self, stream: Stream, shard: Shard) -> int:
        raise NotImplementedError

    def horizon_us(self, stream: Stream) -> int:
        raise NotImplementedError


class Tenants:
    """What all accounts may define; a registry that holds them to it."""

    def __init__(self, cell: Cell) -> None:
        self.cell = cell
        self.quotas: Quotas = parse_quotas({})
        self.room = CountedDefinitions(self, cell)
        self.clock = SystemClock()
        self.registry = Registry(
            cell, ["a"], self.clock, SystemEntropy(), secret=SECRET, room=self.room
        )

    async def find_quotas(self, _account: str) -> Quotas:
        return self.quotas

    def may(self, **quotas: int) -> None:
        self.quotas = parse_quotas(quotas)

    async def create(self, name: str, account: str = ACCOUNT, region: str = HERE) -> str:
        """Why it is refused, "" where it is not."""
        now_us = self.clock.now_us()
        place = {"account": account, "region": region, "name": name}
        wanted = self.registry.define(**place, attributes={}, tags={}, now_us=now_us)
        try:
            await self.registry.create(wanted, {}, now_us)
        except RefusedError as refusal:
            return f"{refusal.fault.code}: {refusal.message}"
        return ""

    async def delete(self, name: str) -> None:
        queue = await self.registry.find(ACCOUNT, HERE, name)
        assert queue is not None
        await self.registry.delete(queue, self.clock.now_us())

    async def queues(self, account: str = ACCOUNT) -> dict[str, int]:
        return {at: count.queues for at, count in (await counted(self.cell, account)).items()}


def let_others_in_after_reads(cell: Cell) -> None:
    """As where cells lie elsewhere."""

    def hesitating(read: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        async def slow(*args: Any, **more: Any) -> Any:
            found = await read(*args, **more)
            await asyncio.sleep(0)
            return found

        return slow

    for name in ("get", "query"):
        setattr(cell, name, hesitating(getattr(cell, name)))


Play = Callable[[Callable[[Tenants], Awaitable[None]]], None]


@pytest.fixture(params=["memory", "dynamodb"])
def play(request: pytest.FixtureRequest, dynamodb: Any) -> Play:
    @asynccontextmanager
    async def opened() -> AsyncIterator[Cell]:
        if request.param == "memory":
            yield MemoryCell(SystemClock())
            return
        async with on_a_table_of_its_own(dynamodb, SystemClock()) as cell:
            yield cell

    def play(story: Callable[[Tenants], Awaitable[None]]) -> None:
        async def run() -> None:
            async with opened() as cell:
                await story(Tenants(cell))

        asyncio.run(run())

    return play


def test_queues_are_counted_by_account_and_region(play: Play) -> None:
    async def story(tenants: Tenants) -> None:
        for name in ("one", "two"):
            assert await tenants.create(name) == ""
        assert await tenants.create("one") == ""  # it is there
        await tenants.create("one", region=THERE)
        await tenants.create("one", account=OTHER)
        assert await tenants.queues() == {HERE: 2, THERE: 1}
        assert await tenants.queues(OTHER) == {HERE: 1}
        before = (await counted(tenants.cell, ACCOUNT))[HERE].size_bytes
        await tenants.delete("one")
        assert (await counted(tenants.cell, ACCOUNT))[HERE] == DefinitionCount(1, before // 2)
        await tenants.delete("two")
        assert await tenants.queues() == {THERE: 1}  # nothing is left to count

    play(story)


def test_several_at_once_make_exactly_what_they_may(play: Play) -> None:
    async def story(tenants: Tenants) -> None:
        tenants.may(account_queues=5)
        let_others_in_after_reads(tenants.cell)
        told = await asyncio.gather(*(tenants.create(f"q{number}") for number in range(9)))
        assert told.count("") == 5
        (refusal,) = {each for each in told if each}
        assert refusal == f"OverLimit: Account {ACCOUNT} has 5 queues, and its quota is 5."
        assert await tenants.queues() == {HERE: 5}
        # In another region there is no more room, either.
        assert (await tenants.create("q", region=THERE)) == refusal
        await tenants.delete(
            (await tenants.registry.names(ACCOUNT, HERE, prefix="", after="", limit=1))[0]
        )
        assert await tenants.create("q", region=THERE) == ""

    play(story)


def test_bytes_of_definitions_are_exact(play: Play) -> None:
    async def story(tenants: Tenants) -> None:
        await tenants.room.take(ACCOUNT, HERE, DefinitionCount(1, 600))
        tenants.may(account_definition_bytes=1_000)
        with pytest.raises(RefusedError, match="has 600 bytes of definitions, and its"):
            await tenants.room.take(ACCOUNT, HERE, DefinitionCount(0, 401))
        await tenants.room.take(ACCOUNT, HERE, DefinitionCount(0, 400))
        with pytest.raises(RefusedError, match="has 1000 bytes"):
            await tenants.room.take(ACCOUNT, THERE, DefinitionCount(0, 1))
        await tenants.room.give_back(ACCOUNT, HERE, DefinitionCount(0, 300))
        assert await counted(tenants.cell, ACCOUNT) == {HERE: DefinitionCount(1, 700)}

    play(story)


def test_streams_are_counted_beside_queues(play: Play) -> None:
    async def story(tenants: Tenants) -> None:
        streams = StreamRegistry(
            tenants.cell,
            ["a"],
            tenants.clock,
            SystemEntropy(),
            NoLogs(),
            secret=SECRET,
            room=tenants.room,
        )

        async def create(name: str) -> StreamDefinition:
            wanted = streams.define(
                account=ACCOUNT, region=HERE, name=name, shards=1, tags={"team": "a"}
            )
            return await streams.create(wanted)

        tenants.may(account_streams=2)
        one = await create("one")
        alone = (await counted(tenants.cell, ACCOUNT))[HERE]
        assert (alone.queues, alone.streams) == (0, 1)
        assert alone.size_bytes > 30
        with pytest.raises(RefusedError, match="already exists"):
            await create("one")
        assert (await counted(tenants.cell, ACCOUNT))[HERE] == alone
        await create("two")
        with pytest.raises(RefusedError, match="has 2 streams, and its quota is 2"):
            await create("three")
        await tenants.create("queue")
        assert (await counted(tenants.cell, ACCOUNT))[HERE].queues == 1

        tenants.may(account_definition_bytes=1_000)
        policies = ("p" * 900, "p" * 90)
        with pytest.raises(RefusedError, match="bytes of definitions, and its quota is 1000"):
            await streams.change(one, lambda known: replace(known, policy=policies[0]))
        before = (await counted(tenants.cell, ACCOUNT))[HERE].size_bytes
        changed = await streams.change(one, lambda known: replace(known, policy=policies[1]))
        assert (await counted(tenants.cell, ACCOUNT))[HERE].size_bytes == before + 90
        await streams.delete(streams.stream(changed))
        after = (await counted(tenants.cell, ACCOUNT))[HERE]
        assert (after.streams, after.size_bytes) == (1, before - alone.size_bytes)
        await tenants.delete("queue")
        (left,) = [one async for one in streams.all_of(ACCOUNT, HERE)]
        await streams.delete(streams.stream(left))
        assert await counted(tenants.cell, ACCOUNT) == {}  # nothing is left to count

    play(story)


def test_what_another_was_faster_with_is_given_back(play: Play) -> None:
    async def story(tenants: Tenants) -> None:
        let_others_in_after_reads(tenants.cell)
        told = await asyncio.gather(*(tenants.create("same") for _ in range(4)))
        assert set(told) == {""}
        assert await tenants.queues() == {HERE: 1}

    play(story)


def test_what_was_there_before_anybody_counted_counts_for_nothing(play: Play) -> None:
    async def story(tenants: Tenants) -> None:
        tenants.registry._room = None
        for name in ("one", "two"):
            await tenants.create(name)
        tenants.registry._room = tenants.room
        await tenants.delete("one")
        assert await tenants.queues() == {}
        await tenants.create("three")
        assert await tenants.queues() == {HERE: 1}

    play(story)


def test_a_table_that_does_not_answer_makes_no_queue(play: Play) -> None:
    async def story(tenants: Tenants) -> None:
        async def away(*_args: Any, **_more: Any) -> Any:
            raise CellUnavailableError

        before, tenants.cell.update = tenants.cell.update, away  # type: ignore[method-assign]
        with pytest.raises(CellUnavailableError):
            await tenants.create("one")
        tenants.cell.update = before  # type: ignore[method-assign]
        assert await tenants.registry.read(ACCOUNT, HERE, "one") is None
        assert await tenants.queues() == {}

    play(story)
