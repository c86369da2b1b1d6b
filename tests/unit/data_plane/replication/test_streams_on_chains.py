"""Shards of streams over groups: what they keep when a cell or a front end is lost."""

import asyncio
from dataclasses import replace

import pytest

from data_plane.core.record import OutgoingRecord, PutCall
from data_plane.ports import CellUnavailableError
from data_plane.replication.chain import Chain
from data_plane.replication.copying import Position, copy_some
from data_plane.replication.member_cell import MemberCell
from data_plane.replication.placement import Member
from data_plane.stored import keys
from data_plane.stored.merging import lacking
from data_plane.streams.appending import ShardClosedError
from data_plane.streams.engine import Streams
from data_plane.streams.reading import Place
from tests.unit.data_plane.replication.conftest import Group, Map
from tests.unit.data_plane.streams.conftest import DAY_S, stream_at
from tests.unit.repeatable import SeededEntropy

FIRST = PutCall(b"c" * 16)
AGAIN = PutCall(b"c" * 16, repeated=True)
JOINING = Member("d", 2, full=False)


class Site:
    """Front ends over a group, each with a map of its own, and a stream that lies there."""

    def __init__(self, group: Group) -> None:
        self.group = group
        self.stream = replace(stream_at(group.clock.now_us()), cell="g3.00")
        self.shard = self.stream.shards[0]
        self.maps: list[Map] = []
        self.entropy = SeededEntropy()

    def front_end(self) -> Streams:
        at = Map(self.group.at)
        self.maps.append(at)
        cells = {"g3.00": Chain(at, self.group.cells, self.group.waits)}
        return Streams(cells, self.group.clock, self.entropy, self.group.waits)

    def lose(self, cell: str) -> None:
        """A cell fails, and every map knows that it left."""
        self.group.cells[cell].down = True
        dropped = self.group.drop(cell)
        for at in self.maps:
            at.at = dropped

    async def put(self, engine: Streams, *texts: str, call: PutCall | None = None) -> list[int]:
        records = {n: OutgoingRecord("k", text.encode()) for n, text in enumerate(texts)}
        stored, failure = await engine.put(self.stream, self.shard, records, call or PutCall())
        if failure is not None:
            raise failure
        return [stored[position].offset for position in records]

    async def read(self, engine: Streams) -> list[tuple[int, str]]:
        page = await engine.read(self.stream, self.shard, Place(1), records_max=100)
        return [(record.offset, record.data.decode()) for record in page.records]


@pytest.fixture
def site(group: Group) -> Site:
    return Site(group)


def test_an_append_is_one_write_in_each_member(site: Site) -> None:
    engine = site.front_end()

    async def story() -> None:
        await site.put(engine, "0")
        site.group.forget()
        await site.put(engine, *"123")

    asyncio.run(story())
    assert site.group.writes() == {"a": 1, "b": 1, "c": 1, "d": 0}
    assert sum(sum(cell.requests.values()) for cell in site.group.cells.values()) == 3


def test_what_not_all_members_have_is_neither_acknowledged_nor_read(site: Site) -> None:
    engine, other = site.front_end(), site.front_end()

    async def story() -> None:
        await site.put(engine, "0")
        site.group.cells["c"].down = True
        with pytest.raises(CellUnavailableError):
            await site.put(engine, "1")
        site.group.cells["c"].down = False
        assert await site.read(other) == [(1, "0")]
        latest = await other.latest(site.stream, site.shard)
        assert latest.offset == 2
        # Whoever appends next hands it down, and comes behind it.
        assert await site.put(other, "2") == [3]
        assert await site.read(other) == [(1, "0"), (2, "1"), (3, "2")]

    asyncio.run(story())


