"""Who may do what, over the wire: users, other accounts, services; every action, both protocols."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from data_plane.policy.evaluate import OWNER_ONLY_ACTIONS
from tests.conformance.client_calls import error
from tests.conformance.in_process import ENDPOINT, REGION, InProcessServer

SHOP = "111122223333"
BANK = "444455556666"
TOPIC = f"arn:aws:sns:{REGION}:{BANK}:news"
URL = f"{ENDPOINT}/{SHOP}/orders"
ARN = f"arn:aws:sqs:{REGION}:{SHOP}:orders"


def policy(*statements: dict[str, Any]) -> str:
    return json.dumps({"Version": "2012-10-17", "Statement": statements})


def statement(action: Any, effect: str = "Allow", **members: Any) -> dict[str, Any]:
    return {"Effect": effect, "Action": action, "Resource": "*"} | members


class Site:
    """A server that verifies signatures and asks policies, with two accounts and one queue."""

    def __init__(self, protocol: str, *, auto_create_queues: bool = False) -> None:
        self.server = InProcessServer(verifies=True, auto_create_queues=auto_create_queues)
        self._protocol = protocol
        for account in (SHOP, BANK):
            self.server.run(self.server.accounts.create_account("one", account, {}))
        self.shop = self.client(SHOP)
        self.bank = self.client(BANK)
        self.shop.create_queue(QueueName="orders")

    def client(self, account: str, **whose: str) -> Any:
        key = self.server.run(self.server.accounts.create_key(account, **whose))
        extended = self._protocol == "json"
        return self.server.client(self._protocol, key.id, secret=key.secret, extended=extended)

    def calls(self, handle: str = "") -> dict[str, tuple[str, dict[str, Any]]]:
        """By operation: the client's method and parameters for a call about the queue."""
        known = calls(URL, ARN, handle)
        return {name: how for name, how in known.items() if hasattr(self.shop, how[0])}

    def user(self, account: str, name: str, *statements: dict[str, Any]) -> Any:
        policies = [policy(*statements)] if statements else []
        self.server.run(self.server.accounts.create_user(account, name, policies))
        return self.client(account, user=name)

    def service(self, account: str, source_arn: str) -> Any:
        """A client of SNS, which says for whom it calls."""
        client = self.client(account, service="sns.amazonaws.com")

        def say(request: Any, **_: object) -> None:
            request.headers["X-Amz-Source-Arn"] = source_arn

        client.meta.events.register("before-sign.sqs", say)
        return client

    def set_policy(self, *statements: dict[str, Any], queue: str = "orders") -> None:
        attributes = {"Policy": policy(*statements) if statements else ""}
        self.shop.set_queue_attributes(QueueUrl=queue, Attributes=attributes)


@pytest.fixture(params=["json", "query"])
def site(request: pytest.FixtureRequest) -> Iterator[Site]:
    made = Site(request.param)
    with made.server:
        yield made


def denied(
    who: str, action: str, resource: str = ARN, why: str = "because no identity-based policy allows"
) -> tuple[str, str, int]:
    action = f"sqs:{action.lower()}"
    end = why if "explicit" in why else f"{why} the {action} action"
    user = f"User: arn:aws:iam::{who}"
    return (
        "AccessDenied",
        f"{user} is not authorized to perform: {action} on resource: {resource} {end}",
        403,
    )


BY_QUEUE = "because no resource-based policy allows"
HANDLE = {"ReceiptHandle": "AAAA"}
ENTRY = {"Id": "1", "MessageBody": "x", "VisibilityTimeout": 1, **HANDLE}


