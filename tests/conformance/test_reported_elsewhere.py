"""What users of other projects saw of SQS, and what is answered here.

Each case has the public report in which somebody shows an input, and AWS's answer to it. The table
"Reports of other projects" in docs/clients.md says what held and what was mended. What signatures
look like is in test_reported_signatures.py.
"""

import json
from base64 import b64encode
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote_plus

import pytest

from data_plane.protocol.http import HttpRequest
from tests.conformance.in_process import ACCOUNT, REGION, InProcessServer
from tests.conformance.limit_cases import LEGACY
from tests.conformance.raw_calls import (
    Reply,
    form_request,
    json_request,
    read_reply,
    refused,
    url,
)

ORDERS, FIFO, EMPTY = url("orders"), url("orders.fifo"), url("empty")
ARN = f"arn:aws:sqs:{REGION}:{ACCOUNT}:empty"
TRACE = (
    "The request has a 'X-Amzn-Trace-Id' HTTP header which is reserved for AWS X-Ray trace header "
    "and has an invalid value '{}'"
)
CHARACTERS = (
    "Invalid binary character '#x{}' was found in the message body, the set of allowed characters "
    "is #x9 | #xA | #xD | [#x20-#xD7FF] | [#xE000-#xFFFD] | [#x10000-#x10FFFF]."
)
LONG_GROUP = (
    "/_next/data/HsUmxfNc8eovT0OT2ppSN/pt-BR/noticias/fora-da-limao-com-mel-diego-rafael-diz-que-"
    "recebeu-sondagens-de-outras-bandas.json"
)
NO_QUEUE = f"{LEGACY}NonExistentQueue"


@pytest.fixture(scope="module")
def server() -> Iterator[InProcessServer]:
    started = InProcessServer()
    for name in ("orders", "empty"):
        ask(started, "CreateQueue", QueueName=name)
    fifo = {"FifoQueue": "true", "ContentBasedDeduplication": "true"}
    ask(started, "CreateQueue", QueueName="orders.fifo", Attributes=fifo)
    redrive = {"RedrivePolicy": redrive_policy(5)}
    ask(started, "CreateQueue", QueueName="redriven", Attributes=redrive)
    yield started
    started.close()


def redrive_policy(receives_max: int) -> str:
    return json.dumps({"deadLetterTargetArn": ARN, "maxReceiveCount": receives_max})


def ask(server: InProcessServer, action: str, **params: Any) -> dict[str, Any]:
    """The output of a call in JSON that succeeds."""
    reply = read_reply(server.answer(json_request(action, params)), "json")
    assert reply.status == 200, reply
    return dict(reply.result)


def form(server: InProcessServer, fields: str, path: str = "/") -> str:
    """The document that answers a form."""
    return server.answer(form_request(fields.encode(), path=path)).body.decode()


def _call(action: str, headers: dict[str, str] | None = None, **params: Any) -> HttpRequest:
    return json_request(action, params, headers)


def _traced(action: str, trace: str, **params: Any) -> HttpRequest:
    return _call(action, {"x-amzn-trace-id": trace}, **params)


ENCODED_TRACE = (
    "Root%3D1-62e56f5b-2105bde31e64e9a03fa9407c%3BParent%3D7aec6ed908b9ae33%3BSampled%3D0"
)
DUMMY_TRACE = "Root=dummy;Parent=53995c3f42cd8ad8;Sampled=0"
CAPITALS = json.dumps({"MaxReceiveCount": "4", "DeadLetterTargetArn": ARN})
NO_COUNT = (
    "Value {} for parameter RedrivePolicy is invalid. Reason: Redrive policy does not contain "
    "mandatory attribute: maxReceiveCount."
)

