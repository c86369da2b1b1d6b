"""No request is accepted that means something else than what was signed.

Signed calls of SQS, in both protocols and both forms, and AWS's vectors signed anew for SQS, are
altered in every way that tests/conformance/alterations.py knows. Those that are accepted mean the
same, and are those that are listed there as such.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import pytest
from msgspec.structs import replace

from data_plane.core.errors import RefusedError
from data_plane.core.sigv4 import is_normal_path
from data_plane.core.turns import at_once
from data_plane.frontend.authentication import authenticate
from data_plane.frontend.exchange import Exchange, Stage
from data_plane.frontend.intake import check_size_and_syntax, find_operation
from data_plane.frontend.settings import FrontEndSettings
from data_plane.protocol.aws_query import form_of, parse_fields
from data_plane.protocol.http import HttpRequest
from data_plane.protocol.service import Services
from data_plane.protocol.sqs import sqs
from data_plane.protocol.wire_protocols import AWS_JSON, protocol_of
from tests.conformance.alterations import Original, alterations
from tests.conformance.in_process import InProcessServer
from tests.conformance.signing import (
    ACTION,
    BODY,
    PATH,
    FixedClock,
    KnownKeys,
    form_call,
    json_call,
    presigned,
    signed,
    signed_by_crt,
)
from tests.conformance.test_signature_vectors import FOLDER, LEFT_OUT, read, read_request

ALTERED_MIN = 5000
TARGET = {"X-Amz-Target": "AmazonSQS.SendMessage", "Content-Type": "application/x-amz-json-1.0"}
SPACED = {"X-Odd": "a  b c", "X-Amz-Meta": "d e"}
CALLS = (
    Original("send", json_call("SendMessage", BODY)),
    Original("purge", json_call("PurgeQueue", b'{"QueueUrl":"orders"}')),
    Original("send with more headers", signed(headers={**TARGET, **SPACED}, body=BODY)),
    Original("send a form", form_call(PATH, b"Action=SendMessage&MessageBody=a+b&DelaySeconds=5")),
    Original("receive a form", form_call(PATH + "/", b"Action=ReceiveMessage")),
    Original("send by GET", signed("GET", PATH, ACTION)),
    Original("send by GET, one field twice", signed("GET", PATH, ACTION + "&MessageBody=zz")),
    Original("list by GET", signed("GET", "/", "Action=ListQueues&QueueNamePrefix=")),
    Original("presigned", presigned()),
    Original("presigned form", signed_by_crt("POST", PATH, "", {}, ACTION.encode(), 60)),
    Original("presigned JSON", signed_by_crt("POST", "/", "", TARGET, BODY, 604_800)),
    Original("presigned fields", presigned(ACTION + "&DelaySeconds=0&MessageGroupId=a%26b")),
)


def vectors() -> Iterator[Original]:
    """AWS's vectors as requests to SQS, in both forms; those for paths have another path here."""
    for file in sorted(FOLDER.rglob("*.req")):
        if file.stem in LEFT_OUT:
            continue
        vector = read_request(read(file, ".req"))
        left = {"host", "x-amz-date", "x-amz-security-token"}
        headers = {name: text for name, text in vector.headers.items() if name not in left}
        path = vector.path if is_normal_path(vector.path) else "/a/b"
        query = vector.query if vector.query.isascii() else "a=%E1%88%B4"
        parts = (vector.method, path, query, headers, vector.body)
        yield Original(file.stem, signed(*parts))
        yield Original(f"{file.stem}, presigned", signed_by_crt(*parts, 60))


@cache
def stages() -> tuple[Stage, ...]:
    """Those up to the one that verifies."""
    server = InProcessServer()
    operations = server.operations
    server.close()
    return (
        check_size_and_syntax(FrontEndSettings()),
        find_operation(Services((sqs(operations),))),
        authenticate(KnownKeys(), FixedClock(), at_once),
    )


def fields_of(exchange: Exchange) -> Mapping[str, str]:
    """What the parameters are decoded from."""
    if not exchange.protocol.is_form:
        return {}
    signed_query, request = exchange.signed_query, exchange.request
    return parse_fields(request.query if signed_query is None else signed_query, form_of(request))


def meaning(request: HttpRequest, through: tuple[Stage, ...]) -> Any:
    """What a request would do, or None if it is refused."""
    exchange = Exchange(request, "", 0, protocol_of(request.headers))
    if len(through) == 1:
        exchange.protocol = AWS_JSON  # the vectors name no action
        exchange.service = sqs(())
    try:
        for stage in through:
            waiting = stage(exchange)
            if waiting is not None:
                with pytest.raises(StopIteration):
                    waiting.__await__().send(None)
            if exchange.response is not None:
                return None
    except RefusedError:
        return None
    return (
        exchange.operation and exchange.operation.name,
        request.method,
        exchange.path_queue,
        request.body,
        sorted(item for item in fields_of(exchange).items() if not item[0].startswith("X-Amz-")),
        exchange.caller,
        exchange.region,
        request.headers["host"].strip(),
    )


def check(originals: tuple[Original, ...], through: tuple[Stage, ...]) -> Counter[str]:
    counts: Counter[str] = Counter()
    for original in originals:
        intended = meaning(original.request, through)
        assert intended is not None, original.name
        for altered in alterations(original):
            meant = meaning(altered.request, through)
            assert meant == (intended if altered.same else None), (original.name, altered.what)
            counts["accepted, and the same" if altered.same else "refused"] += 1
    return counts


def test_altered_calls() -> None:
    counts = check(CALLS, stages())
    assert counts["refused"] >= ALTERED_MIN
    print(f"calls altered: {dict(counts)}")


@pytest.mark.skipif(not FOLDER.is_dir(), reason="AWS's vectors are missing: `make test` has them")
def test_altered_vectors() -> None:
    counts = check(tuple(vectors()), stages()[2:])
    assert counts["refused"] >= ALTERED_MIN
    print(f"vectors altered: {dict(counts)}")


def test_what_verification_keeps_out() -> None:
    """An altered request is one that would otherwise be served."""
    other = replace(CALLS[3].request, body=b"Action=PurgeQueue")
    assert meaning(other, stages()[:2]) is not None
    assert meaning(other, stages()) is None
