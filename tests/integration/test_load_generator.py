"""The benchmarks' load generator against servers that do not behave."""

import itertools
import socketserver
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tests.benchmarks.generator import CUT_OFF, Generator
from tests.benchmarks.load import Group, Load, Outcome

SENT = b'{"MessageId":"1","MD5OfMessageBody":"2"}'
MESSAGES = 20

Answer = Callable[[int], bytes | None]
"""The response to the nth request; None cuts the connection."""


def response(status: int, body: bytes, *headers: bytes) -> bytes:
    lines = [b"HTTP/1.1 %d Any" % status, b"Content-Length: %d" % len(body), *headers]
    return b"\r\n".join([*lines, b"", body])


@contextmanager
def server(answer: Answer) -> Iterator[int]:
    numbers = itertools.count()

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            while self.read_request():
                answered = answer(next(numbers))
                if answered is None:
                    return
                self.wfile.write(answered)
                if b"close" in answered:
                    return

        def read_request(self) -> bool:
            length = 0
            while (line := self.rfile.readline()) not in (b"", b"\r\n"):
                name, _, value = line.partition(b":")
                if name == b"Content-Length":
                    length = int(value)
            return len(self.rfile.read(length)) == length > 0

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as listener:
        thread = threading.Thread(target=listener.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield listener.server_address[1]
        finally:
            listener.shutdown()
            thread.join()


def sends(port: int) -> Outcome:
    group = Group("send", f"http://127.0.0.1:{port}/0/q", 2, messages_max=MESSAGES)
    return Generator(Load(port, (group,), 60)).run()


def test_all_is_counted_of_a_server_that_keeps_connections() -> None:
    with server(lambda _: response(200, SENT)) as port:
        outcome = sends(port)
    assert (outcome.messages, dict(outcome.errors)) == (MESSAGES, {})


def test_a_server_that_ends_connections_gets_new_ones() -> None:
    last = response(200, SENT, b"Connection: close")
    with server(lambda n: last if n % 3 == 0 else response(200, SENT)) as port:
        outcome = sends(port)
    assert (outcome.messages, dict(outcome.errors)) == (MESSAGES, {})


def test_refusals_are_errors_and_no_messages() -> None:
    refusal = response(500, b"no")
    with server(lambda n: refusal if n % 4 == 0 else response(200, SENT)) as port:
        outcome = sends(port)
    assert outcome.messages == MESSAGES * 3 // 4
    assert dict(outcome.errors) == {"no": MESSAGES // 4}


def test_connections_that_are_cut_are_errors_and_made_again() -> None:
    with server(lambda n: None if n == 3 else response(200, SENT)) as port:
        outcome = sends(port)
    assert outcome.messages == MESSAGES - 1
    assert dict(outcome.errors) == {CUT_OFF: 1}
