"""What the stacks made, what an update leaves as it was, and what stays when they are destroyed."""

import json
import re
import time
from pathlib import Path
from typing import Final

import pytest

from data_plane.dynamodb.tables import cell_table, time_to_live
from tests.conformance.client_calls import one
from tests.rehearsal.deployment.cdk import CdkError
from tests.rehearsal.deployment.conftest import Rehearsal
from tests.rehearsal.deployment.deployed import Deployed

pytestmark = pytest.mark.xdist_group("deployment")

_EXECUTION_S_MAX: Final = 60


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


def test_the_state_machine_runs_the_tasks_that_schedules_give_it(rehearsal: Rehearsal) -> None:
    machines = rehearsal.deployed.aws("stepfunctions")
    machine = rehearsal.deployed.the("AWS::StepFunctions::StateMachine")
    given = inputs_of(rehearsal.deployed, machine)
    assert given
    for text in given:
        execution = machines.start_execution(stateMachineArn=machine, input=text)["executionArn"]
        give_up_s = time.monotonic() + _EXECUTION_S_MAX
        while (told := machines.describe_execution(executionArn=execution))["status"] == "RUNNING":
            assert time.monotonic() < give_up_s
            time.sleep(0.1)  # between two looks
        assert told["status"] == "SUCCEEDED", told
        print(f"{text}: {told['output']}")
        assert set(json.loads(text)["tasks"]) <= set(re.findall(r"\w+", told["output"]))


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
                StackName=name, WaiterConfig={"Delay": 1}
            )
    assert deployed.resources()["AWS::DynamoDB::Table"] == []

    server.start()
    try:
        kept = server.client(attempts=3)
        there = kept.get_queue_url(QueueName=queue.rpartition("/")[2])["QueueUrl"]
        assert one(kept, there, WaitTimeSeconds=5)["Body"] == "kept"
    finally:
        server.kill()
