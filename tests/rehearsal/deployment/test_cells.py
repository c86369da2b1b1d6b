"""The deployed state machine through the failure of a cell: a stage with three tables."""

import json
import shutil
import time
from collections.abc import Iterator
from typing import Any, Final

import pytest

from control_plane.places.items import PLACEMENTS, decode_placement
from data_plane.dynamodb.opening import make_table
from data_plane.dynamodb.tables import PARTITION, SORT
from tests.rehearsal import emulators
from tests.rehearsal.deployment.cdk import Cdk
from tests.rehearsal.deployment.conftest import first_access, read_key
from tests.rehearsal.deployment.deployed import Deployed, sqs_client
from tests.rehearsal.deployment.names import answered_by
from tests.rehearsal.deployment.stage import fetch_wheels, write_stage
from tests.rehearsal.processes import UnavailableError

pytestmark = pytest.mark.xdist_group("deployment of cells")

TABLES: Final = {"tidegate", "tidegate-second", "tidegate-third"}
MANAGED_S_MAX: Final = 900
EXECUTION_S_MAX: Final = 600


class Cells:
    """A deployment with three tables, and a client of its function URL."""

    def __init__(self, deployed: Deployed, key: tuple[str, str]) -> None:
        self.deployed = deployed
        self.tables = deployed.aws("dynamodb")
        self.told: list[str] = []
        self.last = ""
        self.sqs = sqs_client(deployed.url_door(), key, attempts=5)

    def execute(self) -> None:
        """Run the deployed state machine, for cells alone."""
        machines = self.deployed.aws("stepfunctions")
        machine = self.deployed.the("AWS::StepFunctions::StateMachine", "manager")
        given = json.dumps({"tasks": [], "cells": True})
        execution = machines.start_execution(stateMachineArn=machine, input=given)
        give_up_s = time.monotonic() + EXECUTION_S_MAX
        arn = execution["executionArn"]
        while (told := machines.describe_execution(executionArn=arn))["status"] == "RUNNING":
            assert time.monotonic() < give_up_s
            time.sleep(0.2)  # between two looks
        self.told.append(told.get("output", ""))
        assert told["status"] == "SUCCEEDED", (told, self.observed(arn))
        self.last = arn

    def observed(self, execution: str) -> list[Any]:
        """What the execution's history says of its tasks, for who looks at a failure."""
        machines = self.deployed.aws("stepfunctions")
        events = machines.get_execution_history(executionArn=execution)["events"]
        return [event for event in events if "Exited" in event["type"]][:4]

    def manage(self, cells: set[str]) -> None:
        """Execute until all groups of three copies have them in these cells.

        Of a second cell that fails groups lose their member a minute after the first.
        """
        give_up_s = time.monotonic() + MANAGED_S_MAX
        while time.monotonic() < give_up_s:
            self.execute()
            if all(members == cells for members in self.members()):
                return
        raise AssertionError((self.members(), self.told, self.observed(self.last)))

    def members(self) -> list[set[str]]:
        """Of all groups of three copies, the cells that serve."""
        items = self.tables.query(
            TableName="tidegate",
            KeyConditionExpression="#p = :p",
            ExpressionAttributeNames={"#p": PARTITION},
            ExpressionAttributeValues={":p": {"S": PLACEMENTS}},
            ConsistentRead=True,
        )["Items"]
        placed = [decode_placement(item[SORT]["B"].decode(), read(item)) for item in items]
        return [
            {member.cell for member in held.placement.members if member.full}
            for held in placed
            if held.factor == len(TABLES)
        ]


@pytest.fixture
def cells(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cells]:
    folder = tmp_path_factory.mktemp("cells")
    try:
        fetch_wheels()
        with emulators.running("ministack", folder) as url, answered_by(url):
            cdk, deployed = Cdk(url, folder), Deployed(url)
            further = tuple(sorted(TABLES - {"tidegate"}))
            file = folder / "stage.toml"
            write_stage(file, endpoint=url, long_poll_s_max=1, cells=further)
            cdk.synthesise(file)
            cdk.bootstrap()
            cdk.deploy("tidegate-rehearsal-cluster")
            yield Cells(deployed, read_key(first_access(deployed, folder / "operator", "tidegate")))
        shutil.rmtree(cdk.assembly)  # the wheels alone are some 80 MB
    except UnavailableError as error:
        pytest.skip(str(error))  # which says what the emulator lacks to be started


def test_no_message_is_lost_with_a_table_nor_with_another_after_it(cells: Cells) -> None:
    fifo = {"FifoQueue": "true", "ContentBasedDeduplication": "true"}
    queues = [
        cells.sqs.create_queue(QueueName="standard")["QueueUrl"],
        cells.sqs.create_queue(QueueName="ordered.fifo", Attributes=fifo)["QueueUrl"],
    ]
    send(cells, queues, range(5))
    cells.manage(TABLES)

    cells.tables.delete_table(TableName="tidegate-second")
    cells.manage(TABLES - {"tidegate-second"})
    send(cells, queues, range(5, 8))

    make_table(cells.tables, "tidegate-second")
    cells.manage(TABLES)
    cells.tables.delete_table(TableName="tidegate-third")
    cells.manage(TABLES - {"tidegate-third"})

    standard, ordered = (receive_all(cells, queue) for queue in queues)
    assert sorted(standard) == ordered == list(range(8))


def read(item: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Its attributes."""
    values = [next(iter(typed.items())) for typed in item.values()]
    plain = [int(value) if kind == "N" else value for kind, value in values]
    return dict(zip(item, plain, strict=True))


def send(cells: Cells, queues: list[str], bodies: range) -> None:
    for queue in queues:
        group = {"MessageGroupId": "g"} if queue.endswith(".fifo") else {}
        for number in bodies:
            cells.sqs.send_message(QueueUrl=queue, MessageBody=str(number), **group)


def receive_all(cells: Cells, queue: str) -> list[int]:
    """Bodies of all messages, which are deleted."""
    found: list[int] = []
    while True:
        answer: dict[str, Any] = cells.sqs.receive_message(QueueUrl=queue, MaxNumberOfMessages=10)
        if not answer.get("Messages"):
            return found
        for message in answer["Messages"]:
            found.append(int(message["Body"]))
            cells.sqs.delete_message(QueueUrl=queue, ReceiptHandle=message["ReceiptHandle"])
