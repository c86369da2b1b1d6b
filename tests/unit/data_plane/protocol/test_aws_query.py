from typing import Any
from urllib.parse import quote

import pytest

from data_plane.core.errors import RefusedError
from data_plane.protocol import aws_query
from data_plane.protocol.message_shapes import (
    RECEIVE_MESSAGE_INPUT,
    SEND_MESSAGE_BATCH_INPUT,
    SEND_MESSAGE_INPUT,
)
from data_plane.protocol.shapes import BOOLEAN, STRING, ListOf, MapOf, Structure

NOT_AN_INTEGER = "STRING_VALUE can not be converted to an Integer"
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
    ],
)
def test_lists(text: str) -> None:
    assert decode(text)["TagKeys"][-2:] == ["a", "b"]


def test_missing_numbers_stand_for_empty_members() -> None:
    assert decode("TagKey.4=b&TagKey.2=a") == {"TagKeys": ["", "a", "", "b"]}
    entry = "SendMessageBatchRequestEntry"
    assert decode(f"{entry}.1.Id=a&{entry}.3.Id=c", SEND_MESSAGE_BATCH_INPUT) == {
        "Entries": [{"Id": "a"}, {}, {"Id": "c"}]
    }
    assert decode("Attribute.3.Name=a&Attribute.3.Value=1") == {"Attributes": {"a": "1"}}
    assert len(decode("TagKey.11=a")["TagKeys"]) == 11
    assert len(decode("TagKey.11=a&TagKey.21=b")["TagKeys"]) == 21


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("TagKey.member.1=a", "Start of list found where not expected"),
        ("TagKey.x=a", "Start of list found where not expected"),
        ("TagKey.-1=a", "Start of list found where not expected"),
        ("TagKey.\u0661=a", "Start of list found where not expected"),
        ("Attribute.1.Name=a&Attribute.1.Value=1&Attribute.x=", "Start of list found where "),
        ("TagKey.0=a", "0 is not a valid index"),
        ("TagKey.00=a", "0 is not a valid index"),
        ("TagKey.214748370=a", "Index 214748370 is illegal"),
        ("TagKey.9999999999=a", "Index 9999999999 is illegal"),
        ("TagKey.12=a", "Excessively sparse input would skip 11 list elements"),
        ("TagKey.1=a&TagKey.12=b", "Excessively sparse input would skip 11 list elements"),
        ("TagKey.214748369=a", "Excessively sparse input would skip 214,748,368 list elements"),
    ],
)
def test_what_is_no_number_of_a_member_is_refused(text: str, message: str) -> None:
    with pytest.raises(RefusedError) as caught:
        decode(text)
    assert caught.value.message.startswith(message)
    assert caught.value.fault.code == "MalformedInput"


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


def test_the_first_of_repeated_fields_counts() -> None:
    assert decode("Flag=true&Flag=false") == {"Flag": True}
    assert decode("TagKey.1=a&TagKey.01=b&TagKey.1=c") == {"TagKeys": ["a"]}


@pytest.mark.parametrize("text", ["5", "+5", "05", "+" + "0" * 5000 + "5"])
def test_integers(text: str) -> None:
    assert decode(f"DelaySeconds={quote(text)}", SEND_MESSAGE_INPUT) == {"DelaySeconds": 5}
    assert decode("DelaySeconds=-2147483648", SEND_MESSAGE_INPUT) == {"DelaySeconds": -(2**31)}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("DelaySeconds=", "missing value for decimal type"),
        ("DelaySeconds=x", NOT_AN_INTEGER),
        ("DelaySeconds=1.0", NOT_AN_INTEGER),
        ("DelaySeconds=1e1", NOT_AN_INTEGER),
        ("DelaySeconds=%201", NOT_AN_INTEGER),
        ("DelaySeconds=0x1", NOT_AN_INTEGER),
        ("DelaySeconds=1_0", NOT_AN_INTEGER),
        ("DelaySeconds=\u0661", NOT_AN_INTEGER),
        ("DelaySeconds=2147483648", NOT_AN_INTEGER),
        ("DelaySeconds=-2147483649", NOT_AN_INTEGER),
        ("DelaySeconds=" + "9" * 5000, NOT_AN_INTEGER),
        (
            "MessageAttribute.1.Name=a&MessageAttribute.1.Value.BinaryValue=A",
            "A blob must be valid base64.",
        ),
    ],
)
def test_wrong_values_are_refused(text: str, message: str) -> None:
    with pytest.raises(RefusedError) as caught:
        decode(text, SEND_MESSAGE_INPUT)
    assert caught.value.message == message
    assert caught.value.fault.code == "MalformedInput"


@pytest.mark.parametrize(("text", "flag"), [("true", True), ("1", True), ("0", False)])
def test_booleans(text: str, *, flag: bool) -> None:
    assert decode(f"Flag={text}") == {"Flag": flag}


@pytest.mark.parametrize(
    "text",
    ["Attribute.1.Name=a", "Attribute.Name=a&Attribute.Valu=1", "Flag=maybe", "Flag=", "Flag=TRUE"],
)
def test_incomplete_values_are_refused(text: str) -> None:
    with pytest.raises(RefusedError):
        decode(text)


@pytest.mark.parametrize(
    "body",
    [b"a=%ff", b"a=%ed%a0%80", b"\xff=1", b"a=%", b"a=%4", b"%zz=a", b"&".join([b"a=1"] * 10_001)],
)
def test_malformed_forms_are_refused(body: bytes) -> None:
    with pytest.raises(RefusedError) as caught:
        aws_query.parse_fields("", body)
    assert caught.value.fault.code == "MalformedQueryString"


def test_query_string_and_form_are_united() -> None:
    assert aws_query.parse_fields("Action=A&b=1", b"b=2&c=") == {"Action": "A", "b": "1", "c": ""}
