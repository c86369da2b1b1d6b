"""Pages of other origins that the operator allows to call, where signatures are verified (CORS).

A browser asks before it sends a signed request of such a page (a preflight, which nobody signs),
and shows the page the answer if that allows its origin. This changes nothing of who may do what.
Source: the Fetch standard, "CORS protocol".
"""

from collections.abc import Iterable, Mapping
from typing import Final

from msgspec.structs import replace

from data_plane.protocol.http import HttpResponse

_METHODS: Final = "GET, POST"
_MAX_AGE_S: Final = "600"
_HEADERS: Final = frozenset({"authorization", "content-type"})
_PREFIXES: Final = ("x-amz-", "amz-sdk-")
"""So are the headers of SDKs named that a browser does not send for every page."""
_SHOWN: Final = "retry-after, x-amz-id-2, x-amzn-errortype, x-amzn-query-error, x-amzn-requestid"
_ASKED: Final = "access-control-request-headers"


class AllowedOrigins:
    """`origins` are as browsers send them: scheme and host in lower case, a port if it is odd."""

    def __init__(self, origins: Iterable[str] = ()) -> None:
        self._origins = frozenset(origins)

    def preflight(self, method: str, headers: Mapping[str, str]) -> HttpResponse | None:
        """The answer to a browser that asks for a page of an allowed origin; else None."""
        if method != "OPTIONS" or not self._is_allowed(headers):
            return None
        if "access-control-request-method" not in headers:
            return None
        asked = [name.strip().lower() for name in headers.get(_ASKED, "").split(",")]
        allowed = [name for name in asked if name in _HEADERS or name.startswith(_PREFIXES)]
        says = (
            ("access-control-allow-methods", _METHODS),
            ("access-control-allow-headers", ", ".join(allowed)),
            ("access-control-max-age", _MAX_AGE_S),
        )
        return HttpResponse(204, (*self._allows(headers), *says), b"")

    def shown(self, response: HttpResponse, headers: Mapping[str, str]) -> HttpResponse:
        """The answer to a request with these headers, for its page to see if that is allowed."""
        if not self._is_allowed(headers):
            return response
        says = (*self._allows(headers), ("access-control-expose-headers", _SHOWN))
        return replace(response, headers=(*response.headers, *says))

    def _is_allowed(self, headers: Mapping[str, str]) -> bool:
        return bool(self._origins) and headers.get("origin", "") in self._origins

    def _allows(self, headers: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
        return (("access-control-allow-origin", headers["origin"]), ("vary", "origin"))
