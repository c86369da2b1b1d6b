"""Hosts and URLs that settings name."""

import ipaddress
import re
from typing import Final
from urllib.parse import urlsplit

_host_pattern: Final = re.compile(r"(\*\.)?[a-z0-9_-]+(\.[a-z0-9_-]+)*").fullmatch
_base_url: Final = re.compile(r"(?P<origin>https?://[^/?#]+)(/[A-Za-z0-9_~.-]+)*/?").fullmatch


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches the address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def is_origin(url: str) -> bool:
    """Whether it names a scheme, a host and no more but a port."""
    try:
        parts = urlsplit(url)
        wrong = parts.scheme not in ("http", "https") or not parts.hostname or parts.port == 0
    except ValueError:
        return False
    return not wrong and parts.path in ("", "/") and not parts.query and not parts.fragment


def is_base_url(url: str) -> bool:
    """Whether it is an origin, behind which may stand the path that leads to a service."""
    found = _base_url(url)
    return found is not None and is_origin(found["origin"])


def is_host_pattern(name: str) -> bool:
    """Whether it is the name of a host, or of those below one behind `*.`."""
    return _host_pattern(name) is not None


def listed(text: str) -> tuple[str, ...]:
    """Names with commas between them, in lower case and without slashes at their ends."""
    return tuple(part.strip().lower().rstrip("/") for part in text.split(",") if part.strip())
