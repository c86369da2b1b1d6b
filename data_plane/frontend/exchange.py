"""One request on its way through the stages."""

from collections.abc import Awaitable, Callable, Sequence

import msgspec

from data_plane.core.caller import Caller
from data_plane.core.message import Stored
from data_plane.core.queue import Queue
from data_plane.protocol.http import HttpRequest, HttpResponse
from data_plane.protocol.operation import Operation, Params, Permission, Work
from data_plane.protocol.service import Service
from data_plane.protocol.wire_protocols import WireProtocol


class Exchange(msgspec.Struct):
    """What the stages learnt of a request so far; each fills in its own part.

    `signed_query` is a Query request's query string as it is signed, or None. `path_queue` is the
    account and queue that the path names, or None. `queue_account` and `queue_name` name the queue
    that it is about, and `queue` is None where there is none; an `odd_address` is then what was
    sent of it, and is not valid. Of another service's resource, a stream say, the name stands
    there, and what policies must allow in `permissions`. `authorised` says that policies were asked
    and allow it. Dates in policies are judged by the machine's clock, `machine_us`.
    """

    request: HttpRequest
    request_id: str
    started_us: int
    protocol: WireProtocol
    path_queue: tuple[str, str] | None = None
    signed_query: str | None = None
    service: Service | None = None
    operation: Operation | None = None
    params: Params = {}
    caller: Caller | None = None
    region: str = ""
    queue_account: str = ""
    queue_name: str = ""
    odd_address: str = ""
    queue: Queue | None = None
    permissions: Sequence[Permission] = ()
    authorised: bool = False
    invocation_id: str = ""
    attempt: int = 1
    output: Params = {}
    work: Work = Work()
    stored: Stored = msgspec.field(default_factory=Stored)
    response: HttpResponse | None = None
    machine_us: int = 0

    @property
    def account(self) -> str:
        """The caller's account; "" before it is known."""
        return self.caller.account if self.caller is not None else ""

    @property
    def owner(self) -> str:
        """Who pays: whoever owns the queue, or what else policies let it use; else the caller."""
        if self.queue is not None:
            return self.queue.account
        owned = self.authorised and self.queue_name and not self.served_by.has_queues
        return self.queue_account if owned else self.account

    @property
    def chosen(self) -> Operation:
        """The operation, after the stage that finds it."""
        if self.operation is None:
            raise TypeError("no stage has found the operation yet")
        return self.operation

    @property
    def served_by(self) -> Service:
        """The service, after the same stage."""
        if self.service is None:
            raise TypeError("no stage has found the service yet")
        return self.service

    @property
    def shown_operation(self) -> str:
        """The operation, as logs, metrics and usage have it; "" before it is known."""
        if self.service is None or self.operation is None:
            return ""
        return self.service.prefix + self.operation.name

    @property
    def quota_class(self) -> str:
        """The class of quotas that it counts in."""
        return self.served_by.quota_class(self.chosen)


Stage = Callable[[Exchange], Awaitable[None] | None]
"""Raises RefusedError where the request ends; fills `response` where it is answered early.

What it returns is awaited. One that never waits is a plain function: a coroutine for each of them
would be a twentieth of what a call costs.
"""