def calls(url: str, arn: str, handle: str) -> dict[str, tuple[str, dict[str, Any]]]:
    def entries(*names: str) -> dict[str, Any]:
        return {"Entries": [{name: ENTRY[name] for name in ("Id", *names)}]}

    on_queue: dict[str, tuple[str, dict[str, Any]]] = {
        "AddPermission": (
            "add_permission",
            {"Label": "l", "AWSAccountIds": [BANK], "Actions": ["SendMessage"]},
        ),
        "ChangeMessageVisibility": (
            "change_message_visibility",
            {"VisibilityTimeout": 1, **HANDLE},
        ),
        "ChangeMessageVisibilityBatch": (
            "change_message_visibility_batch",
            entries("ReceiptHandle", "VisibilityTimeout"),
        ),
        "DeleteMessage": ("delete_message", HANDLE),
        "DeleteMessageBatch": ("delete_message_batch", entries("ReceiptHandle")),
        "DeleteQueue": ("delete_queue", {}),
        "GetQueueAttributes": ("get_queue_attributes", {"AttributeNames": ["All"]}),
        "ListDeadLetterSourceQueues": ("list_dead_letter_source_queues", {}),
        "ListQueueTags": ("list_queue_tags", {}),
        "PurgeQueue": ("purge_queue", {}),
        "ReceiveMessage": ("receive_message", {}),
        "RemovePermission": ("remove_permission", {"Label": "l"}),
        "SendMessage": ("send_message", {"MessageBody": "x"}),
        "SendMessageBatch": ("send_message_batch", entries("MessageBody")),
        "SetQueueAttributes": ("set_queue_attributes", {"Attributes": {"DelaySeconds": "1"}}),
        "TagQueue": ("tag_queue", {"Tags": {"team": "red"}}),
        "UntagQueue": ("untag_queue", {"TagKeys": ["team"]}),
        "TidegateBrowseMessages": ("tidegate_browse_messages", {}),
    }
    owner = arn.split(":")[4]
    return {name: (call, {"QueueUrl": url, **more}) for name, (call, more) in on_queue.items()} | {
        "CancelMessageMoveTask": ("cancel_message_move_task", {"TaskHandle": handle}),
        "CreateQueue": ("create_queue", {"QueueName": "orders"}),
        "GetQueueUrl": ("get_queue_url", {"QueueName": "orders", "QueueOwnerAWSAccountId": owner}),
        "ListMessageMoveTasks": ("list_message_move_tasks", {"SourceArn": arn}),
        "ListQueues": ("list_queues", {}),
        "StartMessageMoveTask": ("start_message_move_task", {"SourceArn": arn}),
    }


ASKED = {
    "ChangeMessageVisibilityBatch": "ChangeMessageVisibility",
    "DeleteMessageBatch": "DeleteMessage",
    "SendMessageBatch": "SendMessage",
    "TidegateBrowseMessages": "ReceiveMessage",
}
"""Operations that the permission of another action covers."""


def task_handle(site: Site) -> str:
    """Of a task that moves what is in the queue `orders`."""
    source = {"deadLetterTargetArn": ARN, "maxReceiveCount": 1}
    site.shop.create_queue(QueueName="before", Attributes={"RedrivePolicy": json.dumps(source)})
    return str(site.shop.start_message_move_task(SourceArn=ARN)["TaskHandle"])


def test_a_user_without_policies_may_do_nothing(site: Site) -> None:
    ann = site.user(SHOP, "ann")
    all_calls = site.calls(task_handle(site))
    assert len(all_calls) == 23 + hasattr(site.shop, "tidegate_browse_messages")
    for action, (call, params) in all_calls.items():
        resource = ARN.removesuffix("orders") if action == "ListQueues" else ARN
        expected = denied(f"{SHOP}:user/ann", ASKED.get(action, action), resource)
        assert error(getattr(ann, call), **params) == expected
        missing = json.loads(json.dumps(params).replace("orders", "nowhere"))
        if call != "cancel_message_move_task":
            expected = denied(
                f"{SHOP}:user/ann",
                ASKED.get(action, action),
                resource.replace("orders", "nowhere"),
            )
            assert error(getattr(ann, call), **missing) == expected


def test_a_batch_needs_the_permission_of_its_action_alone(site: Site) -> None:
    for covering in ("SendMessage", "DeleteMessage", "ChangeMessageVisibility", "ReceiveMessage"):
        user = site.user(SHOP, covering, statement(f"sqs:{covering}", Resource=ARN))
        for operation, (call, params) in site.calls().items():
            if ASKED.get(operation) == covering:
                getattr(user, call)(**params)
            elif operation in ASKED:
                assert error(getattr(user, call), **params)[0] == "AccessDenied"
    named = site.user(SHOP, "batches", statement("sqs:SendMessageBatch"))
    call, params = site.calls()["SendMessageBatch"]
    assert error(getattr(named, call), **params)[0] == "AccessDenied"


