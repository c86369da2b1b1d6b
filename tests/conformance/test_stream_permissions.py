"""Who may do what with streams."""

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from data_plane.embedded.cell import EmbeddedCell
from data_plane.ports import Clock
from data_plane.protocol.http import HttpRequest
from tests.conformance.embedded_cell import SMALL
from tests.conformance.in_process import ACCOUNT, REGION, InProcessServer

BANK = "444455556666"
NAME = "clicks"
ARN = f"arn:aws:kinesis:{REGION}:{ACCOUNT}:stream/{NAME}"
FIRST = "shardId-000000000000"


def _refused(call: Any, **params: Any) -> tuple[str, str]:
    with pytest.raises(ClientError) as refused:
        call(**params)
    error = refused.value.response["Error"]
    return error["Code"], error["Message"]


def _embedded(directory: Path, clock: Clock, _offload: object) -> EmbeddedCell:
    return EmbeddedCell(directory, clock, SMALL)


class Site:
    """A server that asks policies, with two accounts, of which the first has a stream."""

    def __init__(self, directory: Path | None = None) -> None:
        cell = partial(_embedded, directory) if directory is not None else None
        self.server = InProcessServer(verifies=True, new_cell=cell)
        for account in (ACCOUNT, BANK):
            self.server.run(self.server.accounts.create_account("one", account, {}))
        self.owner, self.bank = self.client(ACCOUNT), self.client(BANK)
        self.owner.create_stream(StreamName=NAME, ShardCount=1)

    def client(self, account: str, **whose: str) -> Any:
        key = self.server.run(self.server.accounts.create_key(account, **whose))
        return self.server.kinesis(key.id, key.secret)

    def user(self, *actions: str) -> Any:
        policies = [_policy({"Action": list(actions), "Resource": ARN})]
        self.server.run(self.server.accounts.create_user(ACCOUNT, "ann", policies))
        return self.client(ACCOUNT, user="ann")


def _policy(statement: dict[str, Any]) -> str:
    return json.dumps({"Version": "2012-10-17", "Statement": [{"Effect": "Allow"} | statement]})


@pytest.fixture
def site() -> Iterator[Site]:
    made = Site()
    yield made
    made.server.close()


def test_a_user_may_do_what_its_policies_say(site: Site) -> None:
    ann = site.user("kinesis:PutRecord")
    ann.put_record(StreamName=NAME, Data=b"x", PartitionKey="a")
    code, message = _refused(ann.describe_stream, StreamName=NAME)
    assert code == "AccessDeniedException"
    # Unlike SQS, Kinesis names the action as policies do.
    assert message == (
        f"User: arn:aws:iam::{ACCOUNT}:user/ann is not authorized to perform: "
        f"kinesis:DescribeStream on resource: {ARN} "
        "because no identity-based policy allows the kinesis:DescribeStream action"
    )
    iterator = site.owner.get_shard_iterator(
        StreamName=NAME, ShardId=FIRST, ShardIteratorType="TRIM_HORIZON"
    )["ShardIterator"]
    assert _refused(ann.get_records, ShardIterator=iterator)[0] == "AccessDeniedException"


def test_another_account_may_do_what_the_stream_says(site: Site) -> None:
    record = {"StreamARN": ARN, "Data": b"x", "PartitionKey": "a"}
    assert _refused(site.bank.put_record, **record)[0] == "AccessDeniedException"
    allowed = _policy({"Principal": {"AWS": BANK}, "Action": "kinesis:PutRecord", "Resource": ARN})
    site.owner.put_resource_policy(ResourceARN=ARN, Policy=allowed)
    site.bank.put_record(**record)
    assert _refused(site.bank.describe_stream, StreamARN=ARN)[0] == "AccessDeniedException"