REFUSED_IN_JSON: dict[str, tuple[HttpRequest, Reply]] = {
    "ansible-collections/community.aws #2321": (
        _call("SetQueueAttributes", QueueUrl=ORDERS, Attributes={"RedrivePolicy": "{}"}),
        refused("InvalidParameterValue", NO_COUNT.format("{}")),
    ),
    "rubyonjets/jets #101": (
        _call("CreateQueue", QueueName="jets", Attributes={"RedrivePolicy": CAPITALS}),
        refused("InvalidParameterValue", NO_COUNT.format(CAPITALS)),
    ),
    "justeattakeaway/JustSaying #208": (
        _call("CreateQueue", QueueName="redriven", Attributes={"RedrivePolicy": redrive_policy(6)}),
        refused(
            "QueueAlreadyExists",
            "A queue already exists with the same name and a different value for attribute "
            "RedrivePolicy",
        ),
    ),
    "aws/aws-xray-sdk-python #213": (
        _traced("GetQueueUrl", DUMMY_TRACE, QueueName="orders"),
        refused("InvalidParameterValue", TRACE.format(DUMMY_TRACE)),
    ),
    "boto/boto3 #3372": (
        _traced("GetQueueUrl", ENCODED_TRACE, QueueName="orders"),
        refused("InvalidParameterValue", TRACE.format(ENCODED_TRACE)),
    ),
    "martincostello/lambda-test-server #449": (
        _traced(
            "SendMessage", "dae04c7a-6a43-4d8c-9a86-6caac024711e", QueueUrl=ORDERS, MessageBody="x"
        ),
        refused("InvalidParameterValue", TRACE.format("dae04c7a-6a43-4d8c-9a86-6caac024711e")),
    ),
    "serverless-nextjs/serverless-next.js #1616": (
        _call("SendMessage", QueueUrl=FIFO, MessageBody="x", MessageGroupId=LONG_GROUP),
        refused(
            "InvalidParameterValue",
            f"Value {LONG_GROUP} for parameter MessageGroupId is invalid. Reason: MessageGroupId "
            "can only include alphanumeric and punctuation characters. 1 to 128 in length.",
        ),
    ),
    "aws/aws-sdk #414": (
        _call(
            "AddPermission",
            QueueUrl=ORDERS,
            Label="test",
            AWSAccountIds=[f"arn:aws:iam::{ACCOUNT}:user/tester"],
            Actions=["SendMessage"],
        ),
        refused(
            "InvalidParameterValue",
            f"Value [arn:aws:iam::{ACCOUNT}:user/tester] for parameter PrincipalId is invalid. "
            "Reason: Unable to verify principal.",
        ),
    ),
    "floci-io/floci #905": (
        _call("TagQueue", QueueUrl=ORDERS, Tags={"NullTag": None}),
        refused("InvalidParameterValue", "the parameter 'value' may not be null"),
    ),
    "psd401/aistudio #1525": (
        _call("SendMessage", QueueUrl=ORDERS, MessageBody="page\uffff"),
        refused("InvalidMessageContents", CHARACTERS.format("FFFF")),
    ),
    "Particular/NServiceBus.AmazonSQS #2630": (
        _call("SendMessage", QueueUrl=ORDERS, MessageBody="\x01"),
        refused("InvalidMessageContents", CHARACTERS.format("1")),
    ),
    "apache/airflow #65592": (
        _call("CreateQueue", QueueName="pidbox", Attributes={"VisibilityTimeout": "86400"}),
        refused("InvalidAttributeValue", "Invalid value for the parameter VisibilityTimeout."),
    ),
    "MassTransit/MassTransit #1993": (
        _call("CreateQueue", QueueName="MyHostName_bus_44qoyydrkx?durable=false&autodelete=true"),
        refused(
            "InvalidParameterValue",
            "Can only include alphanumeric characters, hyphens, or underscores. 1 to 80 in length",
        ),
    ),
    "aws-samples/aws-marketplace-serverless-saas-integration #29": (
        _call("CreateQueue", QueueName="x" * 76 + ".fifo", Attributes={"FifoQueue": "true"}),
        refused(
            "InvalidParameterValue",
            "The name of a FIFO queue can only include alphanumeric characters, hyphens, or "
            "underscores, must end with .fifo suffix and be 1 to 80 in length.",
        ),
    ),
}


@pytest.mark.parametrize("report", REFUSED_IN_JSON)
def test_a_reported_refusal(server: InProcessServer, report: str) -> None:
    request, answer = REFUSED_IN_JSON[report]
    assert read_reply(server.answer(request), "json") == answer


