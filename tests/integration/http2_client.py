"""A client that speaks HTTP/2 and can be as slow, silent or greedy as a test wants it."""

import socket
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import (
    ConnectionTerminated,
    DataReceived,
    ResponseReceived,
    StreamEnded,
    StreamReset,
    WindowUpdated,
)
from h2.exceptions import ProtocolError

ANSWER_S_MAX = 20
FORM = "application/x-www-form-urlencoded"


@dataclass
class Reply:
    """What has come of an answer."""

    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    ended: bool = False
    reset: bool = False

    @property
    def status(self) -> int:
        return int(self.headers.get(":status", "0"))


class Http2Client:
    """One connection. Without `takes` it lets no byte of an answer's body come."""

    def __init__(
        self, port: int, tls: ssl.SSLContext | None = None, *, takes: bool = True, host: str = "x"
    ) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=ANSWER_S_MAX)
        if tls is not None:
            self.socket = tls.wrap_socket(self.socket, server_hostname="localhost")
        self.host = host
        self.takes = takes
        self.replies: dict[int, Reply] = {}
        self.is_over = False
        # It sends what a test says, right or wrong.
        as_told = H2Configuration(
            client_side=True, header_encoding="utf-8", validate_outbound_headers=False
        )
        self.h2: Any = H2Connection(as_told)
        self.h2.initiate_connection()
        if not takes:
            self.h2.update_settings({4: 0})  # the window of streams
        self.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        _type: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        self.socket.close()

    def flush(self) -> None:
        self.socket.sendall(self.h2.data_to_send())

    def begin(
        self,
        headers: Mapping[str, str],
        method: str = "POST",
        path: str = "/",
        *,
        end: bool = False,
    ) -> int:
        """Open a stream with these headers: its number."""
        stream: int = self.h2.get_next_available_stream_id()
        pseudo = {":method": method, ":path": path, ":scheme": "http", ":authority": self.host}
        self.h2.send_headers(stream, [*pseudo.items(), *headers.items()], end_stream=end)
        self.replies[stream] = Reply()
        self.flush()
        return stream

    def send(self, stream: int, data: bytes, *, end: bool = True) -> None:
        """Send a body as its stream's window lets it; an answer that comes before is its end."""
        while data and not self.replies[stream].ended:
            room = min(self.h2.local_flow_control_window(stream), self.h2.max_outbound_frame_size)
            if room <= 0:
                self.receive()
                continue
            self.h2.send_data(stream, data[:room])
            data = data[room:]
            self.flush()
        if end and not self.replies[stream].ended:
            self.h2.end_stream(stream)
            self.flush()

    def receive(self) -> None:
        """Take in what comes next."""
        try:
            data = self.socket.recv(65_536)
        except ConnectionResetError:
            data = b""
        if not data:
            self.is_over = True
            return
        try:
            events = self.h2.receive_data(data)
        except ProtocolError:  # it takes nothing behind a GOAWAY, though more may come
            self.is_over = True
            return
        for event in events:
            match event:
                case ResponseReceived():
                    self.replies[event.stream_id].headers = dict(event.headers)
                case DataReceived():
                    self.replies[event.stream_id].body += event.data
                    if self.takes:
                        self.h2.acknowledge_received_data(
                            event.flow_controlled_length, event.stream_id
                        )
                case StreamEnded():
                    self.replies[event.stream_id].ended = True
                case StreamReset():
                    self.replies[event.stream_id].ended = True
                    self.replies[event.stream_id].reset = True
                case ConnectionTerminated():
                    self.is_over = True
                case WindowUpdated():
                    pass
        self.flush()

    def reply(self, stream: int) -> Reply:
        """The whole answer."""
        reply = self.replies[stream]
        while not reply.ended and not self.is_over:
            self.receive()
        return reply

    def wait_for_end(self) -> None:
        """Return when the server has ended the connection."""
        while not self.is_over:
            self.receive()

    def post(self, body: bytes, **headers: str) -> Reply:
        """A form, and its answer."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        stream = self.begin({"content-type": FORM, "content-length": str(len(body)), **named})
        self.send(stream, body)
        return self.reply(stream)
