"""What the server takes and answers beyond SQS is what the SDK's extras file says, and no more."""

from dataclasses import replace
from typing import Any

import botocore.session
import pytest

import tidegate_sdk
from data_plane.protocol.extension_shapes import EXTRA_MEMBERS, extended_input
from data_plane.protocol.operation import Operation
from data_plane.protocol.shapes import ListOf, Shape, Structure
from tests.conformance.in_process import InProcessServer
from tests.conformance.test_service_model import BEYOND_SQS, operation_differences

PREFIX = "Tidegate"
MEMBERS_BEYOND_SQS = {
    "ChangeMessageVisibility.TidegateVisibilityTimeout",
    "ChangeMessageVisibilityBatch.Entries[].TidegateVisibilityTimeout",
    "ReceiveMessage.TidegateVisibilityTimeout",
    "SendMessage.TidegateDelaySeconds",
    "SendMessageBatch.Entries[].TidegateDelaySeconds",
}


@pytest.fixture(scope="module")
def operations() -> dict[str, Operation]:
    """As requests to them are read."""
    server = InProcessServer()
    server.close()
    return {
        operation.name: replace(operation, input=extended_input(operation.name, operation.input))
        for operation in server.operations
    }


@pytest.fixture(scope="module")
def model() -> Any:
    session = botocore.session.get_session()
    tidegate_sdk.extend(session)
    return session.get_service_model("sqs")


def members(shape: Shape, where: str) -> set[str]:
    """Paths of all members."""
    match shape:
        case Structure():
            inner = [members(member, f"{where}.{name}") for name, member in shape.members.items()]
            return {f"{where}.{name}" for name in shape.members}.union(*inner)
        case ListOf():
            return members(shape.member, f"{where}[]")
        case _:
            return set()


def test_the_operations_are_those_of_sqs_and_the_listed_ones(
    operations: dict[str, Operation], model: Any
) -> None:
    assert set(operations) == set(model.operation_names)
    assert {name for name in operations if name.startswith(PREFIX)} == BEYOND_SQS
    assert len(operations) == 23 + len(BEYOND_SQS)


def test_the_members_beyond_sqs_are_the_listed_ones(operations: dict[str, Operation]) -> None:
    found = {
        path
        for name, operation in operations.items()
        for path in members(operation.input, name)
        if PREFIX in path.rpartition(".")[2]
    }
    assert found == MEMBERS_BEYOND_SQS
    assert set(EXTRA_MEMBERS) == {path.partition(".")[0] for path in MEMBERS_BEYOND_SQS}


def test_no_answer_of_an_operation_of_sqs_has_more(operations: dict[str, Operation]) -> None:
    plain = botocore.session.get_session().get_service_model("sqs")
    for name in set(operations) - BEYOND_SQS:
        theirs = plain.operation_model(name).output_shape
        assert set(operations[name].output.members) == set(theirs.members if theirs else ())


def test_shapes_equal_the_extended_model(operations: dict[str, Operation], model: Any) -> None:
    found = [
        difference
        for name, operation in operations.items()
        for difference in operation_differences(operation, model.operation_model(name))
    ]
    assert found == [], "\n".join(found)
