"""The service: what is deployed fits the code that it runs, and may do no more than it does."""

import ast
import json
from dataclasses import fields
from typing import Any

import pytest

from control_plane.serverless import stream, usage
from control_plane.serverless.settings import PREFIX, FunctionSettings, read_settings
from data_plane.core.errors import REQUEST_THROTTLED
from data_plane.usage.place import mark_name
from data_plane.usage.record import Mark
from tests.rehearsal.infra.synthesis import (
    EVERYTHING,
    QUEUE_KEY,
    ROOT,
    Template,
    functions,
    listed,
    of_type,
    only,
    service,
    statements,
    templates,
    text,
)

pytestmark = pytest.mark.xdist_group("infra")

HANDLERS = {"app.app", "app.url", "app.task", "app.stream", "app.usage"}
OF_CELL = {"app.app", "app.url", "app.task", "app.stream"}
ALL_RESOURCES = {
    # AWS documents these with all resources: they cannot be restricted.
    *("logs:CreateLogDelivery", "logs:GetLogDelivery", "logs:UpdateLogDelivery"),
    *("logs:DeleteLogDelivery", "logs:ListLogDeliveries", "logs:PutResourcePolicy"),
    *("logs:DescribeResourcePolicies", "logs:DescribeLogGroups"),
    *("xray:PutTraceSegments", "xray:PutTelemetryRecords"),
    *("xray:GetSamplingRules", "xray:GetSamplingTargets"),
}


def deployed() -> Template:
    return templates(EVERYTHING)["service"]


def test_each_handler_is_in_app() -> None:
    module = ast.parse((ROOT / "app.py").read_text(encoding="utf-8"))
    names = {node.name for node in module.body if isinstance(node, ast.FunctionDef)} | {
        target.id
        for node in module.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }

    assert set(functions(deployed())) == HANDLERS
    assert {handler.removeprefix("app.") for handler in HANDLERS} <= names


@pytest.mark.parametrize("handler", sorted(HANDLERS))
def test_functions_are_told_what_they_know(handler: str) -> None:
    known = {PREFIX + field.name.upper() for field in fields(FunctionSettings)}

    assert set(_environment(handler)) <= known


@pytest.mark.parametrize("handler", sorted(OF_CELL))
def test_functions_understand_what_they_are_told(handler: str) -> None:
    settings = read_settings({"AWS_REGION": "eu-west-1", **_resolved(handler)})

    assert settings.table == "tidegate"
    assert [cell.table for cell in settings.cells] == ["tidegate-second"]
    assert settings.account == "210987654321"
    assert settings.log_level == "warning"
    assert settings.long_poll_s_max == (9 if handler in ("app.app", "app.url") else 20)


def test_doors_are_told_the_base_of_queue_urls() -> None:
    base_url = "https://queues.example.com/v1"
    door = functions(templates(service(base_url=base_url))["service"])["app.app"]

    assert door["Environment"]["Variables"]["TIDEGATE_BASE_URL"] == base_url


@pytest.mark.parametrize(("seconds", "told"), [(-1, None), (0, "0"), (5, "5")])
def test_functions_are_told_how_strict_streams_are(seconds: int, told: str | None) -> None:
    made = functions(templates(service(strict_streams_s=seconds, function_url=True))["service"])
    for handler in OF_CELL & made.keys():
        variables = made[handler]["Environment"]["Variables"]
        assert variables.get("TIDEGATE_STRICT_STREAMS") == told


def test_the_usage_function_understands_what_it_is_told() -> None:
    environment = {"AWS_REGION": "eu-west-1", **_resolved("app.usage")}

    assert read_settings(environment, ("USAGE",)).usage.endswith("/usage")


def _environment(handler: str) -> Template:
    variables: Template = functions(deployed())[handler]["Environment"]["Variables"]
    return variables


def _resolved(handler: str) -> dict[str, str]:
    """The environment, as it would be where other stacks have given their values."""
    return {name: _as_deployed(value) for name, value in _environment(handler).items()}


def _as_deployed(value: Any) -> str:
    if isinstance(value, str):
        return value
    if "Fn::Join" in value:
        between, parts = value["Fn::Join"]
        return str(between).join(_as_deployed(part) for part in parts)
    imported: str = value["Fn::ImportValue"]
    if "CellTable2" in imported:
        return EVERYTHING.state.cells[0]
    if "CellTable" in imported:
        return EVERYTHING.state.table
    return QUEUE_KEY if "MasterKey" in imported else "some-bucket"


