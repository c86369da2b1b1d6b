"""Requests that cost as much as they can: those of a stranger, and those of a tenant."""

import json
import resource
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from tests.benchmarks.signing import REGION, AccessKey

FORM: Final = {"Content-Type": "application/x-www-form-urlencoded"}
JSON: Final = "application/x-amz-json-1.0"
ESCAPES: Final = 4_190_000
LONG_FORM: Final = b"a=" + b"%41" * ESCAPES
CONNECTIONS: Final = 4
_ANSWER_S_MAX: Final = 60.0
_READ_BYTES: Final = 1_048_576
_PAUSE_S: Final = 0.01


@dataclass(frozen=True, slots=True)
class Onslaught:
    """So many connections on which one of `requests` follows the other, back to back.

    With `takes` False nobody reads the answers: each connection asks once and stays. Beside them
    are `idle` connections that say nothing.
    """

    name: str
    requests: Sequence[bytes]
    connections: int = CONNECTIONS
    takes: bool = True
    idle: int = 0


def request(  # noqa: PLR0913 - the parts of a request
    port: int,
    body: bytes,
    headers: Mapping[str, str],
    *,
    method: str = "POST",
    target: str = "/",
    key: AccessKey | None = None,
) -> bytes:
    """A request as bytes; signed, if there is a key."""
    host = f"127.0.0.1:{port}"
    sent = {**headers}
    if key is not None:
        asked = AWSRequest(method, f"http://{host}{target}", dict(headers), body)
        SigV4Auth(Credentials(key.id, key.secret), "sqs", REGION).add_auth(asked)
        sent = dict(asked.headers.items())
    lines = [f"{method} {target} HTTP/1.1", f"Host: {host}", f"Content-Length: {len(body)}"]
    lines += [f"{name}: {value}" for name, value in sent.items()]
    return "\r\n".join((*lines, "", "")).encode() + body


def json_request(port: int, operation: str, body: object, key: AccessKey | None = None) -> bytes:
    """A call in AWS JSON; a body of bytes is sent as it is."""
    headers = {"Content-Type": JSON, "X-Amz-Target": f"AmazonSQS.{operation}"}
    encoded = body if isinstance(body, bytes) else json.dumps(body).encode()
    return request(port, encoded, headers, key=key)


def of_strangers(port: int, known: AccessKey) -> list[Onslaught]:
    """The worst that somebody without a key can send; with `known`, one who has seen its id."""
    forged = AccessKey(known.id, "not its secret")
    nobody = AccessKey("AKIAIOSFODNN7EXAMPLE", "nobody's")
    brackets = b'{"a":[' + b"{}," * 4_000_000 + b"1]}"
    query = "/?Action=ListQueues&" + "a=" + "%41" * 20_000
    fields = "/?Action=ListQueues&" + "&".join(
        f"X-Amz-Signature{number}=%41" for number in range(1_090)
    )
    names = ";".join(f"{number:04}" for number in range(1_500))
    claims = "AWS4-HMAC-SHA256 Credential=" + f"{known.id}/20260101/{REGION}/sqs/aws4_request"
    many = {f"X-Amz-H{number}": "y" * 600 for number in range(90)}
    named = b"Action=ListQueues"
    short = b"Action=ListQueues&" + b"a&" * 8_000
    sends = b"Action=SendMessage&MessageBody="
    cases: dict[str, list[bytes]] = {
        "a form of escapes, 12 MB": [request(port, LONG_FORM, FORM)],
        "the same as a send": [request(port, sends + LONG_FORM, FORM)],
        "the same, of a key that does not exist": [
            request(port, sends + LONG_FORM, FORM, key=nobody)
        ],
        "brackets, 12 MB": [json_request(port, "SendMessage", brackets)],
        "brackets, a known key's id": [json_request(port, "SendMessage", brackets, forged)],
        "an unknown operation, 12 MB": [json_request(port, "NoSuchThing", brackets)],
        "the longest bodies that are read": [request(port, short, FORM)],
        "long queries": [request(port, b"", {}, method="GET", target=query)],
        "many fields in queries": [
            request(port, b"", {}, method="GET", target=f"/?Action=ListQueues&{fields}")
        ],
        "many signed headers": [
            request(port, named, {"Authorization": f"{claims}, SignedHeaders={names}, Signature=0"})
        ],
        "many headers": [request(port, named, many, key=nobody)],
    }
    return [Onslaught(name, requests) for name, requests in cases.items()]


