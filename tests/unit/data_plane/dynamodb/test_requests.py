import asyncio
import json
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import pytest
from botocore.exceptions import (
    ClientError,
    ConnectionClosedError,
    ConnectTimeoutError,
    EndpointConnectionError,
    NoCredentialsError,
    ReadTimeoutError,
)

from data_plane.dynamodb.cell import DynamoCell
from data_plane.dynamodb.requests import ItemTooBigError
from data_plane.ports import ITEM_ABSENT, Append, CellUnavailableError, Key
from tests.unit.data_plane.dynamodb.scripted import Reply, Script, failure
from tests.unit.repeatable import HandClock

T = TypeVar("T")

KEY = Key("P", b"a")
STORED = {"pk": {"S": "P"}, "sk": {"B": "AGE="}, "v": {"N": "1"}}
FOUND = Reply({"Item": STORED})
WHOLE = json.dumps({"Item": STORED}).encode()

URL = {"endpoint_url": "http://127.0.0.1:9"}
PASSING = {
    "throttled": failure("ProvisionedThroughputExceededException"),
    "throttled by the account": failure("ThrottlingException"),
    "too many requests": failure("RequestLimitExceeded"),
    "internal error": failure("InternalServerError", 500),
    "unavailable": Reply(b"<html>try later</html>", 503, crc=""),
    "reset": ConnectionClosedError(**URL),
    "no connection": EndpointConnectionError(**URL),
    "no connection in time": ConnectTimeoutError(**URL),
    "no answer in time": ReadTimeoutError(**URL),
}
DAMAGED = {
    "cut, with the checksum of the whole": Reply(WHOLE[:30], crc=str(FOUND.headers["x-amz-crc32"])),
    "cut, without a checksum": Reply(WHOLE[:30], crc=""),
    "cut at a brace, without a checksum": Reply(WHOLE[: WHOLE.index(b"}") + 1], crc=""),
    "empty, without a checksum": Reply(b"", crc=""),
    "empty, with the checksum of the whole": Reply(b"", crc=str(FOUND.headers["x-amz-crc32"])),
    "one bit wrong": Reply(WHOLE.replace(b"v", b"w"), crc=str(FOUND.headers["x-amz-crc32"])),
    "another page": Reply(b"<html>hello</html>", crc=""),
    "no object": Reply(b"[]", crc=""),
    "an error, cut": Reply(b'{"__type": "x#Conditional', 400, crc=""),
    "without a date": Reply(WHOLE, date=""),
}
ANYTHING = PASSING | DAMAGED


async def inline(call: Callable[[], T]) -> T:
    return call()


def cell_on(script: Script, *, deadline_s: float = 30, report_units: bool = False) -> DynamoCell:
    return DynamoCell(
        script.client,
        "t",
        HandClock(),
        inline,
        deadline_s=deadline_s,
        report_units=report_units,
        monotonic_us=lambda: 0,  # nobody waits for a thread, however busy the machine is
    )


