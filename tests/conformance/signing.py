"""Requests signed by other people's signers, and front ends' own check of them.

botocore signs by a clock of its own; here it is told the time.
"""

import io
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from unittest import mock

from awscrt.auth import (
    AwsCredentialsProvider,
    AwsSignatureType,
    AwsSigningAlgorithm,
    AwsSigningConfig,
    aws_sign_request,
)
from awscrt.http import HttpHeaders
from awscrt.http import HttpRequest as HttpRequestOfCrt
from botocore import auth
from botocore.auth import SigV4Auth, SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials as BotocoreCredentials
from msgspec.structs import replace

from data_plane.core.caller import AccessKey, Caller
from data_plane.core.errors import RefusedError
from data_plane.core.turns import at_once
from data_plane.frontend.authentication import authenticate
from data_plane.frontend.exchange import Exchange
from data_plane.protocol import wire_protocols
from data_plane.protocol.http import HttpRequest
from data_plane.protocol.operation import Operation
from data_plane.protocol.sqs import sqs
from data_plane.protocol.wire_protocols import WireProtocol
from tests.conformance.in_process import to_http_request

NOW_S = 1_440_938_160
"""2015-08-30T12:36:00Z, the time of AWS's vectors."""
HOST = "sqs.example:9324"
REGION = "eu-west-1"
ACCOUNT = "111122223333"
SECRET = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
KEY = AccessKey("AKIDEXAMPLE", SECRET, Caller(ACCOUNT, access_key_id="AKIDEXAMPLE"))
OTHER_KEY = AccessKey("AKIDOTHER", "another secret", Caller("444455556666"))
SIGN_S_MAX = 30
FORM = "application/x-www-form-urlencoded; charset=utf-8"
AWS_JSON = "application/x-amz-json-1.0"
BODY = b'{"QueueUrl":"http://h/111122223333/orders","MessageBody":"hello"}'
PATH = f"/{ACCOUNT}/orders"
ACTION = "Action=SendMessage&MessageBody=hello%20world"
NO_MATCH = (
    "SignatureDoesNotMatch",
    (
        "The request signature we calculated does not match the signature you provided. Check your "
        "AWS Secret Access Key and signing method. Consult the service documentation for details."
    ),
    403,
)
"""What every request is told that is not what was signed."""


@dataclass
class FixedClock:
    """A clock that stands."""

    now_s: float = NOW_S

    def now_us(self) -> int:
        return round(self.now_s * 1_000_000)


@dataclass
class KnownKeys:
    """The access keys there are."""

    keys: dict[str, AccessKey] = field(
        default_factory=lambda: {key.id: key for key in (KEY, OTHER_KEY)}
    )

    async def find_key(self, access_key_id: str) -> AccessKey | None:
        return self.keys.get(access_key_id)


class Verifier:
    """The stage that verifies, alone. Its clock can be put forward, and its keys revoked."""

    def __init__(self) -> None:
        self.clock = FixedClock()
        self.known = KnownKeys()
        self._stage = authenticate(self.known, self.clock, at_once)

    def verify(
        self,
        request: HttpRequest,
        protocol: WireProtocol = wire_protocols.AWS_JSON,
        operation: Operation | None = None,
    ) -> Exchange:
        """The exchange with caller and region. Raises RefusedError."""
        exchange = Exchange(request, "", 0, protocol, service=sqs(()), operation=operation)
        waiting = self._stage(exchange)
        assert waiting is not None
        try:
            waiting.__await__().send(None)
        except StopIteration:
            return exchange
        raise AssertionError("it waited for something")

    def refusal(self, request: HttpRequest) -> tuple[str, str, int]:
        """Code, message and status of the refusal, or ("", "", 200)."""
        try:
            self.verify(request)
        except RefusedError as error:
            return error.fault.code, error.message, error.fault.status
        return "", "", 200


@contextmanager
def signers_time(time_s: float) -> Iterator[None]:
    """Within it botocore signs at this time."""
    now = datetime.fromtimestamp(time_s, UTC)

    def told(remove_tzinfo: bool = True) -> datetime:  # noqa: FBT001, FBT002 - as botocore calls it
        return now.replace(tzinfo=None) if remove_tzinfo else now

    with mock.patch.object(auth, "get_current_datetime", told):
        yield


