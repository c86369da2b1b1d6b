"""What AWS answered where queues were deployed and configured, and what is answered here.

As in test_reported_elsewhere.py each case has its source. `cdk-preflight` is
badmintoncryer/cdk-preflight: each of its rules, rules/sqs/NAME/meta.yaml, has what AWS said to a
template that it was given. Those of cloudfoundry/csb-brokerpak-aws are in its
fifo_throughput_queues.md.
"""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.conformance.in_process import ACCOUNT, REGION, InProcessServer
from tests.conformance.raw_calls import (
    Reply,
    encode_form,
    form_request,
    json_request,
    read_reply,
    refused,
    url,
)

ARN = f"arn:aws:sqs:{REGION}:{ACCOUNT}:orders"
FIFO = {"FifoQueue": "true"}
HIGH = {"FifoThroughputLimit": "perMessageGroupId"}
BY_GROUP = {"DeduplicationScope": "messageGroup"}
KEY = {"KmsMasterKeyId": "alias/aws/sqs"}
NAME = "Can only include alphanumeric characters, hyphens, or underscores. 1 to 80 in length"
FIFO_ALONE = "You can specify the {} only when FifoQueue is set to true."
LIMIT = refused(
    "InvalidAttributeValue",
    "Invalid value for the parameter FifoThroughputLimit. Reason: To set FifoThroughputLimit to "
    "perMessageGroupId, the DeduplicationScope must be messageGroup.",
)


@pytest.fixture(scope="module")
def server() -> Iterator[InProcessServer]:
    started = InProcessServer()
    assert ask(started, "CreateQueue", QueueName="orders").status == 200
    assert create(started, "fast.fifo", FIFO | BY_GROUP | HIGH).status == 200
    yield started
    started.close()


def ask(server: InProcessServer, action: str, **params: Any) -> Reply:
    return read_reply(server.answer(json_request(action, params)), "json")


def create(server: InProcessServer, name: str, attributes: dict[str, str]) -> Reply:
    return ask(server, "CreateQueue", QueueName=name, Attributes=attributes)


@pytest.mark.parametrize(
    ("name", "attributes", "expected"),
    [
        pytest.param(*case[1:], id=case[0])
        for case in (
            ("cloudfoundry/csb-brokerpak-aws, high throughput", "new.fifo", FIFO | HIGH, LIMIT),
            (
                "cdk-preflight pf-sqs-high-throughput-pairing",
                "new.fifo",
                FIFO | HIGH | {"DeduplicationScope": "queue"},
                LIMIT,
            ),
            (
                "cloudfoundry/csb-brokerpak-aws, scope of a standard queue",
                "new",
                BY_GROUP | HIGH,
                refused("InvalidAttributeName", FIFO_ALONE.format("DeduplicationScope")),
            ),
            (
                "cloudfoundry/csb-brokerpak-aws, limit of a standard queue",
                "new",
                HIGH,
                refused("InvalidAttributeName", FIFO_ALONE.format("FifoThroughputLimit")),
            ),
            (
                "cdk-preflight pf-sqs-fifo-only-attributes",
                "new",
                {"ContentBasedDeduplication": "true"},
                refused("InvalidAttributeName", "Unknown Attribute ContentBasedDeduplication."),
            ),
            (
                "cdk-preflight pf-sqs-queue-name-format",
                "\u30c6\u30b9\u30c8\u7528",
                {},
                refused("InvalidParameterValue", NAME),
            ),
            (
                "cdk-preflight pf-sqs-fifo-name-suffix",
                "new.fifo",
                {},
                refused("InvalidParameterValue", NAME),
            ),
            (
                "cdk-preflight pf-sqs-sse-exclusive",
                "new",
                KEY | {"SqsManagedSseEnabled": "true"},
                refused(
                    "InvalidAttributeName",
                    "You can use one type of server-side encryption (SSE) at one time. You can "
                    "either enable KMS SSE or SQS SSE.",
                ),
            ),
        )
    ],
)
def test_queues_that_are_not_made(
    server: InProcessServer, name: str, attributes: dict[str, str], expected: Reply
) -> None:
    assert create(server, name, attributes) == expected


