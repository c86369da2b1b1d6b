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
from typing import Final

_FILES: Final = "/proc/self/fd"
_LOOKED_AT: Final = 32
"""Files between two pauses: with ten thousand connections each takes 10 to 25 microseconds."""
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
            # The kernel tells of thousands in one go, which takes milliseconds.
            try:
                files = await asyncio.to_thread(os.listdir, _FILES)
            except OSError:
                continue  # no file is left to look with
            for start in range(0, len(files), _LOOKED_AT):
                for file in files[start : start + _LOOKED_AT]:
                    self._look_at(int(file))
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
            # Asked for its family, type and protocol, each file would cost half as much again.
            connection = socket.socket(socket.AF_INET, socket.SOCK_STREAM, 0, file)
        except OSError:
            return  # it is gone
        try:
            if self._is_idle(connection):
                connection.shutdown(socket.SHUT_RDWR)
                self.ended += 1
        except OSError:
            pass  # it is no connection, or has ended by itself
        finally:
            connection.detach()  # it is Granian's, who closes it

    def _is_idle(self, connection: socket.socket) -> bool:
        name = connection.getsockname()
        if not isinstance(name, tuple) or name[1] != self._port:  # of local sockets it is a path
            return False
        told = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _INFO_BYTES)
        state, *quiet_ms = _read_info(told)
        if state != _ESTABLISHED or min(quiet_ms) < self._idle_s * _MS_PER_S:
            return False
        return not self._is_in_use(connection.getpeername()[1])
