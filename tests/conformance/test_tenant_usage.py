"""GetUsage and SetBudgets as clients meet them: who may ask, groups, pages, and wrong values."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError

from control_plane.core.month_usage import COST_PLACES, Amounts, LineKey, MonthUsage
from control_plane.service import OPERATOR
from data_plane.core.limits import BUDGETS_MAX, USAGE_ROWS_MAX, USAGE_TAGGED_QUEUES_MAX
from data_plane.protocol.operation import no_work
from glue_jobs.records import KINESIS, MESSAGES_OF
from tests.conformance.in_process import REGION, InProcessServer

TENANT, NEIGHBOUR, STREAMS = "111122223333", "222233334444", "333344445555"
DAYS = ("2026-11-01", "2026-11-02")
QUEUES = ("jobs", "orders")
MANY = [f"q{at}" for at in range(USAGE_TAGGED_QUEUES_MAX + 1)]
STATES = (
    *("CreateStream", "UpdateShardCount"),
    *("IncreaseStreamRetentionPeriod", "DecreaseStreamRetentionPeriod"),
)
"""Changes that say in `messages` how it is then: docs/usage.md, *Requests on streams*."""
HOOKS = ("https://hooks.example.com/",)


class Known:
    """Each account has used the same of two queues on two days; but one."""

    async def month(self, account: str, period: str) -> MonthUsage:
        if account == STREAMS:
            names = ("SendMessage", "ReceiveMessage", "kinesis:PutRecord")
            lines = {
                LineKey(DAYS[0], REGION, "jobs", name): Amounts(2, 3, 1, 9, 0) for name in names
            }
            return MonthUsage(period, "USD", "a-book", 1_790_000_000_000_000, lines)
        lines = {
            LineKey(day, REGION, queue, operation): Amounts(2, 3, 1, 2**40, 10**COST_PLACES // 8)
            for day in DAYS
            for queue in (MANY if account == NEIGHBOUR else QUEUES)
            for operation in ("ReceiveMessage", "SendMessage")
        }
        return MonthUsage(period, "USD", "a-book", 1_790_000_000_000_000, lines)


@pytest.fixture(scope="module")
def server() -> Iterator[InProcessServer]:
    made = InProcessServer(verifies=True, tenant_usage=Known(), webhooks=HOOKS)
    made.run(made.accounts.create_account("root", OPERATOR, {}))
    for account in (TENANT, NEIGHBOUR):
        made.run(made.accounts.create_account("tenant", account, {}))
    yield made
    made.close()


def client(server: InProcessServer, account: str, **its: str) -> Any:
    held = server.run(server.accounts.keys(account, limit=100)).keys
    for key in held:
        server.run(server.accounts.revoke_key(account, key.id))
    made = server.run(server.accounts.create_key(account, **its))
    return server.client(account=made.id, secret=made.secret, extended=True)


def refusal(call: Any, **params: Any) -> tuple[str, str]:
    with pytest.raises(ClientError) as refused:
        call(**params)
    error = refused.value.response["Error"]
    return error["Code"], error["Message"]


def test_an_account_sees_its_own_usage(server: InProcessServer) -> None:
    answer = client(server, TENANT).tidegate_get_usage(GroupBy=["Queue", "Day"])
    assert answer["AccountId"] == TENANT
    assert (answer["Currency"], answer["PriceBook"]) == ("USD", "a-book")
    assert answer["AsOfTimestamp"] == 1_790_000_000
    amounts = {"Requests": 16, "Units": 24, "Messages": 8, "Bytes": 8 * 2**40, "Cost": "1"}
    assert answer["Total"] == amounts
    rows = [(row["Region"], row["QueueName"], row["Day"]) for row in answer["Usage"]]
    assert rows == [(REGION, queue, day) for queue in QUEUES for day in DAYS]
    assert {row["Cost"] for row in answer["Usage"]} == {"0.25"}
    assert "NextToken" not in answer


def test_each_operation_that_counts_is_known_to_count_messages_or_not(
    server: InProcessServer,
) -> None:
    of_sqs = {its.name for its in server.operations if its.measure is not no_work}
    of_streams = server.service.streams.service.operations.values()
    counting = of_sqs | {f"{KINESIS}{its.name}" for its in of_streams if its.measure is not no_work}
    changes = {f"{KINESIS}{its}" for its in STATES}
    assert counting - MESSAGES_OF == changes
    assert counting - changes == MESSAGES_OF


def test_usage_by_tag_is_by_the_tags_that_queues_have(server: InProcessServer) -> None:
    tenant = client(server, TENANT)
    tenant.create_queue(QueueName="jobs", tags={"team": "blue"})
    rows = tenant.tidegate_get_usage(GroupBy=["Tag"], TagKey="team")["Usage"]
    assert [(row["TagValue"], row["Requests"]) for row in rows] == [("", 8), ("blue", 8)]


def test_streams_are_told_apart_from_queues_of_their_names(server: InProcessServer) -> None:
    server.run(server.accounts.create_account("streams", STREAMS, {}))
    tenant = client(server, STREAMS)
    rows = tenant.tidegate_get_usage()["Usage"]
    assert [(row["QueueName"], row["Requests"]) for row in rows] == [
        ("jobs", 4),
        ("stream/jobs", 2),
    ]
    tenant.create_queue(QueueName="jobs", tags={"team": "blue"})
    key = server.run(server.accounts.create_key(STREAMS))
    server.kinesis(key.id, key.secret).create_stream(
        StreamName="jobs", ShardCount=1, Tags={"team": "red"}
    )
    rows = tenant.tidegate_get_usage(GroupBy=["Tag"], TagKey="team")["Usage"]
    assert [(row["TagValue"], row["Requests"]) for row in rows] == [("blue", 4), ("red", 2)]


def test_tags_of_too_many_queues_are_not_looked_up(server: InProcessServer) -> None:
    neighbour = client(server, NEIGHBOUR)
    told = refusal(neighbour.tidegate_get_usage, GroupBy=["Tag"], TagKey="team")
    most = f"Tags are looked up for {USAGE_TAGGED_QUEUES_MAX} queues at most."
    assert told == ("InvalidParameterValue", most)
    assert len(neighbour.tidegate_get_usage()["Usage"]) == USAGE_ROWS_MAX


def test_pages_have_all_rows_once(server: InProcessServer) -> None:
    tenant = client(server, TENANT)
    by = {"GroupBy": ["Day", "Operation", "Queue"]}
    whole = tenant.tidegate_get_usage(**by)["Usage"]
    pages = list(
        tenant.get_paginator("tidegate_get_usage").paginate(**by, PaginationConfig={"PageSize": 3})
    )
    assert [len(page["Usage"]) for page in pages] == [3, 3, 2]
    assert [row for page in pages for row in page["Usage"]] == whole


def test_other_accounts_are_for_the_operator(server: InProcessServer) -> None:
    tenant = client(server, TENANT)
    assert refusal(tenant.tidegate_get_usage, AccountId=NEIGHBOUR)[0] == "AccessDenied"
    denied, _ = refusal(tenant.tidegate_set_budgets, AccountId=NEIGHBOUR, Budgets=[])
    assert denied == "AccessDenied"
    operator = client(server, OPERATOR)
    assert operator.tidegate_get_usage(AccountId=NEIGHBOUR)["AccountId"] == NEIGHBOUR
    budget = {"Of": "requests", "Limit": "1"}
    operator.tidegate_set_budgets(AccountId=NEIGHBOUR, Budgets=[budget])
    assert client(server, NEIGHBOUR).tidegate_get_usage()["Budgets"] == [budget]


def test_users_need_a_policy(server: InProcessServer) -> None:
    server.run(server.accounts.create_user(TENANT, "nobody"))
    nobody = client(server, TENANT, user="nobody")
    assert refusal(nobody.tidegate_get_usage)[0] == "AccessDenied"
    statement = {"Effect": "Allow", "Action": "sqs:TidegateGetUsage", "Resource": "*"}
    policy = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
    server.run(server.accounts.create_user(TENANT, "books", [policy]))
    books = client(server, TENANT, user="books")
    assert books.tidegate_get_usage()["AccountId"] == TENANT
    assert refusal(books.tidegate_set_budgets, Budgets=[])[0] == "AccessDenied"
    assert refusal(books.tidegate_get_usage, AccountId=NEIGHBOUR)[0] == "AccessDenied"


@pytest.mark.parametrize(
    ("params", "told"),
    [
        ({"GroupBy": ["Colour"]}, "GroupBy takes Day, Region, Queue, Operation, Tag."),
        ({"GroupBy": ["Tag"]}, "GroupBy Tag and TagKey belong together."),
        ({"TagKey": "team"}, "GroupBy Tag and TagKey belong together."),
        ({"MaxResults": 0}, f"MaxResults must be between 1 and {USAGE_ROWS_MAX}."),
        ({"MaxResults": USAGE_ROWS_MAX + 1}, f"between 1 and {USAGE_ROWS_MAX}."),
        ({"Period": "2026-13"}, "Period must be a month, YYYY-MM, from "),
        ({"Period": "1999-01"}, "Period must be a month, YYYY-MM, from "),
        ({"Period": "9999-01"}, "Period must be a month, YYYY-MM, from "),
        ({"Period": "now"}, "Period must be a month, YYYY-MM, from "),
        ({"NextToken": "x"}, "Invalid NextToken value."),
        ({"NextToken": '["a"]'}, "Invalid NextToken value."),
        ({"NextToken": '["a",1]'}, "Invalid NextToken value."),
        ({"NextToken": "[" * 3000}, "Invalid NextToken value."),
        ({"AccountId": "12"}, "An AccountId has 12 digits."),
    ],
)
def test_wrong_questions(server: InProcessServer, params: dict[str, Any], told: str) -> None:
    code, message = refusal(client(server, OPERATOR).tidegate_get_usage, **params)
    assert code == "InvalidParameterValue"
    assert told in message


def test_budgets_are_set_shown_and_replaced(server: InProcessServer) -> None:
    tenant = client(server, TENANT)
    wanted = [
        {"Of": "cost", "Limit": "12.50", "WebhookUrl": "https://hooks.example.com/a"},
        {"Of": "requests", "Limit": "1000000", "QueueName": "jobs"},
    ]
    assert tenant.tidegate_set_budgets(Budgets=wanted)["Budgets"] == wanted
    assert tenant.tidegate_get_usage()["Budgets"] == wanted
    tenant.tidegate_set_budgets(Budgets=[])
    assert "Budgets" not in tenant.tidegate_get_usage()


@pytest.mark.parametrize(
    ("budgets", "told"),
    [
        ([{"Of": "time", "Limit": "1"}], "Of is cost or requests."),
        ([{"Of": "cost", "Limit": "much"}], "much is no Limit of cost."),
        ([{"Of": "requests", "Limit": "1.5"}], "1.5 is no Limit of requests."),
        ([{"Of": "cost", "Limit": "1"}] * 2, "Two Budgets are the same."),
        (
            [{"Of": "cost", "Limit": "1", "WebhookUrl": "http://169.254.169.254/"}],
            "WebhookUrl is none that the operator of this service allows.",
        ),
        (
            [{"Of": "cost", "Limit": "1", "QueueName": "a.fifo"}],
            "QueueName is not the name of a standard queue.",
        ),
        (
            [{"Of": "cost", "Limit": f"{at}"} for at in range(1, BUDGETS_MAX + 2)],
            f"There are at most {BUDGETS_MAX} Budgets.",
        ),
    ],
)
def test_wrong_budgets(server: InProcessServer, budgets: list[Any], told: str) -> None:
    tenant = client(server, TENANT)
    assert refusal(tenant.tidegate_set_budgets, Budgets=budgets) == ("InvalidParameterValue", told)


def test_a_server_that_counts_nothing_says_so() -> None:
    server = InProcessServer()
    try:
        tenant = server.client(extended=True)
        told = ("AWS.SimpleQueueService.UnsupportedOperation", "Usage cannot be asked for here.")
        assert refusal(tenant.tidegate_get_usage) == told
        assert refusal(tenant.tidegate_set_budgets, Budgets=[]) == told
    finally:
        server.close()
