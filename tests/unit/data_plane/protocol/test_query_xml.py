from typing import Any
from xml.etree import ElementTree as ET

from data_plane.core.errors import INVALID_PARAMETER_VALUE, QUEUE_DOES_NOT_EXIST
from data_plane.protocol import legacy_json, query_xml
from data_plane.protocol.message_shapes import (
    NOTHING,
    RECEIVE_MESSAGE_INPUT,
    RECEIVE_MESSAGE_OUTPUT,
    SEND_MESSAGE_BATCH_OUTPUT,
)
from data_plane.protocol.operation import Call, Operation, Params
from data_plane.protocol.shapes import STRING, ListOf, MapOf, Structure

HEAD = '<?xml version="1.0"?>'
NS = 'xmlns="http://queue.amazonaws.com/doc/2012-11-05/"'
TAIL = "<ResponseMetadata><RequestId>id-1</RequestId></ResponseMetadata>"


async def never(_call: Call) -> Params:
    raise AssertionError


def operation(name: str, output: Structure) -> Operation:
    return Operation(name, RECEIVE_MESSAGE_INPUT, output, never)


def encode(name: str, output: Structure, value: Params) -> str:
    return query_xml.encode("id-1", operation(name, output), value).body.decode()


def test_a_received_message() -> None:
    value: dict[str, Any] = {
        "Messages": [
            {
                "MessageId": "m",
                "ReceiptHandle": "h",
                "MD5OfBody": "5",
                "Body": '<&>"\r\n\t\u00fc',
                "Attributes": {"SenderId": "1", "SentTimestamp": "2"},
                "MD5OfMessageAttributes": "6",
                "MessageAttributes": {
                    "s": {"StringValue": "v", "DataType": "String"},
                    "b": {"BinaryValue": b"\0\1", "DataType": "Binary"},
                },
            },
            {"MessageId": "n"},
        ]
    }
    assert encode("ReceiveMessage", RECEIVE_MESSAGE_OUTPUT, value) == (
        f"{HEAD}<ReceiveMessageResponse {NS}><ReceiveMessageResult>"
        "<Message><MessageId>m</MessageId><ReceiptHandle>h</ReceiptHandle>"
        "<MD5OfBody>5</MD5OfBody><Body>&lt;&amp;&gt;&quot;&#xD;\n\t\u00fc</Body>"
        "<Attribute><Name>SenderId</Name><Value>1</Value></Attribute>"
        "<Attribute><Name>SentTimestamp</Name><Value>2</Value></Attribute>"
        "<MD5OfMessageAttributes>6</MD5OfMessageAttributes>"
        "<MessageAttribute><Name>s</Name><Value><DataType>String</DataType>"
        "<StringValue>v</StringValue></Value></MessageAttribute>"
        "<MessageAttribute><Name>b</Name><Value><DataType>Binary</DataType>"
        "<BinaryValue>AAE=</BinaryValue></Value></MessageAttribute></Message>"
        "<Message><MessageId>n</MessageId></Message>"
        f"</ReceiveMessageResult>{TAIL}</ReceiveMessageResponse>"
    )


def test_an_empty_receive_has_an_empty_result_as_sqs_writes_it() -> None:
    assert encode("ReceiveMessage", RECEIVE_MESSAGE_OUTPUT, {}) == (
        f"{HEAD}<ReceiveMessageResponse {NS}><ReceiveMessageResult/>{TAIL}</ReceiveMessageResponse>"
    )


def test_an_action_without_output_has_no_result() -> None:
    assert encode("DeleteMessage", NOTHING, {}) == (
        f"{HEAD}<DeleteMessageResponse {NS}>{TAIL}</DeleteMessageResponse>"
    )


def test_a_batch_result() -> None:
    value = {
        "Successful": [{"Id": "a", "MessageId": "m", "MD5OfMessageBody": "5"}],
        "Failed": [{"Id": "b", "Code": "C", "Message": "why", "SenderFault": True}],
    }
    document = encode("SendMessageBatch", SEND_MESSAGE_BATCH_OUTPUT, value)
    assert (
        "<SendMessageBatchResult><SendMessageBatchResultEntry><Id>a</Id><MessageId>m</MessageId>"
        "<MD5OfMessageBody>5</MD5OfMessageBody></SendMessageBatchResultEntry>"
        "<BatchResultErrorEntry><Id>b</Id><Code>C</Code><Message>why</Message>"
        "<SenderFault>true</SenderFault></BatchResultErrorEntry></SendMessageBatchResult>"
    ) in document


def test_urls_and_tags() -> None:
    shape = Structure(
        {"QueueUrls": ListOf(STRING, "QueueUrl"), "Tags": MapOf(STRING, "Tag", "Key", "Value")}
    )
    document = encode("X", shape, {"QueueUrls": ["u", "v"], "Tags": {"k": ""}})
    assert "<QueueUrl>u</QueueUrl><QueueUrl>v</QueueUrl>" in document
    assert "<Tag><Key>k</Key><Value></Value></Tag>" in document


def test_a_fault() -> None:
    answer = query_xml.encode_fault(
        "id-1", QUEUE_DOES_NOT_EXIST, "The specified queue does not exist."
    )
    assert answer.status == 400
    assert answer.body.decode() == (
        f"{HEAD}<ErrorResponse {NS}><Error><Type>Sender</Type>"
        "<Code>AWS.SimpleQueueService.NonExistentQueue</Code>"
        "<Message>The specified queue does not exist for this wsdl version.</Message><Detail/>"
        "</Error><RequestId>id-1</RequestId></ErrorResponse>"
    )


def test_no_character_outside_xml_leaves() -> None:
    every = "".join(map(chr, range(0x300))) + "\ufffe\uffff\U0010ffff"
    answer = query_xml.encode_fault("id-1", INVALID_PARAMETER_VALUE, every)
    message = ET.fromstring(answer.body)[0][2].text or ""  # noqa: S314 - our own document
    assert message.endswith("\ufffd\ufffd\U0010ffff")
    assert "\r" in message
    assert "\0" not in message


def test_the_legacy_json_rendering() -> None:
    receive = operation("ReceiveMessage", RECEIVE_MESSAGE_OUTPUT)
    empty = legacy_json.encode("id-1", receive, {}).body
    assert empty == (
        b'{"ReceiveMessageResponse":{"ResponseMetadata":{"RequestId":"id-1"},'
        b'"ReceiveMessageResult":{"messages":null}}}'
    )
    full = legacy_json.encode(
        "id-1", receive, {"Messages": [{"MessageId": "m", "Attributes": {"SenderId": "1"}}]}
    ).body
    assert b'"Attributes":[{"Name":"SenderId","Value":"1"}]' in full
    assert b'"MD5OfMessageAttributes":null,"MessageAttributes":null' in full
    nothing = legacy_json.encode("id-1", operation("DeleteMessage", NOTHING), {}).body
    assert nothing == b'{"DeleteMessageResponse":{"ResponseMetadata":{"RequestId":"id-1"}}}'
    fault = legacy_json.encode_fault("id-1", INVALID_PARAMETER_VALUE, "why").body
    assert fault == (
        b'{"Error":{"Code":"InvalidParameterValue","Message":"why","Type":"Sender"},'
        b'"RequestId":"id-1"}'
    )
