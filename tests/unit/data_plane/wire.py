"""A front end over a bag that remembers, for tests of everything between wire and bag."""

import json
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar
from urllib.parse import urlencode

from data_plane.core import receipt_handle
from data_plane.core.browsing import DELAYED, Browsed, Page
from data_plane.core.errors import RECEIPT_HANDLE_IS_INVALID, RefusedError
from data_plane.core.message import Delivery, Message, Outgoing, SendCall, Sent, Stored
from data_plane.core.queue import Queue
from data_plane.core.receipt_handle import ReceiptHandle
from data_plane.frontend.front_end import FrontEnd
from data_plane.frontend.served import Served
from data_plane.frontend.settings import FrontEndSettings
from data_plane.operations.catalog import extension_operations, message_operations
from data_plane.protocol.http import HttpRequest, HttpResponse
from data_plane.protocol.sqs import sqs
from tests.unit.repeatable import SECRET

T = TypeVar("T")

ACCOUNT = "123456789012"
REGION = "eu-west-1"
NOW_US = 1_700_000_000_000_000
URL = f"http://sqs.example/{ACCOUNT}/orders"
CREDENTIAL = f"{ACCOUNT}/20260101/{REGION}/sqs/aws4_request"
AUTHORIZATION = f"AWS4-HMAC-SHA256 Credential={CREDENTIAL}, SignedHeaders=host, Signature=00"
ORDERS = Queue(
    account=ACCOUNT,
    region=REGION,
    name="orders",
    uid="00112233445566ff",
    cell="main",
    version=1,
    created_s=0,
    modified_s=0,
    fifo=False,
    visibility_timeout_s=30,
    delay_s=0,
    message_bytes_max=1_048_576,
    retention_s=345_600,
    receive_wait_s=5,
    purged_us=0,
    attributes={},
    secret=SECRET,
)


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that waits for nothing."""
    try:
        coroutine.send(None)
    except StopIteration as stop:
        result: T = stop.value
        return result
    raise AssertionError("it waited for something")


def handle(index: int) -> str:
    return receipt_handle.encode(ORDERS, 0, 0, b"b" * 10, index, 1, b"t" * 13, 9)


@dataclass
class FakeBag:
    """Keeps what it was told; messages leave by delete alone."""

    messages: list[Message] = field(default_factory=list)
    sends: list[tuple[bytes, bool]] = field(default_factory=list)
    outgoing: list[Outgoing] = field(default_factory=list)
    receives: list[tuple[int, int, int]] = field(default_factory=list)
    deleted: list[int] = field(default_factory=list)
    changed: list[tuple[int, int]] = field(default_factory=list)
    extended: list[bool] = field(default_factory=list)
    repeated: list[bool] = field(default_factory=list)
    browsed: list[tuple[int, bytes]] = field(default_factory=list)
    attempts: list[str] = field(default_factory=list)
    dead_letter_source: str = ""
    broken: Exception | None = None

    async def send(
        self, queue: Queue, call: SendCall, *, stored: Stored | None = None
    ) -> list[Sent]:
        if self.broken:
            raise self.broken
        messages = call.messages
        assert call.batch or len(messages) == 1
        assert queue.name in {"orders", "orders.fifo"}
        self.sends.append((call.name, call.repeated))
        self.outgoing += messages
        if stored is not None:
            stored.messages = 0 if call.repeated else len(messages)
            stored.size_bytes = 0 if call.repeated else sum(message.size for message in messages)
            stored.counted = not call.repeated
        sent = []
        for message in messages:
            sequence = len(self.messages) + 1 if queue.fifo else 0
            sent.append(Sent(len(self.messages).to_bytes(16, "big"), sequence))
            self.messages.append(
                Message(
                    sent[-1].id,
                    message.body,
                    message.attributes,
                    message.trace_header,
                    message.group,
                    call.sender,
                    NOW_US // 1000,
                    sequence,
                    message.deduplication_id,
                    self.dead_letter_source,
                )
            )
        return sent

    async def receive(
        self, queue: Queue, *, count: int, visibility_s: int, until_us: int, attempt: str = ""
    ) -> list[Delivery]:
        assert queue.name in {"orders", "orders.fifo"}
        self.attempts.append(attempt)
        self.receives.append((count, visibility_s, until_us))
        return [
            Delivery(message, handle(index), 3, NOW_US // 1000 + 7)
            for index, message in enumerate(self.messages[:count])
        ]

    async def browse(self, queue: Queue, *, count: int, position: bytes = b"") -> Page:
        assert queue.name in {"orders", "orders.fifo"}
        self.browsed.append((count, position))
        shown = [
            Browsed(message, DELAYED, NOW_US // 1000 + 9, 0, 0) for message in self.messages[:count]
        ]
        return Page(shown, b"" if position else b"further")

    async def delete(
        self, queue: Queue, handles: Sequence[ReceiptHandle]
    ) -> list[RefusedError | None]:
        assert queue.name in {"orders", "orders.fifo"}
        self.deleted += [read.index for read in handles]
        return [self._outcome(read) for read in handles]

    async def change_visibility(
        self,
        queue: Queue,
        changes: Sequence[tuple[ReceiptHandle, int]],
        *,
        extended: bool = False,
        repeated: bool = False,
    ) -> list[RefusedError | None]:
        assert queue.name in {"orders", "orders.fifo"}
        self.changed += [(read.index, timeout_s) for read, timeout_s in changes]
        self.extended += [extended] * len(changes)
        self.repeated += [repeated] * len(changes)
        return [self._outcome(read) for read, _ in changes]

    def _outcome(self, read: ReceiptHandle) -> RefusedError | None:
        gone = 99
        return RefusedError(RECEIPT_HANDLE_IS_INVALID, "gone") if read.index == gone else None


class _Clock:
    def now_us(self) -> int:
        return NOW_US


class _Entropy:
    def random_bytes(self, count: int) -> bytes:
        return b"\xff" * count


@dataclass
class Server:
    """A front end with a fake bag behind it and its observations beside it."""

    bag: FakeBag = field(default_factory=FakeBag)
    queue: Queue = ORDERS
    settings: FrontEndSettings = field(default_factory=FrontEndSettings)
    served: list[Served] = field(default_factory=list)
    looked_up: list[tuple[str, str, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.front_end = FrontEnd(
            (sqs((*message_operations(self.bag), *extension_operations(self.bag))),),
            self,
            _Clock(),
            _Entropy(),
            self.settings,
            self.served.append,
        )

    async def find(self, account: str, region: str, name: str) -> Queue | None:
        self.looked_up.append((account, region, name))
        return replace(self.queue, account=account) if name == self.queue.name else None

    def answer(self, request: HttpRequest) -> HttpResponse:
        return run(self.front_end.answer(request))

    def json(
        self, action: str, params: object, headers: Mapping[str, str] | None = None
    ) -> tuple[int, Any]:
        """Status and parsed body of a call in AWS JSON."""
        response = self.answer(json_request(action, params, headers))
        return response.status, json.loads(response.body)

    def query(self, fields: Mapping[str, object], path: str = "/") -> tuple[int, str]:
        """Status and document of a call in the Query protocol."""
        response = self.answer(query_request(fields, path))
        return response.status, response.body.decode()


def json_request(
    action: str, params: object, headers: Mapping[str, str] | None = None
) -> HttpRequest:
    body = params if isinstance(params, bytes) else json.dumps(params).encode()
    sent = {
        "host": "sqs.example",
        "content-type": "application/x-amz-json-1.0",
        "authorization": AUTHORIZATION,
        "x-amz-target": f"AmazonSQS.{action}",
    }
    return HttpRequest("POST", "/", "", {**sent, **(headers or {})}, body, "192.0.2.1")


def query_request(fields: Mapping[str, object], path: str = "/") -> HttpRequest:
    sent = {
        "host": "sqs.example",
        "content-type": "application/x-www-form-urlencoded; charset=utf-8",
        "authorization": AUTHORIZATION,
    }
    return HttpRequest("POST", path, "", sent, urlencode(fields).encode())


def queue_with(**changes: Any) -> Queue:
    return replace(ORDERS, **changes)