REFUSED_IN_FORMS: dict[str, tuple[str, Reply]] = {
    "aws/aws-sdk-go #178": (
        (
            "Action=SendMessage&DelaySeconds=0&MessageAttribute.1.key=Key"
            "&MessageAttribute.1.value.BinaryValue=&MessageAttribute.1.value.DataType=string"
            "&MessageAttribute.1.value.StringValue=dev&MessageBody=just-for-test"
            f"&QueueUrl={quote_plus(ORDERS)}&Version=2012-11-05"
        ),
        refused(
            "InvalidParameterValue",
            "The request must contain non-empty message (user) attribute names.",
        ),
    ),
    "aws/aws-sdk-php #630": (
        f"Action=DeleteMessageBatch&Version=2012-11-05&QueueUrl={quote_plus(ORDERS)}",
        refused(
            f"{LEGACY}EmptyBatchRequest",
            "There should be at least one DeleteMessageBatchRequestEntry in the request.",
        ),
    ),
    "fvinas/multi_sqs_listener #1": (
        "Action=GetQueueUrl&QueueName=of-another&Version=2012-11-05",
        refused(NO_QUEUE, "The specified queue does not exist for this wsdl version."),
    ),
    "bbc/sqs-consumer #367": (
        (
            "Action=ReceiveMessage&QueueUrl=http%3A%2F%2Flocalhost%3A9324%2Fqueue%2Fqueue-name"
            "&Version=2012-11-05"
        ),
        refused(
            "InvalidAddress",
            "The address http://localhost:9324/queue/queue-name is not valid for this endpoint.",
        ),
    ),
}


@pytest.mark.parametrize("report", REFUSED_IN_FORMS)
def test_a_reported_refusal_of_a_form(server: InProcessServer, report: str) -> None:
    fields, answer = REFUSED_IN_FORMS[report]
    assert read_reply(server.answer(form_request(fields.encode())), "query") == answer


SUMS: dict[str, tuple[dict[str, dict[str, str]], str]] = {
    "elastic/apm-agent-nodejs #2605": (
        {
            "City": {"DataType": "String", "StringValue": "Any City"},
            "Greeting": {
                "DataType": "Binary",
                "BinaryValue": b64encode(b"Hello, World!").decode(),
            },
            "Population": {"DataType": "Number", "StringValue": "1250800"},
        },
        "28eb0e573cf8e8a77e349a2f968eac4a",
    ),
    "triggermesh/aws-event-sources #336": (
        {
            "An-Attribute": {"DataType": "String.Foo", "StringValue": "The value of An-Attribute"},
            "Other_Attribute": {"DataType": "Number.Bar", "StringValue": "3.333333333"},
        },
        "23f4a611a378aa04a1bb82d276accb76",
    ),
}
"""Attributes, and the MD5 that AWS answered."""


@pytest.mark.parametrize("report", SUMS)
def test_a_reported_md5_of_attributes(server: InProcessServer, report: str) -> None:
    attributes, md5 = SUMS[report]
    sent = ask(
        server, "SendMessage", QueueUrl=ORDERS, MessageBody="x", MessageAttributes=attributes
    )
    assert sent["MD5OfMessageAttributes"] == md5


def test_no_attributes_have_no_md5(server: InProcessServer) -> None:
    """aws/aws-sdk-ruby #2081: the SDK expects none for `{}`."""
    sent = ask(server, "SendMessage", QueueUrl=ORDERS, MessageBody="x", MessageAttributes={})
    assert sent.keys() == {"MessageId", "MD5OfMessageBody"}


def test_attributes_come_back_as_they_were_sent(server: InProcessServer) -> None:
    """awsdocs/aws-doc-sdk-examples #360 of numbers, redpanda-data/connect #345 of texts."""
    texts = {
        "AccurateWeight": ("Number", "230.000000000000000001"),
        "Population": ("Number.double", "1250800.0"),
        "Letter": ("String", "\u0470"),
        "When": ("String", "2019-12-19T00:00:00.000Z"),
    }
    given = {
        name: {"DataType": data_type, "StringValue": text}
        for name, (data_type, text) in texts.items()
    }
    address = ask(server, "CreateQueue", QueueName="numbers")["QueueUrl"]
    ask(server, "SendMessage", QueueUrl=address, MessageBody="x", MessageAttributes=given)
    received = ask(server, "ReceiveMessage", QueueUrl=address, MessageAttributeNames=["All"])
    assert received["Messages"][0]["MessageAttributes"] == given


