"""HTTP requests and responses as values; who serves them fills and sends them."""

from collections.abc import Mapping

import msgspec

from data_plane.core.errors import Fault


class HttpRequest(msgspec.Struct, frozen=True, gc=False):
    """A request, before anything in it is believed.

    `path` and `query` are as received, not decoded; header names are in lower case. `secure` says
    whether it came to this server over TLS, whatever its headers claim. A `refusal` is what whoever
    serves HTTP found wrong with it: fault and message of the answer; its body was not read then.
    """

    method: str
    path: str
    query: str
    headers: Mapping[str, str]
    body: bytes
    client: str = ""
    secure: bool = False
    refusal: tuple[Fault, str] | None = None


class HttpResponse(msgspec.Struct, frozen=True, gc=False):
    """A response: header names in lower case, the body complete."""

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes
