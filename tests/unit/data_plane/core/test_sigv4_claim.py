"""What is read of signatures and refused before a key is looked for."""

import hmac
import re

import pytest
from msgspec.structs import replace

from data_plane.core.sigv4 import (
    body_hash,
    canonical_query,
    canonical_request,
    signing_key,
    string_to_sign,
)
from data_plane.core.sigv4_claim import basic_format
from data_plane.protocol.http import HttpRequest
from tests.conformance.signing import (
    KEY,
    NO_MATCH,
    NOW_S,
    REGION,
    authorized,
    call,
    code,
    presigned,
    refusal,
    with_headers,
)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("/eu-west-1/", "/EU/", "Credential should be scoped to a valid region, not 'EU'. "),
        ("/eu-west-1/", "//", "Credential should be scoped to a valid region, not ''. "),
        ("/sqs/", "/sns/", "Credential should be scoped to correct service: 'sqs'. "),
        (
            "/aws4_request",
            "/aws5_request",
            (
                "Credential should be scoped with a valid terminator: 'aws4_request', "
                "not 'aws5_request'. "
            ),
        ),
        (
            "/20150830/",
            "/20150829/",
            (
                "Date in Credential scope does not match YYYYMMDD from ISO-8601 version of date "
                "from HTTP: '20150829' != '20150830', from '20150830T123600Z'."
            ),
        ),
    ],
)
def test_the_scope_is_ours(old: str, new: str, message: str) -> None:
    wanted = ("SignatureDoesNotMatch", message, 403)
    assert refusal(authorized(call(), lambda text: text.replace(old, new))) == wanted
    request = presigned()
    escaped = replace(
        request, query=request.query.replace(old.replace("/", "%2F"), new.replace("/", "%2F"))
    )
    assert refusal(escaped) == wanted


def test_signed_for_another_service() -> None:
    assert code(call(service="sns")) == "SignatureDoesNotMatch"
    request = authorized(call(service="sns"), lambda text: text.replace("/sns/", "/sqs/"))
    assert refusal(request) == NO_MATCH


@pytest.mark.parametrize("credential", ["AKIDEXAMPLE", "a/b/c/d", "a/b/c/d/e/f", "s/e/cret/+/a/b"])
def test_credentials_of_other_than_five_parts(credential: str) -> None:
    request = authorized(
        call(), lambda text: re.sub("Credential=[^,]+", f"Credential={credential}", text)
    )
    assert refusal(request) == (
        "IncompleteSignature",
        (
            "Credential must have exactly 5 slash-delimited elements, e.g. "
            "keyid/date/region/service/term"
        ),
        400,
    )


@pytest.mark.parametrize(("skew_s", "accepted"), [(900, True), (901, False), (-900, True)])
def test_the_window(skew_s: int, accepted: bool) -> None:  # noqa: FBT001 - a case
    assert (code(call(at_s=NOW_S + skew_s)) == "") is accepted


def test_the_words_for_clocks_that_differ() -> None:
    assert refusal(call(at_s=NOW_S - 901)) == (
        "SignatureDoesNotMatch",
        (
            "Signature expired: 20150830T122059Z is now earlier than 20150830T122100Z "
            "(20150830T123600Z - 15 min.)"
        ),
        403,
    )
    assert refusal(call(at_s=NOW_S + 901)) == (
        "SignatureDoesNotMatch",
        (
            "Signature not yet current: 20150830T125101Z is still later than 20150830T125100Z "
            "(20150830T123600Z + 15 min.)"
        ),
        403,
    )


@pytest.mark.parametrize(
    ("signed_s", "expires_s", "accepted"),
    [
        (NOW_S - 60, 60, True),
        (NOW_S - 61, 60, False),
        (NOW_S - 604_800, 604_800, True),
        (NOW_S - 604_801, 604_800, False),
        (NOW_S + 900, 1, True),
        (NOW_S + 901, 604_800, False),
    ],
)
def test_how_long_presigned_requests_hold(
    signed_s: int,
    expires_s: int,
    accepted: bool,  # noqa: FBT001 - a case
) -> None:
    expected = "" if accepted else "SignatureDoesNotMatch"
    assert code(presigned(expires_s=expires_s, at_s=signed_s)) == expected


@pytest.mark.parametrize("expires_s", [0, -1, 604_801, 10_000_000])
def test_presigned_for_too_long_or_not_at_all(expires_s: int) -> None:
    assert code(presigned(expires_s=expires_s)) == "IncompleteSignature"


def test_the_words_for_an_expired_address() -> None:
    assert refusal(presigned(expires_s=120, at_s=NOW_S - 121))[1] == (
        "Signature expired: 20150830T123359Z is now earlier than 20150830T123400Z "
        "(20150830T123600Z - 2 min.)"
    )
    assert refusal(presigned(expires_s=1, at_s=NOW_S - 2))[1].endswith("(20150830T123600Z - 1 s)")


@pytest.mark.parametrize(
    "date", ["2015", "20150830T123600", "20150832T000000Z", "20150229T000000Z", "20150830T240000Z"]
)
def test_dates_that_are_none(date: str) -> None:
    request = with_headers(call(), {"x-amz-date": date})
    assert refusal(request) == (
        "IncompleteSignature",
        (
            f"Date must be in ISO-8601 'basic format'. Got '{date}'. See "
            "http://en.wikipedia.org/wiki/ISO_8601"
        ),
        400,
    )


