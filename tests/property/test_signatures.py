"""What two other signers sign is accepted, whatever is in it; times are those of the calendar."""

import re
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import quote

from botocore.auth import SigV4Auth
from botocore.credentials import Credentials as BotocoreCredentials
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from data_plane.core.sigv4 import canonical_path
from data_plane.core.sigv4_claim import basic_format, epoch_s
from tests.conformance.signing import (
    AWS_JSON,
    FORM,
    KEY,
    NO_MATCH,
    REGION,
    Verifier,
    signed,
    signed_by_crt,
)

UNICODE = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
SEGMENT = st.from_regex(re.compile("[A-Za-z0-9_-][A-Za-z0-9_.~-]{0,8}", re.ASCII), fullmatch=True)
PATHS = st.lists(SEGMENT, max_size=3).map(lambda parts: "/" + "/".join(parts))
VALUES = st.from_regex(re.compile("([!-~]([ -~]{0,20}[!-~])?)?", re.ASCII), fullmatch=True)
FIELDS = st.lists(st.tuples(UNICODE, UNICODE), max_size=5).map(
    lambda pairs: [pair for pair in pairs if not pair[0].lower().startswith("x-amz-")]
)


@st.composite
def requests(draw: Any) -> tuple[str, str, str, dict[str, str], bytes]:
    """Method, path, query, headers, body."""
    query = "&".join(
        f"{quote(name, safe='~')}={quote(value, safe='~')}" for name, value in draw(FIELDS)
    )
    headers = {
        "X-Amz-Target": "AmazonSQS.SendMessage",
        **draw(st.dictionaries(st.sampled_from(["X-Amz-Meta", "X-Odd", "Accept"]), VALUES)),
    }
    if draw(st.booleans()):
        headers["Content-Type"] = draw(st.sampled_from([FORM, AWS_JSON]))
    method = draw(st.sampled_from(["GET", "POST"]))
    body = draw(st.binary(max_size=64)) if method == "POST" else b""
    return method, draw(PATHS), query, headers, body


@given(requests(), st.integers(0, 2**31))
def test_what_botocore_signs_is_accepted(
    parts: tuple[str, str, str, dict[str, str], bytes], place: int
) -> None:
    request = signed(*parts)
    exchange = Verifier().verify(request)
    assert (exchange.caller, exchange.region) == (KEY.caller, REGION)
    body = request.body + b"."
    index = place % len(body)
    altered = body[:index] + bytes([body[index] ^ 1]) + body[index + 1 :]
    assert Verifier().refusal(replace(request, body=altered)) == NO_MATCH


@given(requests())
def test_what_botocore_signs_in_a_query_is_accepted(
    parts: tuple[str, str, str, dict[str, str], bytes],
) -> None:
    method, path, query, headers, _ = parts
    request = signed(method, path, query, headers, expires_s=60)
    assert Verifier().verify(request).caller == KEY.caller


@given(requests(), st.sampled_from([None, 1, 604_800]))
def test_what_the_crt_signs_is_accepted(
    parts: tuple[str, str, str, dict[str, str], bytes], expires_s: int | None
) -> None:
    request = signed_by_crt(*parts, expires_s)
    assert Verifier().verify(request).caller == KEY.caller
    assert Verifier().refusal(replace(request, body=request.body + b".")) == NO_MATCH


@given(st.lists(st.sampled_from(["/", ".", "..", "a", "%2F", "%2e", " ", "~", "+", "\u00fc"])))
def test_paths_are_normalised_as_botocore_does(parts: list[str]) -> None:
    path = "/" + "".join(parts)
    signer: Any = SigV4Auth(BotocoreCredentials(KEY.id, KEY.secret), "sqs", REGION)
    assert canonical_path(path) == signer._normalize_url_path(path)


@given(st.integers(-62_135_596_800, 253_402_300_799))
def test_times_are_the_calendars(time_s: int) -> None:
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=time_s)
    written = f"{moment.year:04}{moment:%m%dT%H%M%SZ}"
    assert basic_format(time_s) == written
    assert epoch_s(written) == time_s


@given(st.from_regex(re.compile("[0-9]{8}T[0-9]{6}Z", re.ASCII), fullmatch=True))
def test_dates_that_are_none(written: str) -> None:
    try:
        expected = datetime.strptime(written, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
    except ValueError:
        assert epoch_s(written) is None
    else:
        assert epoch_s(written) == int(expected.timestamp())
