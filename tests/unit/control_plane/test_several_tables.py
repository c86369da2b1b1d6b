"""Several DynamoDB tables of one service, on moto in this process."""

import asyncio
import re
import threading
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from moto import mock_aws

from control_plane.cells import StartError
from control_plane.cluster.cluster import Cluster
from control_plane.cluster.probing import ask
from control_plane.cluster.running import beside
from control_plane.core.definition import Definition
from control_plane.one_cell import open_cell
from control_plane.places.changes import PlacementChangeError
from control_plane.places.groups import group_names
from control_plane.places.items import REMOVED, StoredPlacement
from control_plane.places.report import CellCommandError
from control_plane.places.stored import Places
from control_plane.several_opening import as_opened, bodies_of, open_several
from control_plane.several_tables import GRACE_US
from control_plane.together import Together
from data_plane.aws_sessions import new_session
from data_plane.ports import Append, CellUnavailableError, Key
from data_plane.replication.placement import partition_of
from data_plane.runtime.event_loop import EventLoopWaits
from data_plane.settings import ServerSettings
from data_plane.stored.bodies import BodyStore
from data_plane.stored.keys import segments
from data_plane.system import SystemClock, SystemEntropy

pytestmark = pytest.mark.usefixtures("patience")

UID = "0" * 16
OTHER = "f" * 15 + "0"


@pytest.fixture
def dynamodb() -> Iterator[Any]:
    with mock_aws():
        yield new_session().create_client("dynamodb", region_name="us-east-1")


@pytest.fixture
def settings(tmp_path: Path) -> ServerSettings:
    return ServerSettings(
        cell="dynamodb",
        table="one",
        cells_dynamodb="two=messages-2",
        data=tmp_path,
    )


def play(settings: ServerSettings, scenario: Callable[[Together], Awaitable[None]]) -> None:
    async def main() -> None:
        several = await open_several(settings, SystemClock(), SystemEntropy())
        try:
            await scenario(several)
        finally:
            await as_opened(several).close()

    asyncio.run(main())


def manager_of(several: Together) -> Cluster:
    no_registry: Any = None
    clock = SystemClock()
    return beside(several, no_registry, clock, EventLoopWaits(clock), SystemEntropy())._cluster


def items(dynamodb: Any, table: str) -> set[str]:
    """Partitions that the table has."""
    return {item["pk"]["S"] for item in dynamodb.scan(TableName=table)["Items"]}


async def nothing(_several: Together) -> None:
    """Start and stop."""


def test_the_first_table_has_the_registry_and_all_have_copies(
    dynamodb: Any, settings: ServerSettings
) -> None:
    async def scenario(several: Together) -> None:
        assert sorted(several.plain) == ["one", "two"]
        assert len(several.known.placements) == 32
        assert several.grace_us == GRACE_US
        record = Append(segments(UID, 0, 0), b"1", {"v": 1}, SystemClock().now_us())
        await several.standard["g2.00"].append(record)
        await several.look()
        await asyncio.gather(*several._probes)
        assert several.states() == {"one": "available", "two": "available"}
        assert several.gauges()["two"]["query_requests_total"] == 0
        assert len(several.guards) == 5
        await several.upkeep(SystemClock().now_us())

    play(settings, scenario)
    assert {"P|", "C|"} <= items(dynamodb, "one")
    assert items(dynamodb, "messages-2") == {segments(UID, 0, 0), "M|cell"}


def test_a_table_that_was_lost_is_not_made_again(dynamodb: Any, settings: ServerSettings) -> None:
    play(settings, nothing)
    dynamodb.delete_table(TableName="messages-2")

    async def scenario(several: Together) -> None:
        await several.look()
        await asyncio.gather(*several._probes)
        assert several.states()["two"] == "unavailable"

    play(settings, scenario)
    assert "messages-2" not in dynamodb.list_tables()["TableNames"]


def test_a_table_that_was_lost_is_removed_with_what_has_no_other_copy_if_so_asked(
    dynamodb: Any, settings: ServerSettings
) -> None:
    only_copies: list[str] = []

    async def create(several: Together) -> None:
        placements = several.known.placements
        for group, held in placements.items():
            if [member.cell for member in held.placement.members] == ["two"]:
                only_copies.append(group)
        queue = Definition("1" * 12, "us-east-1", "orders", UID, only_copies[0], 1, 1)
        await several.placing.placed(queue)

    async def remove(several: Together) -> None:
        await several.look()
        await asyncio.gather(*several._probes)
        with pytest.raises(CellCommandError, match="two has the only copy of 1 queue"):
            await several.remove("two")
        await several.remove("two", lose_messages=True)
        for group in only_copies:
            members = several.known.placements[group].placement.members
            assert [(one.cell, one.full) for one in members] == [("one", True)]
        for group in group_names(2):
            assert [one.cell for one in several.known.placements[group].placement.members] == [
                "one"
            ]
        assert several.known.cells["two"].state == REMOVED

    play(settings, create)
    dynamodb.delete_table(TableName="messages-2")
    play(settings, remove)


