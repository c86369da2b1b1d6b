"""Requests with anything wrong in their bytes, over sockets: no 5xx, no hang, and it serves on."""

import re
import socket
from collections import Counter
from random import Random

from tests.integration.smuggling_cases import CASES, CONTROLS
from tests.integration.socket_server import SocketServer
from tests.integration.test_slow_clients import answers

REQUESTS = 600
SEED = 5
ANSWER_S_MAX = 20
PATIENCE_S = 0.05
LAST = b"\r\n\r\nGET /last HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
_DOCUMENT = b'{"QueueUrl":"orders","MessageBody":"x","MessageAttributes":{}}'
_LOOK = (
    b"GET /000000000000/orders?Action=GetQueueAttributes&AttributeName.1=All HTTP/1.1\r\n"
    b"Host: x\r\nAccept: application/json\r\n\r\n"
)
_MAKE = b"GET /?Action=CreateQueue&QueueName=orders HTTP/1.1\r\nHost: x"
_SEND = (
    b"POST / HTTP/1.1\r\nHost: x\r\nX-Amz-Target: AmazonSQS.SendMessage\r\nAuthorization: "
    b"AWS4-HMAC-SHA256 Credential=k/20260101/us-east-1/sqs/aws4_request, SignedHeaders=host, "
    b"Signature=00\r\nContent-Length: %d\r\n\r\n%s" % (len(_DOCUMENT), _DOCUMENT)
)
GOOD = [_LOOK, _SEND, *(case.data for case in CONTROLS)]
BAD = [case.data for case in CASES if len(case.data) < 4096]
TOKENS = [
    *(bytes([byte]) for byte in b'\r\n\t\x00\x0b\x1f \x7f\x80\xff:;,%=&?#/\\+-09{}"'),
    b"\r\n",
    b"\r\n ",
    b"\r\n\r\n",
    b"\r\nTransfer-Encoding: chunked\r\n",
    b"\r\nContent-Length: 7\r\n",
    b"\r\nExpect: 100-continue\r\n",
    b"\r\nConnection: close\r\n",
    b"\r\nConnection: upgrade\r\nUpgrade: websocket\r\n",
    b"HTTP/1.0",
    b"HTTP/3",
    b"18446744073709551616",
    b"%2e%2e%2f",
    b"a" * 5000,
]
_statuses = re.compile(rb"(?:^|\n|\})HTTP/1\.[01] ([0-9]{3}) ").findall


def mutated(random: Random) -> bytes:
    data = random.choice(random.choice([GOOD, GOOD, BAD]))
    for _ in range(random.randint(1, 4)):
        start = random.randint(0, len(data))
        end = min(len(data), start + random.choice([0, 0, 1, 1, 4, 40]))
        match random.choice(["token", "token", "token", "gone", "twice", "lines"]):
            case "token":
                data = data[:start] + random.choice(TOKENS) + data[end:]
            case "gone":
                data = data[:start] + data[end:]
            case "twice":
                data = data[:end] + data[start:]
            case _:
                lines = data.split(b"\r\n")
                random.shuffle(lines)
                data = b"\r\n".join(lines)
    return data


def answer_to(server: SocketServer, data: bytes) -> bytes:
    """All that comes until the server ends the connection, which it has to."""
    answer = b""
    with socket.create_connection(("127.0.0.1", server.port), timeout=ANSWER_S_MAX) as connection:
        try:
            connection.sendall(data + LAST)
            while part := connection.recv(65536):
                answer += part
        except (ConnectionResetError, BrokenPipeError):
            pass  # it ended the connection before it had read everything
    return answer


def test_no_bytes_break_a_server() -> None:
    server = SocketServer(header_read_timeout_s=PATIENCE_S, body_read_timeout_s=PATIENCE_S)
    try:
        # In one piece: where the head comes in time, the body is there.
        while b"HTTP/1.1 200 " not in answer_to(server, _MAKE):
            pass
        random = Random(SEED)
        found: Counter[int] = Counter()
        for _ in range(REQUESTS):
            data = mutated(random)
            statuses = [int(status) for status in _statuses(answer_to(server, data))]
            assert all(status < 500 for status in statuses), data
            found.update(statuses)
        assert {200, 400, 404, 411} <= found.keys()
        assert found.total() > REQUESTS / 2  # some connections ended before their request
        assert answers(server)
        assert not any(served.exception for served in server.served)
    finally:
        server.close()
