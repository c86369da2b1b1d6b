"""Settings of a server: parsed once, checked, then only read."""

import ipaddress
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from data_plane.core.identifiers import is_account, is_region

LOG_LEVELS: Final = ("error", "warning", "info")
_PORT_MAX: Final = 65535
_HOST: Final = re.compile(r"[A-Za-z0-9.:_-]{1,253}")


class SettingError(ValueError):
    """A setting has a wrong value; the message is one line that names the setting."""

    def __init__(self, setting: str, reason: str) -> None:
        super().__init__(f"{setting}: {reason}")
        self.setting = setting


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """What an operator decides about a server. Raises SettingError for a wrong value.

    `account` and `region` are for callers whose credentials name none. `base_url` replaces scheme
    and host in queue URLs ("": those that the caller used). Without `sixty_second_rules` a queue
    may be purged again, and made again after its deletion, at once.
    """

    host: str = "127.0.0.1"
    port: int = 9324
    data: Path = Path("data")
    auth: str = "off"
    account: str = "000000000000"
    region: str = "us-east-1"
    base_url: str = ""
    log_level: str = "info"
    sixty_second_rules: bool = True
    grace_s: float = 10.0

    def __post_init__(self) -> None:
        if _HOST.fullmatch(self.host) is None:
            raise SettingError("host", f"{self.host!r} is no host name or address")
        if not 1 <= self.port <= _PORT_MAX:
            raise SettingError("port", f"{self.port} is not within 1 and {_PORT_MAX}")
        if self.auth == "on":
            raise SettingError("auth", "authentication is not available yet; only 'off' is")
        if self.auth != "off":
            raise SettingError("auth", f"{self.auth!r} is not 'off'")
        if not is_loopback(self.host):
            raise SettingError(
                "host", f"without authentication only loopback addresses serve, not {self.host}"
            )
        if not is_account(self.account):
            raise SettingError("account", f"{self.account!r} is not an account id of 12 digits")
        if not is_region(self.region):
            raise SettingError("region", f"{self.region!r} is no region's name")
        if self.log_level not in LOG_LEVELS:
            raise SettingError(
                "log-level", f"{self.log_level!r} is none of {', '.join(LOG_LEVELS)}"
            )
        if self.grace_s < 0:
            raise SettingError("grace", f"{self.grace_s} is below 0")
        _check_base_url(self.base_url)


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches the address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _check_base_url(base_url: str) -> None:
    if not base_url:
        return
    try:
        parts = urlsplit(base_url)
        wrong = parts.scheme not in ("http", "https") or not parts.hostname or parts.port == 0
    except ValueError:
        wrong = True
    if wrong or parts.path not in ("", "/") or parts.query or parts.fragment:
        raise SettingError("base-url", f"{base_url!r} is not of the form http(s)://host[:port]")