def test_a_user_with_all_permissions_may_do_everything(site: Site) -> None:
    admin = site.user(SHOP, "admin", statement("sqs:*"))
    url = admin.create_queue(QueueName="new", tags={"team": "red"})["QueueUrl"]
    admin.send_message(QueueUrl=url, MessageBody="x")
    admin.tag_queue(QueueUrl=url, Tags={"a": "b"})
    assert admin.list_queues()["QueueUrls"]
    assert error(admin.send_message, QueueUrl="nowhere", MessageBody="x")[0] == (
        "AWS.SimpleQueueService.NonExistentQueue"
    )
    admin.delete_queue(QueueUrl=url)


def test_another_account_needs_both_sides(site: Site) -> None:
    bob = site.user(BANK, "bob", statement(["sqs:SendMessage", "sqs:PurgeQueue"]))
    who = f"{BANK}:user/bob"
    assert error(bob.send_message, QueueUrl=URL, MessageBody="x") == denied(
        who, "SendMessage", why=BY_QUEUE
    )
    site.shop.add_permission(
        QueueUrl="orders",
        Label="bank",
        AWSAccountIds=[BANK],
        Actions=["SendMessage", "ReceiveMessage"],
    )
    bob.send_message(QueueUrl=URL, MessageBody="x")
    assert error(bob.receive_message, QueueUrl=URL) == denied(who, "ReceiveMessage")
    assert error(bob.purge_queue, QueueUrl=URL) == denied(who, "PurgeQueue", why=BY_QUEUE)
    (message,) = site.bank.receive_message(QueueUrl=URL)["Messages"]
    assert error(
        site.bank.delete_message, QueueUrl=URL, ReceiptHandle=message["ReceiptHandle"]
    ) == (denied(f"{BANK}:root", "DeleteMessage", why=BY_QUEUE))
    site.shop.remove_permission(QueueUrl="orders", Label="bank")
    assert error(bob.send_message, QueueUrl=URL, MessageBody="x")[0] == "AccessDenied"


def test_another_account_learns_nothing_of_queues_it_may_not_use(site: Site) -> None:
    everything = site.calls(task_handle(site))
    for action, (call, params) in everything.items():
        if call in ("create_queue", "list_queues", "get_queue_url"):
            continue
        asked = ASKED.get(action, action)
        expected = denied(f"{BANK}:root", asked, why=BY_QUEUE)
        assert error(getattr(site.bank, call), **params) == expected
        if call == "cancel_message_move_task":
            continue
        missing = json.loads(json.dumps(params).replace("orders", "nowhere"))
        code, message, status = expected
        answer = (code, message.replace("orders", "nowhere"), status)
        assert error(getattr(site.bank, call), **missing) == answer
    hidden = (
        "AWS.SimpleQueueService.NonExistentQueue",
        "The specified queue does not exist or you do not have access to it.",
        400,
    )
    for name in ("orders", "nowhere", "no name", "x" * 1000):
        found = error(site.bank.get_queue_url, QueueName=name, QueueOwnerAWSAccountId=SHOP)
        assert found == hidden


def test_the_owners_actions_cannot_be_given_away(site: Site) -> None:
    handle = task_handle(site)
    site.set_policy(statement("*", Principal="*"))
    bob = site.user(BANK, "bob", statement("*"))
    for client in (site.bank, bob):
        assert (
            client.get_queue_url(QueueName="orders", QueueOwnerAWSAccountId=SHOP)["QueueUrl"] == URL
        )
        assert (
            "Policy"
            in client.get_queue_attributes(QueueUrl=URL, AttributeNames=["All"])["Attributes"]
        )
        for action, (call, params) in site.calls(handle).items():
            if action in OWNER_ONLY_ACTIONS - {"CreateQueue", "ListQueues"}:
                assert error(getattr(client, call), **params)[0] == "AccessDenied", action