@pytest.mark.parametrize("restarted", [False, True])
def test_a_repeat_finds_what_its_first_attempt_left_half_way(site: Site, restarted: bool) -> None:  # noqa: FBT001
    engine, other = site.front_end(), site.front_end()

    async def story() -> None:
        await site.put(engine, "0")
        site.group.cells["c"].down = True
        with pytest.raises(CellUnavailableError):
            await site.put(engine, "1", "2", call=FIRST)
        site.group.cells["c"].down = False
        at = site.front_end() if restarted else other
        assert await site.put(at, "1", "2", call=AGAIN) == [2, 3]
        assert await site.read(at) == [(1, "0"), (2, "1"), (3, "2")]

    asyncio.run(story())


def test_a_repeat_finds_it_also_where_the_shard_is_closed_meanwhile(site: Site) -> None:
    engine, other, third = (site.front_end() for _ in range(3))

    async def story() -> None:
        for one in (engine, third):
            assert await one.latest(site.stream, site.shard) == Place(1, 1)
        site.group.cells["c"].down = True
        with pytest.raises(CellUnavailableError):
            await site.put(engine, "1", call=FIRST)
        site.group.cells["c"].down = False
        await other.close(site.stream, site.shard)
        # Its map says that the shard is open, and the log ends behind its record.
        outcome = await third.put(site.stream, site.shard, {0: OutgoingRecord("k", b"1")}, AGAIN)
        assert outcome.stored[0].offset == 1
        assert outcome.failure is None
        closed = await third.put(site.stream, site.shard, {0: OutgoingRecord("k", b"2")}, PutCall())
        assert isinstance(closed.failure, ShardClosedError)

    asyncio.run(story())


def test_order_and_offsets_outlive_the_head_and_the_tail(site: Site) -> None:
    engine, other = site.front_end(), site.front_end()

    async def story() -> None:
        assert await site.put(engine, "0", "1") == [1, 2]
        site.lose("a")
        assert await site.put(other, "2") == [3]
        assert await site.put(engine, "3") == [4]
        site.lose("c")
        assert await site.put(other, "4") == [5]
        expected = [(n + 1, str(n)) for n in range(5)]
        assert await site.read(engine) == await site.read(other) == expected

    asyncio.run(story())


def test_what_only_the_lost_head_had_is_an_offset_that_nobody_saw(site: Site) -> None:
    engine, other = site.front_end(), site.front_end()

    async def story() -> list[int]:
        await site.put(engine, "0")
        site.group.cells["b"].down = True
        with pytest.raises(CellUnavailableError):
            await site.put(engine, "lost")
        site.group.cells["b"].down = False
        site.lose("a")
        return [*await site.put(other, "1"), *await site.put(engine, "2")]

    assert asyncio.run(story()) == [2, 3]
    assert asyncio.run(site.read(other)) == [(1, "0"), (2, "1"), (3, "2")]


def test_who_joins_has_the_logs_and_where_they_end(site: Site) -> None:
    """Also when all records are gone: an anchor says what the next offset is."""
    engine = site.front_end()
    group = site.group

    async def story() -> int:
        await site.put(engine, "0", "1")
        await engine.anchor(site.stream, site.shard)
        group.at = replace(group.at, epoch=2, members=(*group.at.members, JOINING))
        site.maps[0].at = group.at
        await site.put(engine, "2")
        source, joining = (
            MemberCell(group.cells["c"], Member("c")),
            MemberCell(group.cells["d"], JOINING),
        )
        names = keys.stream_partitions(site.stream.uid, [0])
        left = await copy_some(group.waits, source, joining, lacking, names, Position(), 10_000)
        assert left is None
        alone = (JOINING._replace(full=True),)
        group.at = site.maps[0].at = replace(group.at, epoch=3, members=alone)
        assert await site.read(engine) == [(1, "0"), (2, "1"), (3, "2")]
        await engine.anchor(site.stream, site.shard)
        for _ in range(27):
            group.clock.advance(3600)
            await engine.anchor(site.stream, site.shard)
        fresh = site.front_end()
        outcome = await fresh.put(
            site.stream, site.shard, {0: OutgoingRecord("k", b"3")}, PutCall()
        )
        return outcome.stored[0].offset

    assert asyncio.run(story()) == 4
    assert site.stream.kept_s == DAY_S