def test_sandboxes_start_and_log_as_the_code_expects() -> None:
    """No copies of one sandbox (docs/functions.md, *Starts*), and lines as they are written."""
    for handler, function in functions(deployed()).items():
        assert "SnapStart" not in function, handler
        assert set(function["LoggingConfig"]) == {"LogGroup"}, handler


def test_each_function_has_a_role_of_its_own() -> None:
    roles = [text(one["Role"]) for one in functions(deployed()).values()]

    assert len(set(roles)) == len(HANDLERS)


@pytest.mark.parametrize("stack", ["service", "cluster", "analytics", "monitoring"])
def test_no_right_is_wider_than_it_must_be(stack: str) -> None:
    for role, statement in statements(templates(EVERYTHING)[stack]):
        actions = listed(statement["Action"])
        assert not [action for action in actions if "*" in action], role
        if "*" in listed(statement["Resource"]):
            assert set(actions) <= ALL_RESOURCES, role


def test_rights_by_function() -> None:
    """Each action that each function may do: what is added here was asked for."""
    cell = {
        *("dynamodb:BatchGetItem", "dynamodb:BatchWriteItem", "dynamodb:DeleteItem"),
        *("dynamodb:GetItem", "dynamodb:PutItem", "dynamodb:Query", "dynamodb:UpdateItem"),
        *("s3:DeleteObject", "s3:GetObject", "s3:PutObject", "s3:ListBucket"),
        *("kms:Decrypt", "kms:Encrypt", "kms:GenerateDataKey"),
    }
    follow = {
        *("dynamodb:DescribeStream", "dynamodb:GetRecords"),
        *("dynamodb:GetShardIterator", "dynamodb:ListStreams"),
    }
    log = {"logs:CreateLogStream", "logs:PutLogEvents"}

    assert _rights("app.app") == cell | log
    assert _rights("app.url") == cell | log
    assert _rights("app.task") == cell | log
    assert _rights("app.stream") == cell | follow | log | {"sqs:SendMessage"}
    assert _rights("app.usage") == log | {"s3:PutObject", "sqs:SendMessage"}


@pytest.mark.parametrize("handler", ["app.app", "app.url"])
def test_doors_may_put_marks_and_no_records(handler: str) -> None:
    role = functions(deployed())[handler]["Role"]["Fn::GetAtt"][0]
    own = [one for owner, one in statements(deployed()) if owner == role]
    (right,) = [one for one in own if one.get("Sid") == "UsageMarks"]
    mark = Mark("tidegate.writer/1", "0" * 16, "function", 0, "", 0, 1, 1, closed=False)

    assert right["Action"] == "s3:PutObject"
    assert text(right["Resource"]).count(f"/usage/{mark_name(mark).partition('/')[0]}/*") == 1
    assert read_settings({"AWS_REGION": "eu-west-1", **_resolved(handler)}).usage.endswith("/usage")


def test_doors_are_replaced_after_the_function_that_reads_their_lines() -> None:
    found = of_type(deployed(), "AWS::Lambda::Function")
    names = {one["Properties"]["Handler"]: name for name, one in found.items()}

    for handler in ("app.app", "app.url"):
        assert names["app.usage"] in found[names[handler]]["DependsOn"]


def _rights(handler: str) -> set[str]:
    role = functions(deployed())[handler]["Role"]["Fn::GetAtt"][0]
    return {
        action
        for owner, statement in statements(deployed())
        if owner == role
        for action in listed(statement["Action"])
    }


def test_doors_may_use_the_keys_that_queues_may_name() -> None:
    with_key = [one for _, one in statements(deployed()) if QUEUE_KEY in listed(one["Resource"])]

    assert len(with_key) == len(OF_CELL)
    for one in with_key:
        assert set(one["Action"]) == {"kms:Decrypt", "kms:GenerateDataKey"}


def test_the_rest_api_hands_on_bytes_of_every_path_unjudged() -> None:
    template = deployed()
    methods = [one["Properties"] for one in of_type(template, "AWS::ApiGateway::Method").values()]

    assert only(template, "AWS::ApiGateway::RestApi")["BinaryMediaTypes"] == ["*/*"]
    assert only(template, "AWS::ApiGateway::Resource")["PathPart"] == "{proxy+}"
    assert [one["HttpMethod"] for one in methods] == ["ANY", "ANY"]
    assert {one["AuthorizationType"] for one in methods} == {"NONE"}
    assert {one["Integration"]["Type"] for one in methods} == {"AWS_PROXY"}


