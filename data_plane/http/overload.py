"""Which requests are refused as they arrive: the server, or who sends them, has had enough.

A request is refused before its body is read, so that to refuse costs little of what is scarce.
What is served then is served in time; SDKs wait a moment and repeat the others. Who has used up a
quota gets the refusal a little later: connections that wait for it bring no other call meanwhile,
so whoever asks far too often takes less from the others.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from time import monotonic
from typing import Final

from msgspec.structs import replace

from data_plane.core.errors import SERVICE_UNAVAILABLE
from data_plane.core.identifiers import random_uuid_text
from data_plane.core.limits import CALLS_MAX_DEFAULT
from data_plane.frontend.refusals import encode_refusal
from data_plane.ports import Entropy
from data_plane.protocol.http import HttpResponse

_PROBE_PERIOD_S: Final = 0.05
_RETRY_AFTER_US: Final = 1_000_000
_REQUEST_ID_BYTES: Final = 16
_GOLDEN: Final = (5**0.5 - 1) / 2
"""Multiples of it, without their integers, fall evenly between 0 and 1 however many there are."""

HELD_S: Final = 0.1
"""So long on average, from half of it to half as long again: together they would come in gusts."""
HELD_MAX: Final = 4_096
"""Beyond as many refusals that are held back, others go out at once: they would cost memory."""


@dataclass(frozen=True, slots=True)
class OverloadSettings:
    """When requests are refused.

    `requests_max` are worked on at a time; a long poll that waits for messages is not. A request
    that has waited for `lag_s_max` before anything looked at it is refused, too.
    """

    requests_max: int = CALLS_MAX_DEFAULT
    lag_s_max: float = 1.0


Refuse = Callable[[Mapping[str, str]], HttpResponse | None]


def _refuse_nothing(_headers: Mapping[str, str]) -> None:
    """What is true of servers without quotas."""


class Overload:
    """Knows how much the server has to do. `waiting` tells how many long polls do nothing now.

    Where there is room, `refuse_unread` is asked next. `busy` and `exhausted` count refusals, of
    which `held` are held back now.
    """

    def __init__(
        self,
        settings: OverloadSettings,
        waiting: Callable[[], int],
        entropy: Entropy,
        refuse_unread: Refuse = _refuse_nothing,
    ) -> None:
        self._settings = settings
        self._waiting = waiting
        self._entropy = entropy
        self._came_round_s = monotonic()
        self._refuse_unread = refuse_unread
        self.busy = 0
        self.exhausted = 0
        self.held = 0
        self._spread = 0.0

    async def watch(self) -> None:
        """Note for ever when the event loop comes round."""
        while True:
            self._came_round_s = monotonic()
            await asyncio.sleep(_PROBE_PERIOD_S)

    def refusal(self, headers: Mapping[str, str], in_flight: int) -> HttpResponse | None:
        """The answer to a request with these headers, if it is certain now; else None.

        Of those in flight the ones that are held back do not count. One for who has used up a quota
        is to be held back, too.
        """
        if self.is_full(in_flight - self.held):
            return self.refuse(headers)
        refusal = self._refuse_unread(headers)
        if refusal is None:
            return None
        self.exhausted += 1
        return replace(refusal, held_back=True)

    async def hold_back(self) -> None:
        """Return a little later, so that who is refused comes back less often."""
        if self.held >= HELD_MAX:
            return
        self.held += 1
        self._spread = (self._spread + _GOLDEN) % 1
        try:
            await asyncio.sleep(HELD_S * (0.5 + self._spread))
        finally:
            self.held -= 1

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
        """The answer to a request with these headers: there is too much to do."""
        self.busy += 1
        return encode_refusal(
            headers,
            random_uuid_text(self._entropy.random_bytes(_REQUEST_ID_BYTES)),
            SERVICE_UNAVAILABLE,
            "The service is busy. Try again.",
            _RETRY_AFTER_US,
        )
