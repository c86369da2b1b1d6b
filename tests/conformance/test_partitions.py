"""Regions of other partitions: their ARNs begin with `arn:aws-cn`, `arn:aws-us-gov`, and so on.

Templates write `arn:${AWS::Partition}:sqs:...` (localstack/localstack #10904, #11296, getmoto/moto
#7699, floci-io/floci #3376).
"""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.conformance.client_calls import error
from tests.conformance.in_process import InProcessServer
from tests.conformance.test_authorisation import BANK, SHOP, policy, statement

REGIONS = {"cn-north-1": "aws-cn", "us-gov-west-1": "aws-us-gov", "us-iso-east-1": "aws-iso"}


class Site:
    """A server that asks policies, with two accounts that call in one region."""

    def __init__(self, protocol: str, region: str) -> None:
        self.server = InProcessServer(verifies=True)
        self.region, self.partition, self._protocol = region, REGIONS[region], protocol
        for account in (SHOP, BANK):
            self.server.run(self.server.accounts.create_account("one", account, {}))
        self.shop = self.client(SHOP)
        self.bank = self.client(BANK)

    def client(self, account: str, **whose: str) -> Any:
        key = self.server.run(self.server.accounts.create_key(account, **whose))
        return self.server.client(self._protocol, key.id, secret=key.secret, region=self.region)

    def user(self, account: str, name: str, *policies: str) -> Any:
        self.server.run(self.server.accounts.create_user(account, name, list(policies)))
        return self.client(account, user=name)

    def arn(self, name: str, partition: str = "") -> str:
        return f"arn:{partition or self.partition}:sqs:{self.region}:{SHOP}:{name}"

    def make(self, name: str, **attributes: Any) -> str:
        given = {key: json.dumps(value) for key, value in attributes.items()}
        url: str = self.shop.create_queue(QueueName=name, Attributes=given)["QueueUrl"]
        return url

    def read(self, url: str, name: str) -> str:
        held = self.shop.get_queue_attributes(QueueUrl=url, AttributeNames=[name])
        text: str = held["Attributes"][name]
        return text


@pytest.fixture(
    params=[("json", "cn-north-1"), ("query", "us-gov-west-1"), ("json", "us-iso-east-1")],
    ids="-".join,
)
def site(request: pytest.FixtureRequest) -> Iterator[Site]:
    made = Site(*request.param)
    with made.server:
        yield made


def test_a_queue_is_told_by_the_partition_of_its_region(site: Site) -> None:
    assert site.read(site.make("orders"), "QueueArn") == site.arn("orders")


def test_dead_letters_and_their_way_back(site: Site) -> None:
    allowed = {"redrivePermission": "byQueue", "sourceQueueArns": [site.arn("orders")]}
    dead = site.make("dead", RedriveAllowPolicy=allowed)
    redrive = {"deadLetterTargetArn": site.arn("dead"), "maxReceiveCount": 1}
    orders = site.make("orders", RedrivePolicy=redrive)
    site.shop.send_message(QueueUrl=orders, MessageBody="a")
    for _ in range(2):
        site.shop.receive_message(QueueUrl=orders, VisibilityTimeout=0)
    names = {"MessageSystemAttributeNames": ["DeadLetterQueueSourceArn"], "VisibilityTimeout": 0}
    (letter,) = site.shop.receive_message(QueueUrl=dead, **names)["Messages"]
    assert letter["Attributes"] == {"DeadLetterQueueSourceArn": site.arn("orders")}

    wrong = {"SourceArn": site.arn("dead", "aws")}
    assert error(site.shop.start_message_move_task, **wrong)[0] == "ResourceNotFoundException"
    site.shop.start_message_move_task(SourceArn=site.arn("dead"))
    (task,) = site.shop.list_message_move_tasks(SourceArn=site.arn("dead"))["Results"]
    assert task["SourceArn"] == site.arn("dead")


@pytest.mark.parametrize("partition", ["aws", "aws-eusc", "other"])
def test_the_arn_of_another_partition_is_no_target(site: Site, partition: str) -> None:
    site.make("dead")
    wrong = {"deadLetterTargetArn": site.arn("dead", partition), "maxReceiveCount": 1}
    refused = error(
        site.shop.create_queue, QueueName="q", Attributes={"RedrivePolicy": json.dumps(wrong)}
    )
    assert refused[0] == "InvalidParameterValue"


