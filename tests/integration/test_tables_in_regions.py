"""A server over three tables of one name in three regions, each with an endpoint of its own.

Engines in this process play the regions.
"""

import json
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from control_plane.places.items import (
    PLACEMENTS,
    decode_placed_queue,
    decode_placement,
    queues_partition,
)
from data_plane.dynamodb.items import decode_item
from data_plane.dynamodb.tables import PARTITION
from data_plane.ports import Item
from tests.integration.dynamodb_engine import Engine
from tests.integration.server_process import ServerProcess, run_command
from tests.ports import free_port

REGIONS = "us-east-1", "eu-west-1", "ap-south-1"
WAIT_S_MAX = 60
UNAVAILABLE = 503
COPIES = 2
QUEUES_MAX = 100
_NUMBERS = count()


def partitions(region: Engine, table: str) -> set[str]:
    """Those that the region's table of this name has."""
    return {item["pk"]["S"] for item in region.client().scan(TableName=table)["Items"]}


@pytest.fixture
def regions() -> Iterator[list[Engine]]:
    started = [Engine(name) for name in REGIONS]
    yield started
    for region in started:
        region.stop()


@pytest.fixture
def table(regions: list[Engine]) -> str:
    """Of this name there is one in each region."""
    return regions[0].table


@pytest.fixture
def server(tmp_path: Path, regions: list[Engine], table: str) -> Iterator[ServerProcess]:
    options = options_of(regions, table, tmp_path)
    started = ServerProcess(tmp_path / "data", tmp_path / "log", options=options)
    started.start()
    yield started
    started.kill()


def options_of(regions: list[Engine], table: str, folder: Path) -> tuple[str, ...]:
    first, *others = regions
    further = ",".join(f"{one.region}={one.region}/{one.url}/{table}" for one in others)
    return (
        *("--cell", "dynamodb", "--region", first.region, "--endpoint", first.url),
        *("--table", table, "--cells-dynamodb", further, "--blobs", str(folder / "bodies")),
        *("--log-level", "error", "--cell-deadline", "1"),
    )


def cells_of(queue: str, registry: Engine, table: str) -> list[str]:
    """Where the queue's messages lie, the cell that decides first."""

    def items(partition: str) -> list[Item]:
        found = registry.client().query(
            TableName=table,
            KeyConditionExpression=f"{PARTITION} = :pk",
            ExpressionAttributeValues={":pk": {"S": partition}},
        )["Items"]
        return [decode_item(item) for item in found]

    for item in items(PLACEMENTS):
        group = item.key.sort.decode()
        for placed in items(queues_partition(group)):
            if decode_placed_queue("", placed.attributes).name == queue:
                members = decode_placement(group, item.attributes).placement.members
                return [member.cell for member in members]
    raise AssertionError(f"{queue} is in no group")


def queue_apart_from(table: str, sqs: Any, registry: Engine, *, apart: bool) -> str:
    """The URL of a new queue of two copies, of which none, or one, is in the registry's table."""
    for _ in range(QUEUES_MAX):
        name = f"queue-{next(_NUMBERS)}"
        attributes = {"TidegateReplicationFactor": f"{COPIES}"}
        url: str = sqs.create_queue(QueueName=name, Attributes=attributes)["QueueUrl"]
        if apart is not (table in cells_of(name, registry, table)):
            return url
    raise AssertionError("all queues have the same cells")


def send(sqs: Any, url: str, bodies: list[str]) -> list[str]:
    for body in bodies:
        sqs.send_message(QueueUrl=url, MessageBody=body)
    return bodies


def take(sqs: Any, url: str) -> str:
    """Receive a message and delete it."""
    (message,) = sqs.receive_message(QueueUrl=url, WaitTimeSeconds=20)["Messages"]
    sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
    body: str = message["Body"]
    return body


def is_refused(sqs: Any, url: str, body: str) -> bool:
    """Whether the service says that it cannot store this now."""
    try:
        sqs.send_message(QueueUrl=url, MessageBody=body)
    except ClientError as error:
        if error.response["ResponseMetadata"]["HTTPStatusCode"] == UNAVAILABLE:
            return True
        raise
    return False


