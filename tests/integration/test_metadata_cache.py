"""Two servers on DynamoDB, played by moto in this process, that share nodes of memcached."""

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.memcached_server import MEMCACHED, Memcached, ProtocolServer
from tests.integration.certificates import make_certificates
from tests.integration.dynamodb_engine import Engine
from tests.integration.server_process import ServerProcess, run_command
from tests.ports import free_port

WAIT_S_MAX = 600
"""A node that was too slow is left alone for a minute, and may be too slow again."""


@pytest.fixture
def nodes() -> Iterator[list[Any]]:
    new = ProtocolServer if MEMCACHED is None else Memcached
    started = [new(), new(), new()]
    yield started
    for node in started:
        node.stop()


@pytest.fixture
def over_tls(tmp_path: Path) -> Iterator[ProtocolServer]:
    node = ProtocolServer(tls=make_certificates(tmp_path / "certificates").served())
    yield node
    node.stop()


@pytest.fixture
def servers(tmp_path: Path, nodes: list[Any]) -> Iterator[list[ServerProcess]]:
    engine = Engine()
    options = (
        *("--cell", "dynamodb", "--endpoint", engine.url, "--table", engine.table),
        *("--master-keys", str(tmp_path / "master.keys"), "--blobs", str(tmp_path / "blobs")),
        *("--metadata-cache", ",".join(f"127.0.0.1:{node.port}" for node in nodes)),
    )
    started = [
        ServerProcess(tmp_path / f"data-{n}", tmp_path / f"log-{n}", options=options)
        for n in range(2)
    ]
    try:
        for server in started:
            server.start()
        yield started
    finally:
        for server in started:
            if server.process is not None:
                server.kill()
        engine.stop()


def total(server: ServerProcess, metric: str) -> float:
    """The sum over all nodes."""
    name = f"tidegate_dependency_{metric}{{"
    lines = [line for line in server.get("/metrics")[1].splitlines() if line.startswith(name)]
    return sum(float(line.split()[-1]) for line in lines if "metadata-cache/" in line)


class Load:
    """Calls to all servers, over and over, until it ends; every answer counts."""

    def __init__(self, calls: list[Callable[[], object]]) -> None:
        self.answered = 0
        self._ending = threading.Event()
        self._pool = ThreadPoolExecutor(len(calls))
        self._loops = [self._pool.submit(self._repeat, call) for call in calls]

    def _repeat(self, call: Callable[[], object]) -> None:
        while not self._ending.is_set():
            call()
            self.answered += 1

    def goes_on(self, until: Callable[[], bool]) -> None:
        """Return when this is so; raise what a call raised."""
        deadline = time.monotonic() + WAIT_S_MAX
        while not until():
            assert time.monotonic() < deadline
            before = self.answered
            while self.answered < before + 10:
                for loop in self._loops:
                    if loop.done():
                        loop.result()
                self._ending.wait(0.01)  # between two looks at what threads do

    def end(self) -> None:
        self._ending.set()
        for loop in self._loops:
            loop.result()
        self._pool.shutdown()


def test_nodes_come_and_go_under_load(servers: list[ServerProcess], nodes: list[Any]) -> None:
    clients = [server.client() for server in servers]
    urls = [clients[0].create_queue(QueueName=f"q{number}")["QueueUrl"] for number in range(9)]
    # For a while this server would not look for what it has written itself.
    servers[0].kill()
    servers[0].start()

    def calls_of(client: Any) -> Callable[[], object]:
        turns = iter(range(1_000_000))
        return lambda: client.send_message(QueueUrl=urls[next(turns) % 9], MessageBody="m")

    load = Load([calls_of(client) for client in clients])
    load.goes_on(lambda: any(total(server, "hits_total") > 0 for server in servers))
    for node in nodes:
        node.stop()
    load.goes_on(lambda: all(total(server, "failed_calls_total") > 0 for server in servers))
    for node in nodes:
        node.start()
    answered = load.answered
    load.goes_on(lambda: load.answered > answered + 50)
    load.end()
    for server in servers:
        assert '"level":"error"' not in server.log.read_text()
        assert server.stop() == 0


def test_a_server_asks_nodes_over_tls(tmp_path: Path, over_tls: ProtocolServer) -> None:
    authority = tmp_path / "certificates" / "authority.pem"
    options = (
        *("--metadata-cache", f"localhost:{over_tls.port}"),
        *("--metadata-cache-tls", str(authority), "--log-level", "warning"),
    )
    server = ServerProcess(tmp_path / "data", tmp_path / "log", options=options)
    server.start()
    url = server.client().create_queue(QueueName="q")["QueueUrl"]
    give_up_s = time.monotonic() + WAIT_S_MAX
    while not over_tls.commands:
        assert time.monotonic() < give_up_s
        server.client().send_message(QueueUrl=url, MessageBody="m")
    assert server.stop() == 0


def test_a_file_without_certificates_ends_the_start_with_one_line(tmp_path: Path) -> None:
    nothing = tmp_path / "nothing.pem"
    nothing.touch()
    for file, line in (
        (nothing, f"tidegate: metadata-cache-tls: {nothing} has no certificate in PEM form\n"),
        (
            tmp_path / "x",
            f"tidegate: metadata-cache-tls: {tmp_path}/x: No such file or directory\n",
        ),
    ):
        options = ("--metadata-cache", "localhost", "--metadata-cache-tls", str(file))
        ended = run_command(
            *("serve", "--port", str(free_port()), "--data", str(tmp_path / "data"), *options)
        )
        assert (ended.returncode, ended.stdout, ended.stderr) == (2, "", line)
