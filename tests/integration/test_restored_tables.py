"""Tables as DynamoDB restores them: under other names, as they were at one time.

No emulator does that, so items are copied at a moment. What a table had then has to be there in a
service on the copy, with bodies that were removed since; what came after is not.
"""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any

import pytest
from click.testing import CliRunner, Result

from control_plane.cli.main import tidegate
from data_plane.dynamodb.opening import make_table
from tests.integration.dynamodb_engine import Engine
from tests.integration.server_process import ServerProcess

BUCKET = "bodies"
BIG = Random(1).randbytes(30_000).hex()
"""Too big for an item, also compressed."""


@pytest.fixture
def engine() -> Iterator[Engine]:
    started = Engine()
    s3 = started.client("s3")
    s3.create_bucket(Bucket=BUCKET)
    enabled = {"Status": "Enabled"}
    s3.put_bucket_versioning(Bucket=BUCKET, VersioningConfiguration=enabled)
    yield started
    started.stop()


def restored(engine: Engine, table: str) -> str:
    """A new table with what is in this one now, but without a time to live, as DynamoDB's."""
    client, name = engine.client(), f"{table}-restored"
    make_table(client, name)
    off = {"AttributeName": "x", "Enabled": False}
    client.update_time_to_live(TableName=name, TimeToLiveSpecification=off)
    for page in client.get_paginator("scan").paginate(TableName=table):
        for item in page["Items"]:
            client.put_item(TableName=name, Item=item)
    return name


def service(engine: Engine, folder: Path, table: str, *options: str) -> ServerProcess:
    server = ServerProcess(
        folder / "data",
        folder / f"log-{table}",
        options=(
            *("--cell", "dynamodb", "--endpoint", engine.url, "--table", table),
            *("--blobs", f"s3://{BUCKET}", "--usage", "off", *options),
        ),
    )
    server.start()
    return server


def received(sqs: Any, url: str, count: int) -> set[str]:
    """The first letters of bodies; they are deleted."""
    found: set[str] = set()
    while len(found) < count:
        answer = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10, WaitTimeSeconds=20)
        for message in answer["Messages"]:
            found.add(message["Body"][:5])
            sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
    return found


def run_restore(engine: Engine, tables: str, as_of: datetime) -> str:
    ran = run(
        *("restore", "--tables", tables, "--endpoint", engine.url, "--blobs", f"s3://{BUCKET}"),
        *("--as-of", as_of.strftime("%Y-%m-%dT%H:%M:%S+00:00")),
    )
    assert ran.exit_code == 0, ran.output
    return ran.output


def run(*arguments: str) -> Result:
    return CliRunner().invoke(tidegate, arguments)


@pytest.mark.parametrize("cells", [1, 2])
def test_a_service_goes_on_in_tables_of_other_names(
    tmp_path: Path, engine: Engine, cells: int
) -> None:
    one, two = engine.table, f"{engine.table}-second"
    further = ("--cells-dynamodb", f"second={engine.url}/{two}") if cells > 1 else ()
    server = service(engine, tmp_path, one, *further)
    sqs = server.client()
    url = sqs.create_queue(QueueName="orders")["QueueUrl"]
    fifo = sqs.create_queue(QueueName="o.fifo", Attributes={"FifoQueue": "true"})["QueueUrl"]
    for number in range(3):
        sqs.send_message(QueueUrl=url, MessageBody=f"old {number}" + BIG * (number == 2))
        sqs.send_message(
            QueueUrl=fifo,
            MessageBody=f"old {number}",
            MessageGroupId="g",
            MessageDeduplicationId=str(number),
        )
    as_of = datetime.now(UTC).replace(microsecond=0)
    names = {one: restored(engine, one)} | ({two: restored(engine, two)} if cells > 1 else {})
    assert received(sqs, url, 3) == {"old 0", "old 1", "old 2"}
    sqs.send_message(QueueUrl=url, MessageBody="new")
    sqs.send_message(
        QueueUrl=fifo, MessageBody="new", MessageGroupId="g", MessageDeduplicationId="new"
    )
    server.kill()
    s3 = engine.client("s3")
    for listed in s3.list_objects_v2(Bucket=BUCKET)["Contents"]:
        if not listed["Key"].endswith("/cell"):  # as the sweep would 20 s later
            s3.delete_object(Bucket=BUCKET, Key=listed["Key"])

    tables = f"{one}={names[one]}" + (f",second={names[two]}" if cells > 1 else "")
    told = run_restore(engine, tables, as_of)
    assert f"--table {names[one]} --cell-name {one}" in told
    assert "1 bodies are back" in told
    renamed = ",".join(f"{old}={new}" for old, new in names.items())
    assert f"--restored {renamed}\n" in told
    lifetime = engine.client().describe_time_to_live(TableName=names[one])
    assert lifetime["TimeToLiveDescription"]["TimeToLiveStatus"] == "ENABLED"

    further = ("--cells-dynamodb", f"second={engine.url}/{names[two]}") if cells > 1 else ()
    server = service(engine, tmp_path, names[one], "--cell-name", one, *further)
    try:
        sqs = server.client()
        url, fifo = (sqs.get_queue_url(QueueName=name)["QueueUrl"] for name in ("orders", "o.fifo"))
        assert received(sqs, url, 3) == {"old 0", "old 1", "old 2"}
        sqs.send_message(
            QueueUrl=fifo, MessageBody="after", MessageGroupId="g", MessageDeduplicationId="after"
        )
        answer = sqs.receive_message(QueueUrl=fifo, MaxNumberOfMessages=10)
        bodies = [message["Body"] for message in answer["Messages"]]
        assert bodies == ["old 0", "old 1", "old 2", "after"]
    finally:
        server.kill()


def test_what_cannot_be_restored_is_told(tmp_path: Path, engine: Engine) -> None:
    one, two = engine.table, f"{engine.table}-second"
    service(engine, tmp_path, one, "--cells-dynamodb", f"second={engine.url}/{two}").kill()
    client = engine.client()
    make_table(client, f"{one}-empty")
    for tables, said in (
        (f"{one}={one}-empty", "has no registry"),
        (f"{one}={one},third={two}", "the registry has no cell third"),
        ("nothing", "is not of the form CELL=TABLE"),
        (f"{one}={one}-missing", "cannot use"),
    ):
        before = client.scan(TableName=one)["Items"]
        ran = run("restore", "--tables", tables, "--endpoint", engine.url)
        assert ran.exit_code != 0
        assert said in ran.output
        assert client.scan(TableName=one)["Items"] == before
