"""An operation of the API as a value: its name, its shapes, and the coroutine that performs it."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec

from data_plane.core.caller import Caller
from data_plane.core.message import Stored
from data_plane.core.partitions import arn_of
from data_plane.core.queue import Queue
from data_plane.protocol.shapes import Structure

Params = Mapping[str, Any]
"""Input or output as the JSON protocol spells it, whichever protocol carried it."""


class Call(msgspec.Struct, frozen=True, gc=False):
    """One authenticated request on its way to an operation.

    `account` is the caller's own; without a `caller` its root calls. `queue` is set for operations
    that name one. `base_url` is the scheme and host that the caller used, for queue URLs.
    `invocation_id` and `attempt` (1: first) tell a repeated call of an SDK apart from a new one;
    the id is "" where the client does not send it. `authorised`: policies allow the call, also
    where it is about another account's queue. A send notes in `stored` what it added to the queue;
    its messages belong to the trace that `trace_header` names ("": none), unless they name one.
    """

    request_id: str
    account: str
    region: str
    base_url: str
    now_us: int
    params: Params
    queue: Queue | None = None
    invocation_id: str = ""
    attempt: int = 1
    caller: Caller | None = None
    authorised: bool = False
    stored: Stored = msgspec.field(default_factory=Stored)
    trace_header: str = ""

    @property
    def sender(self) -> str:
        """The SenderId of messages that it sends."""
        return self.caller.sender if self.caller is not None else self.account


class Permission(NamedTuple):
    """What policies must allow for a call: an action, as its service names it, on a resource.

    The resource, a queue say, need not exist. `name` is "" where the action is about all that an
    account has of a service.
    """

    action: str
    account: str
    region: str
    name: str
    service: str = "sqs"

    @property
    def arn(self) -> str:
        """The resource, as policies name it."""
        return arn_of(self.service, self.region, self.account, self.name)

    @property
    def action_name(self) -> str:
        """The action, as policies name it, in lower case."""
        return f"{self.service}:{self.action.lower()}"

    @property
    def shown_action(self) -> str:
        """The action, as refusals name it: those of SQS write it in lower case."""
        action = self.action.lower() if self.service == "sqs" else self.action
        return f"{self.service}:{action}"


PermissionsOf = Callable[[str, str, Params], Awaitable[Sequence[Permission]]]
"""What a call needs, by the caller's account and region and the parameters, not yet validated."""


class Work(NamedTuple):
    """What a successful call did, for metering.

    `messages` were sent, received or deleted, duplicates included; `size` is the bytes of those
    sent or received; `failed_entries` of a batch were not. `sent`: it is a call that sends.
    `units` is what it is billed by, where those are not chunks of that size (0). So long before the
    end, `behind_ms`, arrived the last record that it read.
    """

    messages: int = 0
    size: int = 0
    failed_entries: int = 0
    sent: bool = False
    units: int = 0
    behind_ms: int = 0


def no_work(_params: Params, _output: Params) -> Work:
    """Nothing to meter but the call."""
    return Work()


@dataclass(frozen=True, slots=True)
class Operation:
    """An action of the API.

    `perform` validates the parameters, does the work and returns the output parameters (absent
    members left out); it raises RefusedError, having changed nothing. `on_queue` operations have
    their QueueUrl resolved to `Call.queue` before. `measure` says from input and output what was
    done. Policies must allow `action` ("": its name) on that queue, or the `permissions` if it has
    such. It may wait for as many seconds as its member `wait_member` says ("": it does not wait);
    one on a queue waits otherwise as that says, and one that has a `wait_default_s` for that, and
    never for less than a second. One that is `at_root` is not asked for on a queue's path, and one
    that `hides` tells another account's caller who may not call it that there is no such queue.
    """

    name: str
    input: Structure
    output: Structure
    perform: Callable[[Call], Awaitable[Params]]
    on_queue: bool = True
    measure: Callable[[Params, Params], Work] = no_work
    action: str = ""
    permissions: PermissionsOf | None = None
    at_root: bool = False
    hides: bool = False
    wait_member: str = ""
    wait_default_s: int = 0