def test_groups_of_deduplication_without_the_high_throughput(server: InProcessServer) -> None:
    """cloudfoundry/csb-brokerpak-aws, fifo_throughput_queues.md: that is allowed."""
    assert create(server, "slow.fifo", FIFO | BY_GROUP).status == 200


def test_high_throughput_does_not_stay_without_groups(server: InProcessServer) -> None:
    """The same text when the scope alone is changed."""
    change = {"QueueUrl": url("fast.fifo"), "Attributes": {"DeduplicationScope": "queue"}}
    assert ask(server, "SetQueueAttributes", **change) == LIMIT
    asked = {"QueueUrl": url("fast.fifo"), "AttributeNames": [*BY_GROUP, *HIGH]}
    assert ask(server, "GetQueueAttributes", **asked).result == {"Attributes": BY_GROUP | HIGH}


def test_an_arn_for_a_queue_url(server: InProcessServer) -> None:
    """cdk-preflight pf-sqs-queue-policy-queues: a queue's policy was set so."""
    expected = refused("InvalidAddress", f"The address {ARN} is not valid for this endpoint.")
    assert ask(server, "SetQueueAttributes", QueueUrl=ARN, Attributes={"Policy": ""}) == expected
    assert ask(server, "SendMessage", QueueUrl=ARN, MessageBody="x") == expected


@pytest.mark.parametrize(
    ("target", "receives_max", "reason"),
    [
        (
            "arn:aws:sqs:us-west-2:123456789012:dlq",
            "5",
            "Dead-letter target must be in same region as the source.",
        ),
        (ARN, 1001, "Invalid value for maxReceiveCount"),
        (ARN, 0, "Invalid value for maxReceiveCount"),
    ],
)
def test_redrive_policies_that_are_wrong(
    server: InProcessServer, target: str, receives_max: Any, reason: str
) -> None:
    """cdk-preflight pf-sqs-redrive-arn-region, pf-sqs-redrive-policy: the policy is repeated."""
    policy = json.dumps({"maxReceiveCount": receives_max, "deadLetterTargetArn": target})
    reply = create(server, "new", {"RedrivePolicy": policy})
    assert (reply.status, reply.code) == (400, "InvalidParameterValue")
    start = f"Value {policy} for parameter RedrivePolicy is invalid. Reason: {reason}"
    assert reply.message.startswith(start)


@pytest.mark.parametrize("receives_max", [1, 1000])
def test_redrive_policies_at_the_limits(server: InProcessServer, receives_max: int) -> None:
    """cdk-preflight pf-sqs-redrive-policy."""
    policy = json.dumps({"maxReceiveCount": receives_max, "deadLetterTargetArn": ARN})
    assert create(server, f"at-{receives_max}", {"RedrivePolicy": policy}).status == 200


def test_a_dead_letter_queue_of_the_other_type(server: InProcessServer) -> None:
    """cdk-preflight pf-sqs-dlq-same-type: there are two full stops."""
    policy = json.dumps({"maxReceiveCount": 3, "deadLetterTargetArn": ARN})
    assert create(server, "new.fifo", FIFO | {"RedrivePolicy": policy}) == refused(
        "InvalidParameterValue",
        f"Value {policy} for parameter RedrivePolicy is invalid. Reason: Dead-letter queue must be "
        "same type of queue as the source..",
    )


