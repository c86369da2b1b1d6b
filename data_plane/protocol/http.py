"""HTTP requests and responses as values; who serves them fills and sends them."""

from collections.abc import Mapping
from typing import Final

import msgspec

from data_plane.core.errors import Fault

_QUEUE_PATH_SEGMENTS: Final = 2


class HttpRequest(msgspec.Struct, frozen=True, gc=False):
    """A request, before anything in it is believed.

    `path` and `query` are as received, not decoded; header names are in lower case. `secure` says
    whether it came to this server over TLS, whatever its headers claim. A `refusal` is what whoever
    serves HTTP found wrong with it: fault and message of the answer; its body was not read then.

    `prefix` is what of the path leads to the service, where it shares a host with others; a path
    that is nothing else may have been sent with or without a slash at its end, and a proxy may have
    taken the prefix away. Who serves the
    request may have named it already (`request_id`, a UUID), and may have to be done with it at a
    moment (`until_us`).
    """

    method: str
    path: str
    query: str
    headers: Mapping[str, str]
    body: bytes
    client: str = ""
    secure: bool = False
    refusal: tuple[Fault, str] | None = None
    prefix: str = ""
    request_id: str = ""
    until_us: int | None = None

    @property
    def paths(self) -> tuple[str, ...]:
        """The path as the client may have sent, and signed, it."""
        path, prefix = self.path, self.prefix
        if not prefix or (path.startswith(f"{prefix}/") and path != f"{prefix}/"):
            return (path,)
        if path.rstrip("/") == prefix:
            return path, path.rstrip("/") if path.endswith("/") else f"{path}/"
        return path, prefix + path, *([prefix] if path == "/" else [])


def path_inside(request: HttpRequest) -> str:
    """The request's path as the service has it, without what leads to the service."""
    path, prefix = request.path, request.prefix
    if not prefix or (path != prefix and not path.startswith(f"{prefix}/")):
        return path
    return path[len(prefix) :] or "/"


def queue_path(path: str) -> tuple[str, str] | None:
    """Account and name of `/<account>/<queue>`, not checked; None for any other path."""
    if path == "/":
        return None
    segments = path.strip("/").split("/")
    if len(segments) != _QUEUE_PATH_SEGMENTS:
        return None
    return segments[0], segments[1]


class HttpResponse(msgspec.Struct, frozen=True, gc=False):
    """A response: header names in lower case, the body complete.

    `account` called, where that is known and the body is long: it is charged with what waits.
    One that is `held_back` goes out a little later: it refuses somebody who has not proved who they
    are, or who asks for more than they may have.
    """

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes
    account: str = ""
    held_back: bool = False
