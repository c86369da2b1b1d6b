"""What the stacks made, what an update leaves as it was, and what stays when they are destroyed."""

import json
import re
import time
from pathlib import Path
from typing import Any, Final

import pytest

from data_plane.dynamodb.tables import cell_table, time_to_live
from tests.conformance.client_calls import one
from tests.rehearsal.deployment.cdk import CdkError
from tests.rehearsal.deployment.conftest import Rehearsal
from tests.rehearsal.deployment.deployed import Deployed

pytestmark = pytest.mark.xdist_group("deployment")

_EXECUTION_S_MAX: Final = 600


def test_the_table_is_the_one_that_the_code_describes(rehearsal: Rehearsal) -> None:
    tables = rehearsal.deployed.aws("dynamodb")
    name = rehearsal.deployed.the("AWS::DynamoDB::Table")
    described = tables.describe_table(TableName=name)["Table"]
    wanted = cell_table(name)
    assert described["KeySchema"] == wanted["KeySchema"]
    assert sorted(map(str, described["AttributeDefinitions"])) == sorted(
        map(str, wanted["AttributeDefinitions"])
    )
    assert described["BillingModeSummary"]["BillingMode"] == wanted["BillingMode"]
    assert "GlobalSecondaryIndexes" not in described
    assert described["DeletionProtectionEnabled"] is True
    # MiniStack leaves out what follows, so the templates that it was given must say it.
    told = rehearsal.deployed.properties("AWS::DynamoDB::Table")
    assert told["TimeToLiveSpecification"] == time_to_live(name)["TimeToLiveSpecification"]
    assert told["PointInTimeRecoverySpecification"] == {"PointInTimeRecoveryEnabled": True}


def test_state_machines_run_what_schedules_give_them(rehearsal: Rehearsal) -> None:
    machines = rehearsal.deployed.aws("stepfunctions")
    manager = machine_of(rehearsal, "manager")
    (seldom,) = inputs_of(rehearsal.deployed, manager)
    told = ended(machines, machines.start_execution(stateMachineArn=manager, input=seldom))
    assert told["status"] == "SUCCEEDED", told
    assert set(json.loads(seldom)["tasks"]) <= set(re.findall(r"\w+", told["output"]))


def test_a_look_starts_the_manager_where_a_task_is_due_and_nowhere_else(
    rehearsal: Rehearsal,
) -> None:
    machines = rehearsal.deployed.aws("stepfunctions")
    manager, beat = machine_of(rehearsal, "manager"), machine_of(rehearsal, "beat")
    often, _ = sorted(inputs_of(rehearsal.deployed, beat), key=len, reverse=True)
    sqs = rehearsal.client("url")
    dead, source = (sqs.create_queue(QueueName=name)["QueueUrl"] for name in ("dead", "source"))
    arns = [
        sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["QueueArn"])["Attributes"][
            "QueueArn"
        ]
        for queue in (dead, source)
    ]
    policy = json.dumps({"deadLetterTargetArn": arns[0], "maxReceiveCount": 1})
    sqs.set_queue_attributes(QueueUrl=source, Attributes={"RedrivePolicy": policy})
    sqs.send_message(QueueUrl=dead, MessageBody="moved back")

    def executions() -> list[str]:
        every = machines.list_executions(stateMachineArn=manager)["executions"]
        return [execution["executionArn"] for execution in every]

    def look() -> list[str]:
        before = executions()
        begun = machines.start_execution(stateMachineArn=beat, input=often)
        told = ended(machines, begun)
        assert told["status"] == "SUCCEEDED", told
        return [one for one in executions() if one not in before]

    assert look() == []
    sqs.start_message_move_task(SourceArn=arns[0], DestinationArn=arns[1])
    (started,) = look()
    told = ended(machines, {"executionArn": started})
    assert told["status"] == "SUCCEEDED", told
    assert json.loads(told["input"]) == {"tasks": ["move_messages"], "cells": False}
    assert one(sqs, source)["Body"] == "moved back"
    for queue in (dead, source):
        sqs.delete_queue(QueueUrl=queue)


def test_what_a_schedule_asks_for_tells_depth_and_age(rehearsal: Rehearsal) -> None:
    deployed = rehearsal.deployed
    task = deployed.function("app.task")
    (asked,) = inputs_of(deployed, task["FunctionArn"])
    sqs = rehearsal.client("url")
    queue = sqs.create_queue(QueueName="watched")["QueueUrl"]
    sqs.send_message(QueueUrl=queue, MessageBody="waits")
    answer = deployed.aws("lambda").invoke(FunctionName=task["FunctionName"], Payload=asked)
    told = json.load(answer["Payload"])
    assert [(one["queue"], one["visible"]) for one in told["measured"]] == [("watched", 1)]
    assert 0 <= told["measured"][0]["age_s"] < 300
    sqs.delete_queue(QueueUrl=queue)


