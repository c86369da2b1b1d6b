import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from botocore.session import Session
from moto import mock_aws

from control_plane.cells import StartError
from control_plane.one_cell import open_cell
from control_plane.places.watching import PROBE
from control_plane.several_opening import open_several
from data_plane.aws_sessions import new_session
from data_plane.core.deadline import deadline
from data_plane.ports import CellUnavailableError, Key, Tally
from data_plane.settings import ServerSettings
from data_plane.system import SystemClock, SystemEntropy

COUNTER = Key("T", b"a")


@pytest.fixture
def dynamodb() -> Iterator[Any]:
    with mock_aws():
        yield new_session().create_client("dynamodb", region_name="us-east-1")


def test_the_embedded_cell(tmp_path: Path) -> None:
    async def main() -> None:
        opened = await open_cell(ServerSettings(data=tmp_path / "data"), SystemClock())
        assert opened.name == "local"
        assert opened.where == f"data in {tmp_path / 'data'}"
        await opened.cell.put(PROBE, {"v": 1, "x": 1})
        await opened.upkeep(SystemClock().now_us())
        assert await opened.cell.get(PROBE) is None
        assert opened.gauges()["commits_total"] == 2
        assert not opened.is_full()
        await opened.close()

    asyncio.run(main())


def test_a_directory_that_cannot_be_used(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    with pytest.raises(StartError, match=f"^data: cannot use {file}"):
        asyncio.run(open_cell(ServerSettings(data=file), SystemClock()))


def test_the_cell_on_dynamodb(dynamodb: Any, tmp_path: Path) -> None:
    settings = ServerSettings(cell="dynamodb", table="messages", data=tmp_path)

    def stored() -> Any:
        key = {"pk": {"S": "T"}, "sk": {"B": b"\0a"}}
        return dynamodb.get_item(TableName="messages", Key=key)["Item"]

    async def main() -> None:
        opened = await open_cell(settings, SystemClock())
        assert opened.name == "messages"
        assert opened.where.startswith(
            "data in the DynamoDB table messages at https://dynamodb.us-east-1.amazonaws.com"
        )
        cell = opened.cell
        assert cell.settled_us() > 0, "the store's time is known from the start"
        at_first = opened.gauges()
        await cell.put(PROBE, {"v": 1}, tallies=lambda _before: [Tally(COUNTER, 3)])
        await opened.upkeep(SystemClock().now_us())
        assert stored()["n"] == {"N": "3"}
        await cell.put(PROBE, {"v": 1}, tallies=lambda _before: [Tally(COUNTER, 4)])
        gauges = opened.gauges()
        assert gauges["put_item_requests_total"] == at_first["put_item_requests_total"] + 2
        assert gauges["update_item_requests_total"] == at_first["update_item_requests_total"] + 1
        assert gauges["put_item_units_total"] > at_first["put_item_units_total"]
        assert gauges["retries_total"] == 0
        assert not opened.is_full()
        await opened.close()
        assert stored()["n"] == {"N": "7"}

    asyncio.run(main())


def test_a_table_of_somebody_else(dynamodb: Any, tmp_path: Path) -> None:
    dynamodb.create_table(
        TableName="orders",
        AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
        KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
        BillingMode="PAY_PER_REQUEST",
    )
    settings = ServerSettings(cell="dynamodb", table="orders", data=tmp_path)
    with pytest.raises(StartError, match=r"^table: .orders. is another table"):
        asyncio.run(open_cell(settings, SystemClock()))


@pytest.mark.usefixtures("dynamodb")
def test_definitions_that_hang_do_not_hold_up_messages(tmp_path: Path) -> None:
    settings = ServerSettings(cell="dynamodb", table="messages", data=tmp_path, connections=2)
    release, hanging = threading.Event(), threading.Semaphore(0)

    def hold(request: Any, **_: object) -> None:
        if b'"Q|' in request.body:
            hanging.release()
            assert release.wait(60)

    async def main() -> None:
        clock = SystemClock()
        opened = await open_cell(settings, clock)
        client: Any = opened.cell._requests._client  # type: ignore[attr-defined]
        client.meta.events.register_first("before-send.dynamodb", hold)
        calls = [asyncio.create_task(opened.control.get(Key("Q|1|r", b"q"))) for _ in range(9)]
        for _ in range(8):
            assert await asyncio.to_thread(hanging.acquire, timeout=60)
        with deadline(clock.now_us() + 100_000), pytest.raises(CellUnavailableError):
            await opened.control.get(Key("Q|1|r", b"q"))
        for _ in range(10):
            assert (await opened.cell.put(PROBE, {"v": 1})).applied
        in_flight = {guard.name: guard.gauges()["calls_in_flight"] for guard in opened.guards}
        assert in_flight["messages/definitions"] == 8
        assert in_flight["messages/messages"] == 0
        release.set()
        assert await asyncio.gather(*calls) == [None] * 9
        await opened.close()

    asyncio.run(main())


def test_a_further_cell_without_credentials_is_told_before_the_first_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nobody = "http://127.0.0.1:1"
    settings = ServerSettings(
        data=tmp_path, cell="dynamodb", endpoint=nobody, cells_dynamodb="two=messages-2"
    )
    monkeypatch.setattr(Session, "get_credentials", lambda _session: None)
    with pytest.raises(
        StartError, match=r"^cells-dynamodb: two: no AWS credentials were found for"
    ):
        asyncio.run(open_several(settings, SystemClock(), SystemEntropy()))