def test_a_lost_table_is_removed_where_the_manager_would_keep_what_copies_are_left(
    dynamodb: Any, settings: ServerSettings
) -> None:
    async def remove(several: Together) -> None:
        await several.look()
        await asyncio.gather(*several._probes)
        for group in group_names(3):
            epoch = several.known.placements[group].placement.epoch
            dropped = await several.places.drop_member(group, "three", epoch=epoch)
            with pytest.raises(PlacementChangeError, match="1 of 3 copies would stay"):
                await several.places.drop_member(group, "two", epoch=dropped.placement.epoch)
        await several.remove("two", lose_messages=True)
        for group in group_names(3):
            assert [one.cell for one in several.known.placements[group].placement.members] == [
                "one"
            ]

    three = replace(settings, cells_dynamodb=f"{settings.cells_dynamodb},three=messages-3")
    play(three, nothing)
    dynamodb.delete_table(TableName="messages-2")
    play(three, remove)


def test_a_cell_that_is_new_has_to_answer(dynamodb: Any, settings: ServerSettings) -> None:
    assert dynamodb.list_tables()["TableNames"] == []
    wrong = replace(
        settings, cells_dynamodb="two=http://127.0.0.1:1/messages-2", cell_deadline_s=0.1
    )
    with pytest.raises(StartError, match=r"^cells-dynamodb: two is new: no DynamoDB"):
        play(wrong, nothing)


def test_a_probe_does_not_wait_behind_messages(dynamodb: Any, settings: ServerSettings) -> None:
    """Else a cell that has much to do, because it is copied to, would look down."""
    busy = threading.Event()

    async def scenario(several: Together) -> None:
        messages: Any = several.plain["two"]
        waiting = asyncio.create_task(messages._offload(busy.wait))
        await asyncio.sleep(0)
        try:
            await several.look()
            await asyncio.gather(*several._probes)
            assert several.states() == {"one": "available", "two": "available"}
            await ask(manager_of(several), "two")
            assert not waiting.done()
        finally:
            busy.set()
            assert await waiting

    assert dynamodb is not None
    play(replace(settings, connections=1), scenario)


def test_tables_of_one_name_in_two_regions_are_two_cells(
    dynamodb: Any, settings: ServerSettings
) -> None:
    async def scenario(several: Together) -> None:
        record = Append(segments(UID, 0, 0), b"1", {"v": 1}, SystemClock().now_us())
        await several.standard["g2.00"].append(record)
        assert several.served["eur"].where == "one in eu-west-1"

    play(replace(settings, cells_dynamodb="eur=eu-west-1/one"), scenario)
    elsewhere = new_session().create_client("dynamodb", region_name="eu-west-1")
    assert "P|" in items(dynamodb, "one")
    assert items(elsewhere, "one") == {segments(UID, 0, 0), "M|cell"}
    assert segments(UID, 0, 0) in items(dynamodb, "one")


@pytest.mark.parametrize("cells", ["eur=one-2", "eur=eu-west-1/other"])
def test_a_name_stands_for_one_table_for_all_servers(
    dynamodb: Any, settings: ServerSettings, cells: str
) -> None:
    play(replace(settings, cells_dynamodb="eur=eu-west-1/one-2"), nothing)
    with pytest.raises(
        StartError, match=r"^cells-dynamodb: eur is the table one-2 in eu-west-1, as .*, and not "
    ):
        play(replace(settings, cells_dynamodb=cells), nothing)
    assert dynamodb.list_tables()["TableNames"] == ["one"]


def test_what_is_for_directories_alone(dynamodb: Any, settings: ServerSettings) -> None:
    async def scenario(several: Together) -> None:
        with pytest.raises(CellCommandError, match="cells of this service are no directories"):
            await several.add("/disk")
        with pytest.raises(CellCommandError, match="two is no embedded cell: stop it itself"):
            await several.fail("two")
        with pytest.raises(CellCommandError, match="there is no cell four"):
            await several.drain("four")
        await several.drain("two")
        await several.restore("two")

    assert dynamodb is not None
    play(settings, scenario)


