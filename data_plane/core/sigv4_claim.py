"""What a request says of its own signature, read strictly and not believed yet.

The words of refusals are AWS's as far as they were recorded, also where they end with a space. What
the sender wrote is not repeated where a secret may have slipped in: into the credential, say.
"""

import re
from calendar import monthrange, timegm
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Final, NamedTuple
from urllib.parse import unquote_plus

from data_plane.core.errors import (
    INCOMPLETE_SIGNATURE,
    INVALID_CLIENT_TOKEN,
    INVALID_SECURITY,
    MISSING_AUTHENTICATION_TOKEN,
    SIGNATURE_DOES_NOT_MATCH,
    RefusedError,
)
from data_plane.core.identifiers import is_region
from data_plane.core.limits import REQUEST_HEADERS_MAX
from data_plane.core.sigv4 import ALGORITHM, AUTHORITY, QUERY_SIGNATURE, TERMINATOR, sent_as
from data_plane.core.utc import utc_time

WINDOW_S: Final = 900
"""How far a request's date may be from ours, either way."""
EXPIRES_S_MAX: Final = 604_800

_SCOPE_PARTS: Final = 5
_HEADER_FIELDS: Final = ("Credential", "Signature", "SignedHeaders")
_LAST_FIELD: Final = ", Signature="
"""So all SDKs end the header; others may order its fields otherwise."""
_SIGNER_CHARS_MAX: Final = 1024
_FIELD_CHARS_MAX: Final = 8192
"""Of what a signature says of itself: a request has 128 headers to name at most."""
_FIELD_NAME_CHARS_MAX: Final = 64
"""Of a field of the query that says it, each character escaped."""
_DATE_CHARS_MAX: Final = 16
_is_digits: Final = re.compile(r"[0-9a-f]+").fullmatch
_SECURITY_TOKEN: Final = "X-Amz-Security-Token"  # noqa: S105 - the name of a field
_EXPIRES: Final = "X-Amz-Expires"
_REQUIRED_FIELDS: Final = (
    "X-Amz-Algorithm",
    "X-Amz-Credential",
    QUERY_SIGNATURE,
    "X-Amz-SignedHeaders",
    "X-Amz-Date",
)
"""In this order, and no more of them, AWS names those that are missing: recorded of DynamoDB and
Kinesis by mhart/dynalite and mhart/kinesalite."""
_QUERY_FIELDS: Final = {
    name.lower(): name for name in (*_REQUIRED_FIELDS, _EXPIRES, _SECURITY_TOKEN)
}
_is_header_name: Final = re.compile(r":authority|[a-z0-9!#$%&'*+.^_`|~-]+").fullmatch
_is_date: Final = re.compile(
    r"([0-9]{4})(0[1-9]|1[0-2])([0-9]{2})T([01][0-9]|2[0-3])([0-5][0-9])([0-5][0-9])Z"
).fullmatch
_is_expiry: Final = re.compile(r"[0-9]{1,6}").fullmatch
_is_printable: Final = re.compile(r"[\t -~]*").fullmatch
_is_key_id: Final = re.compile(r"[!-~]{1,128}").fullmatch


class Claim(NamedTuple):
    """Who a request says has signed it, when, for what, and how.

    `date` is `YYYYMMDDTHHMMSSZ`. A presigned one says for how many seconds it holds; for one in a
    header `expires_s` is None.
    """

    access_key_id: str
    day: str
    region: str
    service: str
    date: str
    signed_names: tuple[str, ...]
    signature: str
    expires_s: int | None = None

    @property
    def scope(self) -> str:
        """The credential's scope, as it is signed."""
        return f"{self.day}/{self.region}/{self.service}/{TERMINATOR}"


def read_claim(headers: Mapping[str, str], query: str, services: Sequence[str]) -> Claim:
    """The claim in the `Authorization` header or the query, whichever there is.

    It is for one of these services.

    Raises RefusedError: MISSING_AUTHENTICATION_TOKEN without either, INCOMPLETE_SIGNATURE for one
    with missing, repeated or malformed parts, INVALID_SECURITY for older kinds of signatures,
    INVALID_CLIENT_TOKEN for a session's (we issue none), SIGNATURE_DOES_NOT_MATCH for two forms at
    once, for another service or terminator, and for what must be signed and is not.
    """
    fields = _query_fields(query) if query else {}
    authorization = headers.get("authorization")
    if authorization is not None:
        if fields:
            raise _no_match(
                "Found both 'X-Amz-Algorithm' as a query-string param and 'Authorization' as HTTP "
                "header."
            )
        claim = _read_header(authorization, headers.get("x-amz-date", headers.get("date")))
    elif fields:
        claim = _read_query(fields)
    else:
        if "AWSAccessKeyId=" in query:
            raise _old_signature()
        if "kinesis" in services:
            raise RefusedError(MISSING_AUTHENTICATION_TOKEN, "Missing Authentication Token")
        raise RefusedError(MISSING_AUTHENTICATION_TOKEN, "Request is missing Authentication Token")
    if claim.service not in services:
        raise _no_match(f"Credential should be scoped to correct service: '{services[0]}'. ")
    _check_headers(claim.signed_names, headers)
    return claim


