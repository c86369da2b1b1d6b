"""Cluster manager, analytics, monitoring: they fit what they are about."""

import json
import re
from fnmatch import fnmatchcase
from typing import Any

import pytest

from control_plane.cluster.state_machine import beat_definition, definition
from control_plane.serverless.logs import FunctionLog
from control_plane.serverless.measuring import GROUP_MEASURED, MEASURE, MEASURED
from control_plane.serverless.tasks import TASKS
from data_plane.usage.record import UsageRecord
from infra.monitoring_options import MonitoringOptions
from infra.options import StageOptions
from tests.rehearsal.infra.synthesis import (
    EVERYTHING,
    ROOT,
    Template,
    functions,
    listed,
    of_type,
    only,
    statements,
    templates,
    text,
)
from tests.unit.repeatable import HandClock

pytestmark = pytest.mark.xdist_group("infra")

EMAIL = MonitoringOptions(email="operators@example.com")
OF_OWNERS = ("Queue", "Group")
"""How alarms begin that owners of queues and groups asked for."""


def cluster() -> Template:
    return templates(EVERYTHING)["cluster"]


def test_the_state_machine_is_the_one_that_the_control_plane_wrote() -> None:
    machine, beat = machines()

    assert json.loads(machine["DefinitionString"]) == definition("${TaskFunctionArn}")
    assert list(machine["DefinitionSubstitutions"]) == ["TaskFunctionArn"]
    assert machine["StateMachineType"] == "STANDARD"
    assert json.loads(beat["DefinitionString"]) == beat_definition(
        "${TaskFunctionArn}", "${ManagerArn}", "${StartExecution}"
    )
    assert beat["StateMachineType"] == "EXPRESS"
    told = beat["DefinitionSubstitutions"]
    assert "states:::states:startExecution" in text(told["StartExecution"])
    assert "Manager" in text(told["ManagerArn"])
    for one in (machine, beat):
        assert "Task" in text(one["DefinitionSubstitutions"]["TaskFunctionArn"])


def machines() -> tuple[Template, Template]:
    """The manager, and what looks before it."""
    found = of_type(cluster(), "AWS::StepFunctions::StateMachine")
    (manager,) = (one["Properties"] for name, one in found.items() if name.startswith("Manager"))
    (beat,) = (one["Properties"] for name, one in found.items() if name.startswith("Beat"))
    return manager, beat


def test_what_comes_often_is_a_look() -> None:
    """An execution of the manager has at least seven transitions, each of which is paid for."""
    rules = [one["Properties"] for one in of_type(cluster(), "AWS::Events::Rule").values()]
    started = {
        rule["ScheduleExpression"]: text(target["Arn"])
        for rule in rules
        for target in rule["Targets"]
    }

    assert "Beat" in started["rate(1 minute)"]
    assert "Manager" in started["rate(6 hours)"]
    idle = of_type(templates(EVERYTHING)["monitoring"], "AWS::CloudWatch::Alarm")
    (alarm,) = (one["Properties"] for name, one in idle.items() if name.startswith("ManagerIdle"))
    assert "Beat" in text(alarm["Dimensions"])


def test_state_machines_are_traced_where_functions_are() -> None:
    assert {one["TracingConfiguration"]["Enabled"] for one in machines()} == {True}
    plain = of_type(templates(StageOptions("s"))["cluster"], "AWS::StepFunctions::StateMachine")
    assert {one["Properties"]["TracingConfiguration"]["Enabled"] for one in plain.values()} == {
        False
    }


def test_schedules_start_every_task() -> None:
    rules = [one["Properties"] for one in of_type(cluster(), "AWS::Events::Rule").values()]
    started = [
        task
        for rule in rules
        for target in rule["Targets"]
        for task in json.loads(target["Input"]).get("tasks", ())
    ]

    assert sorted(started) == sorted(TASKS)
    assert {rule["ScheduleExpression"] for rule in rules} == {
        *("rate(1 minute)", "rate(5 minutes)", "rate(30 minutes)", "rate(6 hours)")
    }


def test_state_machines_may_invoke_one_function_and_only_the_manager_is_started() -> None:
    rights = {(name[:-8], listed(one["Action"])[0]): one for name, one in statements(cluster())}

    for role in ("ManagerRole", "BeatRole"):
        invoke = rights[role, "lambda:InvokeFunction"]
        assert "*" not in text(invoke["Resource"])
    for role, machine in (("BeatRole", "Manager"), ("StarterRole", "Manager")):
        assert machine in text(rights[role, "states:StartExecution"]["Resource"])
    assert ("ManagerRole", "states:StartExecution") not in rights


def test_the_task_function_has_the_time_that_tasks_take() -> None:
    task = functions(templates(EVERYTHING)["service"])["app.task"]

    assert task["Timeout"] == EVERYTHING.cluster.timeout_s == 900