def test_bodies_of_all_groups_are_in_one_place(dynamodb: Any, settings: ServerSettings) -> None:
    async def scenario(several: Together) -> None:
        bodies = bodies_of(as_opened(several), several)
        store = bodies["g2.00"]
        assert isinstance(store, BodyStore)
        assert bodies["g1.15/first"] is store
        assert list(bodies) == ["one"]
        assert "elsewhere" not in bodies
        await several.sweep_bodies()
        held = several._segments  # type: ignore[attr-defined]
        key = Key(segments(UID, 0, 0), bytes(19))
        assert await held.get_many([key]) == {}
        assert several.known.placement("g2.00").members[-1].cell == "two"
        await several.plain["two"].put(key, {"v": 1})
        assert await held.get_many([key]) == {}  # of no queue of a group
        queue = Definition("1" * 12, "us-east-1", "orders", UID, "g2.00", 1, 1)
        await several.placing.placed(queue)
        assert await held.get_many([key]) == {key: {"v": 1}}

    assert dynamodb is not None
    play(settings, scenario)


def test_a_queue_moves_alone_and_its_bodies_are_found_where_it_is(
    dynamodb: Any, settings: ServerSettings
) -> None:
    key, neighbours = (Key(segments(uid, 0, 0), bytes(19)) for uid in (UID, OTHER))

    async def moves(several: Together) -> None:
        for uid in (UID, OTHER):
            queue = Definition("1" * 12, "us-east-1", f"of-{uid}", uid, "g1.00", 1, 1)
            await several.placing.placed(queue)
        with pytest.raises(CellCommandError, match="four takes no groups: those that do are one"):
            await several.move_queue("g1.00", UID, ["four"])
        own = await several.move_queue("g1.00", UID, ["two"])
        places = several.places
        epoch = (await places.read(own)).placement.epoch
        joined = await places.add_joining(own, "two", epoch=epoch)
        await places.make_full(own, "two", epoch=epoch + 1)
        await places.drop_member(own, "one", epoch=epoch + 2)
        member = joined.placement.members[-1]
        stored = Key(partition_of(member, key.partition), key.sort)
        await several.plain["two"].put(stored, {"v": 1})
        await several.plain["one"].put(neighbours, {"v": 1})

    async def stays(several: Together) -> None:
        found = await several._segments.get_many([key, neighbours])  # type: ignore[attr-defined]
        assert set(found) == {key, neighbours}
        told = [one for one in (await several.report()).groups if one.queue]
        assert [(one.queue, one.chosen) for one in told] == [(f"of-{UID}", ("two",))]
        await several.placing.gone(UID, "g1.00")
        await several.known.refresh()
        assert not [one for one in (await several.report()).groups if one.queue]

    assert dynamodb is not None
    play(settings, moves)
    play(settings, stays)


def copy_of(dynamodb: Any, table: str) -> list[Any]:
    """All that it has now."""
    found: list[Any] = dynamodb.scan(TableName=table)["Items"]
    return found


def put_back(dynamodb: Any, table: str, copy: list[Any]) -> None:
    """As a restored backup under the same name."""
    for item in dynamodb.scan(TableName=table)["Items"]:
        key = {name: item[name] for name in ("pk", "sk")}
        dynamodb.delete_item(TableName=table, Key=key)
    for item in copy:
        dynamodb.put_item(TableName=table, Item=item)


def groups_of(several: Together, name: str) -> list[str]:
    placements = several.known.placements.values()
    return [
        held.placement.group
        for held in placements
        if any(member.cell == name for member in held.placement.members)
    ]


