"""Bodies in chunks, as proxies and streaming clients send them: within the limits of all bodies."""

import http.client
import json
import socket
from collections.abc import Iterable, Iterator
from typing import Any

import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from data_plane.core.limits import REQUEST_BODY_BYTES_MAX, SMALL_BODY_BYTES_MAX
from tests.conformance.in_process import ACCOUNT, REGION
from tests.integration.socket_server import SocketServer

FORM = "application/x-www-form-urlencoded"
AWS_JSON = "application/x-amz-json-1.0"
ANSWER_S_MAX = 20
HEAD = (
    b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n"
    b"Content-Type: application/x-www-form-urlencoded\r\n\r\n"
)


@pytest.fixture(scope="module")
def server() -> Iterator[SocketServer]:
    started = SocketServer()
    started.anonymous().create_queue(QueueName="orders")
    yield started
    started.close()


def pieces(body: bytes, size: int) -> list[bytes]:
    return [body[at : at + size] for at in range(0, len(body), size)]


def post(server: SocketServer, body: Iterable[bytes], **headers: str) -> tuple[int, bytes, str]:
    """Status, body and the header `connection` of the answer."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=ANSWER_S_MAX)
    named = {name.replace("_", "-"): text for name, text in headers.items()}
    connection.request("POST", "/", body, named, encode_chunked=True)
    answer = connection.getresponse()
    read = answer.read()
    connection.close()
    return answer.status, read, answer.getheader("connection") or ""


def received(server: SocketServer) -> list[str]:
    client = server.anonymous()
    bodies = []
    while found := client.receive_message(QueueUrl="orders", MaxNumberOfMessages=10).get(
        "Messages"
    ):
        for message in found:
            bodies.append(message["Body"])
            client.delete_message(QueueUrl="orders", ReceiptHandle=message["ReceiptHandle"])
    return bodies


def message_of(size: int) -> bytes:
    return json.dumps({"QueueUrl": "orders", "MessageBody": "x" * size}).encode()


@pytest.mark.parametrize("size", [1, 7, 1000, 10**6])
def test_a_form_and_a_document(server: SocketServer, size: int) -> None:
    form = b"Action=SendMessage&QueueUrl=orders&MessageBody=form"
    status, answer, connection = post(server, pieces(form, size), Content_Type=FORM)
    assert (status, connection) == (200, "close")
    assert b"<SendMessageResponse" in answer
    target = {"Content_Type": AWS_JSON, "X_Amz_Target": "AmazonSQS.SendMessage"}
    assert post(server, pieces(message_of(3), size), **target)[0] == 200
    assert sorted(received(server)) == ["form", "xxx"]


def test_no_chunk_is_no_body(server: SocketServer) -> None:
    target = {"Content_Type": AWS_JSON, "X_Amz_Target": "AmazonSQS.ListQueues"}
    assert post(server, [], **target)[0] == 200


def test_a_body_that_is_cut_off_is_refused(server: SocketServer) -> None:
    """Wherever: a form that has lost its end would be one, with another message."""
    form = b"Action=SendMessage&QueueUrl=orders&MessageBody=four"
    chunks = b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces(form, 20))
    whole = chunks + b"0\r\n\r\n"
    for length in (*range(0, len(whole), 3), len(whole) - 2, len(whole) - 1):
        with socket.create_connection(("127.0.0.1", server.port), ANSWER_S_MAX) as connection:
            connection.sendall(HEAD + whole[:length])
            connection.shutdown(socket.SHUT_WR)
            answer = connection.recv(65_536)
        assert not answer or b" 400 " in answer.split(b"\r\n")[0], (length, answer)
    assert received(server) == []


def test_a_body_with_trailers_is_refused(server: SocketServer) -> None:
    form = b"Action=SendMessage&QueueUrl=orders&MessageBody=four"
    with socket.create_connection(("127.0.0.1", server.port), ANSWER_S_MAX) as connection:
        connection.sendall(HEAD + b"%x\r\n%s\r\n0\r\nX-A: b\r\n\r\n" % (len(form), form))
        assert b" 400 " in connection.recv(65_536).split(b"\r\n")[0]
    assert received(server) == []


@pytest.mark.parametrize(
    ("action", "size", "status"),
    [
        ("SendMessage", SMALL_BODY_BYTES_MAX + 1, 200),
        ("SendMessage", 1_048_576, 200),
        ("SendMessage", 1_048_577, 400),  # too long for a message, not for a body
        ("SendMessage", REQUEST_BODY_BYTES_MAX + 1, 413),
        ("ListQueues", SMALL_BODY_BYTES_MAX - 200, 200),
        ("ListQueues", SMALL_BODY_BYTES_MAX + 1, 413),
        ("Nonsense", SMALL_BODY_BYTES_MAX + 1, 400),
    ],
)
def test_long_ones_have_the_limit_of_their_operation(
    server: SocketServer, action: str, size: int, status: int
) -> None:
    target = {"Content_Type": AWS_JSON, "X_Amz_Target": f"AmazonSQS.{action}"}
    body = pieces(message_of(size), 60_000)
    assert post(server, body, **target)[0] == status
    stored = [size] if (action, status) == ("SendMessage", 200) else []
    assert [len(one) for one in received(server)] == stored


def test_a_signature_is_over_what_the_chunks_carry() -> None:
    server = SocketServer(verifies=True)
    server.run(server.accounts.create_account("tests", ACCOUNT, {}))
    key = server.run(server.accounts.create_key(ACCOUNT))
    server.client("json", key.id, secret=key.secret).create_queue(QueueName="orders")

    def signed(body: bytes) -> dict[str, str]:
        request: Any = AWSRequest(
            "POST",
            server.endpoint + "/",
            headers={"Content-Type": AWS_JSON, "X-Amz-Target": "AmazonSQS.SendMessage"},
            data=body,
        )
        SigV4Auth(Credentials(key.id, key.secret), "sqs", REGION).add_auth(request)
        return {name.replace("-", "_"): text for name, text in request.headers.items()}

    for size, sent in ((3, 100), (200_000, 200_000)):
        body = message_of(size)
        assert post(server, pieces(body, sent), **signed(body))[0] == 200
        assert post(server, pieces(body[:-3], sent), **signed(body))[0] == 403
    stranger = {"Content_Type": AWS_JSON, "X_Amz_Target": "AmazonSQS.SendMessage"}
    assert post(server, [message_of(SMALL_BODY_BYTES_MAX)], **stranger)[0] == 403
    server.close()
