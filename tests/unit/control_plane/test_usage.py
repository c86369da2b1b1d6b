import asyncio
import json
from collections.abc import Awaitable, Callable
from io import BytesIO
from pathlib import Path
from typing import Any

import boto3
import pytest
from moto import mock_aws
from pyarrow import parquet

from control_plane.cells import StartError
from control_plane.usage import OFF_FILE, WRITER_FILE, Usage, open_usage
from data_plane.memory.cell import MemoryCell
from data_plane.ports import CellUnavailableError
from data_plane.settings import USAGE_OFF, ServerSettings
from data_plane.stored import ledger
from data_plane.usage.record import US_PER_MINUTE
from data_plane.usage.writer import UNSAVED_MIN
from tests.unit.data_plane.bag.conftest import Bench
from tests.unit.data_plane.http.test_metrics import served

Scenario = Callable[[Usage], Awaitable[None]]


@pytest.fixture
def bench() -> Bench:
    return Bench()


def play(bench: Bench, scenario: Scenario, data: Path, **settings: Any) -> None:
    async def main() -> None:
        chosen = ServerSettings(data=data, **settings)
        cells = {"a": bench.cell}
        usage = await open_usage(chosen, cells, bench.cell, bench.clock, bench.entropy)
        await usage.open()
        await scenario(usage)

    asyncio.run(main())


def rows(data: Path) -> list[dict[str, Any]]:
    found = (data / "usage" / "records").rglob("*.parquet")
    return [
        row for path in found for row in parquet.read_table(path, partitioning=None).to_pylist()
    ]


def marks(data: Path) -> dict[str, dict[str, Any]]:
    """Those of servers, by the writer before."""
    found = [json.loads(p.read_bytes()) for p in (data / "usage" / "writers").glob("*.json")]
    return {mark["after"]: mark for mark in found if mark["kind"] == "server"}


async def use_and_stop(bench: Bench, usage: Usage) -> None:
    usage.served(served("ReceiveMessage", finished_us=bench.clock.now_us()))
    usage.served(served("SendMessage", cell="a", messages=1, finished_us=bench.clock.now_us()))
    await bench.send("x")
    await usage.close()


def test_what_was_served_and_sent_is_stored_at_the_end(bench: Bench, tmp_path: Path) -> None:
    play(bench, lambda usage: use_and_stop(bench, usage), tmp_path)
    assert {row["operation"]: row["requests"] for row in rows(tmp_path)} == {
        "ReceiveMessage": 1,
        "SendMessage": 1,
    }


def test_each_minute_is_stored_once_it_is_over(bench: Bench, tmp_path: Path) -> None:
    async def scenario(usage: Usage) -> None:
        usage.served(served("ReceiveMessage", finished_us=bench.clock.now_us()))
        await usage.step()
        assert usage.gauges()["records_written_total"] == 0
        bench.clock.advance(60)
        await usage.step()
        assert usage.gauges()["records_written_total"] == 2
        assert len(rows(tmp_path)) == 1
        usage.end()

    play(bench, scenario, tmp_path)


def test_a_server_names_the_one_before_it(bench: Bench, tmp_path: Path) -> None:
    async def cut_off(usage: Usage) -> None:
        usage.end()

    play(bench, cut_off, tmp_path)
    play(bench, lambda usage: use_and_stop(bench, usage), tmp_path)
    first = marks(tmp_path)[""]
    second = marks(tmp_path)[first["writer"]]
    assert (first["closed"], second["closed"]) == (False, True)


def test_the_next_server_makes_records_of_what_one_that_was_cut_off_had_counted(
    bench: Bench, tmp_path: Path
) -> None:
    async def cut_off(usage: Usage) -> None:
        for _ in range(5):
            usage.served(served("ReceiveMessage", finished_us=bench.clock.now_us()))
            bench.clock.advance(1)
            await usage.step()
        usage.end()

    async def nothing(_usage: Usage) -> None:
        pass

    play(bench, cut_off, tmp_path)
    assert rows(tmp_path) == []
    play(bench, nothing, tmp_path)
    assert sum(row["requests"] for row in rows(tmp_path)) == 3
    first = marks(tmp_path)[""]
    assert (first["records"], first["closed"]) == (1, False)
    assert first["ended"] == marks(tmp_path)[first["writer"]]["opened"]


