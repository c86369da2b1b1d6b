"""A server process whose messages lie in DynamoDB, played by moto's server in this process."""

import json
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from botocore.exceptions import ClientError
from pyarrow import parquet

from tests.integration.dynamodb_engine import Engine
from tests.integration.metered_client import Books, MeteredClient, Send
from tests.integration.server_process import ServerProcess, run_command
from tests.ports import free_port


@pytest.fixture
def engine() -> Iterator[Engine]:
    started = Engine()
    yield started
    started.stop()


@pytest.fixture
def on_dynamodb(
    request: pytest.FixtureRequest, tmp_path: Path, engine: Engine
) -> Iterator[ServerProcess]:
    options = ("--cell", "dynamodb", "--endpoint", engine.url, "--table", engine.table)
    further = getattr(request, "param", ())
    server = ServerProcess(tmp_path / "data", tmp_path / "log", options=(*options, *further))
    server.start()
    yield server
    server.kill()


def test_what_was_acknowledged_is_there_after_a_crash(
    on_dynamodb: ServerProcess, engine: Engine
) -> None:
    server = on_dynamodb
    assert f"data in the DynamoDB table {engine.table} at {engine.url}" in server.greeting
    sqs = server.client(attempts=3)
    url = sqs.create_queue(QueueName="orders")["QueueUrl"]
    bodies = {f"message {number}" for number in range(10)}
    for body in sorted(bodies):
        sqs.send_message(QueueUrl=url, MessageBody=body)
    first = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=1)["Messages"][0]
    sqs.delete_message(QueueUrl=url, ReceiptHandle=first["ReceiptHandle"])
    server.kill()
    server.start()
    left: set[str] = set()
    while len(left) < 9:
        answer = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10, WaitTimeSeconds=20)
        left |= {message["Body"] for message in answer["Messages"]}
    assert left == bodies - {first["Body"]}
    status, health = server.get("/health")
    assert (status, json.loads(health)["cells"]) == (200, {engine.table: "available"})
    _, metrics = server.get("/metrics")
    assert f'tidegate_cell_retries_total{{cell="{engine.table}"}} 0.0' in metrics
    assert server.stop() == 0


@pytest.mark.parametrize("on_dynamodb", [("--cell-deadline", "1")], indirect=True, ids=["1 s"])
def test_a_server_outlives_an_outage_of_dynamodb(
    on_dynamodb: ServerProcess, engine: Engine
) -> None:
    server = on_dynamodb
    sqs = server.client(attempts=5)
    url = sqs.create_queue(QueueName="outage")["QueueUrl"]
    sqs.send_message(QueueUrl=url, MessageBody="before")
    engine.stop()
    with pytest.raises(ClientError) as failed:
        server.client().send_message(QueueUrl=url, MessageBody="during")
    assert failed.value.response["ResponseMetadata"]["HTTPStatusCode"] == 503
    health = wait_for_health(server, 503)  # a probe under way may not be back yet
    assert json.loads(health)["cells"] == {engine.table: "unavailable"}
    assert server.get("/metrics")[0] == 200
    engine.start()
    wait_for_health(server, 200)  # a breaker may be open for a second
    sqs.send_message(QueueUrl=url, MessageBody="after")
    received: set[str] = set()
    while not {"before", "after"} <= received:
        answer = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10, WaitTimeSeconds=20)
        received |= {message["Body"] for message in answer["Messages"]}
    assert received == {"before", "after"}
    assert server.get("/health")[0] == 200
    assert server.stop() == 0


def wait_for_health(server: ServerProcess, wanted: int) -> str:
    give_up_s = time.monotonic() + 60
    while (answer := server.get("/health"))[0] != wanted:
        assert time.monotonic() < give_up_s
        time.sleep(0.05)  # between two looks
    return answer[1]


@pytest.mark.parametrize(
    ("options", "code", "line"),
    [
        (
            ("--cell", "dynamodb", "--endpoint", "http://127.0.0.1:1"),
            1,
            "tidegate: cell-endpoint: no DynamoDB answers at http://127.0.0.1:1: ",
        ),
        (("--cell", "floppy"), 2, "tidegate: cell: 'floppy' is none of "),
        (
            ("--endpoint", "http://127.0.0.1:1"),
            2,
            "tidegate: cell-endpoint: it is for tables",
        ),
    ],
)
def test_a_wrong_setting_ends_the_start_with_one_line(
    options: tuple[str, ...], code: int, line: str, tmp_path: Path
) -> None:
    port, data = str(free_port()), str(tmp_path / "data")
    ended = run_command("serve", "--port", port, "--data", data, *options)
    assert_one_line(ended, code, line)


def test_an_endpoint_of_something_else_is_named(server: ServerProcess, tmp_path: Path) -> None:
    ended = run_command(
        *("serve", "--port", str(free_port()), "--data", str(tmp_path / "other")),
        *("--cell", "dynamodb", "--endpoint", server.url),
    )
    assert_one_line(ended, 1, f"tidegate: cell-endpoint: {server.url} is no DynamoDB: ")


def assert_one_line(ended: subprocess.CompletedProcess[str], code: int, line: str) -> None:
    said = [said for said in ended.stderr.splitlines() if not said.startswith("{")]
    assert ended.returncode == code
    assert len(said) == 1
    assert said[0].startswith(line)


def test_sends_are_in_records_by_what_is_stored_and_repeated_ones_by_their_answers(
    on_dynamodb: ServerProcess,
) -> None:
    server = on_dynamodb
    client = MeteredClient(server.port, "111122223333", Books())
    for url in (client.create("orders"), client.create("orders.fifo")):
        for sizes in ([1], [70_000, 9]):
            send = Send(url, sizes, batch=len(sizes) > 1)
            send.attempt(client)
            send.repeat(client)
    client.close()
    assert server.stop() == 0
    usage = server.data / "usage"
    marks = [json.loads(path.read_bytes()) for path in (usage / "writers").glob("*.json")]
    assert [(mark["closed"], len(mark["desks"].split())) for mark in marks] == [(True, 2)]
    rows = [
        row
        for path in (usage / "records").rglob("*.parquet")
        for row in parquet.read_table(path, partitioning=None).to_pylist()
        if row["operation"].startswith("Send")
    ]
    names = ("queue", "operation", "requests", "units", "messages", "bytes")
    stored = [row for row in rows if row["messages"]]
    assert {row["writer"] for row in stored}.isdisjoint(mark["writer"] for mark in marks)
    assert sorted(tuple(row[name] for name in names) for row in stored) == [
        (queue, *told)
        for queue in ("orders", "orders.fifo")
        for told in (("SendMessage", 1, 1, 1, 1), ("SendMessageBatch", 1, 2, 2, 70_009))
    ]
    repeated = [row for row in rows if not row["messages"]]
    assert {row["writer"] for row in repeated} == {marks[0]["writer"]}
    assert (sum(r["requests"] for r in repeated), sum(r["units"] for r in repeated)) == (4, 6)
