"""Quotas for what is stored and defined, as boto3 meets them on a table (moto): front ends apart.

What they cost is counted, too.
"""

from collections.abc import Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError

from control_plane.service import OPERATOR
from data_plane.dynamodb.cell import DynamoCell
from tests.conformance.dynamodb_server import serving_on_dynamodb
from tests.conformance.in_process import InProcessServer
from tests.conformance.runners import RUNNERS

TENANT = "111122223333"
BODY = "m" * 1_000
FIFO = {"FifoQueue": "true", "ContentBasedDeduplication": "false"}


@pytest.fixture(params=RUNNERS)
def server(request: pytest.FixtureRequest, dynamodb: Any) -> Iterator[InProcessServer]:
    with serving_on_dynamodb(dynamodb, RUNNERS[request.param], verifies=True) as made:
        made.run(made.accounts.create_account("root", OPERATOR, {}))
        yield made


class Tenant:
    """A client of an account with quotas, at one front end."""

    def __init__(self, server: InProcessServer, **quotas: int) -> None:
        self.server = server
        server.run(server.accounts.create_account("tenant", TENANT, quotas))
        self._key: Any = server.run(server.accounts.create_key(TENANT))
        self.sqs = self.at(server)
        self.kinesis = self.streams_at(server)
        self._sent = 0

    def at(self, server: InProcessServer, region: str = "eu-west-1") -> Any:
        return server.client(account=self._key.id, secret=self._key.secret, region=region)

    def streams_at(self, server: InProcessServer, region: str = "eu-west-1") -> Any:
        return server.kinesis(self._key.id, self._key.secret, region)

    def put(self, name: str, size_bytes: int, key: str = "k", kinesis: Any = None) -> str:
        """The refusal, "" for none."""
        data = b"d" * (size_bytes - len(key))
        client = kinesis or self.kinesis
        try:
            client.put_record(StreamName=name, PartitionKey=key, Data=data)
        except client.exceptions.LimitExceededException as error:
            return str(error.response["Error"]["Message"])
        return ""

    def send(self, url: str, sqs: Any = None, body: str = BODY) -> str:
        """The code of the refusal, "" for none."""
        self._sent += 1
        extra = {"MessageGroupId": "g", "MessageDeduplicationId": f"d{self._sent}"}
        try:
            (sqs or self.sqs).send_message(
                QueueUrl=url, MessageBody=body, **(extra if url.endswith(".fifo") else {})
            )
        except ClientError as error:
            return str(error.response["Error"]["Code"])
        return ""

    def empty(self, url: str) -> None:
        while messages := self.sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10).get(
            "Messages"
        ):
            for message in messages:
                self.sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])

    def requests(self) -> dict[str, int]:
        cell = self.server.cell
        assert isinstance(cell, DynamoCell)
        return dict(cell.counters.requests)


def flush(server: InProcessServer) -> None:
    """What a front end does every 10 s."""
    assert isinstance(server.cell, DynamoCell)
    server.run(server.cell.flush())


@pytest.mark.parametrize("name", ["orders", "orders.fifo"])
def test_a_queue_is_held_to_its_bytes_by_all_front_ends(server: InProcessServer, name: str) -> None:
    tenant = Tenant(server, queue_stored_bytes=10_000)
    attributes = FIFO if name.endswith(".fifo") else {}
    url = tenant.sqs.create_queue(QueueName=name, Attributes=attributes)["QueueUrl"]
    other = server.another()
    elsewhere = tenant.at(other)
    assert tenant.send(url, elsewhere) == ""
    for _ in range(8):
        assert tenant.send(url) == ""
    flush(server)
    server.clock.advance(11)
    with pytest.raises(ClientError) as refused:
        tenant.sqs.send_message_batch(
            QueueUrl=url,
            Entries=[
                {"Id": each, "MessageBody": BODY}
                | ({"MessageGroupId": each, "MessageDeduplicationId": each} if attributes else {})
                for each in "ab"
            ],
        )
    assert refused.value.response["ResponseMetadata"]["HTTPStatusCode"] == 403
    assert refused.value.response["Error"]["Code"] == "OverLimit"
    assert refused.value.response["Error"]["Message"] == (
        f"Queue {name} has 8000 bytes of messages stored, and its quota is 10000."
    )
    flush(other)
    server.clock.advance(11)
    assert (tenant.send(url), tenant.send(url, elsewhere)) == ("OverLimit", "OverLimit")
    # Its owner frees it.
    tenant.empty(url)
    flush(server)
    server.clock.advance(61)
    assert (tenant.send(url), tenant.send(url, elsewhere)) == ("", "")


