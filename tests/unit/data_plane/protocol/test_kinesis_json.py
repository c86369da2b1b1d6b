"""AWS JSON 1.1 of Kinesis: what is read how, what is refused in which words."""

import base64
import json
from collections.abc import Generator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from data_plane.core.errors import MALFORMED_INPUT, RefusedError
from data_plane.core.limits import PUT_BODY_BYTES_MAX, PUT_STRINGS_MAX
from data_plane.protocol import kinesis_json
from data_plane.protocol.stream_shapes import SHAPES

DECODERS = {name: kinesis_json.decoder(given_shape) for name, (given_shape, _) in SHAPES.items()}
NUMBER = "class com.amazon.coral.value.json.numbers.TruncatingBigNumber"
BLOB = "can not be converted to a Blob"
LONG = 1_100_000  # beyond what is decoded at once


def decoded(operation: str, body: bytes) -> Any:
    found = DECODERS[operation](body)
    if not isinstance(found, Generator):
        return found
    while True:
        try:
            next(found)
        except StopIteration as end:
            return end.value


def refusal(operation: str, body: bytes) -> str:
    with pytest.raises(RefusedError) as refused:
        decoded(operation, body)
    assert refused.value.fault is MALFORMED_INPUT
    return refused.value.message


def put(*records: dict[str, Any], **others: Any) -> bytes:
    return json.dumps({"StreamName": "s", "Records": records, **others}).encode()


@pytest.mark.parametrize(
    "body",
    [
        *(b"", b"{", b"null", b"7", b'"x"', b"[]", b"{}x", b'{"Limit":NaN}', b'{"Limit":1e999}'),
        *(b'{"StreamName":"\\ud800"}', b'{"StreamName":"\xff"}', b"\xef\xbb\xbf{}"),
        b'{"x":' + b"[" * 8_000,
    ],
)
def test_a_broken_body_has_no_message(body: bytes) -> None:
    assert refusal("DescribeStream", body) == ""


@pytest.mark.parametrize(
    ("operation", "body", "message"),
    [
        ("DescribeStream", {"StreamName": 1.5}, f"{NUMBER} can not be converted to an String"),
        (
            "DescribeStream",
            {"StreamName": True},
            "class java.lang.Boolean can not be converted to an String",
        ),
        ("DescribeStream", {"StreamName": [1]}, "Start of list found where not expected"),
        (
            "DescribeStream",
            {"StreamName": {}},
            "Start of structure or map found where not expected.",
        ),
        (
            "DescribeStream",
            {"Limit": "9"},
            "class java.lang.String can not be converted to an Integer",
        ),
        (
            "DescribeStream",
            {"Limit": False},
            "class java.lang.Boolean can not be converted to an Integer",
        ),
        ("DeleteStream", {"EnforceConsumerDeletion": 1}, f"{NUMBER} can not be converted to an "),
        ("PutRecord", {"Data": 1}, f"{NUMBER} can not be converted to a Blob"),
        (
            "PutRecord",
            {"Data": "23456"},
            f"'23456' {BLOB}: Base64 encoded length is expected a multiple of 4 bytes but found: 5",
        ),
        ("PutRecord", {"Data": "=+/="}, f"'=+/=' {BLOB}: Invalid Base64 character: '='"),
        ("PutRecord", {"Data": "+-=="}, f"'+-==' {BLOB}: Invalid Base64 character: '-'"),
        ("PutRecords", {"Records": "x"}, "Expected list or null"),
        ("PutRecords", {"Records": {}}, "Start of structure or map found where not expected."),
        ("PutRecords", {"Records": [[]]}, "Start of list found where not expected"),
        ("PutRecords", {"Records": ["x"]}, "Expected null"),
        ("AddTagsToStream", {"Tags": "x"}, "Expected map or null"),
        (
            "GetShardIterator",
            {"Timestamp": "2015"},
            "class java.lang.String can not be converted to milliseconds since epoch",
        ),
    ],
)
def test_what_is_said_of_other_types(operation: str, body: dict[str, Any], message: str) -> None:
    assert refusal(operation, json.dumps(body).encode()).startswith(message)