@pytest.mark.parametrize(
    ("at_s", "expected"),
    [
        (NOW_S, ""),
        (NOW_S - 900, ""),
        (NOW_S - 901, "SignatureDoesNotMatch"),
        (NOW_S + 901, "SignatureDoesNotMatch"),
    ],
)
def test_presigned_without_an_expiry_holds_for_15_minutes(at_s: int, expected: str) -> None:
    """As aws4fetch and aws4 sign for JavaScript."""
    assert code(presigned_for_nothing(at_s)) == expected


def test_an_expiry_is_not_to_be_added_or_emptied() -> None:
    request = presigned_for_nothing(NOW_S)
    later = replace(request, query=f"{request.query}&X-Amz-Expires=604800")
    assert code(later) == "SignatureDoesNotMatch"
    emptied = replace(request, query=f"{request.query}&X-Amz-Expires=")
    assert code(emptied) == "IncompleteSignature"


def presigned_for_nothing(at_s: int) -> HttpRequest:
    """Without `X-Amz-Expires`: botocore always has it, so the pieces are put together here."""
    with_expiry = presigned(at_s=at_s)
    fields = [
        field
        for field in with_expiry.query.split("&")
        if not field.startswith(("X-Amz-Expires", "X-Amz-Signature"))
    ]
    names = ["host"]
    text = canonical_request(
        with_expiry.method,
        with_expiry.path,
        canonical_query("&".join(fields)),
        with_expiry.headers,
        names,
        body_hash(with_expiry.body),
    )
    date = basic_format(at_s)
    scope = f"{date[:8]}/{REGION}/sqs/aws4_request"
    key = signing_key(KEY.secret, date[:8], REGION, "sqs")
    signed_text = string_to_sign(date, scope, text).encode()
    signature = hmac.new(key, signed_text, "sha256").hexdigest()
    return replace(with_expiry, query="&".join([*fields, f"X-Amz-Signature={signature}"]))


def test_what_is_missing_is_named_as_by_aws() -> None:
    names = ("Algorithm", "Credential", "Signature", "SignedHeaders", "Date")
    request = replace(presigned(), query="X-Amz-Expires=60")
    assert refusal(request)[1] == (
        " ".join(f"AWS query-string parameters must include 'X-Amz-{name}'." for name in names)
        + " Re-examine the query-string parameters."
    )


@pytest.mark.parametrize(
    "name", ["X-Amz-Algorithm", "X-Amz-Credential", "X-Amz-Date", "X-Amz-SignedHeaders"]
)
def test_presigned_without_a_part(name: str) -> None:
    request = presigned()
    kept = [field for field in request.query.split("&") if not field.startswith(name)]
    assert refusal(replace(request, query="&".join(kept))) == (
        "IncompleteSignature",
        (
            f"AWS query-string parameters must include '{name}'. Re-examine the query-string "
            "parameters."
        ),
        400,
    )
    twice = f"{request.query}&{name}=x"
    assert code(replace(request, query=twice)) == "IncompleteSignature"
    other_case = request.query.replace(name, name.lower())
    assert code(replace(request, query=other_case)) == "IncompleteSignature"


@pytest.mark.parametrize("part", ["Credential", "SignedHeaders", "Signature"])
def test_authorization_without_a_part(part: str) -> None:
    request = authorized(call(), lambda text: re.sub(f"{part}=[^,]+(, )?", "", text).rstrip(", "))
    assert refusal(request) == (
        "IncompleteSignature",
        f"Authorization header requires '{part}' parameter.",
        400,
    )
    twice = authorized(call(), lambda text: f"{text}, {part}=x")
    assert code(twice) == "IncompleteSignature"


def test_the_date_may_stand_in_the_header_of_http() -> None:
    request = call()
    date = request.headers["x-amz-date"]
    moved = with_headers(request, {"x-amz-date": None, "date": date})
    assert refusal(moved)[0] == "SignatureDoesNotMatch"  # It says that X-Amz-Date is signed.
    names = "SignedHeaders=content-type;date;host;x-amz-target"
    renamed = authorized(moved, lambda text: re.sub("SignedHeaders=[^,]+", names, text))
    signed_date = renamed.headers["authorization"].partition("Signature=")[0]
    canonical = canonical_request(
        "POST",
        renamed.path,
        "",
        renamed.headers,
        ("content-type", "date", "host", "x-amz-target"),
        body_hash(renamed.body),
    )
    scope = f"{date[:8]}/{REGION}/sqs/aws4_request"
    key = signing_key(KEY.secret, date[:8], REGION, "sqs")
    signed_text = string_to_sign(date, scope, canonical)
    made = hmac.digest(key, signed_text.encode(), "sha256").hex()
    assert refusal(authorized(renamed, lambda _: f"{signed_date}Signature={made}")) == ("", "", 200)


def test_authorization_without_a_date() -> None:
    request = with_headers(call(), {"x-amz-date": None})
    assert refusal(request) == (
        "IncompleteSignature",
        "Authorization header requires existence of either a 'X-Amz-Date' or a 'Date' header.",
        400,
    )


@pytest.mark.parametrize("algorithm", ["AWS4-HMAC-SHA512", "AWS4-ECDSA-P256-SHA256", "AWS4-"])
def test_other_algorithms(algorithm: str) -> None:
    wanted = (
        "IncompleteSignature",
        "Unsupported AWS 'algorithm' (only AWS4-HMAC-SHA256 for now). ",
        400,
    )
    altered = authorized(call(), lambda text: text.replace("AWS4-HMAC-SHA256", algorithm))
    assert refusal(altered) == wanted
    request = presigned()
    altered = replace(request, query=request.query.replace("AWS4-HMAC-SHA256", algorithm))
    assert refusal(altered) == wanted
