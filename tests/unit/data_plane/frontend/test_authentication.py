"""The rules of signatures, one by one. tests/conformance alters requests by the thousand."""

import hashlib
import re
from typing import Any

import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from msgspec.structs import replace

from data_plane.core.caller import AccessKey, Caller
from data_plane.core.errors import RefusedError
from data_plane.core.sigv4 import body_hash, signing_key
from data_plane.core.sigv4_claim import read_claim
from data_plane.frontend import authentication
from data_plane.frontend.authentication import SIGNING_KEYS_MAX
from data_plane.operations.catalog import message_operations
from data_plane.protocol.aws_query import parse_fields
from data_plane.protocol.http import HttpRequest
from data_plane.protocol.wire_protocols import QUERY, protocol_of
from tests.conformance.signing import (
    ACTION,
    AWS_JSON,
    BODY,
    FORM,
    KEY,
    NO_MATCH,
    OTHER_KEY,
    PATH,
    REGION,
    Verifier,
    authorized,
    call,
    code,
    form_call,
    presigned,
    refusal,
    signed,
    signed_by_crt,
    with_headers,
)
from tests.unit.data_plane.wire import FakeBag

(SEND,) = [one for one in message_operations(FakeBag()) if one.name == "SendMessage"]
BAD_TOKEN = ("InvalidClientTokenId", "The security token included in the request is invalid.", 403)
NO_TOKEN = ("MissingAuthenticationToken", "Request is missing Authentication Token", 403)


def test_the_bearer_and_the_region_are_known() -> None:
    for request in (
        call(),
        presigned(),
        form_call(PATH, b"Action=SendMessage&MessageBody=a+b"),
        signed_by_crt("POST", PATH, ACTION, {"Content-Type": FORM}, b"MessageBody=a", 60),
        signed_by_crt("POST", "/", "", {"X-Amz-Target": "A.B"}, b"{}", 60),
        signed_by_crt("POST", "/", "", {"X-Amz-Target": "A.B"}, b"{}"),
    ):
        exchange = Verifier().verify(request)
        assert exchange.caller is KEY.caller
        assert exchange.region == REGION
    assert Verifier().verify(call(key=OTHER_KEY, region="xy-9")).caller is OTHER_KEY.caller


def test_the_host_may_be_signed_as_http_2_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """As the AWS SDK for JavaScript does for each call on a stream."""
    headers_to_sign = SigV4Auth.headers_to_sign

    def named_otherwise(self: SigV4Auth, request: AWSRequest) -> Any:
        headers = headers_to_sign(self, request)
        headers[":authority"] = headers["host"]
        del headers["host"]
        return headers

    monkeypatch.setattr(SigV4Auth, "headers_to_sign", named_otherwise)
    request = call()
    assert "SignedHeaders=:authority;content-type;" in request.headers["authorization"]
    assert Verifier().verify(request).caller is KEY.caller
    assert refusal(with_headers(request, {"host": "elsewhere"})) == NO_MATCH
    assert code(with_headers(request, {"host": None})) == "SignatureDoesNotMatch"


def test_no_signature() -> None:
    assert refusal(HttpRequest("POST", "/", "", {"host": "h"}, b"")) == NO_TOKEN
    assert refusal(with_headers(call(), {"authorization": "Bearer abc"})) == NO_TOKEN
    assert refusal(HttpRequest("GET", "/", "Action=ListQueues", {"host": "h"}, b"")) == NO_TOKEN


def test_fields_of_a_form_are_no_signature() -> None:
    request = presigned()
    form = HttpRequest("POST", PATH, "", {"host": request.headers["host"]}, request.query.encode())
    assert refusal(form) == NO_TOKEN


@pytest.mark.parametrize("authorization", ["AWS AKID:c2ln", "AWS3-HTTPS AWSAccessKeyId=A"])
def test_older_signatures(authorization: str) -> None:
    assert code(with_headers(call(), {"authorization": authorization})) == "InvalidSecurity"
    query = "Action=ListQueues&AWSAccessKeyId=A&SignatureVersion=2&Signature=x"
    assert code(HttpRequest("GET", "/", query, {"host": "h"}, b"")) == "InvalidSecurity"


def test_an_unknown_key_is_refused_before_anything_of_its_request_is_hashed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    hashed: list[bytes] = []

    def hash_body(body: bytes) -> str:
        hashed.append(body)
        return body_hash(body)

    monkeypatch.setattr(authentication, "body_hash", hash_body)
    unknown = AccessKey("AKIDNOBODY", "x", Caller(""))
    assert refusal(call(key=unknown)) == BAD_TOKEN
    assert refusal(presigned(key=unknown)) == BAD_TOKEN
    assert not hashed
    wrong = AccessKey(KEY.id, "not its secret", Caller(""))
    assert refusal(call(key=wrong)) == NO_MATCH
    assert len(hashed) == 1


def test_a_revoked_key_is_refused_at_once() -> None:
    verifier = Verifier()
    assert verifier.refusal(call())[0] == ""
    del verifier.known.keys[KEY.id]
    assert verifier.refusal(call()) == BAD_TOKEN


