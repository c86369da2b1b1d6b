"""The shapes of streams are those of botocore's Kinesis model: types, what is required, bounds."""

from collections.abc import Iterator
from typing import Any

import botocore.session
import pytest

import tidegate_sdk
from data_plane.protocol.queue_shapes import QUEUE_SHAPES
from data_plane.protocol.shapes import Bounds, ListOf, MapOf, Scalar, Shape, Structure
from data_plane.protocol.stream_shapes import (
    BEFORE,
    EPOCH,
    PRODUCER,
    RETENTION_MAX,
    SEQUENCE,
    SHAPES,
    WAIT,
)

MODEL: Any = botocore.session.get_session().get_service_model("kinesis")

EVERY = {**SHAPES, **QUEUE_SHAPES}
LEFT_OUT = {
    "CreateStream.WarmThroughputMiBps": "warm throughput is never served: it is ignored",
    "UpdateStreamMode.WarmThroughputMiBps": "as above",
    "DescribeStreamSummary.StreamDescriptionSummary.WarmThroughput": "as above: never told",
    "DescribeStreamSummary.StreamDescriptionSummary.ChannelCount": "there are no channels",
    "DescribeStreamSummary.StreamDescriptionSummary.StreamId": "reserved for future use",
    "DescribeLimits.ChannelCount": "there are no channels",
    "DescribeLimits.ChannelCountLimit": "as above",
}
RESERVED = "StreamId"
"""A member of calls on streams that is "reserved for future use": it is ignored."""
OURS = {
    f"CreateStream.{RETENTION_MAX}",
    f"IncreaseStreamRetentionPeriod.{RETENTION_MAX}",
    f"GetRecords.{WAIT}",
    f"PutRecords.{PRODUCER}",
    f"PutRecords.{EPOCH}",
    f"PutRecords.Records.{SEQUENCE}",
    f"PutRecords.Records.{BEFORE}",
}


def differences(ours: Shape, theirs: Any, where: str) -> Iterator[str]:
    kind = {"long": "integer"}.get(theirs.type_name, theirs.type_name)
    if _kind(ours) != kind:
        yield f"{where}: {_kind(ours)}, botocore {kind}"
        return
    if not isinstance(ours, Structure) and (said := _bounds(ours)) != (told := _told(theirs)):
        yield f"{where}: {said}, botocore {told}"
    match ours:
        case Structure():
            yield from _members(ours, theirs, where)
        case ListOf():
            yield from differences(ours.member, theirs.member, where)
        case MapOf():
            yield from differences(ours.key, theirs.key, f"{where}.key")
            yield from differences(ours.value, theirs.value, f"{where}.value")


def _members(ours: Structure, theirs: Any, where: str) -> Iterator[str]:
    for name in ours.members.keys() - theirs.members.keys():
        yield f"{where}.{name}: only ours"
    for name in theirs.members.keys() - ours.members.keys():
        yield f"{where}.{name}: only botocore's"
    if set(ours.required) != set(theirs.required_members):
        yield f"{where}: requires {ours.required}, botocore {theirs.required_members}"
    if not set(ours.one_of) <= ours.members.keys():
        yield f"{where}: asks for one of {ours.one_of}, which it has not"
    for name in ours.members.keys() & theirs.members.keys():
        yield from differences(ours.members[name], theirs.members[name], f"{where}.{name}")


def _kind(shape: Shape) -> str:
    match shape:
        case Scalar():
            return shape.kind
        case ListOf():
            return "list"
        case MapOf():
            return "map"
        case Structure():
            return "structure"


def _bounds(shape: Scalar | ListOf | MapOf) -> tuple[object, ...]:
    bounds: Bounds = shape.bounds
    return bounds.least, bounds.most, bounds.pattern, set(bounds.values)


def _told(theirs: Any) -> tuple[object, ...]:
    told = theirs.metadata
    pattern = told.get("pattern", "")
    if pattern.startswith("^("):  # AWS prints them without
        pattern = pattern.removeprefix("^(").removesuffix(")$")
    return told.get("min"), told.get("max"), pattern, set(told.get("enum", ()))


def test_there_are_42_operations_and_the_model_has_each() -> None:
    assert (len(SHAPES), len(QUEUE_SHAPES)) == (30, 12)
    assert set(MODEL.operation_names) >= EVERY.keys()
    assert {name for name in MODEL.operation_names if "Queue" in name} == QUEUE_SHAPES.keys()


def test_what_differs_from_the_model_is_listed_with_a_reason() -> None:
    found: list[str] = []
    for name, (given, answered) in EVERY.items():
        model = MODEL.operation_model(name)
        found += differences(given, model.input_shape, name)
        if model.output_shape is None:
            assert not answered.members
        else:
            found += differences(answered, model.output_shape, name)
    expected = [f"{name}: only botocore's" for name in LEFT_OUT]
    expected += [f"{name}: only ours" for name in OURS]
    reserving = [
        name for name in EVERY if RESERVED in MODEL.operation_model(name).input_shape.members
    ]
    assert {"PutRecord", "GetRecords", "TagResource", "UpdateStreamMode"} <= set(reserving)
    expected += [f"{name}.{RESERVED}: only botocore's" for name in reserving]
    assert sorted(found) == sorted(expected)


def test_the_models_of_the_sdk_have_what_is_ours() -> None:
    session = botocore.session.get_session()
    tidegate_sdk.extend(session)
    model: Any = session.get_service_model("kinesis")
    found = [
        difference
        for name, (given, _) in SHAPES.items()
        for difference in differences(given, model.operation_model(name).input_shape, name)
    ]
    assert all(one.endswith(": only botocore's") for one in found), found


@pytest.mark.parametrize("name", sorted(SHAPES))
def test_a_stream_is_named_wherever_there_is_a_name_for_it(name: str) -> None:
    given, _ = SHAPES[name]
    names = given.members.keys() & {"StreamName", "StreamARN"}
    is_named_otherwise = name in {"CreateStream", "ListShards", "GetRecords"}
    required = names & {*given.required, *given.one_of}
    assert required == (names if not is_named_otherwise else names & {*given.required})