def test_what_continues_a_list_of_shards_is_a_call_on_its_stream(site: Site) -> None:
    site.owner.update_shard_count(
        StreamName=NAME, TargetShardCount=2, ScalingType="UNIFORM_SCALING"
    )
    ann = site.user("kinesis:ListShards")
    policy = _policy({"Principal": {"AWS": BANK}, "Action": "kinesis:ListShards", "Resource": ARN})
    site.owner.put_resource_policy(ResourceARN=ARN, Policy=policy)
    for client, named in ((ann, {"StreamName": NAME}), (site.bank, {"StreamARN": ARN})):
        token = client.list_shards(**named, MaxResults=1)["NextToken"]
        assert len(client.list_shards(NextToken=token)["Shards"]) == 2
        assert len(client.list_shards(NextToken=token, StreamARN=ARN)["Shards"]) == 2
        other = {"NextToken": token, "StreamARN": f"{ARN}2"}
        assert _refused(client.list_shards, **other)[0] == "InvalidArgumentException"
    token = site.owner.list_shards(StreamName=NAME, MaxResults=1)["NextToken"]
    denied = _policy({"Effect": "Deny", "Action": "kinesis:*", "Resource": ARN})
    allowed = _policy({"Action": "kinesis:*", "Resource": "*"})
    site.server.run(site.server.accounts.create_user(ACCOUNT, "bob", [allowed, denied]))
    bob = site.client(ACCOUNT, user="bob")
    assert _refused(bob.list_shards, NextToken=token)[0] == "AccessDeniedException"


def test_a_stream_is_found_in_its_region_alone(site: Site) -> None:
    """Policies go by the region that a request is signed for."""
    key = site.server.run(site.server.accounts.create_key(ACCOUNT))
    elsewhere = site.server.kinesis(key.id, key.secret, region="us-west-2")
    iterator = site.owner.get_shard_iterator(
        StreamName=NAME, ShardId=FIRST, ShardIteratorType="TRIM_HORIZON"
    )["ShardIterator"]
    for call, params in (
        (elsewhere.describe_stream, {"StreamARN": ARN}),
        (elsewhere.put_record, {"StreamARN": ARN, "Data": b"x", "PartitionKey": "a"}),
        (elsewhere.list_shards, {"StreamARN": ARN}),
        (elsewhere.list_tags_for_resource, {"ResourceARN": ARN}),
        (elsewhere.get_records, {"ShardIterator": iterator}),
    ):
        assert _refused(call, **params)[0] == "ResourceNotFoundException"


def test_strangers_learn_nothing(site: Site) -> None:
    headers = {"host": "localhost", "content-type": "application/x-amz-json-1.1"}
    headers["x-amz-target"] = "Kinesis_20131202.ListStreams"
    unsigned = site.server.answer(HttpRequest("POST", "/", "", headers, b"{}"))
    assert unsigned.status == 400
    told = json.loads(unsigned.body)
    assert told["__type"].endswith("MissingAuthenticationTokenException")
    assert told["message"] == "Missing Authentication Token"
    stranger = site.server.kinesis("AKIAIOSFODNN7EXAMPLE", "wrong")
    code, _ = _refused(stranger.describe_stream, StreamName=NAME)
    assert code == "UnrecognizedClientException"


def test_a_queue_over_a_stream_takes_who_may_read_the_stream(site: Site) -> None:
    policies = [
        _policy({"Action": "sqs:*", "Resource": "*"}),
        _policy({"Action": "kinesis:PutRecord", "Resource": ARN}),
    ]
    site.server.run(site.server.accounts.create_user(ACCOUNT, "ann", policies))
    site.server.run(
        site.server.accounts.create_user(
            ACCOUNT, "bob", [*policies, _policy({"Action": "kinesis:GetRecords", "Resource": ARN})]
        )
    )
    queues = {}
    for user in ("ann", "bob"):
        key = site.server.run(site.server.accounts.create_key(ACCOUNT, user=user))
        queues[user] = site.server.client("json", key.id, secret=key.secret)
    wanted = {"QueueName": "work", "Attributes": {"TidegateStreamArn": ARN}}
    code, message = _refused(queues["ann"].create_queue, **wanted)
    assert code == "AccessDenied"
    assert f"kinesis:GetRecords on resource: {ARN}" in message
    queues["bob"].create_queue(**wanted)
    # Who may receive from the queue need not know of the stream.
    url = queues["ann"].get_queue_url(QueueName="work")["QueueUrl"]
    assert "Messages" not in queues["ann"].receive_message(QueueUrl=url)