def test_sources_that_may_redrive_need_not_exist(server: InProcessServer) -> None:
    """cdk-preflight pf-sqs-redrive-allow-policy: ten of them, not eleven."""
    arns = [f"{ARN}-{number}" for number in range(11)]
    ten, eleven, none = (
        json.dumps({"redrivePermission": "byQueue", "sourceQueueArns": some})
        for some in (arns[:10], arns, [])
    )
    assert create(server, "ten", {"RedriveAllowPolicy": ten}).status == 200
    for policy in (eleven, none):
        reply = create(server, "new", {"RedriveAllowPolicy": policy})
        assert (reply.status, reply.code) == (400, "InvalidParameterValue")
        assert reply.message.startswith(f"Value {policy} for parameter RedriveAllowPolicy is inval")


@pytest.mark.parametrize("member", ["VisibilityTimeout", "WaitTimeSeconds", "MaxNumberOfMessages"])
def test_a_text_for_a_number(server: InProcessServer, member: str) -> None:
    """async-aws/aws #1667: it was in a DSN's query, where all are texts."""
    response = server.answer(
        json_request("ReceiveMessage", {"QueueUrl": url("orders"), member: "9"})
    )
    assert response.status == 400
    document = json.loads(response.body)
    assert document["__type"].endswith("#SerializationException")
    assert document["message"] == "STRING_VALUE can not be converted to an Integer"


def test_a_purge_after_a_purge(server: InProcessServer) -> None:
    """aws/aws-sdk-js #4506: its status is 403."""
    assert create(server, "purged", {}).status == 200
    assert ask(server, "PurgeQueue", QueueUrl=url("purged")).status == 200
    response = server.answer(json_request("PurgeQueue", {"QueueUrl": url("purged")}))
    assert response.status == 403
    assert json.loads(response.body)["message"] == (
        "Only one PurgeQueue operation on purged is allowed every 60 seconds."
    )


def test_a_message_that_is_longer_than_its_queue_takes(server: InProcessServer) -> None:
    """inferablehq/inferable #306: a queue from when the maximum was 256 KiB."""
    assert create(server, "short", {"MaximumMessageSize": "262144"}).status == 200
    sent = {"QueueUrl": url("short"), "MessageBody": "x" * 262144}
    assert ask(server, "SendMessage", **sent).status == 200
    sent["MessageBody"] += "x"
    assert ask(server, "SendMessage", **sent) == refused(
        "InvalidParameterValue",
        "One or more parameters are invalid. Reason: Message must be shorter than 262144 bytes.",
    )


ALLOWED = {"Effect": "Allow", "Principal": "*", "Action": "sqs:SendMessage", "Resource": ARN}
OWNERS = "SendMessage ReceiveMessage DeleteMessage GetQueueUrl PurgeQueue ChangeMessageVisibility"
OTHERS = "GetQueueAttributes ListQueueTags ListDeadLetterSourceQueues SetQueueAttributes"


@pytest.mark.parametrize(
    ("statements", "message"),
    [
        pytest.param(
            [{**ALLOWED, "Sid": str(number)} for number in range(21)],
            "21 statements were found in the submitted policy, max allowed is 20",
            id="dapr/components-contrib #1780",
        ),
        pytest.param(
            [{**ALLOWED, "Action": [f"sqs:{name}" for name in f"{OWNERS} {OTHERS}".split()]}],
            "10 actions were found in a statement from the submitted policy, max allowed is 7",
            id="ministryofjustice/cloud-platform-environments #9082",
        ),
        pytest.param(
            [{**ALLOWED, "Resource": [f"{ARN}-{number}" for number in range(200)]}],
            "Submitted policy is over max allowed size.",
            id="justeattakeaway/JustSaying #211, BishopFox/cloudfoxable #29",
        ),
    ],
)
def test_policies_that_are_too_big(
    server: InProcessServer, statements: list[dict[str, Any]], message: str
) -> None:
    policy = json.dumps({"Version": "2012-10-17", "Statement": statements})
    response = ask(
        server, "SetQueueAttributes", QueueUrl=url("orders"), Attributes={"Policy": policy}
    )
    assert (response.status, response.code, response.message) == (403, "OverLimit", message)


