"""The server under test, in a process of its own, and one plain connection to it."""

import json
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Self

from tests.benchmarks.generator import READ_BYTES
from tests.benchmarks.signing import AccessKey, Signer
from tests.benchmarks.wire import (
    ACCOUNT,
    STREAMS,
    Request,
    ResponseError,
    request,
    response_body,
    response_size,
    response_status,
    says_close,
)
from tests.ports import free_port

ROOT: Final = Path(__file__).parents[2]
FIFO: Final = {"FifoQueue": "true"}
FIFO_HIGH_THROUGHPUT: Final = {
    **FIFO,
    "DeduplicationScope": "messageGroup",
    "FifoThroughputLimit": "perMessageGroupId",
}
"""Attributes of queues; without any it is a standard queue."""

START_S_MAX: Final = 300.0
STOP_S_MAX: Final = 300.0
LAG_S: Final = "60"
"""With `--lag` a server that a busy machine holds up does not refuse what comes meanwhile."""

_RETRY_S: Final = 0.005
_REPLY_S_MAX: Final = 60.0


class ServerError(Exception):
    """The server did not start, or it refused a request."""


def await_listener(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    """Return when a process that was started accepts connections.

    Raises:
        ServerError: it ended, or takes too long.
    """
    until_s = time.perf_counter() + START_S_MAX
    while time.perf_counter() < until_s and process.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
        except ConnectionError:
            # Nothing tells when a listener opens but trying.
            time.sleep(_RETRY_S)  # between two looks at a server that starts
            continue
        return
    raise ServerError(f"the server did not start: {log.read_text()[-2000:]}")


class Line:
    """One connection that waits for each answer. With a key its calls are signed."""

    def __init__(self, port: int, key: AccessKey | None = None) -> None:
        self._port = port
        self._signer = Signer(key)
        self._socket = self._connect()

    def _connect(self) -> socket.socket:
        connection = socket.create_connection(("127.0.0.1", self._port), timeout=_REPLY_S_MAX)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def exchange(self, asked: Request) -> bytes:
        """Send a request and return its whole response.

        Raises:
            ServerError: its status is not 200.
            ResponseError: it is no response, or the connection was closed.
        """
        asked.name_call(time.perf_counter_ns() % (1 << 40))
        self._socket.sendall(asked.raw)
        received = b""
        size = 0
        while not size or len(received) < size:
            more = self._socket.recv(READ_BYTES)
            if not more:
                raise ResponseError("the server closed the connection")
            received += more
            size = size or response_size(received)
        if says_close(received):
            self._socket.close()
            self._socket = self._connect()
        if response_status(received) != 200:
            raise ServerError(received.decode(errors="replace"))
        return received

    def call(self, operation: str, params: object) -> dict[str, Any]:
        """Make a call and return its decoded answer; raises as `exchange` does."""
        asked = self._signer.signed(request(self._port, operation, params))
        body = response_body(self.exchange(asked))
        answer: dict[str, Any] = json.loads(body) if body else {}
        return answer

    def create_stream(self, name: str, shards: int) -> str:
        """Create a stream and return its name."""
        asked = {"StreamName": name, "ShardCount": shards}
        self.exchange(request(self._port, "CreateStream", asked, service=STREAMS))
        return name

    def create_queue(self, name: str, attributes: Mapping[str, str] | None = None) -> str:
        """Create a queue with these attributes and return its URL."""
        asked = {"QueueName": name, "Attributes": dict(attributes or {})}
        url = self.call("CreateQueue", asked)["QueueUrl"]
        assert isinstance(url, str)
        return url


@dataclass(slots=True)
class ServerProcess:
    """A server of the data in a folder; may be ended and started again, on the same port.

    `wrapper` is put before the command, for profilers.
    """

    data: Path
    log: Path
    options: Sequence[str] = ()
    wrapper: Sequence[str] = ()
    port: int = field(default_factory=free_port)
    process: subprocess.Popen[bytes] | None = None
    drain_s: float = 1.0

    @property
    def pid(self) -> int:
        """Process id; 0 when it does not run."""
        return self.process.pid if self.process else 0

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.process is not None:
            self.stop()

    def queue_url(self, name: str) -> str:
        """URL of a queue of this server."""
        return f"http://127.0.0.1:{self.port}/{ACCOUNT}/{name}"

    def start(self) -> None:
        """Start it, and return when it accepts connections.

        Raises:
            ServerError: it ended, or takes too long.
        """
        command = [
            *(self.wrapper or (sys.executable,)),
            *("-m", "control_plane.cli", "serve", "--auth", "off"),
            *("--port", str(self.port), "--data", str(self.data)),
            *self.options,
        ]
        with self.log.open("ab") as log:
            before_bytes = log.tell()
            self.process = subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=log)
        self._await_greeting(self.process, before_bytes)

    def _await_greeting(self, process: subprocess.Popen[bytes], before_bytes: int) -> None:
        # Somebody else may answer on the port: only what it says itself tells that it serves.
        greeting = f" on http://127.0.0.1:{self.port}, ".encode()
        until_s = time.perf_counter() + START_S_MAX
        while time.perf_counter() < until_s and process.poll() is None:
            with self.log.open("rb") as log:
                log.seek(before_bytes)
                if greeting in log.read():
                    return
            time.sleep(_RETRY_S)  # between two looks at a server that starts
        raise ServerError(f"the server did not start: {self.log.read_text()[-2000:]}")

    def stop(self) -> float:
        """End it as an operator does; how long it took, in seconds.

        Raises:
            ServerError: it did not exit with 0.
        """
        return self._end(signal.SIGTERM, 0)

    def kill(self) -> float:
        """End it as a crash does."""
        return self._end(signal.SIGKILL, -signal.SIGKILL)

    def _end(self, number: signal.Signals, expected: int) -> float:
        assert self.process is not None
        began_s = time.perf_counter()
        self.process.send_signal(number)
        try:
            code = self.process.wait(STOP_S_MAX)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise ServerError(f"the server ignored {number.name}") from None
        finally:
            self.process = None
        if code != expected:
            tail = self.log.read_text()[-2000:]
            raise ServerError(f"after {number.name} the server exited with {code}: {tail}")
        return time.perf_counter() - began_s
