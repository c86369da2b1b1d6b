"""A second service beside SQS, of two operations: one shares its name with one of SQS."""

from typing import Final

from data_plane.core.errors import Fault, RefusedError, missing_parameter
from data_plane.core.quotas import SEND
from data_plane.protocol.operation import Call, Operation, Params, Permission, Work
from data_plane.protocol.service import Service, by_name
from data_plane.protocol.shapes import INTEGER, STRING, ListOf, Structure

NAMESPACE: Final = "http://toys.example/doc/2020-01-01/"
TARGET_PREFIX: Final = "Toys_20200101"
VERSION: Final = "2020-01-01"
BODY_BYTES_MAX: Final = 1_000
BROKEN: Final = Fault("ToyBroken", "ToyBroken", 409, namespace="com.example.toys#")


class Toys:
    """The names of toys, and who put them there."""

    def __init__(self) -> None:
        self.owners: dict[str, str] = {}

    async def put(self, call: Call) -> Params:
        name = str(call.params["Name"])
        if name == "broken":
            raise RefusedError(BROKEN, "It is broken.")
        self.owners[name] = call.account
        return {"Pieces": len(name)}

    async def list(self, call: Call) -> Params:
        return {"Names": [name for name, owner in self.owners.items() if owner == call.account]}


async def _permissions(account: str, region: str, params: Params) -> list[Permission]:
    return [Permission("PutToy", account, region, str(params.get("Name", "")), "toys")]


def _check(operation: Operation, params: Params) -> None:
    for name in operation.input.required:
        if name not in params:
            raise missing_parameter(name)


def toy_service(toys: Toys) -> Service:
    """The service over these toys."""
    put = Operation(
        "PutToy",
        Structure({"Name": STRING}, required=("Name",)),
        Structure({"Pieces": INTEGER}),
        toys.put,
        on_queue=False,
        measure=lambda params, _output: Work(messages=1, size=len(params["Name"])),
        permissions=_permissions,
    )
    # So named, it shows that the service is looked up before the operation.
    listed = Operation(
        "ListQueues",
        Structure(),
        Structure({"Names": ListOf(STRING, "Name")}),
        toys.list,
        on_queue=False,
    )
    operations = by_name((put, listed))
    return Service(
        "toys",
        TARGET_PREFIX,
        VERSION,
        NAMESPACE,
        operations,
        dict.fromkeys(operations, BODY_BYTES_MAX),
        quota_classes={"PutToy": SEND},
        check=_check,
        prefix="toys:",
    )
