"""A client whose requests are answered from a script, without a socket."""

import io
import json
from binascii import crc32
from collections.abc import Iterator
from functools import cache
from typing import Any, cast

import pytest
from botocore.awsrequest import AWSPreparedRequest, AWSResponse, HeadersDict

from data_plane.dynamodb.opening import connect

DATE = "Mon, 21 Sep 2026 14:13:20 GMT"


class _RawBody(io.BytesIO):
    def stream(self, **_: object) -> Iterator[bytes]:
        yield self.read()


class Reply:
    """An answer as it arrives; `crc` replaces the right checksum, "" takes it away."""

    def __init__(
        self, body: object, status: int = 200, *, crc: str | None = None, date: str = DATE
    ) -> None:
        self.body = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.status = status
        self.headers = {"content-type": "application/x-amz-json-1.0", "date": date}
        if crc is None:
            crc = str(crc32(self.body))
        if crc:
            self.headers["x-amz-crc32"] = crc


def failure(code: str, status: int = 400, message: str = "", **members: object) -> Reply:
    """An error as DynamoDB answers it."""
    return Reply({"__type": f"com.amazonaws#{code}", "message": message, **members}, status)


class Script:
    """Answers requests with the replies in their order, the last one again and again."""

    def __init__(self, *replies: Reply | Exception) -> None:
        self._replies = list(replies)
        self.requests: list[dict[str, Any]] = []
        self.client = _client()
        _PLAYED[:] = [self]

    def answer(self, request: AWSPreparedRequest) -> AWSResponse:
        self.requests.append(json.loads(cast("bytes", request.body)))
        reply = self._replies.pop(0) if len(self._replies) > 1 else self._replies[0]
        if isinstance(reply, Exception):
            raise reply
        return answered(request, reply)


def answered(request: AWSPreparedRequest, reply: Reply) -> AWSResponse:
    """The reply as botocore takes it from a connection."""
    headers = cast("Any", HeadersDict(reply.headers))
    return AWSResponse(request.url, reply.status, headers, _RawBody(reply.body))


_PLAYED: list[Script] = []
"""The script that was written last."""


@cache
def _client() -> Any:
    """One for all tests: it is dear to make."""
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("AWS_ACCESS_KEY_ID", "any")
        environment.setenv("AWS_SECRET_ACCESS_KEY", "any")
        client = connect("http://127.0.0.1:9", "us-east-1", connections_max=1)

    def answer(request: AWSPreparedRequest, **_: object) -> AWSResponse:
        return _PLAYED[0].answer(request)

    client.meta.events.register("before-send.dynamodb", answer)
    return client
