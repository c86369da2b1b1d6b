"""Ends connections on which nothing goes on any more.

Granian's HTTP server (hyper) bounds how long the header of an HTTP/1.1 request may take, but starts
that clock when it knows which version a client speaks, and has none for HTTP/2: who connects and
sends nothing, or opens HTTP/2 and asks nothing, would hold a connection for ever. The kernel knows
when something last came or went on each. (Only Linux tells; elsewhere such connections stay.)
"""

import asyncio
import os
import socket
import struct
import sys
from collections.abc import Callable
from itertools import islice
from typing import Final

_FILES: Final = "/proc/self/fd"
_LOOKED_AT: Final = 128
"""Files between two pauses: a millisecond or two."""
_PAUSE_S: Final = 0.01
_LOOKS: Final = 4
"""So often in the time that a connection may be idle."""
_ESTABLISHED: Final = 1
_INFO_BYTES: Final = 104
_MS_PER_S: Final = 1_000

# Of struct tcp_info in <linux/tcp.h>: the state, and how many milliseconds ago data was sent last,
# data was received, an acknowledgement was received.
_read_info: Final = struct.Struct("=B43xI4xII").unpack_from


class IdleConnections:
    """Ends connections to `port` without traffic for `idle_s`, unless `is_in_use` the peer's port.

    `ended` counts them.
    """

    def __init__(self, port: int, idle_s: float, is_in_use: Callable[[int], bool]) -> None:
        self._port = port
        self._idle_s: float = idle_s
        self._is_in_use = is_in_use
        self.ended = 0

    async def run(self) -> None:
        """Look for them for ever."""
        while sys.platform == "linux":
            await asyncio.sleep(self._idle_s / _LOOKS)
            with os.scandir(_FILES) as files:
                while some := [int(file.name) for file in islice(files, _LOOKED_AT)]:
                    for file in some:
                        self._look_at(file)
                    await asyncio.sleep(_PAUSE_S)

    def end_all(self) -> None:
        """End all connections to the port: the server stops, and nothing is in flight."""
        self._idle_s, self._is_in_use = 0, lambda _port: False
        if sys.platform == "linux":
            with os.scandir(_FILES) as files:
                for file in list(files):
                    self._look_at(int(file.name))

    def _look_at(self, file: int) -> None:
        try:
            connection = socket.socket(fileno=file)
        except OSError:
            return  # it is none
        try:
            if self._is_idle(connection):
                connection.shutdown(socket.SHUT_RDWR)
                self.ended += 1
        except OSError:
            pass  # it has ended by itself
        finally:
            connection.detach()  # it is Granian's, who closes it

    def _is_idle(self, connection: socket.socket) -> bool:
        if (
            connection.family not in {socket.AF_INET, socket.AF_INET6}
            or connection.type != socket.SOCK_STREAM
            or connection.getsockname()[1] != self._port
        ):
            return False
        told = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _INFO_BYTES)
        state, *quiet_ms = _read_info(told)
        if state != _ESTABLISHED or min(quiet_ms) < self._idle_s * _MS_PER_S:
            return False
        return not self._is_in_use(connection.getpeername()[1])
