"""Every limit in both protocols: its ends are accepted, what is beyond them does nothing."""

from collections.abc import Iterator

import pytest
from msgspec.structs import replace

from data_plane.core import limits
from tests.conformance.limit_cases import BATCHES, LEGACY, MESSAGES, ORDERS, Limit
from tests.conformance.queue_limit_cases import QUEUES
from tests.conformance.raw_calls import PROTOCOLS, Bench, Reply, refused, url

LIMITS = [*MESSAGES, *BATCHES, *QUEUES]
ELSEWHERE = {
    **dict.fromkeys(
        ("STREAM_SHARDS_MAX", "ACCOUNT_SHARDS_MAX"),
        "test_boto3_streams.py",
    ),
    "STREAM_SHARDS_KEPT_MAX": "test_quick_resharding.py",
    **dict.fromkeys(
        ("STREAM_QUEUES_MAX", "KINESIS_MAX_RECEIVE_COUNT_DEFAULT"),
        "test_kinesis_queue_definitions.py",
    ),
    "KINESIS_QUEUE_WAIT_S_DEFAULT": "test_kinesis_queues.py",
    **dict.fromkeys(
        ("KINESIS_QUEUE_WAIT_S_MIN", "KINESIS_QUEUE_ENTRIES_MAX"),
        "the unit tests of shapes, against botocore's model",
    ),
    **dict.fromkeys(
        (
            *("ACCOUNT_GROUPS_MAX", "STREAM_GROUPS_MAX"),
            *("GROUP_STREAMS_MAX", "GROUP_MEMBERS_MAX", "GROUP_SHARDS_MAX", "GROUP_COMMITS_MAX"),
            *("GROUP_SESSION_S_MIN", "GROUP_SESSION_S_DEFAULT", "GROUP_SESSION_S_MAX"),
            *("GROUP_REBALANCE_S_MIN", "GROUP_REBALANCE_S_DEFAULT", "GROUP_REBALANCE_S_MAX"),
        ),
        "test_consumer_groups.py and test_group_offsets.py",
    ),
    "OFFSET_METADATA_CHARS_MAX": "test_consumer_groups.py",
    "POLICY_BYTES_MAX": "the unit tests of policies",
    "POLICY_STATEMENTS_MAX": "the unit tests of policies",
    "POLICY_PRINCIPALS_MAX": "the unit tests of policies",
    "POLICY_CONDITIONS_MAX": "the unit tests of policies",
    "IN_FLIGHT_MAX": "the unit tests of the bag",
    "BROWSE_MESSAGES_MAX": "the tests of browsing",
    "REPLICATION_FACTOR_MAX": "the unit tests of queue attributes",
    "PURGE_INTERVAL_S": "below",
    "RECREATE_AFTER_DELETE_S": "below",
    "REQUEST_BODY_BYTES_MAX": "below",
    "BODY_BYTES_MAX": "the longer of two",
    **dict.fromkeys(
        (
            *("STREAM_NAME_CHARS_MAX", "PARTITION_KEY_CHARS_MAX", "PUT_RECORDS_MAX"),
            *("PRODUCER_ID_CHARS_MAX", "PRODUCER_EPOCH_MAX"),
            *("GET_RECORDS_MAX", "RECORD_KIB_MIN", "RECORD_KIB_MAX"),
            *("STREAM_RETENTION_HOURS_MIN", "STREAM_RETENTION_HOURS_MAX"),
        ),
        "the unit tests of the shapes of streams",
    ),
    **dict.fromkeys(
        (
            *("PUT_BODY_BYTES_MAX", "STREAM_BODY_BYTES_MAX", "STREAM_POLICY_BYTES_MAX"),
            *("PUT_OUTSIDE_BYTES_MAX", "PUT_STRINGS_MAX", "CBOR_ITEMS_MAX"),
        ),
        "the unit tests of Kinesis's protocols",
    ),
    "REQUEST_TARGET_BYTES_MAX": "below",
    "REQUEST_HEADERS_MAX": "below",
    "REQUEST_HEADER_BYTES_MAX": "below",
    "REQUEST_FORM_FIELDS_MAX": "below",
    "ACTION_WITHIN_BYTES": "test_long_bodies.py",
    "JSON_OUTSIDE_BYTES_MAX": "test_long_bodies.py",
    "JSON_STRINGS_MAX": "test_long_bodies.py",
    "SMALL_BODY_BYTES_MAX": "test_long_bodies.py",
    "OPERATION_BODY_BYTES_MAX": "test_long_bodies.py",
    "RECEIVE_BYTES_MAX": "test_long_bodies.py",
    "BODIES_HELD_BYTES_MAX": "the unit tests of what is held",
    "ANSWERS_HELD_BYTES_MAX": "the unit tests of what is held",
    "ANSWERS_MADE_BYTES_MAX": "test_making.py",
    "FORM_INDEX_MAX": "test_malformed_forms.py",
    "FORM_INDEX_SKIP_MAX": "test_malformed_forms.py",
    "INTEGER_MIN": "test_malformed_forms.py",
    "INTEGER_MAX": "test_malformed_forms.py",
    "LONG_MIN": "test_malformed_json.py",
    "LONG_MAX": "test_malformed_json.py",
    "ACCESS_KEYS_MAX": "the unit tests of accounts",
    "SERVICES_WITH_KEYS_MAX": "the unit tests of accounts",
    "USER_POLICIES_MAX": "the unit tests of accounts",
    "USER_POLICY_CHARS_MAX": "the unit tests of accounts",
    "ACCOUNTS_LISTED_MAX": "test_accounts.py",
    "USAGE_ROWS_MAX": "test_tenant_usage.py",
    "USAGE_TAGGED_QUEUES_MAX": "test_tenant_usage.py",
    "BUDGETS_MAX": "test_tenant_usage.py",
    "WEBHOOK_URL_CHARS_MAX": "the unit tests of budgets",
    "DROP_ITEMS_PER_S_MAX": "no limit of the API: the unit tests of settings",
    "CALLS_MAX_DEFAULT": "no limit of the API: the unit tests of places and of overload",
    "LONG_POLLS_MAX_DEFAULT": "no limit of the API: the unit tests of places",
    **dict.fromkeys(
        (name for name in vars(limits) if name.startswith("QUOTA_")), "the unit tests of quotas"
    ),
}
"""Limits that are tried by other tests, and where."""


