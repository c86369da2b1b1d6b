"""Groups that are made at once, or not to their ends, leave nothing behind."""

import asyncio
import contextlib
from typing import Any

import pytest

from control_plane.core import group_keys
from control_plane.core.consumer_group import ConsumerGroup
from data_plane.core.errors import RESOURCE_IN_USE, RefusedError
from data_plane.ports import CellUnavailableError
from tests.unit.control_plane.consumer_groups.group_site import WHERE, Site, run


@pytest.fixture
def site() -> Site:
    return Site()


def test_a_group_of_a_name_that_is_taken_stores_nothing(site: Site) -> None:
    async def scenario() -> None:
        stream = await site.stream()
        group = await site.create([stream], "LATEST")
        puts = site.cell.requests["put"]
        with pytest.raises(RefusedError, match="already exists"):
            await site.create([stream], "LATEST")
        assert site.cell.requests["put"] == puts
        assert await site.offsets() == {group_keys.offsets(group.uid): 2}

    run(scenario())


def test_of_groups_that_are_made_at_once_one_is_left(site: Site) -> None:
    async def scenario() -> None:
        stream = await site.stream()
        calls = (site.create([stream], "LATEST") for _ in range(5))
        outcomes = await asyncio.gather(*calls, return_exceptions=True)
        [group] = [one for one in outcomes if isinstance(one, ConsumerGroup)]
        refused = [one.fault for one in outcomes if isinstance(one, RefusedError)]
        assert refused == [RESOURCE_IN_USE] * 4
        assert await site.groups.registry.read(*WHERE, "readers") == group
        assert await site.offsets() == {group_keys.offsets(group.uid): 2}

    run(scenario())


def test_a_group_that_was_not_made_to_its_end_is_made_anew(site: Site) -> None:
    async def scenario() -> None:
        stream = await site.stream()
        site.cell.room = 1
        with pytest.raises(CellUnavailableError):
            await site.create([stream], "LATEST")
        with pytest.raises(RefusedError, match="not found"):
            await site.groups.registry.read(*WHERE, "readers")
        site.cell.room = 1_000
        group = await site.create([stream], "LATEST")
        assert await site.offsets() == {group_keys.offsets(group.uid): 2}

    run(scenario())


@pytest.mark.parametrize("died", [False, True])
def test_who_makes_a_group_for_too_long_removes_it_again(site: Site, *, died: bool) -> None:
    async def scenario() -> None:
        stream = await site.stream()
        begin = site.groups.offsets.begin

        async def begin_late(group: ConsumerGroup, first: Any) -> None:
            site.groups.offsets.begin = begin  # type: ignore[method-assign]
            site.cell.room = len(site.cell.offsets) if died else 1_000
            with contextlib.suppress(CellUnavailableError):
                await site.create([stream], "LATEST")
            site.cell.room = 1_000
            await begin(group, first)

        site.groups.offsets.begin = begin_late  # type: ignore[method-assign]
        told = "Too many concurrent changes" if died else "already exists"
        with pytest.raises(RefusedError, match=told):
            await site.create([stream], "LATEST")
        assert list((await site.offsets()).values()) == ([] if died else [2])

    run(scenario())
