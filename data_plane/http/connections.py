"""What bounds connections: open files, and how long a client may take nothing of its answer."""

import resource
import socket
from typing import Any, Final

from granian.server.embed import Server

_OTHER_FILES: Final = 256
"""What a server opens beside connections: its cell, threads' pipes, requests to other services."""


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


class ListeningServer(Server):
    """Granian's server, with a bound on how long a client may take nothing of its answer.

    Granian has no setting for it. Connections inherit TCP_USER_TIMEOUT from their listener: where
    data is not acknowledged for that long, also because the client's window is closed, the
    connection ends. Only Linux has it.
    """

    def __init__(self, target: object, *, send_timeout_s: float, **settings: Any) -> None:
        super().__init__(target, **settings)
        self._send_timeout_s = send_timeout_s

    def _init_shared_socket(self) -> None:
        super()._init_shared_socket()  # type: ignore[no-untyped-call]
        if not hasattr(socket, "TCP_USER_TIMEOUT"):
            return
        shared: Any = self._shd
        if shared is None:  # on Linux Granian lets its threads open listeners; here one is enough
            spec: Any = self._ssp
            self._shd = shared = spec.build()
            self._sfd = shared.get_fd()
            self._ssp = None
        with socket.socket(fileno=socket.dup(shared.get_fd())) as listener:
            milliseconds = round(self._send_timeout_s * 1000)
            listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, milliseconds)
