from typing import Any

import pytest

from data_plane.core.errors import RefusedError
from data_plane.protocol import aws_query
from data_plane.protocol.message_shapes import (
    RECEIVE_MESSAGE_INPUT,
    SEND_MESSAGE_BATCH_INPUT,
    SEND_MESSAGE_INPUT,
)
from data_plane.protocol.shapes import BOOLEAN, STRING, ListOf, MapOf, Structure

QUEUE = Structure(
    {
        "Attributes": MapOf(STRING, "Attribute"),
        "tags": MapOf(STRING, "Tag", "Key", "Value"),
        "TagKeys": ListOf(STRING, "TagKey"),
        "Flag": BOOLEAN,
    }
)


def decode(text: str, shape: Structure = QUEUE) -> Any:
    return aws_query.decode(aws_query.parse_fields("", text.encode()), shape)


@pytest.mark.parametrize(
    "text",
    [
        "Attribute.1.Name=a&Attribute.1.Value=1&Attribute.2.Name=b&Attribute.2.Value=2",
        "Attribute.7.Value=2&Attribute.7.Name=b&Attribute.03.Name=a&Attribute.03.Value=1",
        (
            "Attribute.member.1.Name=a&Attribute.member.1.Value=1"
            "&Attribute.member.2.Name=b&Attribute.member.2.Value=2"
        ),
        "Attributes.1.Name=a&Attributes.1.Value=1&Attributes.2.Name=b&Attributes.2.Value=2",
    ],
)
def test_maps(text: str) -> None:
    assert list(decode(text)["Attributes"].items()) == [("a", "1"), ("b", "2")]


def test_a_map_with_one_unnumbered_entry_and_one_with_other_names() -> None:
    assert decode("Attribute.Name=a&Attribute.Value=1") == {"Attributes": {"a": "1"}}
    assert decode("Tag.1.Key=k&Tag.1.Value=") == {"tags": {"k": ""}}


@pytest.mark.parametrize(
    "text",
    [
        "TagKey.1=a&TagKey.2=b",
        "TagKey.10=b&TagKey.9=a",
        "TagKey.member.1=a&TagKey.member.2=b",
        "TagKey.1=a&TagKey.5=b&TagKey.x=c&TagKey.9999999999=d",
    ],
)
def test_lists(text: str) -> None:
    assert decode(text) == {"TagKeys": ["a", "b"]}


def test_a_list_with_one_unnumbered_member() -> None:
    params = decode("MessageAttributeName=All&AttributeName=SenderId", RECEIVE_MESSAGE_INPUT)
    assert params == {"MessageAttributeNames": ["All"], "AttributeNames": ["SenderId"]}


def test_message_attributes() -> None:
    params = decode(
        "MessageBody=a%2Bb+c%C3%BC&DelaySeconds=5"
        "&MessageAttribute.1.Name=x.y&MessageAttribute.1.Value.DataType=String"
        "&MessageAttribute.1.Value.StringValue=v"
        "&MessageAttribute.2.Name=b&MessageAttribute.2.Value.DataType=Binary"
        "&MessageAttribute.2.Value.BinaryValue=AAE%3D"
        "&MessageSystemAttribute.1.Name=AWSTraceHeader"
        "&MessageSystemAttribute.1.Value.DataType=String"
        "&MessageSystemAttribute.1.Value.StringValue=Root",
        SEND_MESSAGE_INPUT,
    )
    assert params == {
        "MessageBody": "a+b c\u00fc",
        "DelaySeconds": 5,
        "MessageAttributes": {
            "x.y": {"DataType": "String", "StringValue": "v"},
            "b": {"DataType": "Binary", "BinaryValue": b"\0\1"},
        },
        "MessageSystemAttributes": {
            "AWSTraceHeader": {"DataType": "String", "StringValue": "Root"}
        },
    }


def test_batches() -> None:
    entry = "SendMessageBatchRequestEntry"
    params = decode(
        f"{entry}.2.Id=b&{entry}.2.MessageBody=B&{entry}.1.Id=a&{entry}.1.MessageBody=A"
        f"&{entry}.1.MessageAttribute.1.Name=n"
        f"&{entry}.1.MessageAttribute.1.Value.DataType=String",
        SEND_MESSAGE_BATCH_INPUT,
    )
    assert params["Entries"] == [
        {"Id": "a", "MessageBody": "A", "MessageAttributes": {"n": {"DataType": "String"}}},
        {"Id": "b", "MessageBody": "B"},
    ]
    assert decode("Action=x", SEND_MESSAGE_BATCH_INPUT) == {"Entries": []}
    assert decode(f"{entry}=", SEND_MESSAGE_BATCH_INPUT) == {"Entries": []}


def test_fields_that_belong_to_no_shape_are_ignored() -> None:
    assert decode("=a&.=b&.a=c&a.=d&Attribute..Name=e&Flag.1=f&" + "a." * 5000 + "b=g") == {}


def test_the_last_of_repeated_fields_counts() -> None:
    assert decode("Flag=true&Flag=false") == {"Flag": False}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "DelaySeconds=x",
            "Value x for parameter DelaySeconds is invalid. Reason: Must be an integer.",
        ),
        (
            "DelaySeconds=",
            "Value  for parameter DelaySeconds is invalid. Reason: Must be an integer.",
        ),
        (
            "DelaySeconds=99999999999",
            "Value 99999999999 for parameter DelaySeconds is invalid. Reason: Must be an integer.",
        ),
        (
            "DelaySeconds=2147483648",
            "Value 2147483648 for parameter DelaySeconds is invalid. Reason: Must be an integer.",
        ),
        (
            "MessageAttribute.1.Name=a&MessageAttribute.1.Value.BinaryValue=A",
            "Value A for parameter BinaryValue is invalid. Reason: Must be base64.",
        ),
    ],
)
def test_wrong_values_are_refused(text: str, message: str) -> None:
    with pytest.raises(RefusedError) as caught:
        decode(text, SEND_MESSAGE_INPUT)
    assert caught.value.message == message
    assert caught.value.fault.code == "InvalidParameterValue"


@pytest.mark.parametrize(
    "text", ["Attribute.1.Name=a", "Attribute.Name=a&Attribute.Valu=1", "Flag=maybe"]
)
def test_incomplete_values_are_refused(text: str) -> None:
    with pytest.raises(RefusedError):
        decode(text)


@pytest.mark.parametrize("body", [b"a=%ff", b"\xff=1", b"&".join([b"a=1"] * 10_001)])
def test_malformed_forms_are_refused(body: bytes) -> None:
    with pytest.raises(RefusedError) as caught:
        aws_query.parse_fields("", body)
    assert caught.value.fault.code == "MalformedQueryString"


def test_query_string_and_form_are_united() -> None:
    assert aws_query.parse_fields("Action=A&b=1", b"b=2&c=") == {"Action": "A", "b": "2", "c": ""}
