"""A network between clients and a server that fails as a test says: connections are cut or refused.

It passes bytes on, and knows nothing of requests.
"""

import contextlib
import socket
import struct
import threading
from collections.abc import Iterator
from typing import Final

HOST: Final = "127.0.0.1"
_CHUNK_BYTES: Final = 64 * 1024
_RESET_ON_CLOSE: Final = struct.pack("ii", 1, 0)


class CutNetwork:
    """Listens at `url`, and passes connections on to a port of this machine while it `is_up`.

    With `answers_lost` set, what comes back next is lost, that often, and its connection reset: the
    server has done what it was asked, and the client cannot know. While it `swallows`, what is sent
    goes nowhere, and no connection breaks.
    """

    def __init__(self, server_port: int) -> None:
        self._server_port = server_port
        self._listener = socket.create_server((HOST, 0))
        self.url = "http://{}:{}".format(*self._listener.getsockname())
        self.is_up = True
        self.swallows = False
        self.answers_lost = 0
        self._lock = threading.Lock()
        self._links: set[socket.socket] = set()

    def cut(self) -> None:
        """Break all connections, and refuse new ones until it is mended."""
        self.is_up = False
        with self._lock:
            links = list(self._links)
        for link in links:
            _reset(link)

    def mend(self) -> None:
        self.is_up = True

    def serve(self) -> None:
        """Until it is closed."""
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            if not self.is_up:
                _reset(client)
                continue
            try:
                server = socket.create_connection((HOST, self._server_port))
            except OSError:
                _reset(client)
                continue
            with self._lock:
                self._links |= {client, server}
            for source, target, comes_back in ((client, server, False), (server, client, True)):
                threading.Thread(
                    target=self._pass_on, args=(source, target, comes_back), daemon=True
                ).start()

    def close(self) -> None:
        self.cut()
        # A thread that waits in accept() is woken by this, and by no close().
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _pass_on(self, source: socket.socket, target: socket.socket, comes_back: bool) -> None:  # noqa: FBT001
        with contextlib.suppress(OSError):
            while data := source.recv(_CHUNK_BYTES):
                with self._lock:
                    loses = comes_back and self.answers_lost > 0
                    self.answers_lost -= loses
                if loses:
                    break
                if self.swallows:
                    continue
                target.sendall(data)
        for link in (source, target):
            _reset(link)
        with self._lock:
            self._links -= {source, target}


def _reset(link: socket.socket) -> None:
    with contextlib.suppress(OSError):
        link.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
        link.shutdown(socket.SHUT_RDWR)
    with contextlib.suppress(OSError):
        link.close()


@contextlib.contextmanager
def cut_network(server_port: int) -> Iterator[CutNetwork]:
    """A network that serves in a thread of its own."""
    network = CutNetwork(server_port)
    thread = threading.Thread(target=network.serve, daemon=True)
    thread.start()
    try:
        yield network
    finally:
        network.close()
        thread.join(60)