@pytest.mark.parametrize("name", ["orders", "orders.fifo"])
def test_what_is_deleted_counts_no_more_while_others_stay(
    server: InProcessServer, name: str
) -> None:
    tenant = Tenant(server, queue_stored_bytes=12_000)
    attributes = FIFO if name.endswith(".fifo") else {}
    url = tenant.sqs.create_queue(QueueName=name, Attributes=attributes)["QueueUrl"]
    assert [tenant.send(url, body=BODY * 8), tenant.send(url)] == ["", ""]
    flush(server)
    server.clock.advance(11)
    assert tenant.send(url, body=BODY * 4) == "OverLimit"
    received = tenant.sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10)["Messages"]
    (big,) = (each for each in received if len(each["Body"]) > len(BODY))
    tenant.sqs.delete_message(QueueUrl=url, ReceiptHandle=big["ReceiptHandle"])
    flush(server)
    server.clock.advance(61)
    assert tenant.send(url, body=BODY * 4) == ""
    # What is left is known to the byte.
    server.clock.advance(11)
    with pytest.raises(ClientError, match="has 5000 bytes of messages stored"):
        tenant.sqs.send_message(
            QueueUrl=url,
            MessageBody=BODY * 8,
            **({"MessageGroupId": "g", "MessageDeduplicationId": "last"} if attributes else {}),
        )


def test_a_purge_frees_a_queue(server: InProcessServer) -> None:
    tenant = Tenant(server, queue_stored_bytes=3_000)
    url = tenant.sqs.create_queue(QueueName="orders")["QueueUrl"]
    assert [tenant.send(url), tenant.send(url)] == ["", ""]
    server.clock.advance(11)
    assert tenant.send(url) == "OverLimit"
    tenant.sqs.purge_queue(QueueUrl=url)
    server.clock.advance(11)
    assert tenant.send(url) == ""


def test_an_account_is_held_to_what_all_its_queues_have(server: InProcessServer) -> None:
    tenant = Tenant(server, account_stored_bytes=19_000)
    urls = {
        region: tenant.at(server, region).create_queue(QueueName=name)["QueueUrl"]
        for region, name in (("eu-west-1", "here"), ("us-east-2", "there"))
    }
    other = server.another()
    there = tenant.at(other, "us-east-2")
    assert tenant.send(urls["us-east-2"], there, BODY * 18) == ""
    flush(other)
    # This front end serves the other queue, and does not know yet what is in the first.
    assert tenant.send(urls["eu-west-1"]) == ""
    stored = server.ground.stored
    assert stored is not None
    server.run(stored.measure())
    assert tenant.send(urls["eu-west-1"]) == "OverLimit"


def test_looks_cost_the_same_however_much_is_sent(server: InProcessServer) -> None:
    """At first two queries; in the ten seconds after it nothing: as without quotas."""
    tenant = Tenant(server, queue_stored_bytes=10**9, account_stored_bytes=10**9)
    url = tenant.sqs.create_queue(QueueName="orders")["QueueUrl"]
    assert tenant.send(url) == ""
    server.clock.advance(11)
    costs = []
    for _ in range(20):
        before = tenant.requests()
        assert tenant.send(url) == ""
        after = tenant.requests()
        costs.append({name: after[name] - before.get(name, 0) for name in after})
    for each in costs[1:]:
        assert sum(each.values()) == each["put_item"] == 1
    assert costs[0].get("query", 0) <= 2


