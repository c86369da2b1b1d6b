from typing import Any

import pytest

from data_plane.core.errors import INTERNAL_FAILURE, QUEUE_DOES_NOT_EXIST, RefusedError
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
    assert caught.value.fault.shape == "SerializationException"
    return caught.value.message


def test_every_type() -> None:
    body = (
        b'{"Text":"\\ud83d\\ude00 \xc3\xbc","Number":-3.0,"Flag":true,"Blob":"AAE=","List":["a"],'
        b'"Map":{"k":""},"Inner":{"Text":"","Unknown":1},"Unknown":[{}]}'
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
    assert aws_json.decode(b"", read) == {}


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b"nonsense",
        b"\xff",
        b'{"Text":"\xed\xa0\x80"}',
        b'{"Text":"\\ud800"}',
        b'{"Text":"\\udc00\\ud800"}',
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
        (b"[]", "Start of list found where not expected."),
        (b"1", "Unexpected field type"),
        (b'{"Text":{}}', "Start of structure or map found where not expected."),
        (b'{"Text":[]}', "Start of list found where not expected."),
        (b'{"Text":1}', "NUMBER_VALUE can not be converted to a String"),
        (b'{"Text":true}', "TRUE_VALUE can not be converted to a String"),
        (b'{"Number":"1"}', "STRING_VALUE can not be converted to an Integer"),
        (b'{"Number":1.5}', "NUMBER_VALUE can not be converted to an Integer"),
        (b'{"Number":2147483648}', "NUMBER_VALUE can not be converted to an Integer"),
        (b'{"Number":1e999}', "NUMBER_VALUE can not be converted to an Integer"),
        (b'{"Number":true}', "TRUE_VALUE can not be converted to an Integer"),
        (b'{"Flag":"true"}', "STRING_VALUE can not be converted to a Boolean"),
        (b'{"Blob":"A"}', "A blob must be valid base64."),
        (b'{"Blob":"\xc3\xbc"}', "A blob must be valid base64."),
        (b'{"List":"a"}', "Unexpected field type"),
        (b'{"List":[null]}', "NULL_VALUE can not be converted to a String"),
        (b'{"Map":{"k":null}}', "NULL_VALUE can not be converted to a String"),
        (b'{"Map":[]}', "Start of list found where not expected."),
        (b'{"Inner":"a"}', "Unexpected field type"),
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
            "QueueDoesNotExist",
            "AWS.SimpleQueueService.NonExistentQueue;Sender",
        ),
        (INTERNAL_FAILURE, 500, "InternalFailure", "InternalFailure;Receiver"),
    ],
)
def test_faults_have_both_names(fault: Any, status: int, shape: str, query_error: str) -> None:
    answer = aws_json.encode_fault("id-1", fault, "why")
    assert answer.status == status
    assert answer.body == (b'{"__type":"com.amazonaws.sqs#%s","message":"why"}' % shape.encode())
    headers = dict(answer.headers)
    assert headers["x-amzn-errortype"] == f"com.amazonaws.sqs#{shape}"
    assert headers["x-amzn-query-error"] == query_error