@pytest.mark.parametrize(
    ("operation", "body", "params"),
    [
        ("DescribeLimits", {}, {}),
        ("DescribeStream", {"StreamName": None, "Unknown": [{}], "Limit": 2.9}, {"Limit": 2}),
        ("DescribeStream", {"Limit": 10**30}, {"Limit": 2_147_483_647}),
        ("DescribeStream", {"Limit": -(10**30)}, {"Limit": -2_147_483_648}),
        ("PutRecords", {"Records": [None, {"Data": ""}]}, {"Records": [{}, {"Data": b""}]}),
        ("PutRecords", {"Records": None}, {}),
        ("RemoveTagsFromStream", {"TagKeys": ["a", None]}, {"TagKeys": ["a"]}),
        ("AddTagsToStream", {"Tags": {"a": None}}, {"Tags": {"a": ""}}),
        ("CreateStream", {"StreamModeDetails": None, "ShardCount": 3}, {"ShardCount": 3}),
        ("GetShardIterator", {"Timestamp": 1459799926.48}, {"Timestamp": 1_459_799_926_480}),
        ("GetShardIterator", {"Timestamp": 7}, {"Timestamp": 7_000}),
        ("ListShards", {"ShardFilter": {"Timestamp": 0.0005}}, {"ShardFilter": {"Timestamp": 0}}),
    ],
)
def test_what_is_odd_is_read_as_aws_does(
    operation: str, body: dict[str, Any], params: dict[str, Any]
) -> None:
    assert decoded(operation, json.dumps(body).encode()) == params


def test_of_a_repeated_member_the_last_counts_however_it_is_read() -> None:
    assert decoded("DescribeStream", b'{"Limit":1,"Limit":2}') == {"Limit": 2}
    assert decoded("DescribeStream", b'{"Limit":1,"Limit":2.0}') == {"Limit": 2}


def test_timestamps_out_of_all_bounds_stay_numbers() -> None:
    for seconds in ("1e308", "-1e308", "9" * 400):
        params = decoded("GetShardIterator", f'{{"Timestamp":{seconds}}}'.encode())
        assert abs(params["Timestamp"]) <= 2**63


record_values = st.fixed_dictionaries(
    {},
    optional={
        "Data": st.binary(max_size=40).map(lambda data: base64.b64encode(data).decode())
        | st.sampled_from(["YQ", "YQ==YQ==", "Y Q=", "Y-_=", None, 1, "\u00e9"]),
        "PartitionKey": st.text(max_size=8) | st.none() | st.integers(),
        "Unknown": st.lists(st.none()),
    },
)


def outcome(body: bytes) -> tuple[str, Any]:
    try:
        return "", decoded("PutRecords", body)
    except RefusedError as error:
        return error.message, None


@given(st.lists(record_values, max_size=5), st.booleans())
def test_bodies_of_all_lengths_are_read_alike(records: list[Any], is_ascii: bool) -> None:  # noqa: FBT001 - drawn
    body = json.dumps({"Records": records}, ensure_ascii=is_ascii).encode()
    longer = [
        json.dumps({"Records": records, "U": "x" * chars}, ensure_ascii=is_ascii).encode()
        for chars in (20_000, 300_000, LONG)
    ]
    outcomes = [outcome(body), *map(outcome, longer)]
    # What is read first may differ where several things are wrong.
    assert all((message == "") == (outcomes[0][0] == "") for message, _ in outcomes)
    assert all(params == outcomes[0][1] for _, params in outcomes)


def test_a_call_of_a_mebibyte_is_decoded_at_once_unless_it_has_too_many_texts() -> None:
    record = {"Data": "A" * 1_900, "PartitionKey": "k"}
    assert not isinstance(DECODERS["PutRecords"](put(*[record] * 500)), Generator)
    many = b'{"Records":[' + b",".join([b'{"Data":""}'] * 80_000) + b"]}"
    assert 900_000 < len(many) < 1_048_576
    assert isinstance(DECODERS["PutRecords"](many), Generator)
    assert refusal("PutRecords", many) == ""


