import io
import json
from typing import Any

import boto3
import botocore.model
import pytest
from botocore.awsrequest import AWSPreparedRequest, AWSResponse, HeadersDict

import tidegate_sdk

ENDPOINT = "http://queues.example:9324"
URL = f"{ENDPOINT}/000000000000/orders"
OPTIONS: dict[str, Any] = {
    "region_name": "eu-west-1",
    "aws_access_key_id": "any",
    "aws_secret_access_key": "any",
}
EXTRA_MEMBERS = {
    ("SendMessage", "TidegateDelaySeconds"),
    ("ReceiveMessage", "TidegateVisibilityTimeout"),
    ("ChangeMessageVisibility", "TidegateVisibilityTimeout"),
}
NOTHING = botocore.model.StructureShape("Nothing", {"type": "structure", "members": {}})
EXTRA_ENTRY_MEMBERS = {
    ("SendMessageBatch", "TidegateDelaySeconds"),
    ("ChangeMessageVisibilityBatch", "TidegateVisibilityTimeout"),
}


def members_beyond_sqs(client: Any) -> tuple[set[tuple[str, str]], set[tuple[str, str]]]:
    model = client.meta.service_model
    direct: set[tuple[str, str]] = set()
    entries: set[tuple[str, str]] = set()
    for name in model.operation_names:
        shape = model.operation_model(name).input_shape
        direct |= {(name, member) for member in shape.members if member.startswith("Tidegate")}
        if "Entries" in shape.members:
            entry = shape.members["Entries"].member
            entries |= {(name, member) for member in entry.members if member.startswith("Tidegate")}
    return direct, entries


def test_a_client_made_here_knows_the_extensions() -> None:
    client = tidegate_sdk.client(ENDPOINT, **OPTIONS)
    assert members_beyond_sqs(client) == (EXTRA_MEMBERS, EXTRA_ENTRY_MEMBERS)
    assert hasattr(client, "tidegate_browse_messages")
    assert client.can_paginate("tidegate_browse_messages")


def test_a_client_of_streams_knows_its_own() -> None:
    model = tidegate_sdk.client(ENDPOINT, "kinesis", **OPTIONS).meta.service_model
    found = {
        (name, member)
        for name in model.operation_names
        for member in (model.operation_model(name).input_shape or NOTHING).members
        if member.startswith("Tidegate")
    }
    assert found == {
        ("CreateStream", "TidegateRetentionHoursMax"),
        ("GetRecords", "TidegateWaitTimeSeconds"),
        ("IncreaseStreamRetentionPeriod", "TidegateRetentionHoursMax"),
        ("PutRecords", "TidegateProducerEpoch"),
        ("PutRecords", "TidegateProducerId"),
    }


def test_other_clients_of_boto3_see_nothing_of_them() -> None:
    tidegate_sdk.client(ENDPOINT, **OPTIONS)
    client = boto3.client("sqs", **OPTIONS)
    assert members_beyond_sqs(client) == (set(), set())
    assert not hasattr(client, "tidegate_browse_messages")
    assert "VisibilityTimeout" in required_of_a_change(client)


def required_of_a_change(client: Any) -> list[str]:
    shape = client.meta.service_model.operation_model("ChangeMessageVisibility").input_shape
    return list(shape.required_members)


def test_a_change_of_visibility_needs_one_of_two_members() -> None:
    assert required_of_a_change(tidegate_sdk.client(ENDPOINT, **OPTIONS)) == [
        "QueueUrl",
        "ReceiptHandle",
    ]


def test_sessions_of_others_can_be_extended_once_and_again() -> None:
    session = boto3.session.Session()
    for _ in range(2):
        tidegate_sdk.extend(session._session)
    paths = session._session.get_component("data_loader").search_paths
    assert paths.count(str(tidegate_sdk.MODELS)) == 1
    assert hasattr(session.client("sqs", **OPTIONS), "tidegate_browse_messages")


def test_the_models_work_through_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_DATA_PATH", str(tidegate_sdk.MODELS))
    client = boto3.session.Session().client("sqs", **OPTIONS)
    assert hasattr(client, "tidegate_browse_messages")


def test_every_shape_of_the_extended_model_resolves() -> None:
    model = tidegate_sdk.client(ENDPOINT, **OPTIONS).meta.service_model
    seen: set[str] = set()

    def walk(shape: botocore.model.Shape) -> None:
        if shape.name in seen:
            return
        seen.add(shape.name)
        if isinstance(shape, botocore.model.StructureShape):
            for member in shape.members.values():
                walk(member)
        elif isinstance(shape, botocore.model.ListShape):
            walk(shape.member)
        elif isinstance(shape, botocore.model.MapShape):
            walk(shape.value)

    for name in model.operation_names:
        operation = model.operation_model(name)
        for shape in (operation.input_shape, operation.output_shape, *operation.error_shapes):
            if shape is not None:
                walk(shape)
    assert {"TidegateBrowsedMessage", "MessageSystemAttributeMap"} <= seen


class _Body(io.BytesIO):
    def stream(self, **_: object) -> Any:
        yield self.read()


def test_requests_carry_the_extensions() -> None:
    client = tidegate_sdk.client(ENDPOINT, **OPTIONS)
    sent: list[tuple[bytes, dict[str, Any]]] = []

    def answer(request: AWSPreparedRequest, **_: object) -> AWSResponse:
        target: Any = request.headers["X-Amz-Target"]
        body: Any = request.body
        sent.append((target, json.loads(body)))
        return AWSResponse(request.url, 200, HeadersDict({}), _Body(b"{}"))  # type: ignore[arg-type]

    client.meta.events.register("before-send.sqs", answer)
    client.send_message(QueueUrl=URL, MessageBody="later", TidegateDelaySeconds=90_000)
    client.tidegate_browse_messages(QueueUrl=URL, MaxNumberOfMessages=100)
    assert sent == [
        (
            b"AmazonSQS.SendMessage",
            {"QueueUrl": URL, "MessageBody": "later", "TidegateDelaySeconds": 90_000},
        ),
        (b"AmazonSQS.TidegateBrowseMessages", {"QueueUrl": URL, "MaxNumberOfMessages": 100}),
    ]
