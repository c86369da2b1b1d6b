"""Amazon Kinesis Data Streams as a service."""

from collections.abc import Awaitable, Callable, Iterable
from typing import Final

from data_plane.core.limits import STREAM_BODY_BYTES_MAX
from data_plane.core.quotas import STREAM_QUOTA_CLASSES
from data_plane.protocol.constraints import checker
from data_plane.protocol.kinesis_wire import TARGET_PREFIX
from data_plane.protocol.operation import Operation, Params, Permission
from data_plane.protocol.service import Service, by_name

NAME: Final = "kinesis"
NOT_IN_QUERY: Final = ""
"""Kinesis has neither a version nor a namespace of the Query protocol."""


def kinesis(
    operations: Iterable[Operation], policy_of: Callable[[Permission], Awaitable[str]] | None = None
) -> Service:
    """The service with these operations, whose parameters keep the bounds of their shapes."""
    named = by_name(operations)
    checkers = {name: checker(operation.input) for name, operation in named.items()}

    def check(operation: Operation, params: Params) -> None:
        checkers[operation.name](params)

    return Service(
        NAME,
        TARGET_PREFIX,
        NOT_IN_QUERY,
        NOT_IN_QUERY,
        named,
        STREAM_BODY_BYTES_MAX,
        STREAM_QUOTA_CLASSES,
        check=check,
        policy_of=policy_of,
        prefix="kinesis:",
        protocols=("json-1.1", "cbor"),
    )
