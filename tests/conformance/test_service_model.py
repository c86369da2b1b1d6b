"""The shapes that the server reads and writes are those of botocore's SQS model."""

from typing import Any

import botocore.session
import pytest
from botocore.model import OperationModel

from data_plane.protocol import shapes
from data_plane.protocol.operation import Operation
from tests.conformance.in_process import InProcessServer
from tests.conformance.query_model import query_model

NOT_SERVED = {
    "AddPermission",
    "CancelMessageMoveTask",
    "ListMessageMoveTasks",
    "RemovePermission",
    "StartMessageMoveTask",
}
REQUIRED_IN_OTHER_WORDS = {"DataType"}
"""SQS answers a missing one with a message of its own, which the message rules know."""


@pytest.fixture(scope="module")
def operations() -> dict[str, Operation]:
    server = InProcessServer()
    served = {operation.name: operation for operation in server.operations}
    server.close()
    return served


@pytest.fixture(scope="module")
def model() -> Any:
    return botocore.session.get_session().get_service_model("sqs")


def differences(ours: shapes.Shape, theirs: Any, where: str, *, reading: bool) -> list[str]:
    """What differs, one line each; `reading`: the server reads this shape."""
    if _type_of(ours) != theirs.type_name:
        return [f"{where}: {_type_of(ours)}, botocore {theirs.type_name}"]
    match ours:
        case shapes.ListOf():
            return differences(ours.member, theirs.member, f"{where}[]", reading=reading)
        case shapes.MapOf():
            return differences(ours.value, theirs.value, f"{where}{{}}", reading=reading)
        case shapes.Structure():
            return _structure_differences(ours, theirs, where, reading=reading)
        case shapes.Scalar():
            return []


def _type_of(shape: shapes.Shape) -> str:
    match shape:
        case shapes.Scalar():
            return shape.kind
        case shapes.ListOf():
            return "list"
        case shapes.MapOf():
            return "map"
        case shapes.Structure():
            return "structure"


def _structure_differences(
    ours: shapes.Structure, theirs: Any, where: str, *, reading: bool
) -> list[str]:
    found = [f"{where}.{name}: not in botocore" for name in ours.members.keys() - theirs.members]
    for name, member in theirs.members.items():
        if name not in ours.members:
            found.append(f"{where}.{name}: missing")
        else:
            found += differences(ours.members[name], member, f"{where}.{name}", reading=reading)
    if reading:
        expected = set(theirs.required_members) - REQUIRED_IN_OTHER_WORDS
        if set(ours.required) != expected:
            found.append(f"{where}: requires {sorted(ours.required)}, botocore {sorted(expected)}")
    return found


def operation_differences(ours: Operation, theirs: OperationModel) -> list[str]:
    found = differences(ours.input, theirs.input_shape, f"{ours.name} input", reading=True)
    if theirs.output_shape is None:
        return found + [f"{ours.name} output: {name}" for name in ours.output.members]
    return found + differences(
        ours.output, theirs.output_shape, f"{ours.name} output", reading=False
    )


def test_every_action_is_served_or_listed_as_missing(
    operations: dict[str, Operation], model: Any
) -> None:
    assert set(operations) | NOT_SERVED == set(model.operation_names)
    assert set(operations) & NOT_SERVED == set()


def test_shapes_equal_the_service_model(operations: dict[str, Operation], model: Any) -> None:
    found = [
        difference
        for name, operation in operations.items()
        for difference in operation_differences(operation, model.operation_model(name))
    ]
    assert found == [], "\n".join(found)


def test_the_comparison_sees_a_missing_a_foreign_and_a_changed_member(model: Any) -> None:
    theirs = model.operation_model("GetQueueUrl").input_shape
    ours = shapes.Structure({"QueueName": shapes.INTEGER, "Foreign": shapes.STRING})
    assert differences(ours, theirs, "input", reading=True) == [
        "input.Foreign: not in botocore",
        "input.QueueName: integer, botocore string",
        "input.QueueOwnerAWSAccountId: missing",
        "input: requires [], botocore ['QueueName']",
    ]


def test_names_of_the_query_protocol(operations: dict[str, Operation]) -> None:
    """Against the test's own table of names, which knows nothing of the server's."""
    loader = botocore.session.get_session().get_component("data_loader")
    names = query_model(loader.load_service_model("sqs", "service-2"))["shapes"]
    found: list[str] = []

    def compare(ours: shapes.Shape, theirs: str, member: dict[str, Any], where: str) -> None:
        shape = names[theirs]
        match ours:
            case shapes.ListOf():
                if ours.query_name != shape["member"]["locationName"]:
                    found.append(f"{where}: {ours.query_name}")
                compare(ours.member, shape["member"]["shape"], {}, f"{where}[]")
            case shapes.MapOf():
                wanted = (
                    member["locationName"],
                    shape["key"]["locationName"],
                    shape["value"]["locationName"],
                )
                if (ours.query_name, ours.query_key, ours.query_value) != wanted:
                    found.append(f"{where}: {ours}")
                compare(ours.value, shape["value"]["shape"], {}, f"{where}{{}}")
            case shapes.Structure():
                for name, inner in ours.members.items():
                    theirs_inner = shape["members"][name]
                    compare(inner, theirs_inner["shape"], theirs_inner, f"{where}.{name}")

    for name, operation in operations.items():
        for side in ("Request", "Result"):
            ours = operation.input if side == "Request" else operation.output
            if ours.members:
                compare(ours, name + side, {}, name + side)
    assert found == []
