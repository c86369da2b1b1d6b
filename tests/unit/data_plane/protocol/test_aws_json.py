from typing import Any

import pytest

from data_plane.core.errors import (
    INTERNAL_FAILURE,
    INVALID_PARAMETER_VALUE,
    QUEUE_DOES_NOT_EXIST,
    RefusedError,
)
from data_plane.protocol import aws_json
from data_plane.protocol.shapes import BLOB, BOOLEAN, INTEGER, STRING, ListOf, MapOf, Structure

SHAPE = Structure(
    {
        "Text": STRING,
        "Number": INTEGER,
        "Flag": BOOLEAN,
        "Blob": BLOB,
        "List": ListOf(STRING, "List"),
        "Map": MapOf(STRING, "Map"),
        "Inner": Structure({"Text": STRING}),
    }
)
read = aws_json.reader(SHAPE)


def refusal(body: bytes) -> str:
    with pytest.raises(RefusedError) as caught:
        aws_json.decode(body, read)
    assert caught.value.fault.code == "MalformedInput"
    return caught.value.message


def test_every_type() -> None:
    body = (
        b'{"Text":"\\ud83d\\ude00 \xc3\xbc","Number":-3.0,"Flag":true,"Blob":"AAE=","List":["a"],'
        b'"Map":{"k":""},"Inner":{"Text":"","Unknown":1},"Unknown":[{"n":1e999}]}'
    )
    assert aws_json.decode(body, read) == {
        "Text": "\U0001f600 \u00fc",
        "Number": -3,
        "Flag": True,
        "Blob": b"\0\1",
        "List": ["a"],
        "Map": {"k": ""},
        "Inner": {"Text": ""},
    }


def test_null_and_nothing_mean_absent() -> None:
    assert aws_json.decode(b'{"Text":null,"Map":null}', read) == {}
    assert aws_json.decode(b'{"List":[null,"a",null]}', read) == {"List": ["a"]}
    assert aws_json.decode(b'{"Map":{"k":null}}', read) == {"Map": {"k": None}}
    structures = aws_json.reader(Structure({"Map": MapOf(Structure({"Text": STRING}), "Map")}))
    assert aws_json.decode(b'{"Map":{"k":null}}', structures) == {"Map": {"k": {}}}
    assert aws_json.decode(b"", read) == {}


@pytest.mark.parametrize(
    ("number", "value"),
    [
        (b"1.9", 1),
        (b"-1.9", -1),
        (b"1e3", 1000),
        (b"2147483648", 2147483648),
        (b"-9223372036854775808", -(2**63)),
    ],
)
def test_decimals_lose_their_fraction_and_big_numbers_are_for_the_operation_to_refuse(
    number: bytes, value: int
) -> None:
    assert aws_json.decode(b'{"Number":%s}' % number, read) == {"Number": value}


@pytest.mark.parametrize(
    "body",
    [
        b'{"Text":"\\ud800"}',
        b'{"Text":"\\udc00\\ud800"}',
        b'{"Text":"\\ud83d\\u0041"}',
        b'{"\\udfff":1}',
        b'{"Unknown":["\\ud800"],"Number":1e999}',
    ],
)
def test_lone_surrogates_are_no_characters(body: bytes) -> None:
    with pytest.raises(RefusedError) as caught:
        aws_json.decode(body, read)
    assert caught.value.fault.code == "InvalidMessageContents"


def test_a_backslash_before_what_looks_like_an_escape_is_a_character() -> None:
    assert aws_json.decode(b'{"Text":"\\\\ud800"}', read) == {"Text": "\\ud800"}


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b"nonsense",
        b"\xff",
        b'{"Text":"\xed\xa0\x80"}',
        b'{"Number":NaN}',
        b'{"Number":Infinity}',
        b'{"Unknown":-Infinity}',
        b'{"Text":"a","Text":"a"}',
        b'{"Map":{"k":"a","k":"b"}}',
        b'{"Unknown":{"k":1,"k":1}}',
        b'{"Text":"\x01"}',
        b"{} {}",
        b"[" * 100_000,
        b'{"Unknown":' * 100_000,
        b'{"Unknown":' + b"9" * 5000 + b"}",
        b"\xef\xbb\xbf{}",
    ],
)
def test_what_is_not_json_is_refused(body: bytes) -> None:
    assert refusal(body) == "The request body is not valid JSON."


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"[]", "Start of list found where not expected"),
        (b"1", "Expected null"),
        (b'"x"', "Expected null"),
        (b"null", "Expected null"),
        (b'{"Text":{}}', "Start of structure or map found where not expected."),
        (b'{"Text":[]}', "Start of list found where not expected"),
        (b'{"Text":1}', "NUMBER_VALUE can not be converted to a String"),
        (b'{"Text":true}', "TRUE_VALUE can not be converted to a String"),
        (b'{"Number":"1"}', "STRING_VALUE can not be converted to an Integer"),
        (b'{"Number":9223372036854775808}', "NUMBER_VALUE can not be converted to an Integer"),
        (b'{"Number":{}}', "Start of structure or map found where not expected."),
        (b'{"Number":1e999}', "NUMBER_VALUE can not be converted to an Integer"),
        (b'{"Number":true}', "TRUE_VALUE can not be converted to an Integer"),
        (b'{"Flag":"true"}', "STRING_VALUE can not be converted to a Boolean"),
        (b'{"Blob":"A"}', "A blob must be valid base64."),
        (b'{"Blob":"\xc3\xbc"}', "A blob must be valid base64."),
        (b'{"Blob":1}', "NUMBER_VALUE can not be converted to a Blob"),
        (b'{"List":"a"}', "Expected list or null"),
        (b'{"List":{}}', "Start of structure or map found where not expected."),
        (b'{"List":[1]}', "NUMBER_VALUE can not be converted to a String"),
        (b'{"Map":{"k":1}}', "NUMBER_VALUE can not be converted to a String"),
        (b'{"Map":false}', "Expected map or null"),
        (b'{"Map":[]}', "Start of list found where not expected"),
        (b'{"Inner":"a"}', "Expected null"),
    ],
)
def test_wrong_types_are_refused(body: bytes, message: str) -> None:
    assert refusal(body) == message


def test_answers() -> None:
    answer = aws_json.encode("id-1", {"Text": "\u00fc", "Blob": b"\0\1"})
    assert answer.status == 200
    assert answer.body == b'{"Text":"\xc3\xbc","Blob":"AAE="}'
    assert dict(answer.headers) == {
        "x-amzn-requestid": "id-1",
        "content-type": "application/x-amz-json-1.0",
    }


@pytest.mark.parametrize(
    ("fault", "status", "shape", "query_error"),
    [
        (
            QUEUE_DOES_NOT_EXIST,
            400,
            "com.amazonaws.sqs#QueueDoesNotExist",
            "AWS.SimpleQueueService.NonExistentQueue;Sender",
        ),
        (
            INVALID_PARAMETER_VALUE,
            400,
            "com.amazon.coral.service#InvalidParameterValueException",
            "InvalidParameterValue;Sender",
        ),
        (
            INTERNAL_FAILURE,
            500,
            "com.amazon.coral.service#InternalFailure",
            "InternalFailure;Receiver",
        ),
    ],
)
def test_faults_have_both_names(fault: Any, status: int, shape: str, query_error: str) -> None:
    answer = aws_json.encode_fault("id-1", fault, "why")
    assert answer.status == status
    assert answer.body == (b'{"__type":"%s","message":"why"}' % shape.encode())
    headers = dict(answer.headers)
    assert headers["x-amzn-errortype"] == shape
    assert headers["x-amzn-query-error"] == query_error
