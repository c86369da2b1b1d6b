"""A proxy between a client and the server that spoils answers after the server gave them."""

import http.client
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

Spoil = Callable[[bytes], bytes | None]
"""What the client gets of an answer; with None the connection is cut instead."""

_LOOK_S = 0.02
"""How often the listener looks whether it is to end."""

_NOT_PASSED_ON = {"connection", "content-length", "date", "server", "transfer-encoding"}


@dataclass
class Proxy:
    """Where it listens, and the headers of the requests it saw, with names in lower case."""

    url: str
    seen: list[Mapping[str, str]] = field(default_factory=list)


def cut_first_answer() -> Spoil:
    """Cut the connection when the first answer comes: the call took effect, its client is blind."""
    answers = []

    def spoil(body: bytes) -> bytes | None:
        answers.append(body)
        return None if len(answers) == 1 else body

    return spoil


@contextmanager
def spoiling_proxy(server_port: int, spoil: Spoil) -> Iterator[Proxy]:
    """Pass POST requests on to a server of this machine while the context lasts."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            headers = {name.lower(): value for name, value in self.headers.items()}
            proxy.seen.append(headers)
            body = self.rfile.read(int(headers["content-length"]))
            upstream = http.client.HTTPConnection("127.0.0.1", server_port, timeout=60)
            try:
                upstream.request("POST", self.path, body, headers)
                response = upstream.getresponse()
                answer = response.read()
            finally:
                upstream.close()
            spoiled = spoil(answer)
            if spoiled is None:
                self.close_connection = True
                return
            self.send_response(response.status)
            for name, value in response.getheaders():
                if name.lower() not in _NOT_PASSED_ON:
                    self.send_header(name, value)
            self.send_header("Content-Length", str(len(spoiled)))
            self.end_headers()
            self.wfile.write(spoiled)

        def log_message(self, *_: object) -> None:
            """Say nothing: tests read what clients print."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as listener:
        proxy = Proxy(f"http://127.0.0.1:{listener.server_port}")
        thread = Thread(target=listener.serve_forever, args=(_LOOK_S,))
        thread.start()
        try:
            yield proxy
        finally:
            listener.shutdown()
            thread.join()
