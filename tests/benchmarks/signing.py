"""Requests that are signed as SDKs sign them (AWS Signature Version 4), ahead of their sending."""

import hashlib
import hmac
import re
from configparser import RawConfigParser
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from tests.benchmarks.wire import Request

REGION: Final = "us-east-1"
_SIGNED: Final = "content-type;host;x-amz-date;x-amz-target"
_HEADERS: Final = re.compile(
    rb"Host: (?P<host>[^\r]*)\r\n.*X-Amz-Target: (?P<target>[^\r]*)\r\n"
    rb".*(?P<replaced>X-Amz-Date: [^\r]*\r\nAuthorization: [^\r]*\r\n)",
    re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class AccessKey:
    """Credentials of a caller."""

    id: str
    secret: str = field(repr=False)


def read_key(path: Path) -> AccessKey:
    """The access key in one of AWS's shared credentials files."""
    parser = RawConfigParser()
    parser.read_string(path.read_text())
    section = parser["default"]
    return AccessKey(section["aws_access_key_id"], section["aws_secret_access_key"])


class Signer:
    """Signs as of when it was made, which is good for 15 minutes. Without a key it does nothing."""

    def __init__(self, key: AccessKey | None) -> None:
        self._key = key
        self._date = f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}"
        self._scope = f"{self._date[:8]}/{REGION}/sqs/aws4_request"
        secret = f"AWS4{key.secret if key else ''}".encode()
        for part in self._scope.split("/"):
            secret = _hmac(secret, part)
        self._secret = secret

    def signed(self, request: Request) -> Request:
        """The request with its date and its signature."""
        if self._key is None:
            return request
        found = _HEADERS.search(request.raw)
        assert found is not None
        body = request.raw[request.raw.index(b"\r\n\r\n") + 4 :]
        canonical = (
            "POST\n/\n\ncontent-type:application/x-amz-json-1.0\n"
            f"host:{found['host'].decode()}\nx-amz-date:{self._date}\n"
            f"x-amz-target:{found['target'].decode()}\n\n{_SIGNED}\n"
            f"{hashlib.sha256(body).hexdigest()}"
        )
        digest = hashlib.sha256(canonical.encode()).hexdigest()
        text = f"AWS4-HMAC-SHA256\n{self._date}\n{self._scope}\n{digest}"
        header = (
            f"X-Amz-Date: {self._date}\r\nAuthorization: AWS4-HMAC-SHA256 "
            f"Credential={self._key.id}/{self._scope}, SignedHeaders={_SIGNED}, "
            f"Signature={_hmac(self._secret, text).hex()}\r\n"
        ).encode()
        start, end = found.span("replaced")
        return request.with_head_part(start, end, header)


def _hmac(key: bytes, text: str) -> bytes:
    return hmac.digest(key, text.encode(), "sha256")
