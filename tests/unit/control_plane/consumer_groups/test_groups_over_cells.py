"""Groups over a cell: what is cut off is gone on with, who comes at once is served one by one."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from control_plane.consumer_groups import room
from control_plane.consumer_groups.commits import CommitOf
from control_plane.consumer_groups.groups import consumer_groups
from control_plane.consumer_groups.heartbeats import Beat, BeatAnswer
from control_plane.consumer_groups.positions import StartingPosition
from control_plane.consumer_groups.registry import ATTEMPTS_MAX
from control_plane.consumer_groups.sessions import GUARD_US
from control_plane.core import group_keys, shard_map
from control_plane.core.consumer_group import ConsumerGroup, ShardKey
from control_plane.core.group_offset import END_OFFSET, Commit
from control_plane.stream_operations.grouped import present_stream
from control_plane.streams import StreamRegistry
from data_plane.core.errors import LIMIT_EXCEEDED, RefusedError
from data_plane.ports import Attributes, CellUnavailableError
from tests.unit.control_plane.consumer_groups.group_site import SESSION_S, WHERE, Site, run
from tests.unit.repeatable import SECRET


@pytest.fixture
def site() -> Site:
    return Site()


def test_members_that_join_at_once_are_all_there(site: Site) -> None:
    async def scenario() -> ConsumerGroup:
        await site.create([await site.stream(8)])
        fronts = [site.another() for _ in range(8)]
        await asyncio.gather(*(site.join(f"m{at}", front) for at, front in enumerate(fronts)))
        return await site.groups.registry.read(*WHERE, "readers")

    group = run(scenario())
    assert len(group.members) == 8
    targets = [hold.target for hold in group.holds.values()]
    assert sorted(targets) == sorted(group.members)


def test_members_that_come_to_one_front_end_at_once_share_its_writes(site: Site) -> None:
    async def scenario() -> int:
        await site.create([await site.stream(20)])
        before = site.cell.requests["put"]
        await asyncio.gather(*(site.join(f"m{at}") for at in range(20)))
        group = await site.groups.registry.read(*WHERE, "readers")
        assert len(group.members) == 20
        return site.cell.requests["put"] - before

    assert run(scenario()) <= 3


def test_who_is_refused_among_others_is_refused_alone(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(room, "GROUP_MEMBERS_MAX", 2)

    async def scenario() -> list[object]:
        await site.create([await site.stream()])
        joins = (site.join(f"m{at}") for at in range(3))
        return list(await asyncio.gather(*joins, return_exceptions=True))

    *joined, refused = run(scenario())
    assert [isinstance(one, BeatAnswer) for one in joined] == [True, True]
    assert isinstance(refused, RefusedError)
    assert refused.fault is LIMIT_EXCEEDED


def test_who_loses_every_race_is_told_so(site: Site) -> None:
    async def scenario() -> None:
        group = await site.create([await site.stream()])
        site.cell.races = 1
        with pytest.raises(RefusedError, match="Too many concurrent changes"):
            await site.groups.registry.change(group, lambda known: replace(known, session_s=5))
        assert site.cell.races == ATTEMPTS_MAX + 1

    run(scenario())


def test_a_removal_that_was_cut_off_is_gone_on_with(site: Site) -> None:
    async def scenario() -> None:
        stream = await site.stream()
        group = await site.create([stream], "LATEST")
        assert await site.items() == 2
        site.cell.fails = 1
        with pytest.raises(CellUnavailableError):
            await site.groups.registry.delete(group)
        with pytest.raises(RefusedError, match="not found"):
            await site.groups.registry.read(*WHERE, "readers")
        assert await site.groups.registry.page(*WHERE, after="", limit=10) == []
        again = await site.create([stream])
        assert again.uid != group.uid
        assert await site.cell.query(group_keys.offsets(group.uid), limit=10) == []

    run(scenario())


def test_another_group_of_the_name_is_not_the_group(site: Site) -> None:
    async def scenario() -> None:
        stream = await site.stream()
        group = await site.create([stream])
        await site.groups.registry.delete(group)
        await site.create([stream])
        with pytest.raises(RefusedError, match="not found"):
            await site.groups.registry.again(group)

    run(scenario())


def test_a_session_ends_after_its_deadline_and_a_guard(site: Site) -> None:
    async def scenario() -> tuple[set[str], set[str]]:
        await site.create([await site.stream()])
        answer = await site.join("a")
        other = site.another().registry.sessions
        site.clock.time_us += SESSION_S * 1_000_000 + GUARD_US
        before = await other.expired(answer.group)
        site.clock.time_us += 1
        assert other.is_due(answer.group)
        after = await other.expired(answer.group)
        assert not await site.groups.registry.sessions.go_on(answer.group, "a")
        return before, after

    assert run(scenario()) == (set(), {"a"})


def test_who_comes_before_the_eviction_stays(site: Site) -> None:
    async def scenario() -> tuple[bool, set[str]]:
        await site.create([await site.stream()])
        answer = await site.join("a")
        site.clock.advance(SESSION_S + 60)
        alive = await site.groups.registry.sessions.go_on(answer.group, "a")
        return alive, await site.another().registry.sessions.expired(answer.group)

    assert run(scenario()) == (True, set())


def test_a_late_heartbeat_shortens_no_session(site: Site) -> None:
    async def scenario() -> set[str]:
        await site.create([await site.stream()])
        answer = await site.join("a")
        sessions = site.groups.registry.sessions
        site.clock.advance(-5)
        await sessions.begin(answer.group, "a")
        assert await sessions.go_on(answer.group, "a")
        site.clock.advance(5 + SESSION_S)
        return await site.another().registry.sessions.expired(answer.group)

    assert run(scenario()) == set()


def test_a_deadline_of_a_clock_that_was_ahead_is_set_right(site: Site) -> None:
    async def scenario() -> set[str]:
        await site.create([await site.stream()])
        answer = await site.join("a")
        sessions = site.groups.registry.sessions
        site.clock.advance(300)
        assert await sessions.go_on(answer.group, "a")
        site.clock.advance(-300)
        assert await sessions.go_on(answer.group, "a")
        site.clock.advance(SESSION_S + 1)
        return await site.another().registry.sessions.expired(answer.group)

    assert run(scenario()) == {"a"}


def test_a_heartbeat_that_waits_hears_of_a_member_that_leaves(site: Site) -> None:
    async def scenario() -> BeatAnswer:
        await site.create([await site.stream(1)])
        await site.join("a")
        waiting = await site.join("b")
        assert not waiting.shards
        waits = asyncio.ensure_future(site.go_on("b", waiting, 20))
        await asyncio.sleep(0)
        group = await site.groups.registry.read(*WHERE, "readers")
        await site.groups.heartbeats.leave(group, Beat("a", -1))
        return await asyncio.wait_for(waits, 60)

    answer = run(scenario())
    assert list(answer.shards) == [ShardKey(0, 0)]


def test_an_end_that_the_group_was_not_told_of_is_found(site: Site) -> None:
    async def scenario() -> list[int]:
        stream = await site.stream(1)
        await site.create([stream])
        answer = await site.join("a")
        await site.streams.reshard(
            stream,
            lambda known: shard_map.split(known.shards[0], 2**127, known.next_shard),
        )
        [(key, epoch)] = answer.shards.items()
        # Whoever served the commit crashed before the group had it.
        commit = Commit("a", epoch, END_OFFSET, "")
        assert await site.groups.offsets.commit(answer.group, key, commit) is not None
        beat = Beat("a", answer.group.epoch, owned={})
        group = await site.groups.registry.read(*WHERE, "readers")
        told = await site.groups.heartbeats.go_on(group, beat, 0)
        return sorted(one.shard for one in told.shards)

    assert run(scenario()) == [1, 2]


def test_an_end_of_before_a_reset_does_not_count_after_it(site: Site) -> None:
    async def scenario() -> list[int]:
        stream = await site.stream(1)
        await site.create([stream])
        answer = await site.join("a")
        await site.streams.reshard(
            stream,
            lambda known: shard_map.split(known.shards[0], 2**127, known.next_shard),
        )
        stream = await site.streams.renewed(stream)
        [(key, epoch)] = answer.shards.items()
        group = answer.group
        await site.groups.offsets.commit(group, key, Commit("a", epoch, END_OFFSET, ""))
        await site.groups.heartbeats.leave(group, Beat("a", -1))
        await site.groups.positions.reset(group, [stream], StartingPosition("TRIM_HORIZON"))
        late = CommitOf("clicks", stream.uid, 0, Commit("a", epoch, END_OFFSET, ""))
        with pytest.raises(RefusedError, match="does not have the shard"):
            await site.groups.commits.commit(group, late)
        return sorted(one.shard for one in (await site.join("b")).shards)

    assert run(scenario()) == [0]


def test_a_reset_that_somebody_overtakes_is_refused(site: Site) -> None:
    async def scenario() -> Attributes | None:
        stream = await site.stream(1)
        group = await site.create([stream])
        joined = await site.join("a")
        await site.groups.heartbeats.leave(joined.group, Beat("a", -1))
        registry = site.groups.registry
        fence = registry.fence

        async def fence_and_join(known: ConsumerGroup, edit: Any) -> ConsumerGroup:
            fenced = await fence(known, edit)
            await site.join("b")
            return fenced

        registry.fence = fence_and_join  # type: ignore[method-assign]
        with pytest.raises(RefusedError, match="Members have joined"):
            await site.groups.positions.reset(group, [stream], StartingPosition("LATEST"))
        return await site.cell.get(group_keys.offset(group.uid, stream.uid, 0))

    item = run(scenario())
    assert item is not None
    assert item["b"] == "b"


def test_a_stream_that_is_made_anew_at_once_has_other_shards(site: Site) -> None:
    async def scenario() -> None:
        stream = await site.stream(1)
        await site.create([stream])
        former = await site.join("a")
        [(key, epoch)] = former.shards.items()
        commit = Commit("a", epoch, 7, "")
        await site.groups.offsets.commit(former.group, key, commit)
        await site.streams.delete(stream)
        anew = await site.stream(1)
        early = CommitOf("clicks", anew.uid, 0, commit)
        with pytest.raises(RefusedError, match="does not have the shard"):
            await site.groups.commits.commit(former.group, early)
        told = await site.go_on("a", former)
        assert told.shards == {key: epoch + 1}
        assert told.told[key].offset is None
        for uid in (stream.uid, anew.uid):
            with pytest.raises(RefusedError, match="does not have the shard"):
                await site.groups.commits.commit(told.group, CommitOf("clicks", uid, 0, commit))
        assert (await site.go_on("a", told)).shards == told.shards

    run(scenario())


def test_who_does_not_know_yet_that_a_stream_was_made_anew_changes_nothing(site: Site) -> None:
    async def scenario() -> None:
        stream = await site.stream(1)
        await site.create([stream])
        former = await site.join("a")
        late = StreamRegistry(
            site.cell, ("a",), site.clock, site.entropy, site.engine, secret=SECRET
        )
        assert await late.find(*WHERE, "clicks") == stream
        await site.streams.delete(stream)
        anew = await site.stream(1)
        told = await site.go_on("a", former)
        group = told.group
        other = consumer_groups(site.cell, late, site.engine, site.clock, site.entropy, site.waits)
        assert await other.registry.change(group, lambda known: known) == group
        assert await present_stream(other, group, group.streams[0]) == anew

    run(scenario())


def test_latest_is_stored_before_the_group(site: Site) -> None:
    async def scenario() -> tuple[list[int | None], tuple[int, ...]]:
        stream = await site.stream(3)
        group = await site.create([stream], "LATEST")
        offsets = await site.groups.offsets.read(group, [ShardKey(0, at) for at in range(3)])
        grouped = group.streams[0]
        return [one.offset for one in offsets.values()], (grouped.next_shard, len(grouped.first))

    assert run(scenario()) == ([0, 0, 0], (3, 3))


def test_an_end_counts_where_a_front_end_has_not_heard_of_a_hand_over(site: Site) -> None:
    async def scenario() -> list[int]:
        stream = await site.stream(1)
        await site.create([stream])
        await site.streams.reshard(
            stream,
            lambda known: shard_map.split(known.shards[0], 2**127, known.next_shard),
        )
        await site.join("a")
        late = site.another()
        before = await late.registry.recent(*WHERE, "readers")
        [(key, epoch)] = (await site.join("a")).shards.items()  # The member has begun anew.
        known = await late.registry.recent(*WHERE, "readers")
        assert known is before
        wanted = CommitOf("clicks", stream.uid, key.shard, Commit("a", epoch, END_OFFSET, ""))
        await late.commits.commit(known, wanted)
        group = await site.groups.registry.read(*WHERE, "readers")
        return sorted(one.shard for one in group.holds)

    assert run(scenario()) == [1, 2]


def test_who_gives_a_shard_up_is_not_fenced_by_who_knows_an_earlier_epoch(site: Site) -> None:
    """Both share a write."""

    async def scenario() -> list[str]:
        await site.create([await site.stream(2)])
        alone = await site.join("a")
        await site.join("b")
        told = await site.go_on("a", alone)
        assert len(told.shards) == 1
        registry = site.groups.registry
        await asyncio.gather(
            site.go_on("a", told), registry.change_together(alone.group, lambda known: known)
        )
        group = await registry.read(*WHERE, "readers")
        return sorted(hold.owner for hold in group.holds.values())

    assert run(scenario()) == ["a", "b"]
