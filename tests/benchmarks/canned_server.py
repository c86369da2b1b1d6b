"""A server that does nothing: it answers each request with the same bytes, in its own process.

What a load generator reaches against it is the most it can show against any server.
"""

import json
import multiprocessing
import select
import socket
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from tests.benchmarks.generator import READ_BYTES
from tests.benchmarks.wire import BATCH, BODY_BYTES

_LENGTH: Final = b"Content-Length: "
_TARGET: Final = b"X-Amz-Target: AmazonSQS."
_HANDLE_CHARACTERS: Final = 128


def _response(content: dict[str, Any]) -> bytes:
    body = json.dumps(content).encode()
    head = (
        "HTTP/1.1 200 OK\r\n"
        f"x-amzn-requestid: {uuid.UUID(int=1)}\r\n"
        "content-type: application/x-amz-json-1.0\r\n"
        f"content-length: {len(body)}\r\n"
        "date: Thu, 01 Jan 2026 00:00:00 GMT\r\n\r\n"
    )
    return head.encode() + body


def _responses() -> dict[bytes, bytes]:
    md5 = "0" * 32
    message = str(uuid.UUID(int=2))
    sent = {"MessageId": message, "MD5OfMessageBody": md5}
    received = {
        "MessageId": message,
        "ReceiptHandle": "A" * _HANDLE_CHARACTERS,
        "MD5OfBody": md5,
        "Body": "1" * BODY_BYTES,
        "Attributes": {"ApproximateReceiveCount": "1", "SentTimestamp": "1767225600000"},
    }
    done = [{"Id": str(at)} for at in range(BATCH)]
    return {
        b"SendMessage": _response(sent),
        b"SendMessageBatch": _response({"Successful": [{**entry, **sent} for entry in done]}),
        b"ReceiveMessage": _response({"Messages": [received] * BATCH}),
        b"DeleteMessage": _response({}),
        b"DeleteMessageBatch": _response({"Successful": done}),
    }


def _operation(request: bytes) -> bytes:
    at = request.index(_TARGET) + len(_TARGET)
    return request[at : request.index(b"\r", at)]


def _request_size(request: bytes) -> int:
    end = request.find(b"\r\n\r\n")
    if end < 0:
        return 0
    at = request.index(_LENGTH) + len(_LENGTH)
    return end + 4 + int(request[at : request.index(b"\r", at)])


def _serve(listener: socket.socket) -> None:
    responses = _responses()
    poll = select.epoll()
    poll.register(listener.fileno(), select.EPOLLIN)
    clients: dict[int, socket.socket] = {}
    partial: dict[int, bytes] = {}
    while True:
        for fd, _ in poll.poll():
            if fd == listener.fileno():
                client, _ = listener.accept()
                client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                clients[client.fileno()] = client
                poll.register(client.fileno(), select.EPOLLIN)
                continue
            client = clients[fd]
            received = client.recv(READ_BYTES)
            if not received:
                clients.pop(fd).close()
                partial.pop(fd, None)
                continue
            request = partial.pop(fd, b"") + received
            size = _request_size(request)
            if not size or len(request) < size:
                partial[fd] = request
                continue
            client.sendall(responses[_operation(request)])


@contextmanager
def canned_server() -> Iterator[int]:
    """Serve while the context lasts; its value is the port."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=1024)
    port: int = listener.getsockname()[1]
    context = multiprocessing.get_context("fork")
    process = context.Process(target=_serve, args=(listener,), daemon=True)
    process.start()
    listener.close()
    try:
        yield port
    finally:
        process.kill()
        process.join()
