"""HTTP requests and responses as values; who serves them fills and sends them."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """A request, before anything in it is believed.

    `path` and `query` are as received, not decoded; header names are in lower case.
    """

    method: str
    path: str
    query: str
    headers: Mapping[str, str]
    body: bytes
    client: str = ""


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """A response: header names in lower case, the body complete."""

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes
