"""Servers on one table wake each other's long polls, by datagrams that may get lost.

Polling stays what finds messages; this makes it earlier where it works. What is said and read is in
core/wake_ups.py; here are the socket, the other servers' addresses, and the moments.
"""

import asyncio
import errno
import logging
import socket
from collections.abc import Hashable, Sequence
from typing import Final

from control_plane.cells import BlockedStartError, StartError
from control_plane.core.wake_ups import EVERY_US, Channel, Pending, WakeUpSeal
from data_plane.ports import Clock
from data_plane.runtime.event_loop import EventLoopWaits

ADDRESSES_EVERY_S: Final = 30.0
"""Names are looked up so often: servers come and go behind them."""

ADDRESSES_MAX: Final = 64
_GATHER_S: Final = 0.005
_AGAIN_S: Final = EVERY_US / 1_000_000
_ENGINES: Final = frozenset({"bag", "log"})

LOG: Final = logging.getLogger(__name__)

Address = tuple[str, int]


class Waking(asyncio.DatagramProtocol):
    """Tells the other servers of signals of this one's engines, and signals what they tell."""

    def __init__(
        self, seal: WakeUpSeal, waits: EventLoopWaits, clock: Clock, others: Sequence[Address]
    ) -> None:
        self._seal = seal
        self._waits = waits
        self._clock = clock
        self._others = others
        self._addresses: list[tuple[str, int]] = []
        self._pending = Pending()
        self._transport: asyncio.DatagramTransport | None = None
        self._timer: asyncio.TimerHandle | None = None
        self.told = self.heard = 0

    async def open(self, own: Address) -> None:
        """Listen, and begin to tell. Raises StartError."""
        loop = asyncio.get_running_loop()
        try:
            self._transport, _ = await loop.create_datagram_endpoint(lambda: self, own)
        except OSError as error:
            kind = BlockedStartError if error.errno == errno.EADDRINUSE else StartError
            raise kind(f"wake-ups: cannot listen at {own[0]}:{own[1]}: {error}") from error
        await self.look_up()
        self._waits.on_signal = self.signalled

    async def look_up(self) -> None:
        """Learn the addresses behind the names; a name that is not known now keeps its old ones."""
        loop = asyncio.get_running_loop()
        found: dict[tuple[str, int], None] = {}
        for host, port in self._others:
            try:
                told = await loop.getaddrinfo(host, port, type=socket.SOCK_DGRAM)
            except OSError as error:
                LOG.warning("wake-ups: %s is not known: %s", host, error)
                found |= dict.fromkeys(self._addresses)
                continue
            found |= {(str(one[4][0]), int(one[4][1])): None for one in told}
        self._addresses = list(found)[:ADDRESSES_MAX]

    def signalled(self, channel: Hashable) -> None:
        """Something new is on this channel, by this server's own work."""
        match channel:
            case (str(kind), str(uid)) if kind in _ENGINES:
                self._pending.want((kind, uid))
                self._tell_in(_GATHER_S)
            case _:
                pass

    def datagram_received(self, data: bytes, _addr: object) -> None:
        """Another server tells, or somebody else tries to."""
        for channel in self._seal.read(data, self._clock.now_us() // 1000):
            self.heard += 1
            self._waits.signal_here(channel)

    def error_received(self, exc: Exception) -> None:
        """A server is not there at present: it polls."""

    def gauges(self) -> dict[str, float]:
        """Metrics, by name."""
        return {"wake_ups_told_total": self.told, "wake_ups_heard_total": self.heard}

    def close(self) -> None:
        """Tell and hear no more."""
        self._waits.on_signal = None
        if self._timer is not None:
            self._timer.cancel()
        if self._transport is not None:
            self._transport.close()

    def _tell_in(self, seconds: float) -> None:
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(seconds, self._tell)

    def _tell(self) -> None:
        self._timer = None
        now_us = self._clock.now_us()
        for channels in self._pending.take(now_us):
            self._send(channels, now_us)
        if not self._pending.is_empty:
            self._tell_in(_AGAIN_S)

    def _send(self, channels: list[Channel], now_us: int) -> None:
        datagram = self._seal.pack(channels, now_us // 1000)
        if self._transport is not None and not self._transport.is_closing():
            for address in self._addresses:
                self._transport.sendto(datagram, address)
                self.told += 1
