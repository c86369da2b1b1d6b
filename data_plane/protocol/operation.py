"""An operation of the API as a value: its name, its shapes, and the coroutine that performs it."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec

from data_plane.core.caller import Caller
from data_plane.core.message import Stored
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
    where it is about another account's queue. A send notes in `stored` what it added to the queue.
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

    @property
    def sender(self) -> str:
        """The SenderId of messages that it sends."""
        return self.caller.sender if self.caller is not None else self.account


class Permission(NamedTuple):
    """What policies must allow for a call: an action (as SQS names it) on a queue.

    The queue need not exist. `name` is "" where the action is about an account's queues as such.
    """

    action: str
    account: str
    region: str
    name: str

    @property
    def arn(self) -> str:
        """The resource, as policies name it."""
        return f"arn:aws:sqs:{self.region}:{self.account}:{self.name}"


PermissionsOf = Callable[[str, str, Params], Awaitable[Sequence[Permission]]]
"""What a call needs, by the caller's account and region and the parameters, not yet validated."""


class Work(NamedTuple):
    """What a successful call did, for metering.

    `messages` were sent, received or deleted, duplicates included; `size` is the bytes of those
    sent or received; `failed_entries` of a batch were not. `sent`: it is a call that sends.
    """

    messages: int = 0
    size: int = 0
    failed_entries: int = 0
    sent: bool = False


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
    such.
    """

    name: str
    input: Structure
    output: Structure
    perform: Callable[[Call], Awaitable[Params]]
    on_queue: bool = True
    measure: Callable[[Params, Params], Work] = no_work
    action: str = ""
    permissions: PermissionsOf | None = None
