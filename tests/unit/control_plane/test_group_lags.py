"""Lags of consumer groups for metrics: what is measured, how often, and how much at most."""

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from control_plane import group_lags
from control_plane.consumer_groups.commits import CommitOf
from control_plane.core.group_offset import Commit
from control_plane.group_lags import EMBEDDED, PAID, GroupLags
from data_plane.core.record import OutgoingRecord, PutCall
from data_plane.core.stream import Shard, Stream
from data_plane.ports import CellUnavailableError
from data_plane.settings import ServerSettings
from data_plane.streams.lag import Lag
from tests.unit.control_plane.consumer_groups.group_site import WHERE, Site

US_PER_S = 1_000_000


class Scraped:
    """A site, and what its metrics say of groups."""

    def __init__(self, data: Path, *, is_paid: bool = False) -> None:
        self.site = Site()
        self.settings = ServerSettings(data=data, account=WHERE[0], region=WHERE[1])
        self.lags = GroupLags(self.site.groups, self.settings, self.site.clock, is_paid=is_paid)

    async def put(self, stream: Stream, count: int, shard: int = 0) -> None:
        records = dict.fromkeys(range(count), OutgoingRecord("k", b"x"))
        await self.site.engine.put(stream, stream.shards[shard], records, PutCall())

    async def told(self) -> dict[str, Lag]:
        """By group and stream."""
        return {f"{one[2]}/{one[3]}": lag for one, lag in (await self.lags.lags()).items()}

    async def rounded(self) -> dict[str, tuple[int, int]]:
        """Records, and seconds."""
        told = await self.told()
        return {one: (lag.records, round(lag.behind_ms / 1_000)) for one, lag in told.items()}

    def reads(self) -> int:
        return sum(self.site.cell.requests.values())


Play = Callable[[Callable[[Scraped], Coroutine[Any, Any, None]]], None]


@pytest.fixture
def play(tmp_path: Path) -> Play:
    def played(scenario: Callable[[Scraped], Coroutine[Any, Any, None]]) -> None:
        async def main() -> None:
            await scenario(Scraped(tmp_path))

        asyncio.run(main())

    return played


def test_a_lag_is_the_sum_of_its_shards_and_the_age_of_the_oldest_record(play: Play) -> None:
    async def scenario(scraped: Scraped) -> None:
        site = scraped.site
        clicks, orders = await site.stream(), await site.stream(1, "orders")
        await site.create([clicks, orders])
        await scraped.put(clicks, 3)
        site.clock.advance(30)
        await scraped.put(clicks, 2, shard=1)
        assert await scraped.rounded() == {"readers/clicks": (5, 30), "readers/orders": (0, 0)}
        group = (await site.join("m")).group
        await site.groups.commits.commit(
            group, CommitOf("clicks", clicks.uid, 0, Commit("m", group.epoch, 3, ""))
        )
        site.clock.advance(EMBEDDED.every_us / US_PER_S)
        assert (await scraped.rounded())["readers/clicks"] == (2, 5)

    play(scenario)


def test_who_asks_often_costs_nothing_more(play: Play) -> None:
    async def scenario(scraped: Scraped) -> None:
        await scraped.site.create([await scraped.site.stream()])
        await scraped.told()
        reads = scraped.reads()
        for _ in range(100):
            assert (await scraped.told()).keys() == {"readers/clicks"}
        assert scraped.reads() == reads
        scraped.site.clock.advance(EMBEDDED.every_us / US_PER_S)
        await scraped.told()
        assert scraped.reads() > reads

    play(scenario)


def test_much_is_measured_by_turns_and_the_rarer(
    play: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group_lags, "EMBEDDED", EMBEDDED._replace(shards_max=4))

    async def scenario(scraped: Scraped) -> None:
        stream = await scraped.site.stream(3)
        for name in "abc":
            await scraped.site.create([stream], name=name)
        found = []
        for _ in range(3):
            found.append(sorted(await scraped.told()))
            scraped.site.clock.advance(EMBEDDED.every_us / US_PER_S)
        assert found == [
            ["a/clicks"],
            ["a/clicks", "b/clicks"],
            ["a/clicks", "b/clicks", "c/clicks"],
        ]

    play(scenario)
    assert EMBEDDED.rest_us(10_000) == 10_000 * EMBEDDED.shard_us
    assert PAID.rest_us(1) == PAID.every_us


