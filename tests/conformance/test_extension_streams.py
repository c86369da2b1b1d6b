"""What the server takes and answers beyond Kinesis is what the SDK's extras file says."""

from typing import Any

import botocore.session
import pytest

import tidegate_sdk
from data_plane.core.errors import (
    FENCED_MEMBER,
    UNKNOWN_MEMBER,
    UNRELEASED_INSTANCE,
)
from data_plane.protocol.group_shapes import GROUP_SHAPES
from data_plane.protocol.queue_shapes import QUEUE_SHAPES
from data_plane.protocol.shapes import ListOf, Scalar, Shape, Structure
from data_plane.protocol.stream_shapes import RETENTION_MAX, SHAPES, WAIT
from tests.conformance.in_process import InProcessServer

PREFIX = "Tidegate"


@pytest.fixture(scope="module")
def model() -> Any:
    session = botocore.session.get_session()
    tidegate_sdk.extend(session)
    return session.get_service_model("kinesis")


def differences(ours: Shape, theirs: Any, where: str) -> list[str]:
    match ours:
        case Structure():
            found = [f"{where}.{name}" for name in ours.members.keys() ^ theirs.members.keys()]
            if set(ours.required) != set(theirs.required_members):
                found.append(f"{where}: requires")
            for name in ours.members.keys() & theirs.members.keys():
                found += differences(ours.members[name], theirs.members[name], f"{where}.{name}")
            return found
        case ListOf():
            found = differences(ours.member, theirs.member, f"{where}[]")
            return found if theirs.type_name == "list" else [where]
        case Scalar():
            kind = {"long": "integer"}.get(theirs.type_name, theirs.type_name)
            return [] if kind == ours.kind and _bounds(ours) == _told(theirs) else [where]
        case _:
            return [where]


def _bounds(ours: Scalar) -> tuple[object, ...]:
    if ours.kind == "timestamp":
        return (None, None, "", set())
    bounds = ours.bounds
    return bounds.least, bounds.most, bounds.pattern, set(bounds.values)


def _told(theirs: Any) -> tuple[object, ...]:
    told = theirs.metadata
    return told.get("min"), told.get("max"), told.get("pattern", ""), set(told.get("enum", ()))


def test_the_groups_of_the_model_are_those_of_the_server(model: Any) -> None:
    found: list[str] = []
    for name, (given, answered) in GROUP_SHAPES.items():
        operation = model.operation_model(name)
        found += differences(given, operation.input_shape, name)
        if operation.output_shape is not None or answered.members:
            found += differences(answered, operation.output_shape, f"{name} output")
    assert found == []


def test_the_operations_beyond_kinesis_are_served_and_listed(
    model: Any, server: InProcessServer
) -> None:
    beyond = {name for name in model.operation_names if name.startswith(PREFIX)}
    assert beyond == GROUP_SHAPES.keys()
    served = server.service.streams.service.operations
    assert served.keys() == SHAPES.keys() | QUEUE_SHAPES.keys() | GROUP_SHAPES.keys()
    for name, shapes in GROUP_SHAPES.items():
        assert (served[name].input, served[name].output) == shapes


def test_members_beyond_kinesis_have_the_bounds_of_the_server(model: Any) -> None:
    for name, member in (
        ("GetRecords", WAIT),
        ("CreateStream", RETENTION_MAX),
        ("IncreaseStreamRetentionPeriod", RETENTION_MAX),
    ):
        theirs = model.operation_model(name).input_shape.members[member]
        assert differences(SHAPES[name][0].members[member], theirs, name) == []


def test_a_client_without_the_extras_sees_nothing_of_them() -> None:
    plain: Any = botocore.session.get_session().get_service_model("kinesis")
    assert not [name for name in plain.operation_names if name.startswith(PREFIX)]
    assert WAIT not in plain.operation_model("GetRecords").input_shape.members


def test_the_errors_of_heartbeats_are_in_the_model(model: Any) -> None:
    errors = {shape.name for shape in model.operation_model("TidegateGroupHeartbeat").error_shapes}
    assert errors >= {fault.shape for fault in (FENCED_MEMBER, UNKNOWN_MEMBER, UNRELEASED_INSTANCE)}
