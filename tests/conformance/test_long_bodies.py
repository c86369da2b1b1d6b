"""How long a body may be, by operation: more than its longest legal call, and not much more."""

from collections.abc import Iterator
from typing import Any

import pytest
from msgspec.structs import replace

from data_plane.core.limits import (
    ACTION_WITHIN_BYTES,
    ATTRIBUTE_NAME_BYTES_MAX,
    BATCH_ENTRIES_MAX,
    OPERATION_BODY_BYTES_MAX,
    POLICY_PRINCIPALS_MAX,
    RECEIVE_ATTRIBUTE_NAMES_MAX,
    SMALL_BODY_BYTES_MAX,
    STATEMENT_ACTIONS_MAX,
    TAG_KEY_CHARS_MAX,
    TAG_VALUE_CHARS_MAX,
    TAGS_MAX,
)
from tests.conformance.raw_calls import PROTOCOLS, Bench, Reply, url

WIDE = "\U00010400"
"""A letter that takes twelve bytes, escaped in either protocol."""
TAGS = {
    f"{number:02}{WIDE * (TAG_KEY_CHARS_MAX - 2)}": WIDE * TAG_VALUE_CHARS_MAX
    for number in range(TAGS_MAX)
}
HANDLES = [{"Id": str(number), "ReceiptHandle": "h" * 1024} for number in range(BATCH_ENTRIES_MAX)]
NAMES = [
    f"{n:04}{'n' * (ATTRIBUTE_NAME_BYTES_MAX - 4)}" for n in range(RECEIVE_ATTRIBUTE_NAMES_MAX)
]
LONGEST: dict[str, dict[str, Any]] = {
    "TagQueue": {"Tags": TAGS},
    "UntagQueue": {"TagKeys": list(TAGS)},
    "CreateQueue": {"QueueName": "orders", "tags": TAGS},
    "ReceiveMessage": {"MessageAttributeNames": NAMES, "WaitTimeSeconds": 0},
    "DeleteMessageBatch": {"Entries": HANDLES},
    "ChangeMessageVisibilityBatch": {
        "Entries": [{**entry, "VisibilityTimeout": 1} for entry in HANDLES]
    },
    "AddPermission": {
        "Label": "l" * 80,
        "AWSAccountIds": [f"{number:012}" for number in range(POLICY_PRINCIPALS_MAX)],
        "Actions": ["ChangeMessageVisibility"] * STATEMENT_ACTIONS_MAX,
    },
}


@pytest.fixture(scope="module", params=PROTOCOLS)
def bench(request: pytest.FixtureRequest) -> Iterator[Bench]:
    bench = Bench(request.param)
    bench.ask("CreateQueue", QueueName="orders")
    yield bench
    bench.close()


@pytest.mark.parametrize("action", LONGEST)
def test_the_longest_legal_call_is_let_in(bench: Bench, action: str) -> None:
    reply = bench.call(action, {"QueueUrl": url("orders"), **LONGEST[action]})
    assert reply.code not in ("RequestEntityTooLarge", "MalformedInput", "MalformedQueryString")
    if action in ("TagQueue", "UntagQueue", "ReceiveMessage"):
        assert reply == Reply(200)


def test_every_operation_has_a_limit_and_is_held_to_it(bench: Bench) -> None:
    operations = {operation.name: operation for operation in bench.server.operations}
    assert operations.keys() == OPERATION_BODY_BYTES_MAX.keys()
    messages = {"SendMessage", "SendMessageBatch"}
    for name, bytes_max in OPERATION_BODY_BYTES_MAX.items():
        assert name in messages or bytes_max < 1_048_576
        request = bench.request("ListQueues", {})
        if bench.protocol == "json":
            headers = {**request.headers, "x-amz-target": f"AmazonSQS.{name}"}
            request = replace(request, headers=headers)
        else:
            request = replace(request, body=f"Action={name}&x=".encode())
        too_long = replace(request, body=request.body.ljust(bytes_max + 1, b"b"))
        assert bench.send(too_long).code == "RequestEntityTooLarge", name
        just_so = replace(request, body=request.body.ljust(bytes_max, b" "))
        assert bench.send(just_so).code != "RequestEntityTooLarge", name


def test_an_action_stands_at_the_beginning_of_its_form() -> None:
    bench = Bench("query")
    bench.ask("CreateQueue", QueueName="orders")
    request = bench.request("SendMessage", {"QueueUrl": url("orders"), "MessageBody": "x"})
    for before, status in ((100, 200), (ACTION_WITHIN_BYTES, 404)):
        body = b"a=".ljust(before, b"b") + b"&" + request.body
        answer = bench.server.answer(replace(request, body=body))
        assert answer.status == status, before
    bench.close()


def test_a_name_of_the_action_may_be_escaped() -> None:
    bench = Bench("query")
    request = bench.request("ListQueues", {})
    for name in (b"%41ction", b"A%63tion"):
        assert bench.send(replace(request, body=name + b"=ListQueues")).status == 200
    bench.close()


def test_small_calls_are_small() -> None:
    assert OPERATION_BODY_BYTES_MAX["DeleteMessage"] == SMALL_BODY_BYTES_MAX


def test_a_receive_answers_so_many_bytes_of_messages() -> None:
    bench = Bench("json")
    bench.ask("CreateQueue", QueueName="big")
    for _ in range(4):
        bench.ask("SendMessage", QueueUrl=url("big"), MessageBody="x" * 900_000)
    came = []
    for _ in range(2):
        reply = bench.call(
            "ReceiveMessage",
            {"QueueUrl": url("big"), "MaxNumberOfMessages": 10, "WaitTimeSeconds": 0},
        )
        came.append(len(reply.result["Messages"]))
    assert came == [2, 2]
    bench.close()
