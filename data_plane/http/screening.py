"""What is wrong with a request although it could be parsed: found before its body is read.

Granian (hyper) refuses what has no clear end, and what has bytes where none may be. It lets pass,
or does not tell apart, what this module refuses: a host that is missing, repeated or none; repeated
headers that say who calls and what for; a target that names another host; bodies in chunks that
are encoded otherwise as well, or have a length; and bodies that are too long.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from data_plane.core.errors import (
    LENGTH_REQUIRED,
    MALFORMED_HTTP_REQUEST,
    RefusedError,
    request_too_large,
)
from data_plane.core.identifiers import is_host

_CHUNKED: Final = "chunked"
_LENGTH_DIGITS_MAX: Final = 18
HTTP_2: Final = "2"
_DECIDES: Final = frozenset({"authorization", "content-type", "date", "host"})
_DECIDE: Final = ("x-amz-", "amz-sdk-")


class HeadersWithHost:
    """Headers of a request in HTTP/2, which names its host elsewhere: as if in HTTP/1.1."""

    def __init__(self, received: Any, authority: str | None) -> None:
        self._received = received
        self._host = authority if authority and "host" not in received else None

    def __len__(self) -> int:
        return len(self._received) + (self._host is not None)

    def __contains__(self, name: str) -> bool:
        return name in self._received or (name == "host" and self._host is not None)

    def get(self, name: str, default: Any = None) -> Any:
        """The value of a header."""
        if name == "host" and self._host is not None:
            return self._host
        return self._received.get(name, default)

    def keys(self) -> list[str]:
        """The names of all headers."""
        return [*self._received.keys(), *(("host",) if self._host is not None else ())]

    def items(self) -> list[tuple[str, str]]:
        """Names and values, as they came."""
        host = [("host", self._host)] if self._host is not None else []
        return [*self._received.items(), *host]


def combine(items: Sequence[tuple[str, str]]) -> dict[str, str]:
    """Headers by name; values of one that is repeated are joined by commas, as signatures see them.

    Raises RefusedError where one is repeated that decides what is done: whoever else read the
    request may have taken the other one.
    """
    headers = dict(items)
    if len(headers) == len(items):
        return headers
    headers = {}
    for name, value in items:
        if name not in headers:
            headers[name] = value
        elif _decides(name):
            raise RefusedError(MALFORMED_HTTP_REQUEST, f"The header {name} is repeated.")
        else:
            headers[name] += f",{value}"
    return headers


def check_readable(names: Iterable[str], headers: Mapping[str, str]) -> None:
    """Raise RefusedError where a header that decides something has a value that is not ASCII."""
    for name in names:
        if name not in headers and _decides(name):
            raise RefusedError(MALFORMED_HTTP_REQUEST, f"The header {name} is not ASCII.")


def check_host(headers: Mapping[str, str], http_version: str, authority: str | None) -> None:
    """Raise RefusedError where host and target do not say which host is meant (RFC 9112, 3.2)."""
    host = headers.get("host")
    if host is None:
        if http_version == "1.1":
            raise RefusedError(MALFORMED_HTTP_REQUEST, "The request has no Host header.")
    elif is_host(host) is None:
        raise RefusedError(MALFORMED_HTTP_REQUEST, "The Host header names no host.")
    elif authority is not None and authority.lower() != host.lower():
        raise RefusedError(MALFORMED_HTTP_REQUEST, "Host header and request target differ.")


def body_length(headers: Mapping[str, str], bytes_max: int) -> int | None:
    """How long the request's body is; None: it is in chunks, and its end will say so.

    Raises RefusedError where that is too much, or two readers could see it differently.
    """
    encoding = headers.get("transfer-encoding")
    if encoding is not None:
        if "content-length" in headers:
            raise RefusedError(MALFORMED_HTTP_REQUEST, "The body has chunks and a length.")
        if encoding.lower() != _CHUNKED:
            raise RefusedError(LENGTH_REQUIRED, "The request must have a Content-Length.")
        return None
    told = headers.get("content-length", "0")
    if not (told.isascii() and told.isdigit() and len(told) <= _LENGTH_DIGITS_MAX):
        # In HTTP/2 it may be empty, or several in one.
        raise RefusedError(MALFORMED_HTTP_REQUEST, "The Content-Length is not a number.")
    length = int(told)
    if length > bytes_max:
        raise request_too_large(bytes_max)
    return length


def check_length(headers: Mapping[str, str]) -> None:
    """Raise RefusedError where a request in HTTP/2 does not say how long its body is."""
    if "content-length" not in headers:
        raise RefusedError(LENGTH_REQUIRED, "The request must have a Content-Length.")


def _decides(name: str) -> bool:
    return name in _DECIDES or name.startswith(_DECIDE)
