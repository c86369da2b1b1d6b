"""What a job asked AWS for: a proxy before an emulator that notes each request as IAM names it."""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler
from typing import Any, Final
from urllib.parse import parse_qsl, unquote, urlsplit

from tests.rehearsal.glue.http_service import answer, body_of, serving

Call = tuple[str, str]
"""An action and the ARN of what it is done to."""

_S3: Final = "arn:aws:s3:::"
_KEYS: Final = re.compile(rb"<Key>([^<]*)</Key>")
_NOT_HANDED_ON: Final = frozenset({"transfer-encoding", "content-length", "connection"})
_ON_OBJECTS: Final = {
    "GET": "GetObject",
    "HEAD": "GetObject",
    "PUT": "PutObject",
    "POST": "PutObject",
    "DELETE": "DeleteObject",
}
_TIMEOUT_S: Final = 120


def calls_of(request: BaseHTTPRequestHandler, body: bytes) -> list[Call]:
    """What a request needs to be allowed."""
    target = request.headers.get("X-Amz-Target", "")
    service, _, operation = target.rpartition(".")
    if service.startswith("DynamoDB_"):
        return _of_dynamodb(operation, json.loads(body))
    if service == "TrentService":
        return [(f"kms:{operation}", json.loads(body)["KeyId"])]
    return _of_s3(request, body)


def _of_s3(request: BaseHTTPRequestHandler, body: bytes) -> list[Call]:
    target = request.headers.get("X-Amz-Target", "")
    asked = urlsplit(request.path)
    bucket, _, key = unquote(asked.path).strip("/").partition("/")
    if target or not bucket:
        return [(f"{request.command} {target}", request.path)]
    options = dict(parse_qsl(asked.query, keep_blank_values=True))
    if key:
        calls = [(f"s3:{_ON_OBJECTS[request.command]}", f"{_S3}{bucket}/{key}")]
        if source := request.headers.get("X-Amz-Copy-Source", ""):
            calls.append(("s3:GetObject", f"{_S3}{unquote(source).strip('/')}"))
        return calls
    if request.command == "POST" and "delete" in options:
        names = [name.decode() for name in _KEYS.findall(body)]
        return [("s3:DeleteObject", f"{_S3}{bucket}/{name}") for name in names]
    if request.command == "GET" and "list-type" in options:
        return [("s3:ListBucket", f"{_S3}{bucket}")]
    return [(f"s3:{request.command}", request.path)]


def _of_dynamodb(operation: str, said: dict[str, Any]) -> list[Call]:
    its = said.get("ExportArn") or said.get("TableArn") or said.get("TableName", "")
    calls = [(f"dynamodb:{operation}", its)]
    if operation == "ExportTableToPointInTime":
        # DynamoDB writes in the name of who asks.
        objects = f"{_S3}{said['S3Bucket']}/{said.get('S3Prefix', '')}/AWSDynamoDB/1/data"
        needed = ("AbortMultipartUpload", "PutObject", "PutObjectAcl")
        calls += [(f"s3:{action}", objects) for action in needed]
    return calls


def is_allowed(call: Call, statements: list[dict[str, Any]]) -> bool:
    """Whether one of the statements allows a call. None of them denies, or has conditions."""
    action, resource = call
    for statement in statements:
        assert set(statement) <= {"Sid", "Effect", "Action", "Resource"}
        assert statement["Effect"] == "Allow"
        if _matches(action, statement["Action"]) and _matches(resource, statement["Resource"]):
            return True
    return False


def _matches(value: str, patterns: str | list[str]) -> bool:
    every = [patterns] if isinstance(patterns, str) else patterns
    return any(fnmatchcase(value, one.replace("[", "[[]")) for one in every)


@dataclass(slots=True)
class Record:
    """Where the proxy listens, and what it was asked for."""

    url: str = ""
    calls: list[Call] = field(default_factory=list)


@contextmanager
def recording(engine_url: str) -> Iterator[Record]:
    """A proxy before an engine."""
    record, engine = Record(), urlsplit(engine_url)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _hand_on(self) -> None:
            body = body_of(self)
            record.calls.extend(calls_of(self, body))
            headers = {
                name: value
                for name, value in self.headers.items()
                if name.lower() not in _NOT_HANDED_ON
            }
            connection = HTTPConnection(str(engine.hostname), engine.port, timeout=_TIMEOUT_S)
            try:
                connection.request(self.command, self.path, body, headers)
                answered = connection.getresponse()
                content = answered.read()
            finally:
                connection.close()
            if self.command == "HEAD":
                self.send_response(answered.status)
                for name, value in answered.getheaders():
                    if name.lower() not in {"connection", "date", "server"}:
                        self.send_header(name, value)
                self.end_headers()
                return
            said = {
                name: value
                for name, value in answered.getheaders()
                if name.lower() not in {*_NOT_HANDED_ON, "date", "server"}
            }
            answer(self, answered.status, content, **said)

        do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = _hand_on  # noqa: N815 - its own names

        def log_message(self, *_: object) -> None:
            """Say nothing: the record has it."""

    with serving(Handler) as record.url:
        yield record
