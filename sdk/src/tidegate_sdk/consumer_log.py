"""The log of a consumer, whose lines say whose they are: a process may run several."""

import logging
from collections.abc import MutableMapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    ConsumerLog = logging.LoggerAdapter[logging.Logger]
else:
    ConsumerLog = logging.LoggerAdapter


class _Named(ConsumerLog):
    def process(
        self, msg: Any, kwargs: MutableMapping[str, Any]
    ) -> tuple[Any, MutableMapping[str, Any]]:
        return f"{self.extra['who']}: {msg}", kwargs  # type: ignore[index]


def log_of(who: str) -> ConsumerLog:
    """Its lines begin so."""
    return _Named(logging.getLogger("tidegate_sdk"), {"who": who.replace("%", "%%")})
