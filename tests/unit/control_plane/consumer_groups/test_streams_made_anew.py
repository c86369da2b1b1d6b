"""A front end that knows a stream of before lets a group skip nothing of the one made anew."""

import pytest

from control_plane.consumer_groups.groups import ConsumerGroups, consumer_groups
from control_plane.consumer_groups.heartbeats import LEAVES, Beat
from control_plane.consumer_groups.positions import LATEST, StartingPosition
from control_plane.streams import StreamRegistry
from data_plane.core.errors import RefusedError
from data_plane.core.record import OutgoingRecord, PutCall
from data_plane.core.stream import Stream
from tests.unit.control_plane.consumer_groups.group_site import WHERE, Site, run
from tests.unit.repeatable import SECRET


@pytest.fixture
def site() -> Site:
    return Site()


async def _put(site: Site, stream: Stream, count: int) -> None:
    for number in range(count):
        record = OutgoingRecord("k", b"%d" % number)
        await site.engine.put(stream, stream.shards[0], {0: record}, PutCall())


async def _made_anew(site: Site, stream: Stream) -> Stream:
    await site.streams.delete(stream)
    return await site.stream(shards=1)


def _elsewhere(site: Site) -> tuple[StreamRegistry, ConsumerGroups]:
    """Another front end."""
    streams = StreamRegistry(
        site.cell, ("a",), site.clock, site.entropy, site.engine, secret=SECRET
    )
    groups = consumer_groups(site.cell, streams, site.engine, site.clock, site.entropy, site.waits)
    return streams, groups


def test_shards_are_not_reset_by_those_of_a_stream_that_was_deleted(site: Site) -> None:
    async def scenario() -> None:
        stream = await site.stream(shards=1)
        await _put(site, stream, 3)
        await site.create([stream])
        streams, groups = _elsewhere(site)
        old = await streams.find(*WHERE, "clicks")
        assert old is not None
        anew = await _made_anew(site, stream)
        await _put(site, anew, 3)
        answer = await site.join("one")
        await site.groups.heartbeats.leave(answer.group, Beat("one", LEAVES))
        group = await groups.registry.read(*WHERE, "readers")
        with pytest.raises(RefusedError):
            await groups.positions.reset_shards(group, [(old, 0)], StartingPosition(LATEST))
        told = (await site.join("two")).told
        assert [one.offset for one in told.values()] == [None]

    run(scenario())


def test_a_stream_that_is_made_anew_during_a_reset_is_read_from_its_beginning(site: Site) -> None:
    async def scenario() -> None:
        stream = await site.stream(shards=1)
        await _put(site, stream, 3)
        group = await site.create([stream])
        latest = site.engine.latest

        async def latest_of_before(*asked: object) -> object:
            site.engine.latest = latest  # type: ignore[method-assign]
            found = await latest(*asked)  # type: ignore[arg-type]
            await _put(site, await _made_anew(site, stream), 3)
            return found

        site.engine.latest = latest_of_before  # type: ignore[method-assign,assignment]
        with pytest.raises(RefusedError):
            await site.groups.positions.reset(group, [stream], StartingPosition(LATEST))
        told = (await site.join("one")).told
        assert [one.offset for one in told.values()] == [None]

    run(scenario())


def test_a_reset_is_refused_where_others_know_already_that_the_stream_was_made_anew(
    site: Site,
) -> None:
    """It would be answered, and what the group has of the new stream would stay as it is."""

    async def scenario() -> None:
        stream = await site.stream(shards=1)
        await _put(site, stream, 3)
        group = await site.create([stream])
        streams, groups = _elsewhere(site)
        latest = site.engine.latest

        async def latest_of_before(*asked: object) -> object:
            site.engine.latest = latest  # type: ignore[method-assign]
            found = await latest(*asked)  # type: ignore[arg-type]
            await streams.delete(stream)
            wanted = streams.define(
                account=WHERE[0], region=WHERE[1], name="clicks", shards=1, tags={}
            )
            await streams.create(wanted)
            await groups.registry.change(group, lambda known: known)
            return found

        site.engine.latest = latest_of_before  # type: ignore[method-assign,assignment]
        with pytest.raises(RefusedError):
            await site.groups.positions.reset(group, [stream], StartingPosition(LATEST))

    run(scenario())