@pytest.fixture(scope="module", params=PROTOCOLS)
def bench(request: pytest.FixtureRequest) -> Iterator[Bench]:
    bench = Bench(request.param)
    for name in ("orders", "settings", "dead"):
        bench.ask("CreateQueue", QueueName=name)
    bench.ask("CreateQueue", QueueName="small", Attributes={"MaximumMessageSize": "1024"})
    fifo = {"FifoQueue": "true", "ContentBasedDeduplication": "true"}
    bench.ask("CreateQueue", QueueName="orders.fifo", Attributes=fifo)
    yield bench
    bench.close()


def cases(values: str) -> list[object]:
    return [
        pytest.param(limit, value, id=f"{limit.label} {value}")
        for limit in LIMITS
        for value in getattr(limit, values)()
    ]


@pytest.mark.parametrize(("limit", "value"), cases("accepted"))
def test_up_to_the_limit(bench: Bench, limit: Limit, value: int) -> None:
    assert bench.call(limit.action, limit.params(bench, value)) == Reply(200)


@pytest.mark.parametrize(("limit", "value"), cases("refused"))
def test_beyond_the_limit(bench: Bench, limit: Limit, value: int) -> None:
    params = limit.params(bench, value)
    before = bench.state()
    assert bench.call(limit.action, params) == refused(*limit.refusal(value))
    assert bench.state() == before