def test_the_catalog_has_the_columns_of_usage_records() -> None:
    tables = of_type(templates(EVERYTHING)["analytics"], "AWS::Glue::Table").values()
    [table] = [
        one["Properties"]["TableInput"]
        for one in tables
        if "/records/" in text(one["Properties"]["TableInput"]["StorageDescriptor"]["Location"])
    ]
    columns = {one["Name"]: one["Type"] for one in table["StorageDescriptor"]["Columns"]}
    kinds = {str: "string", int: "bigint"}
    record = UsageRecord(
        schema="tidegate.usage/1",
        writer="0" * 16,
        number=1,
        minute=0,
        account="",
        region="",
        queue="",
        operation="",
        status="2xx",
        code="",
        requests=1,
        units=1,
        messages=0,
        bytes=0,
        failed_entries=0,
    )

    assert columns == {
        name: kinds[type(getattr(record, name))] for name in UsageRecord.__struct_fields__
    }
    assert [one["Name"] for one in table["PartitionKeys"]] == ["date", "hour"]


def test_operators_are_alarmed_once_for_an_incident() -> None:
    template = templates(EVERYTHING)["monitoring"]
    alarms = of_type(template, "AWS::CloudWatch::Alarm")
    composite = only(template, "AWS::CloudWatch::CompositeAlarm")
    in_composite = {name for name in alarms if f'"{name}"' in text(composite["AlarmRule"])}

    assert len(composite["AlarmActions"]) == 1
    assert {name for name in alarms if not name.startswith(OF_OWNERS)} == in_composite
    for part in ("Errors", "Throttles", "StreamAge", "SystemErrors", "ManagerFailed", "RestFail"):
        assert any(part in name for name in in_composite), part


def test_a_task_may_take_all_of_its_time() -> None:
    slow = [
        name
        for name in of_type(templates(EVERYTHING)["monitoring"], "AWS::CloudWatch::Alarm")
        if "Slow" in name
    ]

    assert len(slow) == 4
    assert not [name for name in slow if name.startswith("Task")]


def test_each_alarm_is_explained() -> None:
    page = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
    table = page.partition("### Alarms\n")[2].partition("\n## ")[0]
    alarms = of_type(templates(EVERYTHING)["monitoring"], "AWS::CloudWatch::Alarm")
    # CDK puts eight hexadecimal digits behind.
    names = {name[:-8] for name in alarms if not name.startswith(OF_OWNERS)}

    assert names
    assert not {name for name in names if f"`{name}`" not in table}


def test_owners_of_queues_and_groups_are_alarmed() -> None:
    template = templates(EVERYTHING)["monitoring"]
    alarms = {
        name: one["Properties"]
        for name, one in of_type(template, "AWS::CloudWatch::Alarm").items()
        if name.startswith(OF_OWNERS)
    }

    assert sorted(one["Threshold"] for one in alarms.values()) == [3, 100, 700, 900, 5000, 60000]
    assert all(one["AlarmActions"] for one in alarms.values())


def test_queue_metrics_count_usage_records_of_the_queue() -> None:
    filters = [
        one["Properties"]
        for one in of_type(templates(EVERYTHING)["monitoring"], "AWS::Logs::MetricFilter").values()
    ]

    assert len(filters) == (6 + 5) * 2 + 2 + 2
    for one in filters:
        named = '$.group = "billing"' if "group measured" in text(one) else '$.queue = "orders"'
        assert named in one["FilterPattern"]
        assert '$.account = "000000000000"' in one["FilterPattern"]


def test_metrics_of_a_stream_are_those_of_its_usage_records() -> None:
    """A queue and a stream of one name have metrics of their own."""
    put = {"account": "000000000000", "queue": "orders", "status": "2xx", "failed_entries": 1}
    lines: list[dict[str, Any]] = [
        {**put, "operation": "kinesis:PutRecords", "messages": 3, "bytes": 30},
        {**put, "operation": "kinesis:GetRecords", "messages": 4, "bytes": 40},
        {**put, "operation": "kinesis:GetRecords/long-term", "messages": 6, "bytes": 60},
        {**put, "operation": "SendMessageBatch", "messages": 5, "bytes": 50},
    ]
    read: dict[str, list[int]] = {}
    found = of_type(templates(EVERYTHING)["monitoring"], "AWS::Logs::MetricFilter").values()
    for one in (each["Properties"] for each in found):
        [transformation] = one["MetricTransformations"]
        if [each["Key"] for each in transformation["Dimensions"]] != ["Account", "StreamName"]:
            continue
        pattern = re.sub(r"\((.+) \|\| (.+)\)", r"\2", one["FilterPattern"])
        for line in lines:
            if matches(pattern, line):
                value = line[transformation["MetricValue"].removeprefix("$.")]
                read.setdefault(transformation["MetricName"], []).append(value)

    assert read == {
        "IncomingBytes": [30, 30],
        "IncomingRecords": [3, 3],
        "PutRecords.FailedRecords": [1, 1],
        "GetRecords.Bytes": [40, 60, 40, 60],
        "GetRecords.Records": [4, 6, 4, 6],
    }


