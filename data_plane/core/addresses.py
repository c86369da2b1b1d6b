"""Hosts and URLs that settings name."""

import ipaddress
from urllib.parse import urlsplit


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
