"""Signed requests as bytes on a socket to a real server: taken as signed, refused when altered."""

import http.client
import json
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple
from urllib.parse import unquote

import pytest
from msgspec.structs import replace

from data_plane.core.caller import AccessKey, Caller
from data_plane.protocol.http import HttpRequest
from tests.conformance.alterations import Altered, Original, alterations
from tests.conformance.signing import AWS_JSON, FORM, signed
from tests.integration.server_process import ServerProcess

ANSWER_S_MAX = 20
EVERY = 11
"""Of the alterations each so many-th is sent; tests/conformance tries all of them."""
ACTION = "Action=SendMessage&MessageBody=presigned"
OK = 200


class Signer(NamedTuple):
    """Signs for a server with the key of its root."""

    server: ServerProcess
    key: AccessKey

    @property
    def path(self) -> str:
        return f"/{self.key.caller.account}/orders"

    def sign(self, *parts: Any, **options: Any) -> HttpRequest:
        host = f"127.0.0.1:{self.server.port}"
        now_s = int(time.time())
        return signed(*parts, key=self.key, host=host, at_s=now_s, **options)

    def call(self, action: str, body: bytes) -> HttpRequest:
        headers = {"X-Amz-Target": f"AmazonSQS.{action}", "Content-Type": AWS_JSON}
        return self.sign("POST", "/", "", headers, body)

    def form(self, form: bytes) -> HttpRequest:
        return self.sign("POST", self.path, "", {"Content-Type": FORM}, form)


@pytest.fixture(scope="module")
def signer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Signer]:
    folder = tmp_path_factory.mktemp("verifying")
    server = ServerProcess(folder / "data", folder / "log", auth="on")
    server.start()
    signing = Signer(server, AccessKey(*server.access_key, Caller("000000000000")))
    assert send(signing, signing.call("CreateQueue", b'{"QueueName":"orders"}'))[0] == OK
    yield signing
    server.kill()


def to_bytes(request: HttpRequest, *more: str) -> bytes:
    """The request on the wire, with more lines in its header."""
    target = request.path + (f"?{request.query}" if request.query else "")
    left = {"content-length", "connection"}
    lines = [
        f"{request.method} {target} HTTP/1.1",
        *(f"{name}: {value}" for name, value in request.headers.items() if name not in left),
        *more,
        f"content-length: {len(request.body)}",
        "connection: close",
    ]
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + request.body


def send(signer: Signer, request: HttpRequest, *more: str) -> tuple[int, str]:
    """Status and body of the answer; (400, "") where the connection ends without one."""
    address = ("127.0.0.1", signer.server.port)
    with socket.create_connection(address, timeout=ANSWER_S_MAX) as connection:
        connection.sendall(to_bytes(request, *more))
        answer = http.client.HTTPResponse(connection)
        try:
            answer.begin()
            return answer.status, answer.read().decode()
        except (http.client.BadStatusLine, ConnectionResetError):
            return 400, ""


def bodies(signer: Signer) -> list[str]:
    """What is in the queue, which is empty then."""
    found: list[str] = []
    while True:
        status, answer = send(
            signer,
            signer.call("ReceiveMessage", b'{"QueueUrl":"orders","MaxNumberOfMessages":10}'),
        )
        assert status == OK
        messages = json.loads(answer).get("Messages", [])
        if not messages:
            return found
        for message in messages:
            found.append(message["Body"])
            handle = json.dumps({"QueueUrl": "orders", "ReceiptHandle": message["ReceiptHandle"]})
            assert send(signer, signer.call("DeleteMessage", handle.encode()))[0] == OK


def originals(signer: Signer) -> list[Original]:
    call = b'{"QueueUrl":"orders","MessageBody":"call"}'
    return [
        Original("call", signer.call("SendMessage", call)),
        Original("form", signer.form(b"Action=SendMessage&MessageBody=form")),
        Original("GET", signer.sign("GET", signer.path, ACTION.replace("presigned", "GET"))),
        Original("presigned", signer.sign("GET", signer.path, ACTION, expires_s=3600)),
    ]


def can_be_sent(altered: Altered) -> bool:
    """Whether it is a request on the wire, and not two, or none."""
    request = altered.request
    target = request.path + request.query
    values = "".join((*request.headers, *request.headers.values()))
    framed = {"content-length", "transfer-encoding", "connection"}
    return (
        request.path.startswith("/")
        and all("!" <= character <= "~" for character in target)
        and "#" not in target
        and "?" not in request.path
        and not set("\r\n\0") & set(values)
        and all(ord(character) < 256 for character in values)
        and all(value == value.strip() for value in request.headers.values())
        and not any(name in altered.what for name in framed)
        and request.method.isupper()
        and request.method != "HEAD"
    )


