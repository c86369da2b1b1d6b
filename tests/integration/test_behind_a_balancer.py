"""Two servers on one DynamoDB table behind a load balancer, with authentication on."""

import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.config import Config

from tests.integration.balancer import Balancer
from tests.integration.dynamodb_engine import Engine
from tests.integration.server_process import ANSWER_S_MAX, ServerProcess

SENDERS = 2
MORE = 15
"""So many more acknowledged sends show that a load goes on."""

VISIBILITY_S = 2
GIVE_UP_S = 120


@pytest.fixture
def engine() -> Iterator[Engine]:
    started = Engine()
    yield started
    started.stop()


@pytest.fixture
def servers(tmp_path: Path, engine: Engine) -> Iterator[tuple[ServerProcess, ServerProcess]]:
    """The first makes table and keys; the other has a folder of its own and the same keys."""
    options = (
        *("--cell", "dynamodb", "--endpoint", engine.url, "--table", engine.table),
        *("--master-keys", str(tmp_path / "keys"), "--blobs", str(tmp_path / "bodies")),
        *("--log-level", "warning"),
    )
    first, second = (
        ServerProcess(tmp_path / name, tmp_path / f"{name}.log", options=options, auth="on")
        for name in ("first", "second")
    )
    first.start()
    second.start()
    yield first, second
    for server in (first, second):
        server.kill()


@pytest.fixture
def balancer(servers: tuple[ServerProcess, ServerProcess]) -> Iterator[Balancer]:
    with Balancer([server.port for server in servers]).running() as running:
        running.wait_for(*running.ports)
        yield running


def client(balancer: Balancer, of: ServerProcess) -> Any:
    key_id, secret = of.access_key
    return boto3.client(
        "sqs",
        endpoint_url=balancer.url,
        region_name="us-east-1",
        aws_access_key_id=key_id,
        aws_secret_access_key=secret,
        config=Config(
            retries={"mode": "standard", "total_max_attempts": 10},
            connect_timeout=ANSWER_S_MAX,
            read_timeout=ANSWER_S_MAX,
        ),
    )


def assert_each_call_meets_the_other_server(sqs: Any, balancer: Balancer) -> None:
    url = sqs.create_queue(QueueName="orders")["QueueUrl"]
    assert url.startswith(f"{balancer.url}/"), "it has the name that the client used"
    balancer.served.clear()
    for body in ("one", "two"):
        sqs.send_message(QueueUrl=url, MessageBody=body)
        (got,) = sqs.receive_message(QueueUrl=url, WaitTimeSeconds=20)["Messages"]
        assert got["Body"] == body
        sqs.delete_message(QueueUrl=url, ReceiptHandle=got["ReceiptHandle"])
    ports = [port for port, _ in balancer.served]
    assert len(ports) == 6
    assert all(one != other for one, other in pairwise(ports)), "in turns"
    assert {status for _, status in balancer.served} == {200}


class Work:
    """Clients that send, receive and delete without a pause until they are told to stop."""

    def __init__(self, make_client: Callable[[], Any], url: str) -> None:
        self._make_client = make_client
        self._url = url
        self._stop = threading.Event()
        self._moved = threading.Condition()
        self.acknowledged: set[str] = set()
        self.received: set[str] = set()

    def send(self, sender: int) -> None:
        sqs = self._make_client()
        number = 0
        while not self._stop.is_set():
            body = f"{sender}-{number}"
            sqs.send_message(QueueUrl=self._url, MessageBody=body)
            number += 1
            with self._moved:
                self.acknowledged.add(body)
                self._moved.notify_all()

    def receive(self) -> None:
        """Until all that was acknowledged has come, once senders have stopped."""
        sqs = self._make_client()
        give_up_s = time.monotonic() + GIVE_UP_S
        while not (self._stop.is_set() and self.acknowledged <= self.received):
            assert time.monotonic() < give_up_s, self.acknowledged - self.received
            answer = sqs.receive_message(
                QueueUrl=self._url, MaxNumberOfMessages=10, WaitTimeSeconds=1
            )
            for message in answer.get("Messages", ()):
                self.received.add(message["Body"])
                sqs.delete_message(QueueUrl=self._url, ReceiptHandle=message["ReceiptHandle"])

    def wait_for_more(self, count: int) -> None:
        """Return when so many more were acknowledged."""
        with self._moved:
            goal = len(self.acknowledged) + count
            assert self._moved.wait_for(lambda: len(self.acknowledged) >= goal, GIVE_UP_S)

    def end(self) -> None:
        self._stop.set()


def test_servers_are_one_service_and_lose_nothing_acknowledged_when_they_go_away(
    servers: tuple[ServerProcess, ServerProcess], balancer: Balancer
) -> None:
    """In one test, because to start servers is most of its work."""
    first, second = servers
    sqs = client(balancer, first)
    assert_each_call_meets_the_other_server(sqs, balancer)
    url = sqs.create_queue(QueueName="load", Attributes={"VisibilityTimeout": str(VISIBILITY_S)})[
        "QueueUrl"
    ]
    work = Work(lambda: client(balancer, first), url)
    with ThreadPoolExecutor(SENDERS + 1) as pool:
        running = [pool.submit(work.send, sender) for sender in range(SENDERS)]
        running.append(pool.submit(work.receive))
        try:
            work.wait_for_more(MORE)
            first.kill()
            balancer.wait_for(second.port)
            work.wait_for_more(MORE)
            first.start()
            balancer.wait_for(first.port, second.port)
            work.wait_for_more(MORE)
            assert second.stop(signal.SIGTERM) == 0
            balancer.wait_for(first.port)
            work.wait_for_more(MORE)
        finally:
            work.end()
        for future in running:
            future.result()  # no client was told of a failure
    assert work.acknowledged <= work.received
    assert {port for port, _ in balancer.served} == {first.port, second.port}
    assert first.stop() == 0