def machine_of(rehearsal: Rehearsal, name: str) -> str:
    return rehearsal.deployed.the("AWS::StepFunctions::StateMachine", name)


def ended(machines: Any, execution: dict[str, Any]) -> dict[str, Any]:
    """What the emulator says of an execution, Express ones included."""
    give_up_s = time.monotonic() + _EXECUTION_S_MAX
    arn = execution["executionArn"]
    while (told := machines.describe_execution(executionArn=arn))["status"] == "RUNNING":
        assert time.monotonic() < give_up_s
        time.sleep(0.1)  # between two looks
    return dict(told)


def inputs_of(deployed: Deployed, machine: str) -> list[str]:
    """What schedules that are on start the state machine with."""
    rules = deployed.aws("events")
    found = []
    for name in deployed.resources()["AWS::Events::Rule"]:
        rule = rules.describe_rule(Name=name.rpartition("|")[2])
        if rule["State"] == "ENABLED" and rule["ScheduleExpression"].startswith("rate("):
            targets = rules.list_targets_by_rule(Rule=rule["Name"])["Targets"]
            found += [target["Input"] for target in targets if target["Arn"] == machine]
    return found


def test_an_update_in_place_keeps_messages_and_doors(rehearsal: Rehearsal) -> None:
    rest, url = rehearsal.door("rest"), rehearsal.door("url")
    sqs = rehearsal.client("rest")
    queue = sqs.create_queue(QueueName="outlives-an-update")["QueueUrl"]
    sqs.send_message(QueueUrl=queue, MessageBody="sent before")
    resources = rehearsal.deployed.resources()

    rehearsal.deploy(long_poll_s_max=2)

    for handler in ("app.app", "app.url"):
        variables = rehearsal.deployed.function(handler)["Environment"]["Variables"]
        assert variables["TIDEGATE_LONG_POLL_S_MAX"] == "2"
    assert (rehearsal.door("rest"), rehearsal.door("url")) == (rest, url)
    kinds = ("AWS::DynamoDB::Table", "AWS::S3::Bucket", "AWS::KMS::Key", "AWS::Lambda::Function")
    after = rehearsal.deployed.resources()
    assert [after[kind] for kind in kinds] == [resources[kind] for kind in kinds]
    assert one(sqs, queue)["Body"] == "sent before"
    sqs.delete_queue(QueueUrl=queue)


@pytest.mark.last
def test_what_holds_data_outlives_its_stacks(rehearsal: Rehearsal, tmp_path: Path) -> None:
    """Destroying takes the doors away, and is refused where data is; a server finds it all."""
    deployed = rehearsal.deployed
    sqs = rehearsal.client("url")
    queue = sqs.create_queue(QueueName="outlives-its-stacks")["QueueUrl"]
    sqs.send_message(QueueUrl=queue, MessageBody="kept")
    table, server = deployed.the("AWS::DynamoDB::Table"), rehearsal.server(tmp_path / "log")

    with pytest.raises(CdkError, match=r"[Tt]ermination ?[Pp]rotection"):
        rehearsal.cdk.destroy()
    assert deployed.resources()["AWS::Lambda::Function"] == []
    assert deployed.the("AWS::DynamoDB::Table") == table

    # Even who insists on it leaves the data where it is.
    formation = deployed.aws("cloudformation")
    for stack in formation.describe_stacks()["Stacks"]:
        if stack["EnableTerminationProtection"]:
            name = stack["StackName"]
            formation.update_termination_protection(
                StackName=name, EnableTerminationProtection=False
            )
            formation.delete_stack(StackName=name)
            formation.get_waiter("stack_delete_complete").wait(
                StackName=name, WaiterConfig={"Delay": 1, "MaxAttempts": 600}
            )
    assert deployed.resources()["AWS::DynamoDB::Table"] == []

    server.start()
    try:
        kept = server.client(attempts=3)
        there = kept.get_queue_url(QueueName=queue.rpartition("/")[2])["QueueUrl"]
        assert one(kept, there, WaitTimeSeconds=5)["Body"] == "kept"
    finally:
        server.kill()