def test_a_secret_that_changed_needs_signatures_of_its_own() -> None:
    verifier = Verifier()
    assert verifier.refusal(call())[0] == ""
    verifier.known.keys[KEY.id] = AccessKey(KEY.id, "new", KEY.caller)
    assert verifier.refusal(call()) == NO_MATCH


def test_sessions_are_refused() -> None:
    assert refusal(call(token="AQoD")) == BAD_TOKEN
    assert refusal(presigned(token="AQoD")) == BAD_TOKEN


# 1: the body


def test_the_body_counts_not_what_is_said_of_it() -> None:
    honest = hashlib.sha256(BODY).hexdigest()
    headers = {"X-Amz-Target": "AmazonSQS.SendMessage"}
    stated = signed("POST", headers={**headers, "X-Amz-Content-SHA256": honest}, body=BODY)
    assert code(stated) == ""
    assert refusal(replace(stated, body=BODY + b" ")) == NO_MATCH
    assert refusal(replace(call(), body=b"")) == NO_MATCH
    for lie in (
        *("UNSIGNED-PAYLOAD", "STREAMING-AWS4-HMAC-SHA256-PAYLOAD", "STREAMING-UNSIGNED-PAYLOAD-"),
        *(honest.upper(), hashlib.sha256(b"").hexdigest()),
    ):
        lying = signed("POST", headers={**headers, "X-Amz-Content-SHA256": lie}, body=BODY)
        assert refusal(lying) == NO_MATCH


# 2: one form


def test_two_forms_at_once() -> None:
    request = call()
    for query in (presigned().query, "X-Amz-Signature=0", "x-amz-credential=0"):
        assert code(replace(request, query=query)) in {
            "SignatureDoesNotMatch",
            "IncompleteSignature",
        }
    both = with_headers(presigned(), {"authorization": request.headers["authorization"]})
    assert refusal(both) == (
        "SignatureDoesNotMatch",
        "Found both 'X-Amz-Algorithm' as a query-string param and 'Authorization' as HTTP header.",
        403,
    )


# 5 and 6: what is signed


@pytest.mark.parametrize("name", ["x-amz-target", "x-amz-meta", "x-amz-content-sha256"])
def test_what_acts_on_a_request_is_signed(name: str) -> None:
    value = hashlib.sha256(b"").hexdigest() if "sha" in name else "AmazonSQS.PurgeQueue"
    for request in (form_call(PATH, b""), presigned()):
        assert refusal(with_headers(request, {name: value})) == (
            "SignatureDoesNotMatch",
            "Every 'X-Amz-' header must be a 'SignedHeader' in the AWS Authorization.",
            403,
        )


def test_other_headers_need_not_be_signed() -> None:
    request = with_headers(
        call(), {"user-agent": "x", "x-amzn-trace-id": "Root=1", "accept": "a/b"}
    )
    assert code(request) == ""


def test_a_content_type_need_not_be_signed() -> None:
    """The AWS SDK for PHP leaves it out. What it can do is to make a right request wrong."""
    unsigned = signed("POST", "/", "", {"X-Amz-Target": "AmazonSQS.ListQueues"}, b"{}")
    assert "content-type" not in unsigned.headers["authorization"]
    assert code(with_headers(unsigned, {"content-type": AWS_JSON})) == ""


def test_the_content_type_of_a_form_with_a_target_is_signed() -> None:
    """It says that a text, in a body that was signed as JSON, is a form's."""
    body = b'{"QueueName":"&Action=DeleteQueue&x="}'
    target = {"X-Amz-Target": "AmazonSQS.CreateQueue"}
    unsigned = with_headers(signed("POST", "/", "", target, body), {"content-type": FORM})
    assert protocol_of(unsigned.headers) is QUERY
    with pytest.raises(RefusedError, match="'Content-Type' must be a 'SignedHeader'"):
        Verifier().verify(unsigned, QUERY)
    as_form = signed("POST", "/", "", {**target, "Content-Type": FORM}, b"Action=ListQueues")
    assert Verifier().verify(as_form, QUERY).caller is KEY.caller


def test_the_host_is_signed() -> None:
    request = authorized(call(), lambda text: text.replace("host;", ""))
    assert refusal(request) == (
        "SignatureDoesNotMatch",
        "'Host' or ':authority' must be a 'SignedHeader' in the AWS Authorization.",
        403,
    )
    assert refusal(with_headers(call(), {"host": "elsewhere.example"})) == NO_MATCH


@pytest.mark.parametrize(
    "names",
    [
        *("host;content-type;x-amz-date;x-amz-target", "content-type;host;host;x-amz-date"),
        *("Content-Type;host;x-amz-date;x-amz-target", "content-type;host;;x-amz-date", ";host"),
        *("content-type; host;x-amz-date;x-amz-target", "h\xf6st;host", "host;"),
    ],
)
def test_names_that_no_signer_writes(names: str) -> None:
    request = authorized(
        call(), lambda text: re.sub("SignedHeaders=[^,]+", f"SignedHeaders={names}", text)
    )
    assert code(request) == "IncompleteSignature"


