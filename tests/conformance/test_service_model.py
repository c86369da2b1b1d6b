"""The shapes that the server reads and writes are those of botocore's SQS model."""

from typing import Any

import botocore.session
import pytest
from botocore.model import OperationModel

from data_plane.core import errors
from data_plane.protocol import shapes
from data_plane.protocol.operation import Operation
from tests.conformance.in_process import InProcessServer
from tests.conformance.query_model import query_model

CHECKED_IN_OTHER_WORDS = {"DataType"}
"""Required members that SQS asks for with messages of their own, which the message rules know."""

NEVER_RAISED = {"InvalidIdFormat"}  # SQS itself answers ReceiptHandleIsInvalid
"""Errors of the model that nothing in the server can lead to."""

STATUSES = {
    "InvalidAddress": 404,
    "InvalidSecurity": 403,
    "KmsOptInRequired": 403,
    "OverLimit": 403,
    "PurgeQueueInProgress": 403,
    "ReceiptHandleIsInvalid": 404,
    "RequestThrottled": 403,
    "ResourceNotFoundException": 404,
}
"""HTTP statuses other than 400, as the traits of SQS's Smithy model have them."""

CODES = {
    "InvalidAddress": "InvalidAddress",
    "InvalidAttributeName": "InvalidAttributeName",
    "InvalidAttributeValue": "InvalidAttributeValue",
    "InvalidMessageContents": "InvalidMessageContents",
    "InvalidSecurity": "InvalidSecurity",
    "KmsAccessDenied": "KMS.AccessDeniedException",
    "KmsDisabled": "KMS.DisabledException",
    "KmsInvalidKeyUsage": "KMS.InvalidKeyUsageException",
    "KmsInvalidState": "KMS.InvalidStateException",
    "KmsNotFound": "KMS.NotFoundException",
    "KmsOptInRequired": "KMS.OptInRequired",
    "KmsThrottled": "KMS.ThrottlingException",
    "OverLimit": "OverLimit",
    "QueueDoesNotExist": "AWS.SimpleQueueService.NonExistentQueue",
    "QueueNameExists": "QueueAlreadyExists",
    "ReceiptHandleIsInvalid": "ReceiptHandleIsInvalid",
    "RequestThrottled": "RequestThrottled",
    "ResourceNotFoundException": "ResourceNotFoundException",
}
"""Codes of the Query protocol that are not the shape's name behind AWS.SimpleQueueService."""


BEYOND_SQS = {
    "TidegateAddCell",
    "TidegateBrowseMessages",
    "TidegateCloseAccount",
    "TidegateCreateAccessKey",
    "TidegateCreateAccount",
    "TidegateCreateUser",
    "TidegateDeleteUser",
    "TidegateDrainCell",
    "TidegateFailCell",
    "TidegateGetUsage",
    "TidegateListAccessKeys",
    "TidegateListAccounts",
    "TidegateListCells",
    "TidegateListUsers",
    "TidegateMoveQueue",
    "TidegateRemoveCell",
    "TidegateRestoreCell",
    "TidegateRevokeAccessKey",
    "TidegateSetBudgets",
    "TidegateSetQuotas",
}
"""Operations that SQS does not have; test_extension_model.py has what they look like."""


@pytest.fixture(scope="module")
def operations() -> dict[str, Operation]:
    server = InProcessServer()
    served = {operation.name: operation for operation in server.operations}
    server.close()
    return {name: operation for name, operation in served.items() if name not in BEYOND_SQS}


@pytest.fixture(scope="module")
def model() -> Any:
    return botocore.session.get_session().get_service_model("sqs")


def differences(ours: shapes.Shape, theirs: Any, where: str, *, reading: bool) -> list[str]:
    """What differs, one line each; `reading`: the server reads this shape."""
    # Integers that the server writes have any size; those that it reads must fit their type.
    wanted = "integer" if theirs.type_name == "long" and not reading else theirs.type_name
    if _type_of(ours) != wanted:
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
        expected = set(theirs.required_members) - CHECKED_IN_OTHER_WORDS
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
    assert set(operations) == set(model.operation_names)
    assert len(model.operation_names) == 23


def test_shapes_equal_the_service_model(operations: dict[str, Operation], model: Any) -> None:
    found = [
        difference
        for name, operation in operations.items()
        for difference in operation_differences(operation, model.operation_model(name))
    ]
    assert found == [], "\n".join(found)


def test_errors_equal_the_service_model(model: Any) -> None:
    """The table has the errors that the model's operations raise, and no other of SQS's own."""
    raised = {
        shape.name
        for name in model.operation_names
        for shape in model.operation_model(name).error_shapes
    }
    assert raised == {shape.name for shape in model.error_shapes}
    table = [fault for fault in vars(errors).values() if isinstance(fault, errors.Fault)]
    ours = {fault.shape: fault for fault in table if fault.namespace == errors.OF_SQS}
    assert ours.keys() | NEVER_RAISED == raised
    assert ours.keys() & NEVER_RAISED == set()
    assert {name: fault.status for name, fault in ours.items()} == {
        name: STATUSES.get(name, 400) for name in ours
    }
    assert {name: fault.code for name, fault in ours.items()} == {
        name: CODES.get(name, f"AWS.SimpleQueueService.{name}") for name in ours
    }
    assert all(fault.sender for fault in ours.values())


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