@pytest.mark.parametrize("is_empty", [False, True])
def test_a_table_of_a_backup_counts_as_empty(
    dynamodb: Any,
    settings: ServerSettings,
    is_empty: bool,  # noqa: FBT001 - a parameter of pytest's
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def has_all(several: Together) -> None:
        assert len(groups_of(several, "two")) == 24

    async def has_nothing(several: Together) -> None:
        assert groups_of(several, "two") == []
        await several.look()
        await asyncio.gather(*several._probes)
        assert several.states() == {"one": "available", "two": "available"}

    play(settings, has_all)
    copy = copy_of(dynamodb, "messages-2")
    play(settings, has_all)
    put_back(dynamodb, "messages-2", [] if is_empty else copy)
    play(settings, has_nothing)
    told = "two (two) is empty" if is_empty else "two (two) is stale: two as it was opened 20"
    assert told in caplog.text
    play(settings, has_nothing)


def test_a_table_of_a_backup_with_the_only_copy_of_a_queue_is_given_up_on_purpose_alone(
    dynamodb: Any, settings: ServerSettings, caplog: pytest.LogCaptureFixture
) -> None:
    async def create(several: Together) -> None:
        at = next(group for group in groups_of(several, "two") if group.startswith("g1."))
        queue = Definition("1" * 12, "us-east-1", "orders", UID, at, 1, 1)
        await several.placing.placed(queue)

    async def without(several: Together) -> None:
        assert several.known.cells["two"].state == REMOVED
        assert sorted(several.served) == ["one"]

    play(settings, create)
    copy = copy_of(dynamodb, "messages-2")
    play(settings, nothing)
    put_back(dynamodb, "messages-2", copy)
    with pytest.raises(
        StartError, match=r"^cells: two \(two\) is stale: .* 1 queues .*--give-up two$"
    ):
        play(settings, nothing)
    assert "is filled from the others" not in caplog.text
    for _server in range(2):
        play(replace(settings, give_up="two"), without)


@pytest.mark.parametrize("gives_up", ["", "two"])
def test_a_start_and_the_manager_of_another_server_part_with_a_table_at_once(
    dynamodb: Any, settings: ServerSettings, monkeypatch: pytest.MonkeyPatch, gives_up: str
) -> None:
    drop_member, dropped = Places.drop_member, list[str]()

    async def drops_first(places: Places, group: str, cell: str, **how: Any) -> StoredPlacement:
        if not dropped:
            dropped.append(group)
            await drop_member(places, group, cell, epoch=how["epoch"])
        return await drop_member(places, group, cell, **how)

    async def without(several: Together) -> None:
        assert groups_of(several, "two") == []

    play(settings, nothing)
    put_back(dynamodb, "messages-2", [])
    monkeypatch.setattr(Places, "drop_member", drops_first)
    play(replace(settings, give_up=gives_up), without)
    assert dropped


def test_a_table_that_is_put_back_while_it_is_served_fails(
    dynamodb: Any, settings: ServerSettings
) -> None:
    play(settings, nothing)
    copy = copy_of(dynamodb, "messages-2")

    async def scenario(several: Together) -> None:
        put_back(dynamodb, "messages-2", copy)
        await several.look()
        await asyncio.gather(*several._probes)
        assert several.states() == {"one": "available", "two": "unavailable"}
        with pytest.raises(CellUnavailableError, match="it was put back"):
            await ask(manager_of(several), "two")

    play(settings, scenario)


def test_a_registry_that_is_older_than_the_other_tables_is_refused(
    dynamodb: Any, settings: ServerSettings
) -> None:
    play(settings, nothing)
    copy = {table: copy_of(dynamodb, table) for table in ("one", "messages-2")}
    play(settings, nothing)
    put_back(dynamodb, "one", copy["one"])
    with pytest.raises(StartError, match=r"^cells: the registry in one is older than two knows"):
        play(settings, nothing)
    put_back(dynamodb, "messages-2", copy["messages-2"])
    play(settings, nothing)


def started_alone(settings: ServerSettings) -> None:
    """Start a server that is told of its first table alone, and stop it."""

    async def main() -> None:
        await (await open_cell(replace(settings, cells_dynamodb=""), SystemClock())).close()

    asyncio.run(main())


def test_a_table_of_another_service_is_refused(dynamodb: Any, settings: ServerSettings) -> None:
    play(settings, nothing)
    assert dynamodb is not None
    other = replace(settings, table="another", cells_dynamodb="three=messages-2")
    with pytest.raises(StartError, match=r"^cells: three is foreign: two of another service; name"):
        play(other, nothing)


@pytest.mark.parametrize("name", ["", "two"])
def test_a_further_table_of_another_service_gets_no_registry(
    dynamodb: Any, settings: ServerSettings, name: str
) -> None:
    play(settings, nothing)
    before = items(dynamodb, "messages-2")
    told = "^table: messages-2 is foreign: two of a service that has its registry in another table;"
    wrong = replace(settings, table="messages-2", cell_name=name, cells_dynamodb="three=one")
    with pytest.raises(StartError, match=told):
        started_alone(wrong)
    with pytest.raises(StartError, match=told):
        play(wrong, nothing)
    assert items(dynamodb, "messages-2") == before


def test_a_server_that_is_not_told_of_a_table_with_queues_does_not_start(
    dynamodb: Any, settings: ServerSettings
) -> None:
    async def create(several: Together) -> None:
        await several.placing.placed(
            Definition("1" * 12, "us-east-1", "orders", UID, "g2.00", 1, 1)
        )

    async def leave(several: Together) -> None:
        await several.placing.gone(UID, "g2.00")

    assert dynamodb is not None
    three = replace(settings, cells_dynamodb="two=messages-2,three=messages-3")
    play(settings, nothing)
    started_alone(settings)  # a rolling change that adds tables may be taken back
    play(settings, create)
    told = (
        "cells-dynamodb: queues have copies in two (the table messages-2 in us-east-1), too: name"
    )
    with pytest.raises(StartError, match=f"^{re.escape(told)} all cells$"):
        started_alone(settings)
    with pytest.raises(StartError, match=f"^{re.escape(told)}"):
        play(replace(settings, cells_dynamodb="three=messages-3"), nothing)
    play(three, nothing)
    play(settings, nothing)  # no queue has a copy in three
    play(replace(settings, cells_dynamodb="three=messages-3", give_up="two"), nothing)
    play(replace(settings, cells_dynamodb="three=messages-3"), leave)
    started_alone(settings)