def test_what_is_signed_is_taken_and_what_is_altered_is_not(signer: Signer) -> None:
    taken, refused = [], 0
    for original in originals(signer):
        sendable = [altered for altered in alterations(original) if can_be_sent(altered)]
        chosen = [Altered("as signed", original.request, same=True), *sendable[::EVERY]]
        # Each refusal is held back for a tenth of a second.
        with ThreadPoolExecutor(16) as pool:
            answers = list(pool.map(lambda altered: send(signer, altered.request), chosen))
        for altered, (status, answer) in zip(chosen, answers, strict=True):
            same_path = unquote(altered.request.path) == original.request.path
            if altered.same or (same_path and altered.what.startswith("path ")):
                assert status == OK, (original.name, altered.what, answer)
                taken.append(original.name)
            else:
                assert 400 <= status < 500, (original.name, altered.what, status, answer)
                refused += 1
    assert sorted(bodies(signer)) == sorted(taken)
    assert refused > 150
    print(f"over a socket: {len(taken)} taken, {refused} refused")


@pytest.mark.parametrize(
    "line",
    [
        *("X-Amz-Target: AmazonSQS.PurgeQueue", "X-Amz-Date: 20260101T000000Z", "Host: h"),
        *("Authorization: AWS4-HMAC-SHA256 x", "Content-Type: application/json"),
        *("X-Amz-Meta: added", "X-Amz-Security-Token: AQoD"),
    ],
)
def test_headers_that_are_added(signer: Signer, line: str) -> None:
    request = signer.call("SendMessage", b'{"QueueUrl":"orders","MessageBody":"added"}')
    assert 400 <= send(signer, request, line)[0] < 500
    assert bodies(signer) == []


def test_a_signed_header_that_is_repeated(signer: Signer) -> None:
    """Its values are signed in their order, with commas between."""
    target = {"X-Amz-Target": "AmazonSQS.SendMessage", "X-Odd": "a,b"}
    body = b'{"QueueUrl":"orders","MessageBody":"twice"}'
    request = signer.sign("POST", "/", "", target, body)
    once = {name: value for name, value in request.headers.items() if name != "x-odd"}
    without = replace(request, headers=once)
    assert send(signer, without, "X-Odd: a", "X-Odd: b")[0] == OK
    assert send(signer, without, "X-Odd: b", "X-Odd: a")[0] == 403
    assert send(signer, without, "X-Odd: a")[0] == 403
    assert send(signer, without)[0] == 403
    assert bodies(signer) == ["twice"]


@pytest.mark.parametrize("name", ["x-odd", "x-amz-meta"])
def test_values_that_are_not_ascii(signer: Signer, name: str) -> None:
    """The HTTP server leaves them out: what is signed is missing then."""
    target = {"X-Amz-Target": "AmazonSQS.SendMessage", name: "\xe4"}
    body = b'{"QueueUrl":"orders","MessageBody":"not ASCII"}'
    request = signer.sign("POST", "/", "", target, body)
    headers = {**request.headers, name: "\xe4"}
    assert 400 <= send(signer, replace(request, headers=headers))[0] < 500
    assert bodies(signer) == []


def test_nobody_gets_in_without_a_signature(signer: Signer) -> None:
    host = {"host": f"127.0.0.1:{signer.server.port}"}
    request = HttpRequest("POST", "/", "", {**host, "x-amz-target": "AmazonSQS.ListQueues"}, b"{}")
    status, answer = send(signer, request)
    assert (status, "MissingAuthenticationTokenException" in answer) == (403, True)
    form = HttpRequest("POST", "/", "", host, b"Action=ListQueues")
    status, answer = send(signer, form)
    assert (status, "<Code>MissingAuthenticationToken</Code>" in answer) == (403, True)


def test_logs_have_no_signatures_and_no_secrets(signer: Signer) -> None:
    request = signer.call("ListQueues", b"{}")
    wrong = replace(request, body=b"{ }")
    assert send(signer, request)[0] == OK
    status, answer = send(signer, wrong)
    assert status == 403
    signature = request.headers["authorization"].rpartition("=")[2]
    log = signer.server.log.read_text()
    for told in (answer, log):
        assert signature not in told
        assert signer.key.secret not in told
    assert "Canonical" not in answer