def test_gauges_come_from_the_lines_that_the_function_writes() -> None:
    lines: list[str] = []
    log = FunctionLog(lines.append, HandClock(), "error")
    log.act(MEASURED, account="000000000000", queue="orders", visible=7, age_s=61)
    log.act(MEASURED, account="000000000000", queue="others", visible=8, age_s=62)
    log.act(GROUP_MEASURED, account="000000000000", group="billing", records=9, behind_ms=63)
    log.act(GROUP_MEASURED, account="000000000000", group="orders", records=10, behind_ms=64)
    found = of_type(templates(EVERYTHING)["monitoring"], "AWS::Logs::MetricFilter").values()
    read = {}
    for one in (each["Properties"] for each in found):
        [transformation] = one["MetricTransformations"]
        for line in map(json.loads, lines):
            if matches(one["FilterPattern"], line):
                assert "Task" in text(one["LogGroupName"])
                value = line[transformation["MetricValue"].removeprefix("$.")]
                read[transformation["MetricName"]] = value

    assert read == {
        "ApproximateNumberOfMessagesVisible": 7,
        "ApproximateAgeOfOldestMessage": 61,
        "GroupLagRecords": 9,
        "GroupLagMilliseconds": 63,
    }


def matches(pattern: str, line: dict[str, Any]) -> bool:
    """Whether a line is what a pattern without alternatives wants."""
    if "||" in pattern:
        return False
    wanted = re.findall(r'\$\.(\w+) = ("[^"]*"|\d+)', pattern)
    return all(fnmatchcase(str(line.get(name)), value.strip('"')) for name, value in wanted)


def test_the_function_is_asked_for_the_queues_and_groups_of_the_stage() -> None:
    rules = of_type(cluster(), "AWS::Events::Rule")
    [(name, rule)] = [(name, one) for name, one in rules.items() if "Measure" in name]
    [target] = rule["Properties"]["Targets"]
    permission = only(cluster(), "AWS::Lambda::Permission")

    assert json.loads(target["Input"]) == {
        "task": MEASURE,
        "queues": [{"account": "000000000000", "region": "eu-west-1", "queue": "orders"}],
        "groups": [{"account": "000000000000", "region": "eu-west-1", "group": "billing"}],
    }
    assert permission["FunctionName"] == target["Arn"]
    assert permission["SourceArn"] == {"Fn::GetAtt": [name, "Arn"]}
    assert permission["Principal"] == "events.amazonaws.com"
    without = templates(StageOptions("s"))["cluster"]
    assert len(of_type(without, "AWS::Events::Rule")) == len(rules) - 1


def test_an_emulator_gets_no_composite_alarm() -> None:
    template = templates(StageOptions("s", emulator=True, monitoring=EMAIL))["monitoring"]

    assert not of_type(template, "AWS::CloudWatch::CompositeAlarm")
    for alarm in of_type(template, "AWS::CloudWatch::Alarm").values():
        assert alarm["Properties"]["AlarmActions"]


def test_every_table_is_watched() -> None:
    own = text(of_type(templates(EVERYTHING)["monitoring"], "AWS::CloudWatch::Alarm"))

    for table in (EVERYTHING.state.table, *EVERYTHING.state.cells):
        assert f'"Value": "{table}"' in own, table


def test_starts_that_fail_are_kept_and_told() -> None:
    template = cluster()
    [queue] = of_type(template, "AWS::SQS::Queue")
    policy = text(only(template, "AWS::SQS::QueuePolicy")["PolicyDocument"])

    for rule in of_type(template, "AWS::Events::Rule").values():
        for target in rule["Properties"]["Targets"]:
            assert target["DeadLetterConfig"]["Arn"] == {"Fn::GetAtt": [queue, "Arn"]}
            assert target["RetryPolicy"]["MaximumEventAgeInSeconds"] <= 300
    assert "events.amazonaws.com" in policy
    assert "aws:SourceAccount" in policy
    alarms = of_type(templates(EVERYTHING)["monitoring"], "AWS::CloudWatch::Alarm")
    assert [name for name in alarms if name.startswith("NotStarted")]


def test_nobody_is_told_where_nobody_is_named() -> None:
    template = templates(StageOptions("s"))["monitoring"]

    assert not of_type(template, "AWS::SNS::Topic")
    assert of_type(template, "AWS::CloudWatch::Alarm")