def of_tenant(port: int, key: AccessKey, queue_url: str) -> list[Onslaught]:
    """The worst that a tenant can ask for; it is held to its quotas."""

    def call(operation: str, params: object) -> bytes:
        return json_request(port, operation, params, key)

    at = {"QueueUrl": queue_url}
    tags = {f"{number:06}": "v" for number in range(700_000)}
    some_tags = {f"{number:06}": "v" for number in range(1_000)}
    members = {f"member {number}": 1 for number in range(600_000)}
    escapes = b'{"QueueUrl":"' + queue_url.encode() + b'","MessageBody":"' + b"\\u0041" * 1_000_000
    values = {
        f"name{number}": {"DataType": "String", "StringValue": "v" * 10_000} for number in range(10)
    }
    entries = [
        {"Id": str(number), "MessageBody": "m", "MessageAttributes": values} for number in range(10)
    ]
    statement = {
        "Effect": "Allow",
        "Principal": "*",
        "Action": "sqs:*",
        "Resource": "*",
        "Condition": {"StringLike": {"aws:UserAgent": ["*a" * 60 + "b" for _ in range(50)]}},
    }
    policy = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
    text = "&MessageBody=" + "%41" * 1_000_000
    form = f"Action=SendMessage&QueueUrl={queue_url}{text}".encode()
    names = [f"{number:04}".ljust(256, "n") for number in range(1_000)]
    receive = {**at, "MaxNumberOfMessages": 10, "VisibilityTimeout": 0, "WaitTimeSeconds": 0}
    cases: dict[str, list[bytes]] = {
        "TagQueue with 700,000 tags": [call("TagQueue", {**at, "Tags": tags})],
        "TagQueue with 1,000 tags": [call("TagQueue", {**at, "Tags": some_tags})],
        "ListQueues with 600,000 members": [call("ListQueues", members)],
        "sends of 1 MB, all escaped": [call("SendMessage", escapes + b'"}')],
        "forms of 1 MB, all escaped": [request(port, form, FORM, key=key)],
        "batches of 100 attributes, 1 MB": [call("SendMessageBatch", {**at, "Entries": entries})],
        "policies of wildcards": [
            call("SetQueueAttributes", {**at, "Attributes": {"Policy": policy}}),
            call("GetQueueAttributes", {**at, "AttributeNames": ["All"]}),
        ],
        "receives of 1,000 names": [
            call("ReceiveMessage", {**receive, "MessageAttributeNames": names})
        ],
        "receives of what there is": [call("ReceiveMessage", receive)],
    }
    found = [Onslaught(name, requests) for name, requests in cases.items()]
    unread = [call("ReceiveMessage", receive)]
    return [*found, Onslaught("400 answers that nobody takes", unread, 400, takes=False)]


class Running:
    """An onslaught under way. `answers` counts by status."""

    def __init__(self, port: int, onslaught: Onslaught) -> None:
        self.answers: Counter[str] = Counter()
        self._port = port
        self._stopped = threading.Event()
        self._idle = idle_connections(port, onslaught.idle)
        self._threads = [
            threading.Thread(target=self._send, args=(onslaught,), daemon=True)
            for _ in range(onslaught.connections if onslaught.takes else 1)
        ]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """End it."""
        self._stopped.set()
        for thread in self._threads:
            thread.join()
        for connection in self._idle:
            connection.close()

    def _send(self, onslaught: Onslaught) -> None:
        if not onslaught.takes:
            self._ask_and_stay(onslaught)
            return
        connection: socket.socket | None = None
        turn = 0
        while not self._stopped.is_set():
            try:
                if connection is None:
                    connection = self._connect()
                connection.sendall(onslaught.requests[turn % len(onslaught.requests)])
                turn += 1
                status, goes_on = _read_answer(connection)
            except OSError:
                status, goes_on = "cut off", False
            self.answers[status] += 1
            if not goes_on and connection is not None:
                connection.close()
                connection = None
        if connection is not None:
            connection.close()

    def _ask_and_stay(self, onslaught: Onslaught) -> None:
        connections = []
        for number in range(onslaught.connections):
            with suppress(OSError):
                connection = self._connect(receive_bytes=4096)
                connections.append(connection)
                connection.sendall(onslaught.requests[number % len(onslaught.requests)])
            if self._stopped.wait(_PAUSE_S / 10):
                break
        self._stopped.wait()
        for connection in connections:
            connection.close()

    def _connect(self, receive_bytes: int = 0) -> socket.socket:
        connection = socket.socket()
        if receive_bytes:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        connection.settimeout(_ANSWER_S_MAX)
        connection.connect(("127.0.0.1", self._port))
        return connection


def _read_answer(connection: socket.socket) -> tuple[str, bool]:
    """The status of the next answer, and whether the connection goes on."""
    received = b""
    while b"\r\n\r\n" not in received:
        more = connection.recv(_READ_BYTES)
        if not more:
            return "cut off", False
        received += more
    head, _, body = received.partition(b"\r\n\r\n")
    left = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0] or 0) - len(
        body
    )
    while left > 0:
        more = connection.recv(_READ_BYTES)
        if not more:
            return "cut off", False
        left -= len(more)
    return head[9:12].decode(), b"connection: close" not in head.lower()


class Watched:
    """The most that `look` has told since it was made, looked at now and then."""

    def __init__(self, look: Callable[[], float]) -> None:
        self._look = look
        self.most = look()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stopped.wait(_PAUSE_S * 10):
            self.most = max(self.most, self._look())

    def stop(self) -> float:
        """The most it was."""
        self._stopped.set()
        self._thread.join()
        self.most = max(self.most, self._look())
        return self.most


def idle_connections(port: int, count: int) -> list[socket.socket]:
    """Connections that say nothing; fewer where this process may have no more files."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    opened: list[socket.socket] = []
    with suppress(OSError):
        while len(opened) < count:
            opened.append(socket.create_connection(("127.0.0.1", port)))
            if not len(opened) % 500:
                time.sleep(_PAUSE_S)  # the listener's backlog is bounded
    return opened