def test_a_change_of_no_attributes(server: InProcessServer) -> None:
    """pulumi/pulumi-aws #5959 and #5677, aws-controllers-k8s/community #2139."""
    expected = refused("MissingParameter", "The request must contain the parameter Attribute.Name.")
    changed = {"QueueUrl": url("orders")}
    assert ask(server, "SetQueueAttributes", **changed, Attributes={}) == expected
    assert ask(server, "SetQueueAttributes", **changed) == expected
    assert form(server, "SetQueueAttributes", changed) == expected


def test_a_delete_of_no_handle(server: InProcessServer) -> None:
    """aws/aws-sdk-js-v3 #5478, #6092 in JSON, syndesisio/syndesis #6254 in a form."""
    expected = refused("MissingParameter", "The request must contain the parameter MessageHandle.")
    queue = {"QueueUrl": url("orders")}
    assert ask(server, "DeleteMessage", **queue, ReceiptHandle=None) == expected
    assert form(server, "DeleteMessage", queue) == expected
    assert form(server, "DeleteMessage", {**queue, "ReceiptHandle": ""}) == expected


@pytest.mark.parametrize("lists", [{"StringListValues": []}, {"BinaryListValues": []}])
def test_messages_sent_again_as_they_were_received(
    server: InProcessServer, lists: dict[str, list[str]]
) -> None:
    """ruby-shoryuken/shoryuken #769, lumigo-io/lumigo-CLI #94: no received attribute has a list."""
    message = {
        "MessageBody": "x",
        "MessageAttributes": {"k": {"DataType": "String", "StringValue": "v", **lists}},
    }
    unsupported = "AWS.SimpleQueueService.UnsupportedOperation"
    text = "Message attribute list values in {} operation are not supported."
    assert ask(server, "SendMessage", QueueUrl=url("orders"), **message) == refused(
        unsupported, text.format("SendMessage")
    )
    entries = [{"Id": "a", "MessageBody": "y"}, {"Id": "b", **message}]
    assert ask(server, "SendMessageBatch", QueueUrl=url("orders"), Entries=entries) == refused(
        unsupported, text.format("SendMessageBatch")
    )
    entry = "SendMessageBatchRequestEntry.1"
    fields = {
        "QueueUrl": url("orders"),
        f"{entry}.Id": "a",
        f"{entry}.MessageBody": "x",
        f"{entry}.MessageAttribute.1.Name": "k",
        f"{entry}.MessageAttribute.1.Value.DataType": "String",
        f"{entry}.MessageAttribute.1.Value.StringValue": "v",
        f"{entry}.MessageAttribute.1.Value.{next(iter(lists)).removesuffix('s')}": "",
    }
    assert form(server, "SendMessageBatch", fields) == refused(
        unsupported, text.format("SendMessageBatch")
    )


def test_an_entry_without_an_id(server: InProcessServer) -> None:
    """aws/aws-sdk-js #2388."""
    fields = {"QueueUrl": url("orders"), "DeleteMessageBatchRequestEntry.1.ReceiptHandle": "x"}
    assert form(server, "DeleteMessageBatch", fields) == refused(
        "MissingParameter",
        "The request must contain the parameter DeleteMessageBatchRequestEntry.1.Id.",
    )


def test_a_list_with_members_where_one_is_flat(server: InProcessServer) -> None:
    """rusoto/rusoto #586."""
    fields = {"QueueUrl": url("orders"), "MessageAttributeNames.member.1": "All"}
    assert form(server, "ReceiveMessage", fields) == refused(
        "MalformedInput", "Start of list found where not expected"
    )


def form(server: InProcessServer, action: str, fields: dict[str, str]) -> Reply:
    """The answer to a form."""
    encoded = encode_form([("Action", action), ("Version", "2012-11-05"), *fields.items()])
    return read_reply(server.answer(form_request(encoded)), "query")