def test_copies_lie_in_the_tables_of_all_regions(
    server: ServerProcess, regions: list[Engine], table: str
) -> None:
    sqs = server.client(attempts=3)
    url = sqs.create_queue(QueueName="everywhere")["QueueUrl"]
    sqs.send_message(QueueUrl=url, MessageBody="m")
    assert list(json.loads(server.get("/health")[1])["cells"]) == [table, *REGIONS[1:]]
    held = [partitions(region, table) for region in regions]
    segments = [{name for name in found if name.startswith("B|")} for found in held]
    assert [len(found) for found in segments] == [1, 1, 1]
    assert len(set.union(*segments)) == 1
    assert ["P|" in found for found in held] == [True, False, False]
    assert take(sqs, url) == "m"
    assert server.stop() == 0


@pytest.mark.nightly
def test_messages_flow_while_the_place_of_the_registry_is_lost(
    server: ServerProcess, regions: list[Engine], table: str
) -> None:
    registry, _, another = regions
    sqs = server.client()
    apart = queue_apart_from(table, sqs, registry, apart=True)
    beside = queue_apart_from(table, sqs, registry, apart=False)
    acknowledged = send(sqs, apart, ["a1", "a2"])
    send(sqs, beside, ["b1"])

    registry.stop()
    assert is_refused(sqs, beside, "b2"), "it would lack a copy"
    acknowledged += send(sqs, apart, ["a3", "a4"])
    deleted = [take(sqs, apart), take(sqs, apart)]

    another.stop()
    assert is_refused(sqs, apart, "a5"), "without the registry nobody takes over"
    registry.start()
    give_up_s = time.monotonic() + WAIT_S_MAX
    while is_refused(sqs, apart, "a6"):
        assert time.monotonic() < give_up_s, "nobody has taken over"
    acknowledged.append("a6")
    while is_refused(sqs, beside, "b3"):
        assert time.monotonic() < give_up_s, "the registry does not serve again"
    another.start()

    wanted = {*acknowledged} - {*deleted}
    left: set[str] = set()
    while not wanted <= left:  # what was refused may be stored, too
        left.add(take(sqs, apart))
    assert not left & {*deleted}
    left = set()
    while not {"b1", "b3"} <= left:
        left.add(take(sqs, beside))
    assert server.stop() == 0


@pytest.mark.parametrize(
    ("cells", "code", "line"),
    [
        ("eur=EU/tidegate", 2, "cells-dynamodb: 'EU' is no region's name"),
        ("eur=eu/a/b", 2, "cells-dynamodb: 'eur=eu/a/b' is not of the form name=[region/][endpoi"),
        ("eur=us-east-1/tidegate", 2, "cells-dynamodb: a table is there under more than one name"),
    ],
)
def test_a_wrong_value_ends_the_start_with_one_line(
    tmp_path: Path, cells: str, code: int, line: str
) -> None:
    data = ("--data", str(tmp_path / "data"), "--port", str(free_port()))
    ended = run_command("serve", *data, "--cell", "dynamodb", "--cells-dynamodb", cells)
    assert (ended.returncode, ended.stdout) == (code, "")
    assert ended.stderr.startswith(f"tidegate: {line}")
    assert ended.stderr.count("\n") == 1


def test_a_server_that_means_another_region_does_not_start(
    server: ServerProcess, regions: list[Engine], table: str, tmp_path: Path
) -> None:
    assert server.get("/health")[0] == 200
    where = ("--data", str(tmp_path / "other"), "--port", str(free_port()), "--auth", "off")
    options = options_of(regions, table, tmp_path)
    wrong = [text.replace("ap-south-1=ap-south-1/", "ap-south-1=eu-north-1/") for text in options]
    ended = run_command("serve", *where, *wrong)
    assert ended.returncode == 2
    assert ended.stderr.splitlines()[-1] == (
        f"tidegate: cells-dynamodb: ap-south-1 is the table {table} in ap-south-1, as the registry"
        f" has it, and not {table} in eu-north-1"
    )
