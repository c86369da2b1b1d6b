"""Ports for servers of tests."""

import os
import socket
from itertools import count
from typing import Final

_PORTS: Final = range(20_000, 32_000)
"""None that systems give to connections, or to who asks for any: a server that is started again
finds its port free, and nobody else answers on it meanwhile."""

_APART: Final = 61
"""Processes side by side begin so far from each other."""

_STEPS: Final = count()


def free_port() -> int:
    """A port that nobody listens on now, and that this process has not named for long."""
    first = os.getpid() * _APART
    for step in _STEPS:
        port = _PORTS[(first + step) % len(_PORTS)]
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise AssertionError("there is no last step")
