"""A service: what clients reach under one name, with its operations, errors and quotas.

Amazon SQS is one (sqs.py). The stages of the front end know none of them by name: what differs
from service to service is a field here.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field

from data_plane.core.quotas import CONTROL
from data_plane.protocol.operation import Operation, Params, Permission
from data_plane.protocol.shapes import Structure


def check_nothing(_operation: Operation, _params: Params) -> None:
    """The service's operations check their parameters themselves."""


def input_of(operation: Operation) -> Structure:
    """The shape by which a request is read: the operation's own."""
    return operation.input


@dataclass(frozen=True, slots=True, eq=False)
class Service:
    """One service.

    `name` stands in signatures, in ARNs and before the actions of policies. A request in AWS JSON
    names the service by `target_prefix`, one in Query by `version` ("": it does not speak that);
    answers in XML are in the namespace `xml_namespace`. A body may have `body_bytes_max`, by
    operation. `quota_classes` says in which class an operation counts (CONTROL, where it is
    missing). Operations are read by `input_of`, and `check` raises RefusedError for parameters that
    are missing, or wrong. With `has_queues` its resources are queues, which have policies of their
    own. It speaks the `protocols` of these names (wire_protocols.py). `prefix` stands before the
    names of its operations in logs, metrics and usage: SQS, which came first, has none.
    """

    name: str
    target_prefix: str
    version: str
    xml_namespace: str
    operations: Mapping[str, Operation]
    body_bytes_max: Mapping[str, int]
    quota_classes: Mapping[str, str] = field(default_factory=dict)
    input_of: Callable[[Operation], Structure] = input_of
    check: Callable[[Operation, Params], None] = check_nothing
    has_queues: bool = False
    policy_of: Callable[[Permission], Awaitable[str]] | None = None
    prefix: str = ""
    protocols: tuple[str, ...] = ("json", "query-json", "query")

    def __post_init__(self) -> None:
        if unbounded := self.operations.keys() - self.body_bytes_max.keys():
            raise ValueError(f"operations without a limit of their bodies: {sorted(unbounded)}")

    def quota_class(self, operation: Operation) -> str:
        """The class of quotas that an operation counts in."""
        return self.quota_classes.get(operation.name, CONTROL)

    def target(self, operation: Operation) -> str:
        """What names an operation in the header X-Amz-Target."""
        return f"{self.target_prefix}.{operation.name}"


def by_name(operations: Iterable[Operation]) -> dict[str, Operation]:
    """Operations by their names."""
    return {operation.name: operation for operation in operations}


class Services:
    """The services of one front end. The first is meant where a request names none."""

    def __init__(self, services: Iterable[Service]) -> None:
        self.all = tuple(services)
        self.default = self.all[0]
        self.names = tuple(service.name for service in self.all)
        self.by_target_prefix = {service.target_prefix: service for service in self.all}
        self.by_version = {each.version: each for each in self.all if each.version}