def test_the_rules_of_sixty_seconds(bench: Bench) -> None:
    bench.ask("CreateQueue", QueueName="brief")
    clock = bench.server.clock
    address = {"QueueUrl": url("brief")}
    assert bench.call("PurgeQueue", address) == Reply(200)
    clock.advance(59)
    assert bench.call("PurgeQueue", address) == refused(
        f"{LEGACY}PurgeQueueInProgress",
        "Only one PurgeQueue operation on brief is allowed every 60 seconds.",
    )
    clock.advance(1)
    assert bench.call("PurgeQueue", address) == Reply(200)

    assert bench.call("DeleteQueue", address) == Reply(200)
    clock.advance(59)
    assert bench.call("CreateQueue", {"QueueName": "brief"}) == refused(
        f"{LEGACY}QueueDeletedRecently",
        "You must wait 60 seconds after deleting a queue before you can create another with the "
        "same name.",
    )
    clock.advance(1)
    assert bench.call("CreateQueue", {"QueueName": "brief"}) == Reply(200)


def test_the_size_of_a_body(bench: Bench) -> None:
    """It is our own limit: SQS states none."""
    request = bench.request("SendMessage", {"QueueUrl": ORDERS, "MessageBody": "x"})
    filler, end = (b',"a":"', b'"}') if bench.protocol == "json" else (b"&a=", b"")
    body = (request.body.removesuffix(end[1:]) + filler).ljust(
        limits.REQUEST_BODY_BYTES_MAX - len(end), b"b"
    ) + end
    assert bench.send(replace(request, body=body)).status == 200
    assert bench.send(replace(request, body=body + b" ")) == refused(
        "RequestEntityTooLarge", "Request bodies cannot be longer than 12582912 bytes."
    )


def test_the_sizes_of_address_and_headers(bench: Bench) -> None:
    request = bench.request("SendMessage", {"QueueUrl": ORDERS, "MessageBody": "x"})
    address = "a=".ljust(limits.REQUEST_TARGET_BYTES_MAX - len("/"), "b")
    assert bench.send(replace(request, query=address)).status == 200
    assert bench.send(replace(request, query=address + "b")) == refused(
        "MalformedQueryString", "The request's address is too long."
    )
    too_long = refused("RequestEntityTooLarge", "The request's headers are too long.")
    taken = sum(len(name) + len(value) for name, value in request.headers.items())
    room = limits.REQUEST_HEADER_BYTES_MAX - taken
    headers = {**request.headers, "x": "h" * (room - 1)}
    assert bench.send(replace(request, headers=headers)).status == 200
    headers["x"] += "h"
    assert bench.send(replace(request, headers=headers)) == too_long
    named = {**request.headers, "x" * (room + 1): ""}
    assert bench.send(replace(request, headers=named)) == too_long
    room = limits.REQUEST_HEADERS_MAX - len(request.headers)
    headers = {**request.headers, **{f"x-{number}": "" for number in range(room)}}
    assert bench.send(replace(request, headers=headers)).status == 200
    assert bench.send(replace(request, headers={**headers, "x": ""})) == too_long


def test_the_number_of_fields() -> None:
    bench = Bench("query")
    bench.ask("CreateQueue", QueueName="orders")
    request = bench.request("SendMessage", {"QueueUrl": ORDERS, "MessageBody": "x"})
    fields = request.body + b"&a=" * (limits.REQUEST_FORM_FIELDS_MAX - 4)
    assert bench.send(replace(request, body=fields)).status == 200
    assert bench.send(replace(request, body=fields + b"&a=")) == refused(
        "MalformedQueryString", "The query string contains a syntax error."
    )
    bench.close()


def test_every_limit_is_tried() -> None:
    names = {name for name in vars(limits) if name.isupper() and not name.startswith("_")}
    tried = {name for limit in LIMITS for name in limit.names}
    assert tried | ELSEWHERE.keys() == names
    assert tried & ELSEWHERE.keys() == set()