def test_a_queue_of_a_stream_takes_who_may_associate_it(site: Site) -> None:
    mode = {"StreamMode": "ON_DEMAND"}
    site.owner.update_stream_mode(StreamARN=ARN, StreamModeDetails=mode)
    wanted = {"QueueName": "work", "StreamConfigurationList": [{"StreamARN": ARN}]}
    every = ARN.replace(f"stream/{NAME}", "queue/*")
    create = _policy({"Action": "kinesis:*Queue*", "Resource": every})
    associate = _policy({"Action": "kinesis:AssociateStreamsWithQueue", "Resource": ARN})
    users = {"ann": [create], "bob": [associate], "eve": [create, associate]}
    clients = {}
    for user, policies in users.items():
        site.server.run(site.server.accounts.create_user(ACCOUNT, user, policies))
        clients[user] = site.client(ACCOUNT, user=user)
    code, message = _refused(clients["ann"].create_queue, **wanted)
    assert code == "AccessDeniedException"
    assert f"kinesis:AssociateStreamsWithQueue on resource: {ARN}" in message
    assert _refused(clients["bob"].create_queue, **wanted)[0] == "AccessDeniedException"
    made = clients["eve"].create_queue(**wanted)["QueueDescription"]
    # Who may receive from the queue need not know of the stream.
    asked = {"QueueARN": made["QueueARN"], "WaitTimeSeconds": 1}
    assert clients["ann"].receive_queue_records(**asked)["QueueRecords"] == []
    assert _refused(clients["bob"].receive_queue_records, **asked)[0] == "AccessDeniedException"


def test_another_account_may_do_what_the_queue_says(site: Site) -> None:
    mode = {"StreamMode": "ON_DEMAND"}
    site.owner.update_stream_mode(StreamARN=ARN, StreamModeDetails=mode)
    arn = site.owner.create_queue(QueueName="work", StreamConfigurationList=[{"StreamARN": ARN}])[
        "QueueDescription"
    ]["QueueARN"]
    asked = {"QueueARN": arn, "WaitTimeSeconds": 1}
    assert _refused(site.bank.receive_queue_records, **asked)[0] == "AccessDeniedException"
    allowed = _policy(
        {"Principal": {"AWS": BANK}, "Action": "kinesis:ReceiveQueueRecords", "Resource": arn}
    )
    site.owner.put_resource_policy(ResourceARN=arn, Policy=allowed)
    site.server.clock.advance(6)
    assert site.bank.receive_queue_records(**asked)["QueueRecords"] == []
    for call in (site.bank.describe_queue, site.bank.delete_queue):
        assert _refused(call, QueueARN=arn)[0] == "AccessDeniedException"
    missing = arn[:-26] + "a" * 26
    assert _refused(site.bank.describe_queue, QueueARN=missing)[0] == "AccessDeniedException"


@pytest.mark.parametrize(
    "named",
    [
        {"StreamName": "n" * 2_000},
        {"StreamName": "no name"},
        {"StreamARN": ARN.replace(REGION, "r" * 2_000)},
    ],
    ids=["long", "spaces", "region"],
)
def test_what_no_stream_is_called_is_refused(tmp_path: Path, named: dict[str, str]) -> None:
    """Its policy is asked for before the request is validated, and a key has its length."""
    site = Site(tmp_path)
    site.owner.meta.config.parameter_validation = False
    code, _ = _refused(site.owner.put_record, **named, Data=b"x", PartitionKey="a")
    assert code in {"ValidationException", "ResourceNotFoundException"}
    key = site.server.run(site.server.accounts.create_key(ACCOUNT))
    sqs = site.server.client(account=key.id, secret=key.secret)
    arn = named.get("StreamARN") or ARN.replace(NAME, named["StreamName"])
    attributes = {"TidegateStreamArn": arn}
    code, _ = _refused(sqs.create_queue, QueueName="q", Attributes=attributes)
    assert code in {"InvalidAttributeValue", "InvalidParameterValue"}
    cell = site.server.cell
    assert isinstance(cell, EmbeddedCell)
    site.server.run(cell.close())
    site.server.close()
    assert not [served for served in site.server.served if served.exception]