def test_an_explicit_deny_wins_and_is_told(site: Site) -> None:
    deny = statement("sqs:SendMessage", "Deny")
    ann = site.user(SHOP, "ann", statement("sqs:*"), deny)
    assert error(ann.send_message, QueueUrl="orders", MessageBody="x") == denied(
        f"{SHOP}:user/ann", "SendMessage", why="with an explicit deny in an identity-based policy"
    )
    site.set_policy(deny | {"Principal": "*"}, statement("sqs:*", Principal="*"))
    for client, who in ((site.shop, f"{SHOP}:root"), (site.bank, f"{BANK}:root")):
        assert error(client.send_message, QueueUrl=URL, MessageBody="x") == denied(
            who, "SendMessage", why="with an explicit deny in a resource-based policy"
        )
    site.shop.receive_message(QueueUrl="orders")
    site.set_policy()
    site.shop.send_message(QueueUrl="orders", MessageBody="x")


def test_a_service_sends_for_the_source_that_the_queue_names(site: Site) -> None:
    sns = site.service(BANK, TOPIC)
    who = ("AccessDenied", "User: sns.amazonaws.com is not authorized to perform: sqs:sendmessage")
    assert error(sns.send_message, QueueUrl=URL, MessageBody="x")[1].startswith(who[1])
    condition = {"ArnEquals": {"aws:SourceArn": TOPIC}}
    service = {"Service": "sns.amazonaws.com"}
    site.set_policy(statement("sqs:SendMessage", Principal=service, Condition=condition))
    sns.send_message(QueueUrl=URL, MessageBody="x")
    other = site.service(BANK, TOPIC + "2")
    assert error(other.send_message, QueueUrl=URL, MessageBody="x")[0] == "AccessDenied"
    assert error(sns.receive_message, QueueUrl=URL)[0] == "AccessDenied"
    # Nobody else is believed to call for the topic.
    site.set_policy(statement("sqs:SendMessage", Principal="*", Condition=condition))
    sns.send_message(QueueUrl=URL, MessageBody="x")

    def say(request: Any, **_: object) -> None:
        request.headers["X-Amz-Source-Arn"] = TOPIC

    site.bank.meta.events.register("before-sign.sqs", say)
    assert error(site.bank.send_message, QueueUrl=URL, MessageBody="x")[0] == "AccessDenied"


def test_conditions_see_the_connection_and_not_what_headers_say(site: Site) -> None:
    def say(request: Any, **_: object) -> None:
        request.headers["X-Forwarded-For"] = "10.0.0.1"
        request.headers["X-Forwarded-Proto"] = "https"

    def sends(operator: str, key: str, value: str) -> bool:
        one = statement("sqs:SendMessage", Condition={operator: {key: value}})
        user = site.user(SHOP, f"{operator}{len(site.server.served)}", one)
        user.meta.events.register("before-sign.sqs", say)
        try:
            user.send_message(QueueUrl="orders", MessageBody="x")
        except user.exceptions.ClientError:
            return False
        return True

    assert sends("IpAddress", "aws:SourceIp", "127.0.0.0/8")
    assert not sends("IpAddress", "aws:SourceIp", "10.0.0.0/8")
    assert not sends("Bool", "aws:SecureTransport", "true")
    assert sends("StringEquals", "aws:RequestedRegion", REGION)
    assert sends("StringEquals", "aws:ResourceAccount", SHOP)
    assert sends("StringLike", "aws:UserAgent", "Boto3/*")
    assert sends("DateGreaterThan", "aws:CurrentTime", "2020-01-01T00:00:00Z")
    assert not sends("NumericLessThan", "aws:EpochTime", "1000")
    assert sends("StringEquals", "aws:PrincipalType", "User")
    assert sends("ArnLike", "aws:PrincipalArn", f"arn:aws:iam::{SHOP}:user/*")
    assert not sends("StringEquals", "aws:PrincipalOrgID", "o-1")