@pytest.mark.parametrize("name", ["All", "ALL", "all"])
@pytest.mark.parametrize("member", ["AttributeNames", "MessageSystemAttributeNames"])
def test_all_attributes_in_any_case(server: InProcessServer, member: str, name: str) -> None:
    """celery/kombu #2300, boto/boto #1676, aws/aws-sdk-js #93."""
    address = ask(server, "CreateQueue", QueueName="shouted")["QueueUrl"]
    ask(server, "SendMessage", QueueUrl=address, MessageBody="x")
    (message,) = ask(server, "ReceiveMessage", QueueUrl=address, **{member: [name]})["Messages"]
    assert "SenderId" in message["Attributes"]
    assert len(message["Attributes"]) == 4


def test_a_name_without_a_number(server: InProcessServer) -> None:
    """aws/aws-sdk-go #36 has the form that SQS takes."""
    address = ask(server, "CreateQueue", QueueName="unnumbered")["QueueUrl"]
    ask(server, "SendMessage", QueueUrl=address, MessageBody="x")
    fields = "AttributeName=All&MaxNumberOfMessages=10&MessageAttributeName=All"
    document = form(server, f"Action=ReceiveMessage&QueueUrl={quote_plus(address)}&{fields}")
    assert "<Attribute><Name>SenderId</Name>" in document


def test_when_a_queue_was_created(server: InProcessServer) -> None:
    """gruntwork-io/cloud-nuke #618 reads `1698270675`."""
    names = ["CreatedTimestamp", "LastModifiedTimestamp"]
    times = ask(server, "GetQueueAttributes", QueueUrl=EMPTY, AttributeNames=names)["Attributes"]
    assert [len(times[name]) for name in names] == [10, 10]
    assert all(times[name].isdecimal() for name in names)


def test_an_entry_that_is_delayed_for_too_long(server: InProcessServer) -> None:
    """aws/aws-sdk-ruby #265; getmoto/moto #5372 has the same of 2022."""
    entries = [
        {"Id": str(delay_s), "MessageBody": "x", "DelaySeconds": delay_s} for delay_s in (180, 3600)
    ]
    answer = ask(server, "SendMessageBatch", QueueUrl=ORDERS, Entries=entries)
    assert [entry["Id"] for entry in answer["Successful"]] == ["180"]
    assert answer["Failed"] == [
        {
            "Id": "3600",
            "Code": "InvalidParameterValue",
            "Message": (
                "Value 3600 for parameter DelaySeconds is invalid. "
                "Reason: DelaySeconds must be >= 0 and <= 900."
            ),
            "SenderFault": True,
        }
    ]


def test_a_queue_that_was_deleted(server: InProcessServer) -> None:
    """suredone/qdone #22 creates it again, boto/botocore #1821 deletes it again."""
    gone = {"QueueUrl": ask(server, "CreateQueue", QueueName="gone")["QueueUrl"]}
    ask(server, "DeleteQueue", **gone)
    again = json_request("DeleteQueue", gone)
    assert read_reply(server.answer(again), "json") == refused(
        NO_QUEUE, "The specified queue does not exist."
    )
    created = json_request("CreateQueue", {"QueueName": "gone"})
    assert read_reply(server.answer(created), "json") == refused(
        f"{LEGACY}QueueDeletedRecently",
        "You must wait 60 seconds after deleting a queue before you can create another with the "
        "same name.",
    )


def test_nothing_to_receive(server: InProcessServer) -> None:
    """aws/aws-sdk-net #3600 shows JSON without `Messages`, aws/aws-sdk-ruby #1870 the document."""
    assert ask(server, "ReceiveMessage", QueueUrl=EMPTY) == {}
    document = form(server, f"Action=ReceiveMessage&QueueUrl={quote_plus(EMPTY)}")
    assert "<ReceiveMessageResult/><ResponseMetadata>" in document