def run(call: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(call)


@pytest.mark.parametrize("answer", ANYTHING.values(), ids=ANYTHING)
def test_what_says_nothing_is_asked_again(answer: Reply | Exception) -> None:
    script = Script(answer, answer, FOUND)
    cell = cell_on(script)
    assert run(cell.get(KEY)) == {"v": 1}
    assert cell.counters.requests == {"get_item": 3}
    assert cell.counters.retries == 2
    assert script.requests[0] == script.requests[2]


@pytest.mark.parametrize("answer", ANYTHING.values(), ids=ANYTHING)
def test_until_the_deadline_and_then_the_cell_is_unavailable(answer: Reply | Exception) -> None:
    script = Script(answer)
    cell = cell_on(script, deadline_s=0.05)
    for call in (
        cell.get(KEY),
        cell.get_many([KEY]),
        cell.query("P", limit=1),
        cell.put(KEY, {"v": 1}, ITEM_ABSENT),
        cell.delete(KEY),
        cell.append(Append("P", b"", {"v": 1}, 5)),
    ):
        with pytest.raises(CellUnavailableError):
            run(call)


@pytest.mark.parametrize(
    "answer",
    [
        failure("AccessDeniedException", message="not you"),
        failure("UnrecognizedClientException"),
        failure("ResourceNotFoundException"),
        NoCredentialsError(),
    ],
)
def test_what_no_repetition_cures_is_not_repeated(answer: Reply | Exception) -> None:
    script = Script(answer)
    with pytest.raises(CellUnavailableError, match="get_item"):
        run(cell_on(script).get(KEY))
    assert len(script.requests) == 1


def test_a_mistake_of_ours_is_raised_as_it_comes() -> None:
    script = Script(failure("ValidationException", message="Invalid KeyConditionExpression"))
    with pytest.raises(ClientError, match="Invalid KeyConditionExpression"):
        run(cell_on(script).get(KEY))
    assert len(script.requests) == 1


@pytest.mark.parametrize(
    "message",
    [
        "Item size has exceeded the maximum allowed size",
        "Item size to update has exceeded the maximum allowed size",
    ],
)
def test_an_item_that_is_too_big_is_named_as_such(message: str) -> None:
    script = Script(failure("ValidationException", message=message))
    with pytest.raises(ItemTooBigError, match=message):
        run(cell_on(script).put(KEY, {"v": 1}))


def test_a_refused_write_brings_the_occupant() -> None:
    script = Script(failure("ConditionalCheckFailedException", Item=STORED))
    cell = cell_on(script)
    written = run(cell.put(KEY, {"v": 2}, ITEM_ABSENT, lambda _before: pytest.fail("not applied")))
    assert (written.applied, written.before) == (False, {"v": 1})
    assert len(script.requests) == 1


@pytest.mark.parametrize("body", [{}, {"Count": 0}])
def test_an_answer_to_a_query_has_items(body: object) -> None:
    script = Script(Reply(body), Reply({"Items": [STORED], "Count": 1}))
    assert len(run(cell_on(script).query("P", limit=1))) == 1
    assert len(script.requests) == 2


def test_an_empty_page_is_not_the_end_of_a_range() -> None:
    key = {"pk": {"S": "P"}, "sk": {"B": "AGE="}}
    script = Script(
        Reply({"Items": [], "LastEvaluatedKey": key}),
        Reply({"Items": [], "LastEvaluatedKey": key}),
        Reply({"Items": [STORED], "LastEvaluatedKey": key}),
    )
    assert [item.key for item in run(cell_on(script).query("P", limit=5))] == [KEY]
    assert [request.get("ExclusiveStartKey") for request in script.requests] == [None, key, key]


def test_what_a_batch_left_out_is_asked_for_again() -> None:
    rest = {"t": {"Keys": [{"pk": {"S": "P"}, "sk": {"B": "AGI="}}], "ConsistentRead": True}}
    second = {"pk": {"S": "P"}, "sk": {"B": "AGI="}, "v": {"N": "2"}}
    script = Script(
        Reply({"Responses": {"t": [STORED]}, "UnprocessedKeys": rest}),
        Reply({"Responses": {}, "UnprocessedKeys": rest}),
        Reply({"Responses": {"t": [second]}, "UnprocessedKeys": {}}),
    )
    other = Key("P", b"b")
    assert run(cell_on(script).get_many([KEY, other, KEY])) == {KEY: {"v": 1}, other: {"v": 2}}
    assert script.requests[2]["RequestItems"] == rest
    assert len(script.requests[0]["RequestItems"]["t"]["Keys"]) == 2


def test_a_batch_that_never_ends_is_unavailable() -> None:
    rest = {"t": {"Keys": [{"pk": {"S": "P"}, "sk": {"B": "AGE="}}]}}
    script = Script(Reply({"Responses": {}, "UnprocessedKeys": rest}))
    with pytest.raises(CellUnavailableError, match="did not get to a part"):
        run(cell_on(script, deadline_s=0.05).get_many([KEY]))


def test_what_waited_too_long_for_a_thread_is_not_sent() -> None:
    running_us = [0]

    async def late(call: Callable[[], T]) -> T:
        running_us[0] += 2_000_000
        return call()

    script = Script(FOUND)
    cell = DynamoCell(
        script.client, "t", HandClock(), late, deadline_s=2, monotonic_us=lambda: running_us[0]
    )
    for call in (cell.get(KEY), cell.get_many([KEY])):
        with pytest.raises(CellUnavailableError, match="no thread was free"):
            run(call)
    assert script.requests == []


def test_units_are_counted_by_operation() -> None:
    script = Script(
        Reply({"Item": STORED, "ConsumedCapacity": {"TableName": "t", "CapacityUnits": 1.5}}),
        Reply({"Responses": {}, "ConsumedCapacity": [{"TableName": "t", "CapacityUnits": 4}]}),
    )
    cell = cell_on(script, report_units=True)
    run(cell.get(KEY))
    run(cell.get_many([KEY]))
    assert cell.counters.units == {"get_item": 1.5, "batch_get_item": 4}
    assert script.requests[0]["ReturnConsumedCapacity"] == "TOTAL"


def test_an_eventual_read_says_so() -> None:
    script = Script(FOUND)
    cell = cell_on(script)
    run(cell.get(KEY, strong=False))
    run(cell.get(KEY))
    assert [request["ConsistentRead"] for request in script.requests] == [False, True]


def test_an_append_asks_for_no_condition_and_no_old_item() -> None:
    script = Script(Reply({}))
    appended = run(cell_on(script).append(Append("P", b"s", {"v": 1}, 5, 2)))
    (request,) = script.requests
    assert request.keys() == {"TableName", "Item"}
    assert appended.key == Key("P", (7).to_bytes(8, "big") + b"s")
    assert appended.time_ms == 1_790_000_000_999
