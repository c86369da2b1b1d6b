"""Servers on one table that wake each other's long polls, beside one that only polls."""

import re
import socket
import statistics
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.integration.dynamodb_engine import Engine
from tests.integration.server_process import ServerProcess

ROUNDS: Final = 14
POLLING_S: Final = 1.0
"""Between two looks of a long poll."""


def free_udp_port() -> int:
    with socket.socket(type=socket.SOCK_DGRAM) as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[list[ServerProcess]]:
    """Two that tell each other, and one that nobody tells."""
    engine = Engine()
    ports = [free_udp_port() for _ in range(2)]
    cell = ("--cell", "dynamodb", "--endpoint", engine.url, "--table", engine.table)
    shared = ("--master-keys", str(tmp_path / "keys"), "--blobs", str(tmp_path / "bodies"))
    started: list[ServerProcess] = []
    for number, pair in enumerate((ports, ports[::-1], ())):
        named = ",".join(f"127.0.0.1:{port}" for port in pair)
        told = ("--wake-ups", named) if named else ()
        options = (*cell, *shared, *told)
        server = ServerProcess(
            tmp_path / f"data-{number}", tmp_path / f"log-{number}", options=options
        )
        server.start()
        started.append(server)
    yield started
    for server in started:
        server.kill()
    engine.stop()


def heard(server: ServerProcess) -> float:
    found = re.search(
        r"^tidegate_cell_wake_ups_heard_total\{.*\} (.*)$", server.get("/metrics")[1], re.MULTILINE
    )
    return float(found[1]) if found else 0.0


def late_s(sender: Any, receiver: Any, url: str, after_s: float) -> float:
    """How long after a send was answered a poll that waits elsewhere has its message."""
    came_s: list[float] = []

    def poll() -> None:
        for message in receiver.receive_message(QueueUrl=url, WaitTimeSeconds=20)["Messages"]:
            came_s.append(time.monotonic())
            receiver.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])

    polling = threading.Thread(target=poll)
    polling.start()
    time.sleep(after_s)  # so that it waits, at another moment between two looks each time
    sender.send_message(QueueUrl=url, MessageBody="m")
    sent_s = time.monotonic()
    polling.join(60)
    return max(0.0, came_s[0] - sent_s)


@pytest.mark.nightly
def test_a_long_poll_hears_of_a_send_through_another_server(servers: list[ServerProcess]) -> None:
    sender, told, untold = (server.client() for server in servers)
    url = sender.create_queue(QueueName="orders")["QueueUrl"]
    late: dict[str, list[float]] = {"told": [], "untold": []}
    for number in range(ROUNDS):  # in turns: both are measured on the same busy machine
        after_s = 0.5 + POLLING_S * number / ROUNDS
        late["told"].append(late_s(sender, told, url, after_s))
        late["untold"].append(late_s(sender, untold, url, after_s))
    medians = {name: statistics.median(found) for name, found in late.items()}
    print(f"medians {medians}, heard {heard(servers[1])} times")
    assert heard(servers[1]) >= ROUNDS / 2
    assert heard(servers[2]) == 0
    assert medians["told"] < 0.6 * medians["untold"]


def test_a_stranger_s_datagrams_wake_nobody(servers: list[ServerProcess]) -> None:
    server = servers[1]
    port = next(
        int(option.split(",")[0].rpartition(":")[2])
        for option in server.options
        if "," in option and "127.0.0.1" in option
    )
    with socket.socket(type=socket.SOCK_DGRAM) as stranger:
        for datagram in (b"", b"\1" * 60, b"\1" * 2000):
            stranger.sendto(datagram, ("127.0.0.1", port))
    assert server.get("/health")[0] == 200
    assert heard(server) == 0
