"""Cluster manager, analytics, monitoring: they fit what they are about."""

import json

import pytest

from control_plane.cluster.state_machine import definition
from control_plane.serverless.tasks import TASKS
from data_plane.usage.record import UsageRecord
from infra.options import MonitoringOptions, StageOptions
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

pytestmark = pytest.mark.xdist_group("infra")

EMAIL = MonitoringOptions(email="operators@example.com")


def cluster() -> Template:
    return templates(EVERYTHING)["cluster"]


def test_the_state_machine_is_the_one_that_the_control_plane_wrote() -> None:
    machine = only(cluster(), "AWS::StepFunctions::StateMachine")

    assert json.loads(machine["DefinitionString"]) == definition("${TaskFunctionArn}")
    assert list(machine["DefinitionSubstitutions"]) == ["TaskFunctionArn"]
    assert "Task" in text(machine["DefinitionSubstitutions"]["TaskFunctionArn"])


def test_schedules_start_every_task() -> None:
    rules = [one["Properties"] for one in of_type(cluster(), "AWS::Events::Rule").values()]
    started = [
        task
        for rule in rules
        for target in rule["Targets"]
        for task in json.loads(target["Input"])["tasks"]
    ]

    assert sorted(started) == sorted(TASKS)
    assert {rule["ScheduleExpression"] for rule in rules} == {"rate(1 minute)", "rate(6 hours)"}


def test_the_state_machine_may_invoke_one_function() -> None:
    invoke = [one for _, one in statements(cluster()) if "lambda:" in text(one["Action"])]

    [statement] = invoke
    assert listed(statement["Action"]) == ["lambda:InvokeFunction"]
    assert "*" not in text(statement["Resource"])


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
    assert {name for name in alarms if not name.startswith("Queue")} == in_composite
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
    names = {name[:-8] for name in alarms if not name.startswith("Queue")}

    assert names
    assert not {name for name in names if f"`{name}`" not in table}


def test_owners_of_queues_are_alarmed() -> None:
    template = templates(EVERYTHING)["monitoring"]
    alarms = {
        name: one["Properties"]
        for name, one in of_type(template, "AWS::CloudWatch::Alarm").items()
        if name.startswith("Queue")
    }

    assert sorted(one["Threshold"] for one in alarms.values()) == [3, 100]
    assert all(one["AlarmActions"] for one in alarms.values())


def test_queue_metrics_count_usage_records_of_the_queue() -> None:
    filters = [
        one["Properties"]
        for one in of_type(templates(EVERYTHING)["monitoring"], "AWS::Logs::MetricFilter").values()
    ]

    assert len(filters) == 6 * 2
    for one in filters:
        assert '$.queue = "orders"' in one["FilterPattern"]
        assert '$.account = "000000000000"' in one["FilterPattern"]


def test_an_emulator_gets_no_composite_alarm() -> None:
    template = templates(StageOptions("s", emulator=True, monitoring=EMAIL))["monitoring"]

    assert not of_type(template, "AWS::CloudWatch::CompositeAlarm")
    for alarm in of_type(template, "AWS::CloudWatch::Alarm").values():
        assert alarm["Properties"]["AlarmActions"]


def test_nobody_is_told_where_nobody_is_named() -> None:
    template = templates(StageOptions("s"))["monitoring"]

    assert not of_type(template, "AWS::SNS::Topic")
    assert of_type(template, "AWS::CloudWatch::Alarm")