def test_a_signed_header_that_is_absent() -> None:
    request = call()
    assert code(with_headers(request, {"content-type": None})) == "SignatureDoesNotMatch"
    empty = signed("POST", headers={"X-Empty": ""}, body=BODY)
    assert "x-empty" in empty.headers["authorization"]
    assert code(empty) == ""
    without = {name: value for name, value in empty.headers.items() if name != "x-empty"}
    assert code(replace(empty, headers=without)) == "SignatureDoesNotMatch"


# 7: values


def test_spaces_are_collapsed() -> None:
    request = signed("POST", headers={"X-Odd": "a  b\tc"}, body=BODY)
    for value in ("a b c", " a   b c "):
        assert code(with_headers(request, {"x-odd": value})) == ""
    assert refusal(with_headers(request, {"x-odd": "ab c"})) == NO_MATCH


@pytest.mark.parametrize("value", ["a\r\nb", "a\nb", "a\0b", "\xe4", "a\x7f", "\u20ac"])
def test_values_that_are_not_plain_text(value: str) -> None:
    request = signed("POST", headers={"X-Odd": "ab"}, body=BODY)
    assert code(with_headers(request, {"x-odd": value})) == "SignatureDoesNotMatch"


# 8: paths


@pytest.mark.parametrize(
    "path",
    [
        *("//", "/.", "/./", "/..", "/a//b", "/a/./b", "/a/../b", "/%61/b", "/a%2Fb", "/a/b%", "*"),
        *("/a+b", "/a b", "/\xe4", "", "/a/b\n", "http://h/", "/a;b"),
    ],
)
def test_paths_that_can_be_written_in_a_plainer_way(path: str) -> None:
    request = replace(signed("POST", "/a/b", body=BODY), path=path)
    assert refusal(request)[0::2] == ("InvalidAddress", 404)


def test_the_path_is_signed() -> None:
    assert refusal(replace(presigned(), path="/111122223333/other")) == NO_MATCH
    assert refusal(replace(presigned(), path=PATH + "/")) == NO_MATCH
    assert code(signed("GET", PATH + "/", ACTION, expires_s=60)) == ""


# 9: queries


def test_fields_are_read_in_the_order_that_was_signed() -> None:
    """Otherwise fields of one name could change places: sorted, they are signed alike."""
    first, second = "MessageBody=b&MessageBody=a", "MessageBody=a&MessageBody=b"
    request = signed("GET", PATH, f"Action=SendMessage&{first}")
    for query in (first, second):
        moved = replace(request, query=f"Action=SendMessage&{query}")
        exchange = Verifier().verify(moved, QUERY, SEND)
        assert parse_fields(exchange.signed_query or "", b"")["MessageBody"] == "a"


def test_the_action_that_was_found_is_the_signed_one() -> None:
    request = signed("GET", PATH, "Action=SendMessage&Action=ReceiveMessage")
    with pytest.raises(RefusedError, match="does not match"):
        Verifier().verify(request, QUERY, SEND)


def test_broken_escapes_in_a_query() -> None:
    request = replace(call(), query="a=%zz")
    assert code(request) == "MalformedQueryString"


# 10: signatures


def test_signatures_are_64_digits_in_lower_case() -> None:
    right = call().headers["authorization"].rpartition("=")[2]
    for wrong in (right.upper(), right[:-1], right + "0", "\xe4" * 64):
        request = authorized(call(), lambda text, wrong=wrong: text.replace(right, wrong))  # type: ignore[misc]
        assert refusal(request) == NO_MATCH


# 12: derived keys


def test_derived_keys_are_bounded_and_only_right_ones_are_kept() -> None:
    verifier = Verifier()
    keys = authentication._SigningKeys()
    claim = read_claim(call().headers, "", ("sqs",))
    assert not keys.matches("wrong", claim, "text")
    assert keys._verifiers == {}
    right = claim._replace(signature=signing_key(KEY.secret, claim.day, claim.region, "sqs").hex())
    assert not keys.matches(KEY.secret, right, "text")
    for number in range(3):
        assert verifier.refusal(call(region=f"eu-{number}"))[0] == ""
    assert SIGNING_KEYS_MAX == 4096


def test_the_oldest_derived_key_makes_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(authentication, "SIGNING_KEYS_MAX", 2)
    verifier = Verifier()
    for number in (0, 1, 2, 0, 1, 2):
        assert verifier.refusal(call(region=f"eu-{number}"))[0] == ""


# What refusals and logs may tell


def test_refusals_repeat_no_secret() -> None:
    signature = call().headers["authorization"].rpartition("=")[2]
    for alter in (
        lambda text: text.replace("AKIDEXAMPLE", "the/SECRET/of/somebody"),
        lambda text: text.replace("AWS4-HMAC-SHA256", "AWS4-SECRET"),
        lambda text: text.replace("Signature=", "SECRET="),
        lambda text: text.replace("AKIDEXAMPLE", "SECRET"),
    ):
        message = refusal(authorized(call(), alter))[1]
        assert "SECRET" not in message
        assert signature not in message


def test_what_the_stage_raises_is_a_refusal() -> None:
    with pytest.raises(RefusedError):
        Verifier().verify(HttpRequest("POST", "/", "", {}, b""))
