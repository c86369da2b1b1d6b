"""How far consumer groups are behind, where functions serve alone."""

from typing import Any

import pytest

from control_plane.consumer_groups.positions import StartingPosition, beginning
from control_plane.core.consumer_group import STICKY, ConsumerGroup
from control_plane.core.cost import MEASURE_GROUP_READS, MEASURE_SHARD_READS
from control_plane.serverless import measuring
from control_plane.serverless.measuring import EVERY_US
from data_plane.core.record import OutgoingRecord, PutCall
from data_plane.core.stream import Stream
from data_plane.ports import CellUnavailableError
from tests.unit.control_plane.serverless.test_tasks import ACCOUNT, REGION, Site

EVERY_S = EVERY_US / 1_000_000


@pytest.fixture
def site() -> Site:
    return Site()


def make_stream(site: Site, name: str, shards: int = 1) -> Stream:
    registry = site.service.streams.registry
    wanted = registry.define(account=ACCOUNT, region=REGION, name=name, shards=shards, tags={})
    return registry.stream(site.rig.run(registry.create(wanted)))


def make_group(site: Site, name: str, *streams: Stream) -> None:
    groups, position = site.service.streams.groups, StartingPosition("TRIM_HORIZON")
    wanted = ConsumerGroup(
        account=ACCOUNT,
        region=REGION,
        name=name,
        uid=groups.registry.new_uid(),
        created_ms=0,
        session_s=10,
        rebalance_s=60,
        assignor=STICKY,
        streams=tuple(beginning(stream, position) for stream in streams),
    )
    site.rig.run(groups.positions.create(wanted, streams, position))


def put(site: Site, stream: Stream, count: int, shard: int = 0) -> None:
    records = dict.fromkeys(range(count), OutgoingRecord("k", b"x"))
    engine = site.service.streams.engine
    site.rig.run(engine.put(stream, stream.shards[shard], records, PutCall()))


def measure(site: Site, *names: str) -> dict[str, tuple[int, int]]:
    """By group: records, and seconds."""
    asked = [{"account": ACCOUNT, "region": REGION, "group": name} for name in names]
    answer = site.do({"task": "measure_queues", "queues": [], "groups": asked})
    assert (answer["task"], answer["more"], answer["measured"]) == ("measure_queues", False, [])
    found = answer["groups_measured"]
    assert {one["account"] for one in found} <= {ACCOUNT}
    return {one["group"]: (one["records"], round(one["behind_ms"] / 1_000)) for one in found}


def test_a_lag_is_that_of_all_streams_and_shards(site: Site) -> None:
    clicks, orders = make_stream(site, "clicks", 2), make_stream(site, "orders")
    make_group(site, "billing", clicks, orders)
    make_group(site, "idle", make_stream(site, "empty"))
    put(site, orders, 3)
    site.clock.advance(20)
    put(site, clicks, 2)
    put(site, clicks, 4, shard=1)
    site.clock.advance(10)
    assert measure(site, "billing", "idle") == {"billing": (9, 30), "idle": (0, 0)}


def test_a_group_that_is_not_there_is_left_out(site: Site) -> None:
    make_group(site, "billing", make_stream(site, "clicks"))
    assert set(measure(site, "nowhere", "billing")) == {"billing"}


def test_a_group_that_cannot_be_measured_is_left_out(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = make_stream(site, "clicks")
    make_group(site, "billing", stream)
    make_group(site, "mail", stream)
    registry = site.service.streams.groups.registry
    read = registry.read

    async def failing(account: str, region: str, name: str) -> ConsumerGroup:
        if name == "billing":
            raise CellUnavailableError("it is away")
        return await read(account, region, name)

    monkeypatch.setattr(registry, "read", failing)
    assert set(measure(site, "billing", "mail")) == {"mail"}


def test_who_finds_no_room_is_measured_the_next_times(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measuring, "SHARDS_MAX", 3)
    stream = make_stream(site, "clicks", 2)
    names = ("a", "b", "c")
    for name in names:
        make_group(site, name, stream)
    rounds = []
    for _ in names:
        rounds.append(set(measure(site, *names)))
        site.clock.advance(EVERY_S)
    assert {len(found) for found in rounds} == {2}
    assert set.union(*rounds) == set(names)
    assert len({frozenset(found) for found in rounds}) == len(names)


@pytest.mark.parametrize("shards", [1, 4])
def test_it_asks_as_seldom_as_its_price_says(site: Site, shards: int) -> None:
    stream = make_stream(site, "clicks", shards)
    make_group(site, "billing", stream)
    for shard in range(shards):
        put(site, stream, 2, shard)
    site.clock.advance(EVERY_S)
    units = []
    for name in ("get", "get_many", "query"):
        request = getattr(site.cell, name)

        def counted(asked: Any, *, request: Any = request, name: str = name, **options: Any) -> Any:
            units.append(len(asked) if name == "get_many" else 1)
            return request(asked, **options)

        setattr(site.cell, name, counted)
    measure(site, "billing")
    assert sum(units) == MEASURE_GROUP_READS + shards * MEASURE_SHARD_READS
