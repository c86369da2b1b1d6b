"""Requests that a web page of another origin makes, where nobody has to sign.

A browser on this machine reaches a server on loopback for every page that it shows: by links,
images and forms, by scripts, and under a public name that leads to this machine (DNS rebinding).
Where signatures are verified such a request is nobody's. Where they are not, it is refused by what
browsers say of it, and pages cannot change: `Sec-Purpose`, `Sec-Fetch-Site`, `Origin`, `Host` and
`User-Agent`.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Final
from urllib.parse import urlsplit

from data_plane.core.errors import ACCESS_DENIED
from data_plane.core.identifiers import is_host, random_uuid_text
from data_plane.frontend.refusals import encode_refusal
from data_plane.ports import Entropy
from data_plane.protocol.http import HttpResponse

LOCAL_HOSTS: Final = (
    "localhost",
    "*.localhost",
    # No public DNS has it: host.docker.internal, host.containers.internal, host.lima.internal ...
    "*.internal",
    # Public names of this machine, for clients of emulators; who owns them is trusted.
    "localhost.localstack.cloud",
    "*.localhost.localstack.cloud",
    "localhost.fauxqs.dev",
    "*.localhost.fauxqs.dev",
    "localhost.floci.io",
    "*.localhost.floci.io",
)
"""Names with a dot under which a server without authentication serves, with `localhost`.

Addresses and names without a dot always serve (Host: tidegate:9324, between containers): rebinding
needs a name in the public DNS, which has a dot.
"""

_ADDRESS: Final = re.compile(r"[0-9]{1,3}(\.[0-9]{1,3}){3}|[0-9a-f.]*:[0-9a-f:.]*")
_PORT: Final = re.compile(r":[0-9]*\Z")
_PORTS: Final = {"http": ":80", "https": ":443"}
_AHEAD: Final = ("sec-purpose", "purpose")
"""What is loaded before anybody asked for it, as pages may want by speculation rules, has one of
them, and says `Sec-Fetch-Site: none` as what somebody typed does."""

_TELLING: Final = frozenset({"host", "origin", "sec-fetch-site", "user-agent", *_AHEAD})
_OWN_SITES: Final = frozenset({"same-origin", "none"})
_BROWSERS: Final = re.compile("Gecko|Chrome/|MSIE|Opera")
"""The User-Agent of each browser that shows images has one of them, as `Gecko/` or `like Gecko`,
say, and no SDK's has. `Mozilla/` alone says nothing: that of Celery's clients has it, too."""

_REQUEST_ID_BYTES: Final = 16
_TOLD_CHARS_MAX: Final = 300
_SAYS: Final = "Without authentication no web page of another origin may call ({}). {}"
_FOR_HOST: Final = "Names of this server are added with --allowed-hosts."
_FOR_PAGE: Final = (
    "A proxy on the page's own origin has to keep the Host header, port included, or --base-url"
    " names its address; pages of other origins need authentication."
)


def host_name(host: str) -> str:
    """Name or address in a Host header, without the port, in lower case."""
    return _PORT.sub("", host).strip("[]").lower().removesuffix(".")


@lru_cache(maxsize=256)
def is_local(host: str, names: tuple[str, ...] = LOCAL_HOSTS) -> bool:
    """Whether a Host header names this machine: an address, a name without a dot, one of `names`.

    `*.` before a name stands for all names below it.
    """
    if is_host(host) is None:
        return False
    name = host_name(host)
    if "." not in name or _ADDRESS.fullmatch(name):
        return True
    return any(name.endswith(own[1:]) if own.startswith("*.") else name == own for own in names)


def foreign(
    headers: Iterable[tuple[str, str]],
    names: tuple[str, ...] = LOCAL_HOSTS,
    own_hosts: Iterable[str] = (),
) -> str:
    """Which header shows that a foreign page made the request, with its value; "": none does.

    `headers` have lower-case names, and may be repeated. Pages of `own_hosts`, as they are in Host
    headers, are no more foreign than those of the host that the request names.
    """
    said: dict[str, list[str]] = {}
    for name, value in headers:
        if name in _TELLING:
            said.setdefault(name, []).append(value)
    for name in _AHEAD:
        for purpose in said.get(name, ()):
            return f"{name.title()}: {purpose}"
    for site in said.get("sec-fetch-site", ()):
        if site not in _OWN_SITES:
            return f"Sec-Fetch-Site: {site}"
    hosts = said.get("host", [])
    for origin in said.get("origin", ()):
        if not any(_is_at(origin, host) for host in (*hosts, *own_hosts)):
            return f"Origin: {origin}"
    for host in hosts:
        if not is_local(host, names):
            return f"Host: {host}"
    is_browser = any(map(_is_browser, said.get("user-agent", ())))
    if is_browser and "sec-fetch-site" not in said:
        return "a browser's User-Agent, no Sec-Fetch-Site"
    return ""


@lru_cache(maxsize=64)
def _is_browser(user_agent: str) -> bool:
    return _BROWSERS.search(user_agent) is not None


def _is_at(origin: str, host: str) -> bool:
    """Whether it is http(s)://host; which of the two does not matter, as a proxy may end TLS."""
    scheme, _, authority = origin.partition("://")
    port = _PORTS.get(scheme)
    return port is not None and authority.removesuffix(port) == host.lower().removesuffix(port)


def refuse_none(_headers: Mapping[str, str], _client: str) -> HttpResponse | None:
    """Where signatures protect a server."""
    return None


class ForeignPages:
    """Refuses their requests, and tells of each: `tell` takes a level, an event, and its fields.

    `allowed` are names of this server beside LOCAL_HOSTS; `base_url` is its own address behind a
    proxy ("": none). `refused` counts.
    """

    def __init__(
        self,
        allowed: Iterable[str],
        base_url: str,
        entropy: Entropy,
        tell: Callable[..., None],
    ) -> None:
        own = urlsplit(base_url)
        self._own_hosts = (own.netloc.lower(),) if base_url else ()
        self._names = (*LOCAL_HOSTS, *allowed, *((own.hostname,) if own.hostname else ()))
        self._entropy = entropy
        self._tell = tell
        self.refused = 0

    def refusal(self, headers: Mapping[str, str], client: str) -> HttpResponse | None:
        """The answer to a request with these headers if a foreign page made it, else None.

        It ends the connection, as the body was not read.
        """
        if self._is_plain(headers):
            return None
        shown = foreign(headers.items(), self._names, self._own_hosts)
        if not shown:
            return None
        self.refused += 1
        shown = shown[:_TOLD_CHARS_MAX]
        request_id = random_uuid_text(self._entropy.random_bytes(_REQUEST_ID_BYTES))
        self._tell(
            "warning", "foreign page refused", request_id=request_id, shown=shown, client=client
        )
        says = _SAYS.format(shown, _FOR_HOST if shown.startswith("Host: ") else _FOR_PAGE)
        return encode_refusal(headers, request_id, ACCESS_DENIED, says)

    def _is_plain(self, headers: Mapping[str, str]) -> bool:
        """Whether no page can have made the request: four look-ups, where to read all is dear.

        No page can repeat a header of these.
        """
        return (
            "origin" not in headers
            and "sec-fetch-site" not in headers
            and not _is_browser(headers.get("user-agent", ""))
            and is_local(headers.get("host", ""), self._names)
        )