def test_throttled_callers_are_told_so_as_sqs_does() -> None:
    answer = only(deployed(), "AWS::ApiGateway::GatewayResponse")
    body = json.loads(answer["ResponseTemplates"]["application/json"])
    fault = REQUEST_THROTTLED

    assert answer["ResponseType"] == "THROTTLED"
    assert answer["StatusCode"] == str(fault.status)
    assert body["__type"].endswith(f"#{fault.code}")
    header = answer["ResponseParameters"]["gatewayresponse.header.x-amzn-query-error"]
    assert header == f"'{fault.code};Sender'"


def test_the_rest_api_throttles_and_logs() -> None:
    stage = only(deployed(), "AWS::ApiGateway::Stage")
    logged = json.loads(stage["AccessLogSetting"]["Format"])

    [settings] = stage["MethodSettings"]
    assert settings["ThrottlingRateLimit"] == EVERYTHING.service.requests_per_s
    assert settings["ThrottlingBurstLimit"] == EVERYTHING.service.requests_burst
    assert not settings["DataTraceEnabled"]
    # Query strings have signatures, bodies have messages.
    assert not [one for one in logged.values() if "querystring" in one or "$input" in one]


def test_the_function_url_is_open_and_an_option() -> None:
    assert only(deployed(), "AWS::Lambda::Url")["AuthType"] == "NONE"
    without = templates(service())["service"]
    assert not of_type(without, "AWS::Lambda::Url")
    assert "app.url" not in functions(without)


def test_the_rest_api_is_an_option() -> None:
    template = templates(service(rest_api=False, function_url=True))["service"]

    assert not of_type(template, "AWS::ApiGateway::RestApi")
    assert "app.app" not in functions(template)


def test_concurrency_can_be_reserved_for_doors() -> None:
    reserved = {
        handler: one.get("ReservedConcurrentExecutions")
        for handler, one in functions(deployed()).items()
    }

    assert {handler for handler, number in reserved.items() if number == 7} == {
        "app.app",
        "app.url",
    }


def test_doors_have_a_bound_by_themselves() -> None:
    bounds = {
        handler: one.get("ReservedConcurrentExecutions")
        for handler, one in functions(templates(service(function_url=True))["service"]).items()
    }

    assert (bounds["app.app"], bounds["app.url"]) == (100, 100)
    unbounded = functions(templates(service(reserved_concurrency=0))["service"])["app.app"]
    assert "ReservedConcurrentExecutions" not in unbounded


def test_traces_are_an_option() -> None:
    traced = deployed()
    for handler, one in functions(traced).items():
        assert one["TracingConfig"] == {"Mode": "Active"}, handler
    assert only(traced, "AWS::ApiGateway::Stage")["TracingEnabled"] is True
    untraced = templates(service())["service"]
    assert "xray:PutTraceSegments" in text(traced)
    assert "Active" not in text(functions(untraced))
    assert "xray:" not in text(untraced)


def test_the_stream_is_followed_record_by_record() -> None:
    mapping = only(deployed(), "AWS::Lambda::EventSourceMapping")

    assert mapping["BisectBatchOnFunctionError"] is True
    assert mapping["FunctionResponseTypes"] == ["ReportBatchItemFailures"]
    assert mapping["DestinationConfig"]["OnFailure"]["Destination"]
    assert mapping["MaximumRetryAttempts"] > 0
    [pattern] = mapping["FilterCriteria"]["Filters"]
    assert json.loads(pattern["Pattern"]) == stream.FILTER


def test_usage_lines_of_each_door_reach_the_usage_function() -> None:
    filters = of_type(deployed(), "AWS::Logs::SubscriptionFilter").values()

    assert len({text(one["Properties"]["LogGroupName"]) for one in filters}) == 2
    assert {one["Properties"]["FilterPattern"] for one in filters} == {usage.PATTERN}


def test_logs_end() -> None:
    for template in templates(EVERYTHING).values():
        for name, group in of_type(template, "AWS::Logs::LogGroup").items():
            assert group["Properties"]["RetentionInDays"] == EVERYTHING.service.log_days, name