def test_a_stream_is_held_to_its_bytes_by_all_front_ends(server: InProcessServer) -> None:
    tenant = Tenant(server, queue_stored_bytes=10_000)
    tenant.kinesis.create_stream(StreamName="clicks", ShardCount=2)
    elsewhere = tenant.streams_at(server.another())
    for n in range(4):
        assert tenant.put("clicks", 1_000, key=f"key {n}") == ""
        assert tenant.put("clicks", 1_000, key=f"key {n}", kinesis=elsewhere) == ""
    server.clock.advance(11)
    refusal = "Stream clicks has 8000 bytes of records stored, and its quota is 10000."
    assert tenant.put("clicks", 2_001) == refusal
    server.clock.advance(11)
    assert tenant.put("clicks", 2_001, kinesis=elsewhere) == refusal
    # Its owner frees it.
    tenant.kinesis.delete_stream(StreamName="clicks")
    tenant.kinesis.create_stream(StreamName="clicks", ShardCount=1)
    server.clock.advance(11)
    assert tenant.put("clicks", 2_001) == ""


def test_an_account_is_held_to_what_its_queues_and_streams_have(server: InProcessServer) -> None:
    tenant = Tenant(server, account_stored_bytes=19_000)
    other = server.another()
    there = tenant.streams_at(other, "us-east-2")
    there.create_stream(StreamName="clicks", ShardCount=12)
    url = tenant.sqs.create_queue(QueueName="orders")["QueueUrl"]
    for n in range(18):
        assert tenant.put("clicks", 1_000, key=f"key {n}", kinesis=there) == ""
    # This front end serves the queue, and does not know yet what is in the stream.
    assert tenant.send(url) == ""
    stored = server.ground.stored
    assert stored is not None
    server.run(stored.measure())
    assert tenant.send(url) == "OverLimit"
    there.delete_stream(StreamName="clicks")
    for _ in range(11):
        server.clock.advance(61)
        server.run(stored.measure())
    assert tenant.send(url) == ""


def test_looks_at_a_stream_cost_the_same_however_much_is_put(server: InProcessServer) -> None:
    """Once in ten seconds a query for each of ten shards; between nothing: as without quotas."""
    tenant = Tenant(server, queue_stored_bytes=10**9, account_stored_bytes=10**9)
    tenant.kinesis.create_stream(StreamName="clicks", ShardCount=3)
    for n in range(30):
        assert tenant.put("clicks", 100, key=f"key {n}") == ""
    costs = []
    for wait_s in (11, *(0,) * 20, 11, *(0,) * 20):
        server.clock.advance(wait_s)
        before = tenant.requests()
        assert tenant.put("clicks", 100) == ""
        after = tenant.requests()
        costs.append({name: after[name] - before.get(name, 0) for name in after})
    assert costs[0].pop("query", 0) <= 3
    assert costs[21].pop("query", 0) <= 3
    for each in costs[1:]:
        assert each["put_item"] == 1
        assert each.get("query", 0) == 0


def test_an_account_has_no_more_queues_than_it_may(server: InProcessServer) -> None:
    tenant = Tenant(server, account_queues=3, account_definition_bytes=5_000)
    other = tenant.at(server.another())
    elsewhere = tenant.at(server, "us-east-2")
    tenant.sqs.create_queue(QueueName="one")
    url = other.create_queue(QueueName="two")["QueueUrl"]
    elsewhere.create_queue(QueueName="three")
    for sqs in (tenant.sqs, other, elsewhere):
        with pytest.raises(ClientError) as refused:
            sqs.create_queue(QueueName="four")
        assert refused.value.response["Error"]["Message"] == (
            f"Account {TENANT} has 3 queues, and its quota is 3."
        )
        sqs.get_queue_url(QueueName="three" if sqs is elsewhere else "one")
    # What is there is answered as ever.
    assert other.create_queue(QueueName="one")["QueueUrl"]
    with pytest.raises(ClientError, match="bytes of definitions, and its quota is 5000"):
        tenant.sqs.tag_queue(QueueUrl=url, Tags={f"k{i}": "v" * 200 for i in range(30)})
    tenant.sqs.delete_queue(QueueUrl=url)
    other.create_queue(QueueName="four")
