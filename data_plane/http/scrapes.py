"""What is shown to whoever asks, made once for all who ask at about the same time.

Nobody signs for these pages, so what they cost must not depend on how often they are asked for. And
what takes long is done in turns of the event loop, so that requests never wait for it.
"""

import asyncio
import gzip
from collections.abc import Awaitable, Callable, Iterable, Mapping
from time import monotonic
from typing import Final

from data_plane.protocol.http import HttpResponse

HEALTH_KEPT_S: Final = 0.1
METRICS_KEPT_S: Final = 1.0
AT_ONCE_MAX: Final = 20
HELD_BACK_S: Final = 0.25
"""Who asks more often for the same page waits for so long: to answer costs something, too."""

TURN_S: Final = 0.00025
"""So long may a turn take; requests that are under way wait for one at each of their steps."""

_GZIP_LEVEL: Final = 1
"""A tenth of the bytes for a hundredth of a second of another thread."""

Make = Callable[[], Awaitable[HttpResponse]]


class Shared:
    """Answers with what `make` made within the last `kept_s`, or within the time that it took.

    Whoever asks while it is made waits for that. Of one page AT_ONCE_MAX are handed out at once.
    """

    def __init__(self, make: Make, kept_s: float) -> None:
        self._make = make
        self._kept_s = kept_s
        self._made: HttpResponse | None = None
        self._fresh_until_s = 0.0
        self._handed_out = 0
        self._making: asyncio.Task[HttpResponse] | None = None

    async def get(self) -> HttpResponse:
        """The answer. Raises what `make` raises."""
        if self._making is None:
            if self._made is not None and monotonic() < self._fresh_until_s:
                return await self._handed(self._made)
            self._making = asyncio.create_task(self._renew())
        # Who asked first may leave; others wait for it, too.
        return await asyncio.shield(self._making)

    async def _handed(self, made: HttpResponse) -> HttpResponse:
        self._handed_out += 1
        if self._handed_out > AT_ONCE_MAX:
            await asyncio.sleep(HELD_BACK_S)
        return made

    async def _renew(self) -> HttpResponse:
        began_s = monotonic()
        self._made = None
        self._handed_out = 0
        try:
            self._made = await self._make()
        finally:
            self._making = None
            took_s = monotonic() - began_s
            self._fresh_until_s = monotonic() + max(self._kept_s, took_s)
        return self._made


class Turns:
    """Divides long work into turns of the event loop."""

    def __init__(self) -> None:
        self._began_s = monotonic()

    async def rest(self) -> None:
        """Let others go first if this turn has taken its time."""
        if monotonic() - self._began_s >= TURN_S:
            await asyncio.sleep(0)
            self._began_s = monotonic()


async def written(pieces: Iterable[bytes], turns: Turns) -> bytes:
    """All pieces together."""
    parts = []
    for piece in pieces:
        parts.append(piece)
        await turns.rest()
    return b"".join(parts)


class Scrapes:
    """The page of metrics: as `make` makes it, and compressed for who takes that."""

    def __init__(self, make: Make) -> None:
        self._plain = Shared(make, METRICS_KEPT_S)
        self._packed: tuple[HttpResponse, asyncio.Task[HttpResponse]] | None = None

    async def get(self, headers: Mapping[str, str]) -> HttpResponse:
        """The answer to a request with these headers."""
        plain = await self._plain.get()
        if not takes_gzip(headers.get("accept-encoding") or ""):
            return plain
        if self._packed is None or self._packed[0] is not plain:
            self._packed = plain, asyncio.create_task(asyncio.to_thread(_packed, plain))
        return await asyncio.shield(self._packed[1])


def takes_gzip(accepted: str) -> bool:
    """Whether a client with this Accept-Encoding takes an answer in gzip (RFC 9110, 12.5.3)."""
    for part in accepted.lower().split(","):
        coding, _, weight = part.partition(";")
        if coding.strip() == "gzip":
            return weight.replace(" ", "") not in {"q=0", "q=0.0", "q=0.00", "q=0.000"}
    return False


def _packed(plain: HttpResponse) -> HttpResponse:
    headers = (*plain.headers, ("content-encoding", "gzip"), ("vary", "accept-encoding"))
    return HttpResponse(
        plain.status, headers, gzip.compress(plain.body, compresslevel=_GZIP_LEVEL, mtime=0)
    )
