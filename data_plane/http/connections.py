"""Where connections come in, and what bounds them."""

import resource
import socket
from typing import Any, Final, NamedTuple

from granian import _granian
from granian.server.embed import Server

_OTHER_FILES: Final = 256
"""What a server opens beside connections: its cell, threads' pipes, requests to other services."""


class Listeners(NamedTuple):
    """Sockets that are bound: of the API, and of metrics that have an address of their own."""

    api: socket.socket
    metrics: socket.socket | None = None


def accepted_connections(wanted: int) -> int:
    """How many connections may be accepted: `wanted`, or as many as this process may have files.

    Raises the soft limit of open files as far as that needs. Without a file left, accepting would
    fail over and over; at the bound connections wait in the listener's backlog instead.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = wanted + _OTHER_FILES
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return wanted
    files = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (files, hard))
    except (OSError, ValueError):
        files = soft  # macOS calls a limit infinite that it has all the same
    return min(wanted, max(files - _OTHER_FILES, files // 2))


def bind(host: str, port: int) -> socket.socket:
    """A socket that has this address, and does not listen yet: connections are refused.

    Port 0 is one that is free. Raises OSError, with EADDRINUSE where somebody listens there.
    """
    family, kind, protocol, _, address = socket.getaddrinfo(
        host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    with socket.socket(family, kind, protocol) as probe:
        # Two may be bound to an address as long as none of them listens.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind(address)
        probe.listen()
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        listener.bind(address)
    except OSError:
        listener.close()
        raise
    return listener


class ListeningServer(Server):
    """Granian's server on a socket that was bound before, which listens from its start on.

    And with a bound on how long a client may take nothing of its answer, for which Granian has no
    setting. Connections inherit TCP_USER_TIMEOUT from their listener: where data is not
    acknowledged for that long, also because the client's window is closed, the connection ends.
    Only Linux has it.
    """

    def __init__(
        self, target: object, listener: socket.socket, *, send_timeout_s: float, **settings: Any
    ) -> None:
        super().__init__(target, **settings)
        self._listener = listener
        self._send_timeout_s = send_timeout_s

    def _init_shared_socket(self) -> None:
        listener = self._listener
        if hasattr(socket, "TCP_USER_TIMEOUT"):
            milliseconds = round(self._send_timeout_s * 1000)
            listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, milliseconds)
        listener.listen(self.backlog)
        holder: Any = _granian.SocketHolder
        # Its worker closes the file when it ends.
        self._shd = holder(listener.detach(), False, self.backlog)  # noqa: FBT003 - no Unix socket
        self._ssp = None