def test_series_are_bounded(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_lags, "SERIES_MAX", 2)

    async def scenario(scraped: Scraped) -> None:
        stream = await scraped.site.stream(1)
        for name in "abc":
            await scraped.site.create([stream], name=name)
        assert sorted(await scraped.told()) == ["a/clicks", "b/clicks"]
        group = await scraped.site.groups.registry.read(*WHERE, "a")
        await scraped.site.groups.registry.delete(group)
        scraped.site.clock.advance(EMBEDDED.every_us / US_PER_S)
        assert sorted(await scraped.told()) == ["b/clicks", "c/clicks"]

    play(scenario)


def test_groups_of_other_accounts_are_shown_once_they_are_used_here(tmp_path: Path) -> None:
    async def scenario() -> None:
        scraped = Scraped(tmp_path)
        scraped.site.groups = scraped.site.another()
        elsewhere = GroupLags(
            scraped.site.another(),
            ServerSettings(data=tmp_path, account="1" * 12, region=WHERE[1]),
            scraped.site.clock,
            is_paid=False,
        )
        here = GroupLags(
            scraped.site.groups,
            ServerSettings(data=tmp_path, account="1" * 12, region=WHERE[1]),
            scraped.site.clock,
            is_paid=False,
        )
        await scraped.site.create([await scraped.site.stream()])
        assert await elsewhere.lags() == {}
        assert (await here.lags()).keys() == {(*WHERE, "readers", "clicks")}

    asyncio.run(scenario())


@pytest.mark.parametrize("is_paid", [True, False])
def test_while_the_store_is_away_a_table_has_what_was_seen(
    *, is_paid: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away(*_: object, **__: object) -> None:
        raise CellUnavailableError("away")

    async def scenario() -> None:
        scraped = Scraped(tmp_path, is_paid=is_paid)
        await scraped.site.create([await scraped.site.stream()])
        assert (await scraped.told()).keys() == {"readers/clicks"}
        scraped.site.clock.advance(PAID.every_us / US_PER_S)
        monkeypatch.setattr(scraped.site.cell, "query", away)
        assert bool(await scraped.told()) == is_paid

    asyncio.run(scenario())


def test_a_stream_that_was_made_anew_counts_before_a_member_comes(play: Play) -> None:
    async def scenario(scraped: Scraped) -> None:
        site = scraped.site
        stream = await site.stream(1)
        await site.create([stream])
        await scraped.put(stream, 3)
        assert await scraped.rounded() == {"readers/clicks": (3, 0)}
        await site.streams.delete(stream)
        await scraped.put(await site.stream(1), 2)
        site.clock.advance(EMBEDDED.every_us / US_PER_S)
        assert await scraped.rounded() == {"readers/clicks": (2, 5)}

    play(scenario)


@pytest.mark.parametrize("is_paid", [True, False])
def test_a_stream_that_does_not_answer_keeps_nobody_from_other_groups(
    *, is_paid: bool, tmp_path: Path
) -> None:
    async def scenario() -> None:
        scraped = Scraped(tmp_path, is_paid=is_paid)
        site = scraped.site
        clicks, orders = await site.stream(1), await site.stream(1, "orders")
        await site.create([orders], name="a")
        await site.create([clicks], name="b")
        lag = site.engine.lag

        async def away_for_one(stream: Stream, shard: Shard, offset: int) -> Lag:
            if stream.name == "orders":
                raise CellUnavailableError("away")
            return await lag(stream, shard, offset)

        site.engine.lag = away_for_one  # type: ignore[method-assign]
        for _ in range(2):
            assert (await scraped.told()).keys() == {"b/clicks"}
            site.clock.advance(PAID.every_us / US_PER_S)

    asyncio.run(scenario())