def test_a_batch_without_failures_has_no_list_of_them(server: InProcessServer) -> None:
    """vsouza/docker-SQS-local #14, async-aws/aws #1621."""
    entries = [{"Id": str(number), "MessageBody": "the body"} for number in (1, 2, 3)]
    answer = ask(server, "SendMessageBatch", QueueUrl=ORDERS, Entries=entries)
    assert answer.keys() == {"Successful"}
    assert [entry["Id"] for entry in answer["Successful"]] == ["1", "2", "3"]


def test_an_entry_of_the_other_type_of_queue(server: InProcessServer) -> None:
    """aws/aws-sdk-js #4216 shows the document, with its members in this order."""
    entry = "SendMessageBatchRequestEntry.1"
    document = form(
        server,
        f"Action=SendMessageBatch&QueueUrl={quote_plus(ORDERS)}&{entry}.Id=a-b&{entry}.MessageBody=x"
        f"&{entry}.MessageDeduplicationId=d",
    )
    assert (
        "<SendMessageBatchResult><BatchResultErrorEntry><Id>a-b</Id>"
        "<Code>InvalidParameterValue</Code><Message>The request include parameter that is not "
        "valid for this queue type</Message><SenderFault>true</SenderFault></BatchResultErrorEntry>"
        "</SendMessageBatchResult>"
    ) in document


def test_an_attribute_without_a_value_fails_its_entry_alone(server: InProcessServer) -> None:
    """boto/boto #3348: value and type stood where no member is."""
    entries = [f"SendMessageBatchRequestEntry.{number}" for number in (1, 2)]
    bodies = "".join(f"&{entry}.Id={entry[-1]}&{entry}.MessageBody=x" for entry in entries)
    attribute = f"{entries[0]}.MessageAttribute.1"
    document = form(
        server,
        f"Action=SendMessageBatch&QueueUrl={quote_plus(ORDERS)}{bodies}&{attribute}.Name=COLOUR"
        f"&{attribute}.DataType=String&{attribute}.StringValue=red",
    )
    assert "<SendMessageBatchResultEntry><Id>2</Id>" in document
    assert (
        "<BatchResultErrorEntry><Id>1</Id><Code>InvalidParameterValue</Code><Message>The message "
        "(user) attribute 'COLOUR' must contain a non-empty message attribute value.</Message>"
    ) in document


def test_a_form_on_the_path_of_a_queue_names_it(server: InProcessServer) -> None:
    """Admiral-Piett/goaws #84: so the AWS SDK for .NET 2.3 calls."""
    fields = "Action=ReceiveMessage&MaxNumberOfMessages=5&WaitTimeSeconds=0&Version=2012-11-05"
    assert "<ReceiveMessageResult/>" in form(server, fields, f"/{ACCOUNT}/empty")


def test_tags_of_another_name(server: InProcessServer) -> None:
    """aws/aws-sdk-java-v2 #2524: `Tags.1.Key` where botocore writes `Tag.1.Key`."""
    fields = f"Action=TagQueue&QueueUrl={quote_plus(EMPTY)}&Tags.1.Key=Name&Tags.1.Value=my-queue"
    assert "<TagQueueResponse" in form(server, fields)
    assert ask(server, "ListQueueTags", QueueUrl=EMPTY) == {"Tags": {"Name": "my-queue"}}


def test_messages_of_more_than_256_kib(server: InProcessServer) -> None:
    """pulumi/pulumi-aws #6321: a queue of 1,048,576 bytes takes 300 KB."""
    big = {"MaximumMessageSize": "1048576"}
    address = ask(server, "CreateQueue", QueueName="big", Attributes=big)["QueueUrl"]
    ask(server, "SendMessage", QueueUrl=address, MessageBody="x" * 300_000)


def received(server: InProcessServer, queue_url: str, **more: Any) -> str:
    """The handle of a message that was just sent."""
    ask(server, "SendMessage", QueueUrl=queue_url, MessageBody="x", **more)
    (message,) = ask(server, "ReceiveMessage", QueueUrl=queue_url, VisibilityTimeout=0)["Messages"]
    return str(message["ReceiptHandle"])


