"""What parameters may be, in the words of Kinesis."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from data_plane.core.errors import VALIDATION, RefusedError
from data_plane.protocol.constraints import _breaches, _holds, blob_too_long, checker
from data_plane.protocol.shapes import (
    BLOB,
    BOOLEAN,
    STRING,
    Bounds,
    ListOf,
    MapOf,
    Scalar,
    Shape,
    Structure,
)
from data_plane.protocol.sqs import sqs
from data_plane.protocol.stream_shapes import SHAPES

FAILED = "failed to satisfy constraint: Member must"
NULL = f"{FAILED} not be null"
SHORT = f"{FAILED} have length greater than or equal to"
LONG = f"{FAILED} have length less than or equal to"
SMALL = f"{FAILED} have value greater than or equal to"
BIG = f"{FAILED} have value less than or equal to"
PATTERN = f"{FAILED} satisfy regular expression pattern:"
VALUES = f"{FAILED} satisfy enum value set:"
MAP = "failed to satisfy constraint: Map"
LONG_NAME = "s" * 129
LONG_TEXT = "v" * 257
ITERATOR_TYPES = (
    "AFTER_SEQUENCE_NUMBER, LATEST, AT_TIMESTAMP, AT_SEQUENCE_NUMBER, TRIM_HORIZON"  # recorded
)
ARN = "arn:aws:kinesis:eu-west-1:111122223333:stream/s"


def within(least: int, most: int) -> str:
    """What is told of the scalars in a list or map."""
    return (
        f"must satisfy constraint: [Member must have length less than or equal to {most}, "
        f"Member must have length greater than or equal to {least}]"
    )


def said(operation: str, **params: Any) -> str:
    """What is said of these parameters; "" where they pass."""
    given_shape, _ = SHAPES[operation]
    try:
        checker(given_shape)(params)
    except RefusedError as error:
        return error.message if error.fault is VALIDATION else f"not a {VALIDATION.shape}"
    return ""


@pytest.mark.parametrize(
    ("operation", "params", "breaches"),
    [
        ("DescribeStream", {}, [f"Value null at 'streamName' {NULL}"]),
        ("DescribeStream", {"StreamName": "s"}, []),
        ("DescribeStream", {"StreamARN": ARN}, []),
        (
            "DescribeStream",
            {"StreamName": ""},
            [
                f"Value '' at 'streamName' {PATTERN} [a-zA-Z0-9_.-]+",
                f"Value '' at 'streamName' {SHORT} 1",
            ],
        ),
        (
            "DescribeStream",
            {"StreamName": LONG_NAME, "Limit": 0},
            [f"Value '{LONG_NAME}' at 'streamName' {LONG} 128", f"Value '0' at 'limit' {SMALL} 1"],
        ),
        ("DescribeStream", {"StreamName": LONG_NAME[1:], "Limit": 1}, []),
        (
            "GetRecords",
            {"ShardIterator": "i", "Limit": 10_001, "TidegateWaitTimeSeconds": 21},
            [
                f"Value '10001' at 'limit' {BIG} 10000",
                f"Value '21' at 'tidegateWaitTimeSeconds' {BIG} 20",
            ],
        ),
        ("GetRecords", {"ShardIterator": "i", "Limit": 1, "TidegateWaitTimeSeconds": 20}, []),
        (
            "GetShardIterator",
            {"StreamName": "s", "ShardId": "0", "ShardIteratorType": "NEWEST"},
            [f"Value 'NEWEST' at 'shardIteratorType' {VALUES} [{ITERATOR_TYPES}]"],
        ),
        (
            "PutRecord",
            {"StreamName": "s", "PartitionKey": "k", "ExplicitHashKey": "01"},
            [
                f"Value null at 'data' {NULL}",
                rf"Value '01' at 'explicitHashKey' {PATTERN} 0|([1-9]\d{{0,38}})",
            ],
        ),
        ("PutRecord", {"StreamName": "s", "Data": b"", "PartitionKey": "\U0001f30a" * 256}, []),
        ("PutRecords", {"StreamName": "s", "Records": []}, [f"Value '[]' at 'records' {SHORT} 1"]),
        (
            "PutRecords",
            {
                "StreamName": "s",
                "Records": [
                    {"Data": bytes(10 * 1_048_576 + 1), "PartitionKey": "a"},
                    {"PartitionKey": ""},
                ],
            },
            [
                f"Value at 'records.1.member.data' {LONG} 10485760",
                f"Value null at 'records.2.member.data' {NULL}",
                f"Value '' at 'records.2.member.partitionKey' {SHORT} 1",
            ],
        ),
        (
            "CreateStream",
            {"StreamName": "s", "StreamModeDetails": {}, "TidegateRetentionHoursMax": 8_761},
            [
                f"Value null at 'streamModeDetails.streamMode' {NULL}",
                f"Value '8761' at 'tidegateRetentionHoursMax' {BIG} 8760",
            ],
        ),
        (
            "AddTagsToStream",
            {"StreamName": "s", "Tags": {"": "v", "k": LONG_TEXT}},
            [
                f"Value '{{=v, k={LONG_TEXT}}}' at 'tags' {MAP} keys {within(1, 128)}",
                f"Value '{{=v, k={LONG_TEXT}}}' at 'tags' {MAP} value {within(0, 256)}",
            ],
        ),
        (
            "RemoveTagsFromStream",
            {"StreamName": "s", "TagKeys": ["", "b"]},
            [f"Value '[, b]' at 'tagKeys' failed to satisfy constraint: Member {within(1, 128)}"],
        ),
        (
            "UpdateMaxRecordSize",
            {"MaxRecordSizeInKiB": 1_024},
            [f"Value null at 'streamARN' {NULL}"],
        ),
    ],
)
def test_the_words(operation: str, params: dict[str, Any], breaches: list[str]) -> None:
    message = said(operation, **params)
    if not breaches:
        assert message == ""
        return
    count = "1 validation error" if len(breaches) == 1 else f"{len(breaches)} validation errors"
    before, _, told = message.partition(" detected: ")
    assert before == count
    assert sorted(told.split("; ")) == sorted(breaches)  # their order is free


def test_ten_breaches_are_told_at_most() -> None:
    message = said("PutRecords", StreamName="s", Records=[{"Data": b""}, *[{}] * 30])
    assert message.startswith("10 validation errors detected: ")
    assert message.count("; ") == 9
    assert "'records.11.member.data'" in message


def test_as_many_records_as_there_may_be() -> None:
    record = {"Data": b"", "PartitionKey": "k"}
    assert said("PutRecords", StreamName="s", Records=[record] * 500) == ""
    message = said("PutRecords", StreamName="s", Records=[record] * 501)
    assert message.endswith(f"at 'records' {FAILED} have length less than or equal to 500")


def test_a_wrong_value_is_not_repeated_at_any_length() -> None:
    assert len(said("DescribeStream", StreamName=";" * 10_000_000)) < 3_000
    records = [{"Data": b"", "PartitionKey": "k" * 10_000}] * 501
    assert len(said("PutRecords", StreamName="s", Records=records)) < 30_000


def test_a_long_text_costs_no_pattern_its_square() -> None:
    text = "arn:aws" + ":kinesis:" * 500_000
    assert "have length less than or equal to 2048" in said("DescribeStream", StreamARN=text)


def test_a_limit_that_only_the_stream_knows() -> None:
    assert blob_too_long("records.1.member.data", 1_048_576) == (
        f"Value at 'records.1.member.data' {FAILED} have length less than or equal to 1048576"
    )


def test_shapes_without_bounds_are_not_walked() -> None:
    assert _holds(Structure({"A": STRING, "B": ListOf(Structure({"C": BLOB}))})) is None
    assert sqs(()).name == "sqs"


ends = st.none() | st.integers(0, 5)
bounds = st.builds(Bounds, ends, ends)
texts = st.builds(
    lambda least, most, pattern, values: Scalar("string", Bounds(least, most, pattern, values)),
    ends,
    ends,
    st.sampled_from(["", "[ab]+", "a|b{2}"]),
    st.sampled_from([(), ("a", "bb")]),
)
numbers = st.builds(Scalar, st.just("integer"), bounds)
shapes: st.SearchStrategy[Shape] = st.recursive(
    texts | numbers | st.just(BOOLEAN),
    lambda inner: (
        st.builds(lambda member, within: ListOf(member, bounds=within), inner, bounds)
        | st.builds(
            lambda key, value, within: MapOf(value, key=key, bounds=within),
            texts,
            texts,
            bounds,
        )
        | st.builds(
            lambda a, b, required, one_of: Structure({"A": a, "B": b}, required, one_of),
            inner,
            inner,
            st.sampled_from([(), ("A",), ("A", "B")]),
            st.sampled_from([(), ("A", "B")]),
        )
    ),
    max_leaves=4,
)


def value_of(shape: Shape) -> st.SearchStrategy[Any]:
    match shape:
        case Structure():
            members = {name: value_of(member) for name, member in shape.members.items()}
            return st.fixed_dictionaries({}, optional=members)
        case ListOf():
            return st.lists(value_of(shape.member), max_size=4)
        case MapOf():
            return st.dictionaries(value_of(shape.key), value_of(shape.value), max_size=4)
        case Scalar(kind="integer"):
            return st.integers(-1, 7)
        case Scalar(kind="boolean"):
            return st.booleans()
        case Scalar():
            return st.text("abc", max_size=6)


@given(st.data())
def test_what_is_asked_first_is_what_is_told_then(data: st.DataObject) -> None:
    shape = data.draw(shapes.filter(lambda shape: not _has_lists_of_lists(shape)))
    value = data.draw(value_of(shape))
    holds = _holds(shape)
    assert (holds is None or holds(value)) == (not list(_breaches(value, shape, "")))


def _has_lists_of_lists(shape: Shape) -> bool:
    """Kinesis has none, and nobody knows how AWS tells of them."""
    match shape:
        case ListOf():
            is_nested = isinstance(shape.member, ListOf | MapOf)
            return is_nested or _has_lists_of_lists(shape.member)
        case Structure():
            return any(map(_has_lists_of_lists, shape.members.values()))
        case _:
            return False
