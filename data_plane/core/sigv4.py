"""AWS Signature Version 4: the canonical form of a request, and the signature that it must have.

Pure functions of a request's parts as they were received. Source: "AWS Signature Version 4 for API
requests" in the IAM user guide, in the form for services other than S3.
"""

import hashlib
import hmac
import re
from collections.abc import Generator, Mapping, Sequence
from typing import Final
from urllib.parse import quote, unquote_to_bytes

from data_plane.core.errors import MALFORMED_QUERY, RefusedError

ALGORITHM: Final = "AWS4-HMAC-SHA256"
TERMINATOR: Final = "aws4_request"
QUERY_SIGNATURE: Final = "X-Amz-Signature"

is_normal_path: Final = re.compile("/|(/[A-Za-z0-9_~-][A-Za-z0-9_.~-]*)+/?").fullmatch
"""Whether a path is its own canonical form: without escapes, empty segments and dot segments."""

_SHA256: Final = "sha256"
_SLICE_BYTES: Final = 1_048_576
"""Of a body that is hashed: a millisecond, twice that without the processor's instructions."""
AUTHORITY: Final = ":authority"
"""What signers call the host in HTTP/2."""

_find_broken_escape: Final = re.compile("%(?![0-9A-Fa-f]{2})").search


def sent_as(name: str) -> str:
    """The header that has a signed name's value: HTTP/2 names the host otherwise."""
    return "host" if name == AUTHORITY else name


def canonical_request(  # noqa: PLR0913, PLR0917 - the parts of a request
    method: str,
    path: str,
    query: str,
    headers: Mapping[str, str],
    signed_names: Sequence[str],
    body_hash: str,
) -> str:
    """What a signature stands for.

    `path` is as sent, `query` canonical already; `headers` has all of `signed_names`, as they are
    `sent_as`, values of repeated headers joined by commas.
    """
    lines = [method, canonical_path(path), query]
    lines += [f"{name}:{_canonical_value(headers[sent_as(name)])}" for name in signed_names]
    return "\n".join((*lines, "", ";".join(signed_names), body_hash))


def canonical_path(path: str) -> str:
    """The path without empty and dot segments, every byte percent-encoded once more."""
    if is_normal_path(path):
        return path
    kept: list[str] = []
    for segment in path.split("/"):
        if segment == "..":
            del kept[-1:]
        elif segment not in ("", "."):
            kept.append(segment)
    ending = "/" if kept and path.endswith("/") else ""
    return "/" + quote("/".join(kept), safe="/~") + ending


def canonical_query(query: str, *, without_signature: bool = False) -> str:
    """The query's fields, decoded, encoded in one way, and sorted by name and value.

    A plus sign is a space, as it is to whoever reads the fields. Fields without a value get an
    empty one. Raises RefusedError(MALFORMED_QUERY) for broken escapes.
    """
    if not query:
        return ""
    if _find_broken_escape(query):
        raise RefusedError(MALFORMED_QUERY, "The query string contains a syntax error.")
    fields = []
    for field in query.split("&"):
        name, _, value = field.partition("=")
        fields.append((_canonical_text(name), _canonical_text(value)))
    fields.sort()
    return "&".join(
        f"{name}={value}"
        for name, value in fields
        if not (without_signature and name == QUERY_SIGNATURE)
    )


def body_hash(body: bytes) -> str:
    """The hash of a body as a canonical request has it."""
    return hashlib.sha256(body).hexdigest()


def body_hash_in_slices(body: bytes) -> Generator[None, None, str]:
    """The same, which pauses after each slice of a long body."""
    hashed = hashlib.sha256()
    view = memoryview(body)
    for at in range(0, len(body), _SLICE_BYTES):
        hashed.update(view[at : at + _SLICE_BYTES])
        yield
    return hashed.hexdigest()


def string_to_sign(date: str, scope: str, canonical: str) -> str:
    """What is signed: `date` is `YYYYMMDDTHHMMSSZ`, `scope` `<day>/<region>/<service>/...`."""
    digest = hashlib.sha256(canonical.encode()).hexdigest()
    return f"{ALGORITHM}\n{date}\n{scope}\n{digest}"


def signing_key(secret: str, day: str, region: str, service: str) -> bytes:
    """The key for one day, region and service, derived from the secret of an access key."""
    key = f"AWS4{secret}".encode()
    for part in (day, region, service, TERMINATOR):
        key = hmac.digest(key, part.encode(), _SHA256)
    return key


def signature(key: bytes, text: str) -> str:
    """64 hexadecimal digits in lower case."""
    return hmac.digest(key, text.encode(), _SHA256).hex()


class Verifier:
    """Knows the signatures that a signing key makes; what its key costs is paid once."""

    __slots__ = ("_keyed",)

    def __init__(self, key: bytes) -> None:
        self._keyed = hmac.new(key, digestmod=_SHA256)

    def is_signature(self, text: str, claimed: str) -> bool:
        """Whether `claimed` is the text's, in a time that does not depend on where it is not.

        The digits must be in lower case, as every signer writes them.
        """
        made = self._keyed.copy()
        made.update(text.encode())
        return claimed.isascii() and hmac.compare_digest(made.hexdigest(), claimed)


def _canonical_text(text: str) -> str:
    return quote(unquote_to_bytes(text.replace("+", " ")), safe="")


def _canonical_value(value: str) -> str:
    return value if " " not in value and "\t" not in value else " ".join(value.split())