def signed(  # noqa: PLR0913 - what a request is made of
    method: str = "POST",
    path: str = "/",
    query: str = "",
    headers: Mapping[str, str] | None = None,
    body: bytes = b"",
    *,
    key: AccessKey = KEY,
    host: str = HOST,
    region: str = REGION,
    service: str = "sqs",
    at_s: float = NOW_S,
    token: str | None = None,
    expires_s: int | None = None,
) -> HttpRequest:
    """The request, signed by botocore: in a header, or for `expires_s` in the query."""
    target = f"http://{host}{path}" + (f"?{query}" if query else "")
    request: Any = AWSRequest(method, target, headers=dict(headers or {}), data=body)
    credentials = BotocoreCredentials(key.id, key.secret, token)
    with signers_time(at_s):
        if expires_s is None:
            SigV4Auth(credentials, service, region).add_auth(request)
        else:
            SigV4QueryAuth(credentials, service, region, expires_s).add_auth(request)
    return to_http_request(request.prepare())


def signed_by_crt(  # noqa: PLR0913, PLR0917 - what a request is made of
    method: str = "POST",
    path: str = "/",
    query: str = "",
    headers: Mapping[str, str] | None = None,
    body: bytes = b"",
    expires_s: int | None = None,
) -> HttpRequest:
    """The request, signed by the AWS CRT: in a header, or for `expires_s` in the query.

    Other than botocore it signs a body that goes with a presigned address.
    """
    sent = {"host": HOST, **{name.lower(): text for name, text in (headers or {}).items()}}
    request = HttpRequestOfCrt(
        method,
        path + (f"?{query}" if query else ""),
        HttpHeaders(list(sent.items())),
        io.BytesIO(body) if body else None,
    )
    where = (
        AwsSignatureType.HTTP_REQUEST_HEADERS
        if expires_s is None
        else AwsSignatureType.HTTP_REQUEST_QUERY_PARAMS
    )
    config = AwsSigningConfig(
        algorithm=AwsSigningAlgorithm.V4,
        signature_type=where,
        credentials_provider=AwsCredentialsProvider.new_static(KEY.id, KEY.secret),
        region=REGION,
        service="sqs",
        date=datetime.fromtimestamp(NOW_S, UTC),
        expiration_in_seconds=expires_s,
    )
    aws_sign_request(request, config).result(SIGN_S_MAX)
    target, _, signed_query = request.path.partition("?")
    signed_headers = {name.lower(): text for name, text in request.headers}
    return HttpRequest(method, target, signed_query, signed_headers, body)


def json_call(action: str, body: bytes, **options: Any) -> HttpRequest:
    """A call in AWS JSON."""
    headers = {"X-Amz-Target": f"AmazonSQS.{action}", "Content-Type": AWS_JSON}
    return signed("POST", headers=headers, body=body, **options)


def form_call(path: str, form: bytes, **options: Any) -> HttpRequest:
    """A call in the Query protocol, its fields in a form."""
    return signed("POST", path, headers={"Content-Type": FORM}, body=form, **options)


def call(**options: Any) -> HttpRequest:
    """A signed SendMessage in AWS JSON."""
    return json_call("SendMessage", BODY, **options)


def presigned(query: str = ACTION, expires_s: int = 60, **options: Any) -> HttpRequest:
    """A SendMessage that is all in its address."""
    return signed("GET", PATH, query, expires_s=expires_s, **options)


def with_headers(request: HttpRequest, headers: Mapping[str, str | None]) -> HttpRequest:
    """The request with these headers, without those that are None."""
    merged = {**request.headers, **headers}
    return replace(request, headers={name: value for name, value in merged.items() if value})


def authorized(request: HttpRequest, alter: Callable[[str], str]) -> HttpRequest:
    """The request with another Authorization header."""
    return with_headers(request, {"authorization": alter(request.headers["authorization"])})


def refusal(request: HttpRequest) -> tuple[str, str, int]:
    """Code, message and status; ("", "", 200) where it is accepted."""
    return Verifier().refusal(request)


def code(request: HttpRequest) -> str:
    """The code of the refusal; "" where it is accepted."""
    return refusal(request)[0]