def test_policies_of_queues(site: Site) -> None:
    orders = site.make("orders")
    send = {"QueueUrl": orders, "MessageBody": "a"}
    assert error(site.bank.send_message, **send)[0] == "AccessDenied"
    allow = statement(
        "sqs:SendMessage",
        Resource=site.arn("orders"),
        Principal={"AWS": f"arn:{site.partition}:iam::{BANK}:root"},
    )
    attributes = {"Policy": policy(allow)}
    site.shop.set_queue_attributes(QueueUrl=orders, Attributes=attributes)
    site.bank.send_message(**send)

    ann = site.user(SHOP, "ann", policy(statement("sqs:*", Resource=site.arn("*"))))
    ann.send_message(**send)
    for condition in ("ArnLike", "StringLike"):
        deny = statement(
            "sqs:SendMessage",
            "Deny",
            Principal="*",
            Condition={condition: {"aws:PrincipalArn": f"arn:{site.partition}:iam::{SHOP}:user/*"}},
        )
        attributes = {"Policy": policy(allow, deny)}
        site.shop.set_queue_attributes(QueueUrl=orders, Attributes=attributes)
        code, message, _ = error(ann.send_message, **send)
        assert code == "AccessDenied"
        assert f"User: arn:{site.partition}:iam::{SHOP}:user/ann is not" in message
        assert f"on resource: {site.arn('orders')} with" in message


def test_policies_of_before_go_on_to_hold(site: Site) -> None:
    """Until 0.2 all ARNs were of `aws`: what was allowed is, and above all what was denied."""
    orders = site.make("orders")
    send = {"QueueUrl": orders, "MessageBody": "a"}
    allow = statement(
        "sqs:SendMessage",
        Resource=site.arn("orders", "aws"),
        Principal={"AWS": [f"arn:aws:iam::{BANK}:root"]},
    )
    attributes = {"Policy": policy(allow)}
    site.shop.set_queue_attributes(QueueUrl=orders, Attributes=attributes)
    site.bank.send_message(**send)
    deny = allow | {"Effect": "Deny", "Principal": {"AWS": [f"arn:aws:iam::{SHOP}:user/ann"]}}
    ann = site.user(SHOP, "ann", policy(statement("sqs:*", Resource="*")))
    ann.send_message(**send)
    attributes = {"Policy": policy(allow, deny)}
    site.shop.set_queue_attributes(QueueUrl=orders, Attributes=attributes)
    assert error(ann.send_message, **send)[0] == "AccessDenied"


def test_permissions_name_accounts_of_the_partition(site: Site) -> None:
    orders = site.make("orders")
    permission = {"Label": "bank", "AWSAccountIds": [BANK], "Actions": ["SendMessage"]}
    site.shop.add_permission(QueueUrl=orders, **permission)
    (given,) = json.loads(site.read(orders, "Policy"))["Statement"]
    assert given["Principal"] == {"AWS": f"arn:{site.partition}:iam::{BANK}:root"}
    assert given["Resource"] == site.arn("orders")
    site.bank.send_message(QueueUrl=orders, MessageBody="a")


def test_a_service_that_calls_for_a_topic_of_the_partition(site: Site) -> None:
    orders = site.make("orders")
    topic = f"arn:{site.partition}:sns:{site.region}:{BANK}:news"
    allow = statement(
        "sqs:SendMessage",
        Principal={"Service": "sns.amazonaws.com"},
        Condition={"ArnEquals": {"aws:SourceArn": topic}},
    )
    attributes = {"Policy": policy(allow)}
    site.shop.set_queue_attributes(QueueUrl=orders, Attributes=attributes)
    sns = site.client(BANK, service="sns.amazonaws.com")

    def say(request: Any, **_: object) -> None:
        request.headers["X-Amz-Source-Arn"] = topic

    sns.meta.events.register("before-sign.sqs", say)
    sns.send_message(QueueUrl=orders, MessageBody="a")
