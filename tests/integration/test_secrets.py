"""What is secret stays out of everything that a server and its commands say.

Secret are: secrets of access keys, signatures, session tokens, whole Authorization headers and
query strings, master keys, receipt and task handles, and what messages carry.
"""

import base64
import os
import socket
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError
from click.testing import CliRunner

from control_plane.cli.main import tidegate as commands
from tests.integration.server_process import ServerProcess

BODY = "canary-body-"
CARRIED = {
    "body": f"{BODY}1",
    "value": "canary-value",
    "name": "canary.name",
    "group": "canary-group",
    "trace": "canary-trace",
    "tag": "canary-tag",
    "agent": "canary-agent",
    "token": "canary-session-token",
    "loose": "canary-loose",
}


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[ServerProcess]:
    started = ServerProcess(
        tmp_path / "data", tmp_path / "log", auth="on", options=("--log-level", "info")
    )
    started.start()
    yield started
    started.kill()


@pytest.fixture(autouse=True)
def no_own_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)


class Caller:
    """A client, and what of its requests nobody else is to know."""

    def __init__(self, server: ServerProcess) -> None:
        self.client = server.client()
        self.secrets: dict[str, str] = {}
        self.client.meta.events.register("before-send.sqs", self._note)

    def _note(self, request: Any, **_: object) -> None:
        header = request.headers["Authorization"]
        text = header.decode() if isinstance(header, bytes) else header
        self.secrets[f"signature {len(self.secrets)}"] = text.rpartition("Signature=")[2]


def use(caller: Caller) -> None:
    """Send, receive, fail and move messages full of canaries."""
    client = caller.client
    queue = client.create_queue(QueueName="orders", tags={"k": CARRIED["tag"]})["QueueUrl"]
    client.send_message(
        QueueUrl=queue,
        MessageBody=CARRIED["body"],
        MessageGroupId=CARRIED["group"],
        MessageAttributes={
            CARRIED["name"]: {"DataType": "String", "StringValue": CARRIED["value"]}
        },
        MessageSystemAttributes={
            "AWSTraceHeader": {"DataType": "String", "StringValue": CARRIED["trace"]}
        },
    )
    (message,) = client.receive_message(QueueUrl=queue)["Messages"]
    caller.secrets["handle"] = message["ReceiptHandle"]
    client.change_message_visibility(
        QueueUrl=queue, ReceiptHandle=message["ReceiptHandle"], VisibilityTimeout=0
    )
    for wrong in (
        {"QueueUrl": queue, "MessageBody": f"{BODY}\x00"},
        {"QueueUrl": queue, "MessageBody": BODY, "DelaySeconds": 901},
        {"QueueUrl": f"{queue}-not", "MessageBody": BODY},
        {"QueueUrl": queue, "MessageBody": BODY, "MessageGroupId": "canary group"},
    ):
        with pytest.raises(ClientError) as raised:
            client.send_message(**wrong)
        assert BODY not in str(raised.value)
    with pytest.raises(ClientError):
        client.delete_message(QueueUrl=queue, ReceiptHandle=f"{message['ReceiptHandle']}AAAA")


def spoilt(caller: Caller) -> Iterator[bytes]:
    """Requests that are refused at one stage after the other, as bytes."""
    signature = caller.secrets["signature 0"]
    credential = "AWS4-HMAC-SHA256 Credential=AKIA/20260101/us-east-1/sqs/aws4_request, "
    form = f"Action=SendMessage&QueueUrl=orders&MessageBody={CARRIED['loose']}"
    head = f"Host: x\r\nContent-Length: {len(form)}\r\nUser-Agent: {CARRIED['agent']}\r\n"
    token = f"X-Amz-Security-Token: {CARRIED['token']}\r\n"
    signed = f"Authorization: {credential}SignedHeaders=host, Signature={signature}\r\n"
    for line in (
        "POST / HTTP/1.1",
        "POST / HTTP/1.7",
        f"GET /?X-Amz-Signature={signature} HTTP/1.1",
    ):
        for headers in (signed, signed + token, signed + signed, "Authorization: canary-loose\r\n"):
            for more in ("", "Transfer-Encoding: chunked\r\n", "Content-Length: 99999999999\r\n"):
                yield f"{line}\r\n{head}{headers}{more}\r\n{form}".encode()


def answer_to(server: ServerProcess, request: bytes) -> bytes:
    answer = b""
    with socket.create_connection(("127.0.0.1", server.port), timeout=20) as connection:
        connection.sendall(request)
        with suppress(OSError):  # It may have ended what it could not read.
            connection.shutdown(socket.SHUT_WR)
        try:
            while part := connection.recv(65536):
                answer += part
        except ConnectionResetError:
            pass  # it ended the connection before it had read everything
    return answer


def told_by_commands(server: ServerProcess, secrets: dict[str, str]) -> str:
    """What commands print, with right and with wrong credentials."""
    right = ("--endpoint", server.url, "--data", str(server.data))
    secrets["wrong secret"] = "canary-wrong-secret"
    wrong = ("--access-key-id", server.access_key[0])
    wrong_secret = {"AWS_SECRET_ACCESS_KEY": secrets["wrong secret"]}
    told = ""
    for group, command in (
        ("queue", "list"),
        ("account", "list"),
        ("key", "list"),
        ("user", "list"),
    ):
        for options, variables in ((right, {}), (("--endpoint", server.url, *wrong), wrong_secret)):
            ended = CliRunner().invoke(commands, [group, *options, command], env=variables)
            told += ended.output + str(ended.exception)
    return told


def test_no_secret_is_told(guarded: ServerProcess) -> None:
    caller = Caller(guarded)
    use(caller)
    secrets = caller.secrets
    secrets["secret"] = guarded.access_key[1]
    (key,) = [line for line in (guarded.data / "master.keys").read_text().split() if len(line) > 20]
    secrets["master key"] = key
    answers = [answer_to(guarded, request) for request in spoilt(caller)]
    told = {
        "commands": told_by_commands(guarded, secrets),
        "health": guarded.get("/health")[1],
        "metrics": guarded.get("/metrics")[1],
        "greeting": guarded.greeting,
        "answers": b"".join(answers).decode(),
    }
    assert guarded.stop() == 0
    told["log"] = guarded.log.read_text()
    assert (
        '"code":"RequestEntityTooLarge"' in told["log"] or '"MalformedHttpRequest"' in told["log"]
    )
    assert '"queue":"orders"' in told["log"]
    for place, text in told.items():
        for name, secret in {**secrets, **CARRIED}.items():
            assert secret not in text, (name, place)
            assert base64.b64encode(secret.encode()).decode() not in text, (name, place)
