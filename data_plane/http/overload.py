"""Which requests are refused as they arrive, because the server has more than enough to do.

A request is refused before its body is read, so that to refuse costs little of what is scarce.
What is served then is served in time; SDKs wait a moment and repeat the others.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from time import monotonic
from typing import Final

from data_plane.core.errors import SERVICE_UNAVAILABLE
from data_plane.core.identifiers import random_uuid_text
from data_plane.core.limits import CALLS_MAX_DEFAULT
from data_plane.frontend.intake import protocol_of
from data_plane.frontend.refusals import encode_refusal
from data_plane.ports import Entropy
from data_plane.protocol.http import HttpResponse

_PROBE_PERIOD_S: Final = 0.05
_RETRY_AFTER_US: Final = 1_000_000
_REQUEST_ID_BYTES: Final = 16


@dataclass(frozen=True, slots=True)
class OverloadSettings:
    """When requests are refused.

    `requests_max` are worked on at a time; a long poll that waits for messages is not. A request
    that has waited for `lag_s_max` before anything looked at it is refused, too.
    """

    requests_max: int = CALLS_MAX_DEFAULT
    lag_s_max: float = 1.0


class Overload:
    """Knows how much the server has to do. `waiting` tells how many long polls do nothing now."""

    def __init__(
        self, settings: OverloadSettings, waiting: Callable[[], int], entropy: Entropy
    ) -> None:
        self._settings = settings
        self._waiting = waiting
        self._entropy = entropy
        self._came_round_s = monotonic()
        self.refused = 0

    async def watch(self) -> None:
        """Note for ever when the event loop comes round."""
        while True:
            self._came_round_s = monotonic()
            await asyncio.sleep(_PROBE_PERIOD_S)

    def is_full(self, in_flight: int) -> bool:
        """Whether there is no room for a request that has just arrived, and is counted already.

        An event loop that has not come round for a while has been busy with what came before, so
        this request has waited for as long.
        """
        settings = self._settings
        if in_flight - self._waiting() > settings.requests_max:
            return True
        return monotonic() - self._came_round_s > settings.lag_s_max + _PROBE_PERIOD_S

    def refuse(self, headers: Mapping[str, str]) -> HttpResponse:
        """The answer to a request for which there is no room."""
        self.refused += 1
        return encode_refusal(
            protocol_of(headers),
            random_uuid_text(self._entropy.random_bytes(_REQUEST_ID_BYTES)),
            SERVICE_UNAVAILABLE,
            "The service is busy. Try again.",
            _RETRY_AFTER_US,
        )