def test_tags_of_queues_and_requests(site: Site) -> None:
    red = {"StringEquals": {"aws:ResourceTag/Team": "red"}}
    ann = site.user(
        SHOP,
        "ann",
        statement("sqs:*Message", Condition=red),
        statement(["sqs:TagQueue"], Condition={"StringEquals": {"aws:RequestTag/team": "red"}}),
        statement(
            ["sqs:UntagQueue"], Condition={"ForAnyValue:StringEquals": {"aws:TagKeys": "team"}}
        ),
        statement("sqs:CreateQueue"),
    )
    assert error(ann.send_message, QueueUrl="orders", MessageBody="x")[0] == "AccessDenied"
    assert error(ann.tag_queue, QueueUrl="orders", Tags={"team": "blue"})[0] == "AccessDenied"
    ann.tag_queue(QueueUrl="orders", Tags={"team": "red"})
    ann.send_message(QueueUrl="orders", MessageBody="x")
    assert error(ann.untag_queue, QueueUrl="orders", TagKeys=["stage"])[0] == "AccessDenied"
    ann.untag_queue(QueueUrl="orders", TagKeys=["team"])
    assert error(ann.send_message, QueueUrl="orders", MessageBody="x")[0] == "AccessDenied"
    ann.create_queue(QueueName="plain")
    ann.create_queue(QueueName="red", tags={"team": "red"})
    new = f"arn:aws:sqs:{REGION}:{SHOP}:blue"
    assert error(ann.create_queue, QueueName="blue", tags={"team": "blue"}) == denied(
        f"{SHOP}:user/ann", "TagQueue", new
    )
    assert error(site.shop.get_queue_url, QueueName="blue")[0].endswith("NonExistentQueue")


def test_moving_messages_needs_permissions_at_both_ends(site: Site) -> None:
    on_dead = ["StartMessageMoveTask", "ReceiveMessage", "DeleteMessage", "GetQueueAttributes"]
    back = f"arn:aws:sqs:{REGION}:{SHOP}:before"
    task_handle(site)
    ends = [statement([f"sqs:{name}" for name in on_dead], Resource=ARN)]
    for number, missing in enumerate(on_dead):
        part = statement([f"sqs:{name}" for name in on_dead if name != missing], Resource=ARN)
        user = site.user(SHOP, f"part{number}", part, statement("sqs:SendMessage"))
        assert error(user.start_message_move_task, SourceArn=ARN) == denied(
            f"{SHOP}:user/part{number}", missing
        )
    for number, destination in enumerate(({}, {"DestinationArn": back})):
        user = site.user(SHOP, f"end{number}", *ends)
        assert error(user.start_message_move_task, SourceArn=ARN, **destination) == denied(
            f"{SHOP}:user/end{number}", "SendMessage", back
        )


def test_a_first_message_creates_only_what_its_sender_may_create() -> None:
    site = Site("json", auto_create_queues=True)
    try:
        sender = site.user(SHOP, "sender", statement("sqs:SendMessage"))
        new = f"arn:aws:sqs:{REGION}:{SHOP}:new"
        assert error(sender.send_message, QueueUrl="new", MessageBody="x") == denied(
            f"{SHOP}:user/sender", "CreateQueue", new
        )
        maker = site.user(SHOP, "maker", statement(["sqs:SendMessage", "sqs:CreateQueue"]))
        maker.send_message(QueueUrl="new", MessageBody="x")
        sender.send_message(QueueUrl="new", MessageBody="x")
    finally:
        site.server.close()


def test_the_type_of_a_denial() -> None:
    site = Site("json")
    ann = site.user(SHOP, "ann")
    seen: list[Any] = []
    ann.meta.events.register(
        "after-call.sqs", lambda http_response, **_: seen.append(http_response)
    )
    try:
        error(ann.send_message, QueueUrl="orders", MessageBody="x")
    finally:
        site.server.close()
    (response,) = seen
    assert (
        json.loads(response.content)["__type"] == "com.amazon.coral.service#AccessDeniedException"
    )
    assert response.headers["x-amzn-query-error"] == "AccessDenied;Sender"