def check_times(claim: Claim, now_s: int) -> None:
    """Refuse what was signed too long ago, or after now, or holds no longer.

    Raises RefusedError: INCOMPLETE_SIGNATURE where the date is none, SIGNATURE_DOES_NOT_MATCH.
    """
    signed_s = epoch_s(claim.date)
    if signed_s is None:
        raise _incomplete(
            f"Date must be in ISO-8601 'basic format'. Got '{claim.date}'. "
            "See http://en.wikipedia.org/wiki/ISO_8601"
        )
    if signed_s > now_s + WINDOW_S:
        raise _no_match(
            f"Signature not yet current: {claim.date} is still later than "
            f"{basic_format(now_s + WINDOW_S)} ({basic_format(now_s)} + {_span(WINDOW_S)})"
        )
    holds_s = WINDOW_S if claim.expires_s is None else claim.expires_s
    if signed_s < now_s - holds_s:
        raise _no_match(
            f"Signature expired: {claim.date} is now earlier than "
            f"{basic_format(now_s - holds_s)} ({basic_format(now_s)} - {_span(holds_s)})"
        )
    if claim.day != claim.date[:8]:
        raise _no_match(
            "Date in Credential scope does not match YYYYMMDD from ISO-8601 version of date from "
            f"HTTP: '{claim.day}' != '{claim.date[:8]}', from '{claim.date}'."
        )


def epoch_s(date: str) -> int | None:
    """Seconds since the epoch of a UTC time in ISO 8601's basic format; None for anything else."""
    return _epoch_s(date) if len(date) <= _DATE_CHARS_MAX else None


@lru_cache(maxsize=64)
def _epoch_s(date: str) -> int | None:
    match = _is_date(date)
    if match is None:
        return None
    year, month, day, hour, minute, second = map(int, match.groups())
    if year < 1 or not 1 <= day <= monthrange(year, month)[1]:
        return None
    return timegm((year, month, day, hour, minute, second))


def basic_format(time_s: int) -> str:
    """`YYYYMMDDTHHMMSSZ` of seconds since the epoch."""
    year, month, day, hour, minute, second = utc_time(time_s)
    return f"{year:04}{month:02}{day:02}T{hour:02}{minute:02}{second:02}Z"


def _read_header(authorization: str, date: str | None) -> Claim:
    signer, separator, signature = authorization.rpartition(_LAST_FIELD)
    if date is None or not separator or len(signer) > _SIGNER_CHARS_MAX:
        return _parse_header(authorization, date)
    if not _is_digits(signature):
        return _parse_header(authorization, date)
    known = _signed_by(signer)
    return known._replace(date=date, signature=signature)


@lru_cache(maxsize=1024)
def _signed_by(signer: str) -> Claim:
    """What a client's headers have in common on one day: all but date and signature."""
    return _parse_header(f"{signer}{_LAST_FIELD}0", "")


def _parse_header(authorization: str, date: str | None) -> Claim:
    if len(authorization) > _FIELD_CHARS_MAX:
        raise _incomplete("Authorization header is too long.")
    algorithm, _, rest = authorization.partition(" ")
    if algorithm != ALGORITHM:
        if algorithm.startswith("AWS4-"):
            raise _unsupported_algorithm()
        if algorithm in ("AWS", "AWS3", "AWS3-HTTPS"):
            raise _old_signature()
        raise RefusedError(MISSING_AUTHENTICATION_TOKEN, "Request is missing Authentication Token")
    fields: dict[str, str] = {}
    for part in rest.split(","):
        name, equals, value = part.strip(" ").partition("=")
        if not equals or name not in _HEADER_FIELDS or name in fields:
            raise _incomplete("Authorization header has a part that is not expected or repeated.")
        fields[name] = value
    missing = [
        f"Authorization header requires '{name}' parameter."
        for name in _HEADER_FIELDS
        if not fields.get(name)
    ]
    if date is None:
        missing.append(
            "Authorization header requires existence of either a 'X-Amz-Date' or a 'Date' header."
        )
    if missing or date is None:
        raise _incomplete(" ".join(missing))
    return _claim(fields["Credential"], date, fields["SignedHeaders"], fields["Signature"])