def test_many_answers_make_a_step_due(bench: Bench, tmp_path: Path) -> None:
    async def scenario(usage: Usage) -> None:
        for _ in range(UNSAVED_MIN // 2):
            assert not usage.due.is_set()
            usage.served(served("ReceiveMessage", finished_us=bench.clock.now_us()))
        assert usage.due.is_set()
        usage.end()

    play(bench, scenario, tmp_path)


def test_a_mark_that_never_came_is_put_by_the_next_server(bench: Bench, tmp_path: Path) -> None:
    async def cut_off(usage: Usage) -> None:
        usage.end()

    play(bench, cut_off, tmp_path)
    (lost,) = (tmp_path / "usage" / "writers").glob("*.json")
    lost.unlink()
    play(bench, cut_off, tmp_path)
    assert lost.exists()
    assert len(marks(tmp_path)) == 2


def test_a_place_that_is_away_stops_nobody(bench: Bench, tmp_path: Path) -> None:
    async def scenario(usage: Usage) -> None:
        usage.served(served("ReceiveMessage", finished_us=bench.clock.now_us()))
        (tmp_path / "usage" / ".incoming").rmdir()  # every put fails from now on
        bench.clock.advance(60)
        with pytest.raises(CellUnavailableError):
            await usage.step()
        await usage.step()  # not before the next minute
        assert usage.gauges()["write_failures_total"] == 1
        (tmp_path / "usage" / ".incoming").mkdir()
        await usage.close()

    play(bench, scenario, tmp_path)
    assert [row["operation"] for row in rows(tmp_path)] == ["ReceiveMessage"]


def test_off_counts_nothing_and_keeps_no_ledger(bench: Bench, tmp_path: Path) -> None:
    async def scenario(usage: Usage) -> None:
        usage.served(served("ReceiveMessage"))
        await bench.send("x")
        bench.clock.advance(90)
        await usage.step()
        await usage.close()

    play(bench, scenario, tmp_path, usage=USAGE_OFF)
    assert [path.name for path in tmp_path.iterdir()] == [OFF_FILE]
    assert not [item for item in bench.cell.items() if item.key.partition == ledger.PARTITION]


def test_a_server_that_counts_again_says_since_when_nobody_did(
    bench: Bench, tmp_path: Path
) -> None:
    async def nothing(usage: Usage) -> None:
        await usage.close()

    play(bench, nothing, tmp_path)
    bench.clock.advance(120)
    since = bench.clock.now_us() // US_PER_MINUTE
    for _ in range(2):  # The second one is off, too, since the first was.
        play(bench, nothing, tmp_path, usage=USAGE_OFF)
        bench.clock.advance(120)
    play(bench, nothing, tmp_path)
    play(bench, nothing, tmp_path)
    first = marks(tmp_path)[""]
    second = marks(tmp_path)[first["writer"]]
    third = marks(tmp_path)[second["writer"]]
    assert [its["off_from"] for its in (first, second, third)] == [0, since, 0]
    assert second["opened"] == since + 4


def test_what_was_sent_while_usage_was_off_is_never_recorded(bench: Bench, tmp_path: Path) -> None:
    """Not even what was sent just before the server stopped, whose minute was not over."""

    async def send(usage: Usage) -> None:
        bench.clock.advance(150)
        await usage.step()
        await bench.send("while it was off")
        await usage.close()

    play(bench, lambda usage: use_and_stop(bench, usage), tmp_path)
    counted = sorted(rows(tmp_path), key=lambda row: row["operation"])
    bench.clock.advance(60)
    play(bench, send, tmp_path, usage=USAGE_OFF)
    play(bench, Usage.close, tmp_path)
    assert sorted(rows(tmp_path), key=lambda row: row["operation"]) == counted
    assert not (tmp_path / OFF_FILE).exists()


def test_cells_without_a_ledger_leave_sends_to_the_server(bench: Bench, tmp_path: Path) -> None:
    bench.cell = MemoryCell(bench.clock, stamps=False)
    bench.bag = bench.front_end()
    play(bench, lambda usage: use_and_stop(bench, usage), tmp_path)
    assert {row["operation"] for row in rows(tmp_path)} == {"ReceiveMessage", "SendMessage"}
    assert not (tmp_path / WRITER_FILE).exists()


def test_usage_goes_to_a_bucket(bench: Bench, tmp_path: Path) -> None:
    with mock_aws():
        play(
            bench,
            lambda usage: use_and_stop(bench, usage),
            tmp_path,
            usage="s3://bills/tidegate",
        )
        client = boto3.client("s3", region_name="us-east-1")
        listed = client.list_objects_v2(Bucket="bills")["Contents"]
        names = [its["Key"] for its in listed if its["Key"].startswith("tidegate/records/")]
        assert len(names) == 2
        body = client.get_object(Bucket="bills", Key=names[0])["Body"].read()
        assert parquet.read_table(BytesIO(body)).num_rows == 1


@pytest.mark.parametrize("wrong", ["usage", WRITER_FILE, OFF_FILE])
def test_what_cannot_be_used_stops_the_start(bench: Bench, tmp_path: Path, wrong: str) -> None:
    (tmp_path / wrong).write_text("not that")
    with pytest.raises(StartError, match=r"^usage: cannot "):
        play(bench, lambda _usage: asyncio.sleep(0), tmp_path)
