"""The hand-written shapes say what botocore's model of SQS says."""

from typing import Any

import botocore.session
import pytest
from botocore import model

from data_plane.operations.catalog import message_operations
from data_plane.protocol.operation import Operation
from data_plane.protocol.shapes import ListOf, MapOf, Scalar, Shape, Structure
from tests.unit.data_plane.wire import FakeBag

OPERATIONS = message_operations(FakeBag())
KINDS = {"string": "string", "integer": "integer", "boolean": "boolean", "blob": "blob"}


@pytest.fixture(scope="module")
def service() -> model.ServiceModel:
    return botocore.session.Session().get_service_model("sqs")


def assert_same(ours: Shape, theirs: Any) -> None:
    match ours:
        case Structure():
            assert theirs.type_name == "structure"
            assert ours.members.keys() == theirs.members.keys()
            for name, member in ours.members.items():
                assert_same(member, theirs.members[name])
        case ListOf():
            assert theirs.type_name == "list"
            assert_same(ours.member, theirs.member)
        case MapOf():
            assert theirs.type_name == "map"
            assert_same(ours.value, theirs.value)
        case Scalar():
            assert ours.kind == KINDS[theirs.type_name]


@pytest.mark.parametrize("operation", OPERATIONS, ids=[operation.name for operation in OPERATIONS])
def test_shapes(service: model.ServiceModel, operation: Operation) -> None:
    theirs = service.operation_model(operation.name)
    assert theirs.input_shape is not None
    assert_same(operation.input, theirs.input_shape)
    assert set(operation.input.required) == set(theirs.input_shape.required_members)
    if theirs.output_shape is None:
        assert not operation.output.members
    else:
        assert_same(operation.output, theirs.output_shape)
    assert operation.on_queue