def _query_fields(query: str) -> dict[str, str]:
    """The fields by which a query authenticates, decoded."""
    fields: dict[str, str] = {}
    for field in query.split("&"):
        written, _, value = field.partition("=")
        if len(written) > _FIELD_NAME_CHARS_MAX:
            continue
        name = unquote_plus(written)
        expected = _QUERY_FIELDS.get(name.lower())
        if expected is None:
            continue
        if name != expected or name in fields or len(value) > _FIELD_CHARS_MAX:
            raise _incomplete(f"AWS query-string parameters must include '{expected}' once.")
        fields[name] = unquote_plus(value)
    return fields


def _read_query(fields: Mapping[str, str]) -> Claim:
    if _SECURITY_TOKEN in fields:
        raise _invalid_token()
    missing = [name for name in _REQUIRED_FIELDS if not fields.get(name)]
    if missing:
        raise _incomplete(
            " ".join(f"AWS query-string parameters must include '{name}'." for name in missing)
            + " Re-examine the query-string parameters."
        )
    if fields["X-Amz-Algorithm"] != ALGORITHM:
        raise _unsupported_algorithm()
    # Without it it holds as long as one in a header does: 15 minutes are what SQS and STS give a
    # presigned request whatever it says (aws/aws-sdk-ruby #2498, aws/aws-sdk-go #2167).
    written = fields.get(_EXPIRES, str(WINDOW_S))
    expires_s = int(written) if _is_expiry(written) else 0
    if not 1 <= expires_s <= EXPIRES_S_MAX:
        raise _incomplete(f"X-Amz-Expires must be between 1 and {EXPIRES_S_MAX} seconds.")
    claim = _claim(
        fields["X-Amz-Credential"],
        fields["X-Amz-Date"],
        fields["X-Amz-SignedHeaders"],
        fields[QUERY_SIGNATURE],
    )
    return claim._replace(expires_s=expires_s)


def _claim(credential: str, date: str, signed_headers: str, signature: str) -> Claim:
    parts = credential.split("/")
    if len(parts) != _SCOPE_PARTS:
        raise _incomplete(
            "Credential must have exactly 5 slash-delimited elements, e.g. "
            "keyid/date/region/service/term"
        )
    key_id, day, region, service, terminator = parts
    wrong = []
    if is_region(region) is None:
        wrong.append(f"Credential should be scoped to a valid region, not '{region}'. ")
    if terminator != TERMINATOR:
        wrong.append(
            f"Credential should be scoped with a valid terminator: '{TERMINATOR}', "
            f"not '{terminator}'. "
        )
    if wrong:
        raise _no_match("".join(wrong))
    if _is_key_id(key_id) is None:
        raise _invalid_token()
    return Claim(key_id, day, region, service, date, _signed_names(signed_headers), signature)


@lru_cache(maxsize=256)
def _signed_names(written: str) -> tuple[str, ...]:
    """The names, which are sorted, distinct and in lower case, as every signer writes them."""
    names = tuple(written.split(";", REQUEST_HEADERS_MAX))
    if not all(map(_is_header_name, names)) or list(names) != sorted(set(names)):
        raise _incomplete("The names of 'SignedHeaders' must be distinct, sorted, in lower case.")
    if "host" not in names and AUTHORITY not in names:
        raise _no_match("'Host' or ':authority' must be a 'SignedHeader' in the AWS Authorization.")
    return names


def _check_headers(signed_names: tuple[str, ...], headers: Mapping[str, str]) -> None:
    """What is signed is there and can be read, and what acts on a request is signed.

    A content type need not be: some SDKs leave it out, and another one only makes a request wrong
    (but of a form with a target: data_plane/frontend/authentication.py).
    """
    for name in signed_names:
        value = headers.get(sent_as(name))
        if value is None or not ((value.isascii() and value.isprintable()) or _is_printable(value)):
            raise _no_match("A 'SignedHeader' of the AWS Authorization is missing or not readable.")
    for name in headers:
        if name.startswith("x-amz-") and name not in signed_names:
            raise _no_match(
                "Every 'X-Amz-' header must be a 'SignedHeader' in the AWS Authorization."
            )
    if "x-amz-security-token" in headers:
        raise _invalid_token()


def _span(time_s: int) -> str:
    return f"{time_s} s" if time_s % 60 else f"{time_s // 60} min."


def _incomplete(message: str) -> RefusedError:
    return RefusedError(INCOMPLETE_SIGNATURE, message)


def _no_match(message: str) -> RefusedError:
    return RefusedError(SIGNATURE_DOES_NOT_MATCH, message)


def _unsupported_algorithm() -> RefusedError:
    """AWS names it. Here it is not repeated: a key is derived from `AWS4` and a secret."""
    return _incomplete(f"Unsupported AWS 'algorithm' (only {ALGORITHM} for now). ")


def _old_signature() -> RefusedError:
    return RefusedError(
        INVALID_SECURITY, "The request was not made over HTTPS or did not use SigV4 for signing."
    )


def _invalid_token() -> RefusedError:
    return RefusedError(
        INVALID_CLIENT_TOKEN, "The security token included in the request is invalid."
    )