def test_a_handle_of_a_fifo_queue_that_has_expired() -> None:
    """awsdocs/aws-doc-sdk-examples #165 without a batch, smaskalik/sqsmover #54 in one."""
    server = InProcessServer()
    fifo = {"FifoQueue": "true", "ContentBasedDeduplication": "true"}
    ask(server, "CreateQueue", QueueName="orders.fifo", Attributes=fifo)
    handle = received(server, FIFO, MessageGroupId="g")
    one = json_request("DeleteMessage", {"QueueUrl": FIFO, "ReceiptHandle": handle})
    assert read_reply(server.answer(one), "json") == refused(
        "InvalidParameterValue",
        f"Value {handle} for parameter ReceiptHandle is invalid. "
        "Reason: The receipt handle has expired.",
    )
    entries = [{"Id": "a", "ReceiptHandle": handle}]
    assert ask(server, "DeleteMessageBatch", QueueUrl=FIFO, Entries=entries)["Failed"] == [
        {
            "Id": "a",
            "Code": "ReceiptHandleIsInvalid",
            "Message": "The receipt handle has expired",
            "SenderFault": True,
        }
    ]
    server.close()


@pytest.mark.parametrize("queue", ["orders", "orders.fifo"])
def test_the_visibility_of_a_deleted_message(queue: str) -> None:
    """aws/aws-sdk-net #1927 without a batch; in one as aws/aws-dotnet-messaging expects it."""
    server = InProcessServer()
    group: dict[str, Any] = {}
    attributes: dict[str, str] = {}
    if queue.endswith(".fifo"):
        group = {"MessageGroupId": "g", "MessageDeduplicationId": "d"}
        attributes = {"FifoQueue": "true"}
    address = ask(server, "CreateQueue", QueueName=queue, Attributes=attributes)["QueueUrl"]
    ask(server, "SendMessage", QueueUrl=address, MessageBody="x", **group)
    handle = ask(server, "ReceiveMessage", QueueUrl=address)["Messages"][0]["ReceiptHandle"]
    ask(server, "DeleteMessage", QueueUrl=address, ReceiptHandle=handle)
    change = {"ReceiptHandle": handle, "VisibilityTimeout": 60}
    reason = "Message does not exist or is not available for visibility timeout change"
    one = json_request("ChangeMessageVisibility", {"QueueUrl": address, **change})
    assert read_reply(server.answer(one), "json") == refused(
        "InvalidParameterValue",
        f"Value {handle} for parameter ReceiptHandle is invalid. Reason: {reason}.",
    )
    entries = [{"Id": "a", **change}]
    answer = ask(server, "ChangeMessageVisibilityBatch", QueueUrl=address, Entries=entries)
    assert answer["Failed"] == [
        {"Id": "a", "Code": "ReceiptHandleIsInvalid", "Message": reason, "SenderFault": True}
    ]
    server.close()


def test_more_queues_than_a_list_has() -> None:
    """aws/aws-cli #8160: without MaxResults 1,000 of them, and no token."""
    server = InProcessServer()
    for number in range(1001):
        ask(server, "CreateQueue", QueueName=f"q{number:04}")
    listed = ask(server, "ListQueues")
    assert list(listed) == ["QueueUrls"]
    assert len(listed["QueueUrls"]) == 1000
    assert "NextToken" in ask(server, "ListQueues", MaxResults=1000)
    server.close()


def test_what_is_not_done_as_reported() -> None:
    """boto/boto3 #2898 and aws/aws-sdk-go #339: docs/clients.md says why."""
    server = InProcessServer()
    ask(server, "CreateQueue", QueueName="empty")
    handle = received(server, EMPTY)
    server.clock.advance(55_000)
    assert ask(server, "DeleteMessage", QueueUrl=EMPTY, ReceiptHandle=handle) == {}
    no_utf8 = f"Action=SendMessage&MessageBody=%80&QueueUrl={quote_plus(EMPTY)}&Version=2012-11-05"
    answer = read_reply(server.answer(form_request(no_utf8.encode())), "query")
    assert answer == refused("MalformedQueryString", "The query string contains a syntax error.")
    server.close()
