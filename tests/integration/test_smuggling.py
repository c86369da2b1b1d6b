"""No request hides behind another one: raw bytes over sockets, the queue counted after each."""

import socket
from collections import Counter
from collections.abc import Iterator

import pytest

from tests.integration.smuggling_cases import CASES, CONTROLS, Case
from tests.integration.socket_server import SocketServer

ANSWER_S_MAX = 20
LAST = b"GET /last HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
SERVED = b"<UnknownOperationException/>"


@pytest.fixture(scope="module")
def server() -> Iterator[SocketServer]:
    started = SocketServer()
    started.anonymous().create_queue(QueueName="orders")
    yield started
    started.close()


def taken(server: SocketServer) -> Counter[str]:
    """How many messages of each kind were in the queue, which is empty now."""
    client = server.anonymous()
    found: Counter[str] = Counter()
    while messages := client.receive_message(QueueUrl="orders", MaxNumberOfMessages=10).get(
        "Messages"
    ):
        for message in messages:
            found["visible" if message["Body"].startswith("visible") else message["Body"]] += 1
            client.delete_message(QueueUrl="orders", ReceiptHandle=message["ReceiptHandle"])
    return found


def exchange(server: SocketServer, case: Case) -> bytes:
    """All that the server answers until it ends the connection; if it stays, it is asked to."""
    answer = b""
    with socket.create_connection(("127.0.0.1", server.port), timeout=ANSWER_S_MAX) as connection:
        try:
            connection.sendall(case.data)
            if case.stays:
                answer = connection.recv(65536)
                connection.sendall(LAST)
            while part := connection.recv(65536):
                answer += part
        except (ConnectionResetError, BrokenPipeError):
            pass  # it ended the connection before it had read everything
    return answer


@pytest.mark.parametrize("case", CASES + CONTROLS, ids=lambda case: case.name)
def test_no_request_hides_behind_another(server: SocketServer, case: Case) -> None:
    answer = exchange(server, case)
    if case.status:
        assert answer.split(b" ", 2)[1] == b"%d" % case.status, answer
    else:  # What is HTTP/2 is answered in its frames, and nothing in it is a request.
        assert answer == b"" or (case.data.startswith(b"PRI ") and b"HTTP/1.1" not in answer)
    if case.stays:
        assert answer.endswith(SERVED)
    expected = Counter(visible=case.visible, hidden=case.hidden)
    assert taken(server) == +expected


def test_the_table_has_what_it_says() -> None:
    assert len({case.name for case in CASES}) == len(CASES) > 100
    assert all(case.hidden == 0 for case in CASES)
    assert all(case.hidden == 1 for case in CONTROLS)
