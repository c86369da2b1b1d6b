"""One request on its way through the stages."""

from collections.abc import Awaitable, Callable, Mapping

import msgspec

from data_plane.core.caller import Caller
from data_plane.core.message import Stored
from data_plane.core.queue import Queue
from data_plane.protocol.http import HttpRequest, HttpResponse
from data_plane.protocol.operation import Operation, Params, Work

JSON = "json"
QUERY = "query"
LEGACY_JSON = "query-json"
"""Query in, JSON out: for clients that say `Accept: application/json`."""


class Exchange(msgspec.Struct):
    """What the stages learnt of a request so far; each fills in its own part.

    `fields` are the form fields of a Query request. `path_queue` is the account and queue that
    the path names, or None. `queue_account` and `queue_name` name the queue that it is about, and
    `queue` is None where there is none. `authorised` says that policies were asked and allow it.
    """

    request: HttpRequest
    request_id: str
    started_us: int
    protocol: str
    path_queue: tuple[str, str] | None = None
    fields: Mapping[str, str] = {}
    operation: Operation | None = None
    params: Params = {}
    caller: Caller | None = None
    region: str = ""
    queue_account: str = ""
    queue_name: str = ""
    queue: Queue | None = None
    authorised: bool = False
    invocation_id: str = ""
    attempt: int = 1
    output: Params = {}
    work: Work = Work()
    stored: Stored = msgspec.field(default_factory=Stored)
    response: HttpResponse | None = None

    @property
    def account(self) -> str:
        """The caller's account; "" before it is known."""
        return self.caller.account if self.caller is not None else ""

    @property
    def chosen(self) -> Operation:
        """The operation, after the stage that finds it."""
        if self.operation is None:
            raise TypeError("no stage has found the operation yet")
        return self.operation


Stage = Callable[[Exchange], Awaitable[None]]
"""Raises RefusedError where the request ends; fills `response` where it is answered early."""
