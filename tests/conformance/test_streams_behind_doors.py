"""Streams behind the doors of Lambda: readers get on, and SDKs that speak CBOR get answers."""

import base64
import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.conformance.doors import Door, rest_door, url_door
from tests.conformance.in_process import InProcessServer
from tests.conformance.raw_calls import json_request
from tests.conformance.runners import DOORS

OPENED = {"rest": rest_door, "url": url_door}
TARGET = "Kinesis_20131202"
RECORDS = 10
RECORD_BYTES = 1_000_000


@pytest.fixture(params=DOORS)
def door(request: pytest.FixtureRequest) -> Iterator[Door]:
    with InProcessServer(DOORS[request.param]) as server:
        yield OPENED[request.param](server)


def call(door: Door, operation: str, **params: object) -> Any:
    headers = {
        "content-type": "application/x-amz-json-1.1",
        "x-amz-target": f"{TARGET}.{operation}",
    }
    response = door(json_request(operation, params, headers))
    assert response.status == 200, response.body
    return json.loads(response.body or b"null")


def test_a_reader_that_is_behind_gets_all_records(door: Door) -> None:
    """Ten megabytes of them would be more than Lambda takes."""
    call(door, "CreateStream", StreamName="s", ShardCount=1)
    data = base64.b64encode(bytes(RECORD_BYTES)).decode()
    for number in range(RECORDS):
        call(door, "PutRecord", StreamName="s", PartitionKey=str(number), Data=data)
    where = {"ShardId": "shardId-000000000000", "ShardIteratorType": "TRIM_HORIZON"}
    iterator = call(door, "GetShardIterator", StreamName="s", **where)["ShardIterator"]
    found: list[str] = []
    while len(found) < RECORDS:
        page = call(door, "GetRecords", ShardIterator=iterator)
        assert page["Records"]
        found += [record["PartitionKey"] for record in page["Records"]]
        iterator = page["NextShardIterator"]
    assert found == [str(number) for number in range(RECORDS)]


def test_answers_in_cbor_get_out(door: Door) -> None:
    headers = {
        "content-type": "application/x-amz-cbor-1.1",
        "x-amz-target": f"{TARGET}.ListStreams",
    }
    response = door(json_request("ListStreams", b"\xa0", headers))
    assert response.status == 200
    assert b"StreamNames\x80" in response.body