def test_long_records_are_decoded_in_slices() -> None:
    data = bytes(range(256)) * 8_192
    records = [{"Data": base64.b64encode(data).decode(), "PartitionKey": str(n)} for n in range(3)]
    slices = DECODERS["PutRecords"](put(*records))
    assert isinstance(slices, Generator)
    assert sum(1 for _ in slices) >= 12
    params = decoded("PutRecords", put(*records))
    assert [record["Data"] for record in params["Records"]] == [data] * 3
    odd = decoded("PutRecords", put(*records, {"Data": "", "ExplicitHashKey": None}))
    assert odd["Records"] == [*params["Records"], {"Data": b""}]


@pytest.mark.parametrize("end", ["=AAA", "A-==", "AAA", "A===", "AA\n="])
def test_long_base64_that_is_wrong_at_its_end_or_in_the_middle(end: str) -> None:
    for text in ("A" * LONG + end, "A" * LONG + end.ljust(4, "A") + "A" * LONG):
        if end == "AAA" and len(text) % 4 == 0:
            continue
        message = refusal("PutRecord", json.dumps({"Data": text}).encode())
        assert "can not be converted to a Blob" in message
        assert len(message) < 500


def test_padding_within_a_long_text_is_not_base64() -> None:
    text = "A" * 524_284 + "AA==" + "A" * 524_288
    assert "Invalid Base64 character" in refusal("PutRecord", json.dumps({"Data": text}).encode())


def test_escaped_slashes_are_base64() -> None:
    for count in (1, LONG):
        body = b'{"Data":"' + rb"\/\/\/\/" * count + b'"}'
        assert decoded("PutRecord", body) == {"Data": b"\xff" * 3 * count}


def hostile(pattern: bytes, between: bytes = b",") -> bytes:
    count = PUT_BODY_BYTES_MAX // (len(pattern) + len(between)) - 10
    return b'{"Records":[' + between.join([pattern] * count) + b"]}"


@pytest.mark.parametrize("pattern", [b'{"Data":""}', b"{}", b"[]", b"0", b'"\\\\"'])
def test_more_than_a_legal_call_can_have_is_refused_before_it_is_built(pattern: bytes) -> None:
    body = hostile(pattern)
    assert refusal("PutRecords", body) == ""
    assert not kinesis_json._is_plain(body) or pattern == b"0"


def test_a_full_call_has_room_for_its_texts() -> None:
    record = {"Data": "YQ==", "PartitionKey": "k" * 256, "ExplicitHashKey": "1" * 38}
    body = json.dumps({"Records": [record] * 500}, indent=8)
    assert body.count('"') < 2 * PUT_STRINGS_MAX
    params = decoded("PutRecords", body.encode() + b" " * LONG)
    assert len(params["Records"]) == 500
    odd = body.replace('"Data"', '"Unknown": null, "Data"').encode() + b" " * 60_000
    assert decoded("PutRecords", odd) == params


def test_answers() -> None:
    _, records = SHAPES["GetRecords"]
    record = {
        "SequenceNumber": "1",
        "Data": b"\xff\xfe",
        "ApproximateArrivalTimestamp": 1_459_799_926_480,
    }
    written = kinesis_json.encoder(records)({"Records": [record], "MillisBehindLatest": 0})
    assert written == (
        b'{"Records":[{"SequenceNumber":"1","Data":"//4=","ApproximateArrivalTimestamp":'
        b'1459799926.48}],"MillisBehindLatest":0}'
    )
    assert record["ApproximateArrivalTimestamp"] == 1_459_799_926_480
    _, described = SHAPES["DescribeStream"]
    told = {"StreamDescription": {"StreamCreationTimestamp": 1_000}}
    assert json.loads(kinesis_json.encoder(described)(told)) == {
        "StreamDescription": {"StreamCreationTimestamp": 1.0}
    }
    _, nothing = SHAPES["DeleteStream"]
    assert kinesis_json.encoder(nothing)({}) == b""
