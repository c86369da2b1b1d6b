"""A server whose machine's clock is wrong, or is set while it serves: messages go on by real time.

The clock is libfaketime's (Debian package faketime): the server reads how wrong it is from a file.
"""

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from data_plane.core.cell_clock import LOOK_EVERY_US
from tests.integration.forked import ForkServer, Starts
from tests.integration.server_process import ServerProcess

HOUR_S = 3_600
DAY_S = 24 * HOUR_S
SOON_S = 60
"""What is due by real time comes within so long, on a machine that has much else to do."""

_FOUND = sorted(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"))
# Waits are by real time, seconds in each of these tests.
pytestmark = [
    pytest.mark.nightly,
    pytest.mark.skipif(
        not _FOUND, reason="no libfaketime: apt-get install faketime to set a server's clock"
    ),
]


@dataclass
class Machine:
    """A server, and by how much its clock is ahead."""

    server: ServerProcess
    file: Path
    queues: dict[str, str] = field(default_factory=dict)

    def set_clock(self, ahead_s: int) -> None:
        """Set it; the file is replaced, as the server may read it at any moment."""
        beside = self.file.with_suffix(".new")
        beside.write_text(f"{ahead_s:+d}\n")
        beside.replace(self.file)
        process = self.server.process
        if process is not None and process.poll() is None:
            time.sleep(1.5 * LOOK_EVERY_US / 1_000_000)  # what is set back sooner is not noticed
            self.server.client().list_queues()

    def start(self, ahead_s: int) -> None:
        self.set_clock(ahead_s)
        self.server.start()
        client = self.server.client()
        for name, attributes in (
            ("orders", {}),
            ("slow", {"VisibilityTimeout": "2"}),
            ("orders.fifo", {"FifoQueue": "true"}),
        ):
            made = client.create_queue(QueueName=name, Attributes=attributes)
            self.queues[name] = made["QueueUrl"]

    def send(self, body: str, delay_s: int = 0) -> None:
        self.server.client().send_message(
            QueueUrl=self.queues["orders"], MessageBody=body, DelaySeconds=delay_s
        )

    def send_in_order(self, body: str) -> str:
        sent = self.server.client().send_message(
            QueueUrl=self.queues["orders.fifo"],
            MessageBody=body,
            MessageGroupId="one",
            MessageDeduplicationId=body,
        )
        number: str = sent["SequenceNumber"]
        return number

    def receive(self, queue: str, count: int = 1, *, delete: bool = True) -> list[str]:
        """Bodies of so many messages, or of those that came in time."""
        client, bodies = self.server.client(), list[str]()
        until_s = time.monotonic() + SOON_S
        while len(bodies) < count and time.monotonic() < until_s:
            found = client.receive_message(
                QueueUrl=self.queues[queue], WaitTimeSeconds=1, MaxNumberOfMessages=1
            )
            for message in found.get("Messages", ()):
                bodies.append(message["Body"])
                if delete:
                    client.delete_message(
                        QueueUrl=self.queues[queue], ReceiptHandle=message["ReceiptHandle"]
                    )
        return bodies

    @property
    def health(self) -> dict[str, Any]:
        body: dict[str, Any] = json.loads(self.server.get("/health")[1])
        return body

    @property
    def warnings(self) -> str:
        lines = map(json.loads, self.server.log.read_text().splitlines())
        return "\n".join(str(line) for line in lines if line["level"] == "warning")


@pytest.fixture(scope="module")
def clock_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the server reads by how much its clock is ahead."""
    file = tmp_path_factory.mktemp("clock") / "ahead"
    file.write_text("+0\n")
    return file


@pytest.fixture(scope="module")
def environment(clock_file: Path) -> dict[str, str]:
    return {
        "LD_PRELOAD": str(_FOUND[0]),
        "FAKETIME_TIMESTAMP_FILE": str(clock_file),
        "FAKETIME_NO_CACHE": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        "NO_FAKE_STAT": "1",
    }


@pytest.fixture(scope="module")
def faked(environment: dict[str, str]) -> Iterator[ForkServer]:
    """What starts servers that have such a clock."""
    server = ForkServer(environment=environment)
    yield server
    server.close()


@pytest.fixture
def machine(
    tmp_path: Path,
    clock_file: Path,
    environment: dict[str, str],
    faked: ForkServer,
    starts: type[Starts],
) -> Iterator[Machine]:
    starts.by = faked
    server = ServerProcess(tmp_path / "data", tmp_path / "log", environment=environment)
    machine = Machine(server, clock_file)
    yield machine
    if server.process is not None:
        server.kill()


def goes_on(machine: Machine) -> None:
    """Everything that takes time takes as long as ever."""
    machine.send("at once")
    machine.send("later", delay_s=1)
    assert sorted(machine.receive("orders", 2)) == ["at once", "later"]
    client, slow = machine.server.client(), machine.queues["slow"]
    client.send_message(QueueUrl=slow, MessageBody="again")
    assert machine.receive("slow", delete=False) == ["again"]
    assert machine.receive("slow") == ["again"]  # after its two seconds, and deleted then
    first = machine.send_in_order("c")
    assert machine.send_in_order("c") == first
    machine.send_in_order("d")
    assert machine.receive("orders.fifo", 2) == ["c", "d"]


@pytest.mark.parametrize("ahead_s", [HOUR_S, DAY_S])
def test_a_clock_that_was_ahead_at_the_start_and_is_set_right(
    machine: Machine, ahead_s: int
) -> None:
    machine.start(ahead_s)
    machine.send("sent ahead")
    machine.send("sent ahead, for later", delay_s=2)
    numbers = [machine.send_in_order("a"), machine.send_in_order("b")]
    machine.set_clock(0)
    assert machine.send_in_order("a") == numbers[0]
    assert machine.receive("orders.fifo", 2) == ["a", "b"]
    assert sorted(machine.receive("orders", 2)) == ["sent ahead", "sent ahead, for later"]
    goes_on(machine)
    assert machine.health["clock"] == f"behind the store by {ahead_s} s"
    assert f"set back by {ahead_s} s" in machine.warnings


@pytest.mark.parametrize("ahead_s", [HOUR_S, DAY_S])
def test_a_clock_that_was_ahead_until_the_server_stopped(machine: Machine, ahead_s: int) -> None:
    machine.start(ahead_s)
    machine.send("sent ahead")
    number = machine.send_in_order("a")
    machine.send_in_order("b")
    machine.server.stop()
    machine.start(0)
    assert machine.send_in_order("a") == number
    assert machine.receive("orders.fifo", 2) == ["a", "b"]
    assert machine.receive("orders") == ["sent ahead"]
    goes_on(machine)
    assert "behind the latest stamp" in machine.warnings
    assert machine.health["clock"].startswith("behind the store by ")
    metrics = machine.server.get("/metrics")[1]
    (lead,) = [
        float(line.split()[-1])
        for line in metrics.splitlines()
        if line.startswith("tidegate_cell_clock_lead_seconds{")
    ]
    assert ahead_s - 600 <= lead <= ahead_s


def test_several_cells_have_one_time(machine: Machine) -> None:
    machine.server.options = ("--cells", "3")
    machine.start(HOUR_S)
    machine.send("sent ahead")
    number = machine.send_in_order("a")
    machine.set_clock(0)
    assert machine.send_in_order("a") == number
    machine.send_in_order("b")
    machine.server.stop()
    machine.start(0)
    assert machine.receive("orders.fifo", 2) == ["a", "b"]
    assert machine.receive("orders") == ["sent ahead"]
    goes_on(machine)
    assert machine.health["clock"].startswith("behind the store by ")


@pytest.mark.parametrize("step_s", [HOUR_S, DAY_S, -HOUR_S, -DAY_S])
def test_a_clock_that_is_set_while_the_server_serves_and_back(
    machine: Machine, step_s: int
) -> None:
    machine.start(0)
    machine.send("sent before")
    number = machine.send_in_order("a")
    sent_ms = time.time() * 1000
    machine.set_clock(step_s)
    assert machine.send_in_order("a") == number
    machine.send_in_order("b")
    assert machine.receive("orders.fifo") == ["a"]
    machine.set_clock(0)
    assert machine.send_in_order("b") != number  # a duplicate of the second
    assert machine.receive("orders.fifo") == ["b"]
    client, orders = machine.server.client(), machine.queues["orders"]
    (message,) = client.receive_message(
        QueueUrl=orders, AttributeNames=["SentTimestamp"], WaitTimeSeconds=20
    )["Messages"]
    assert message["Body"] == "sent before"
    assert abs(int(message["Attributes"]["SentTimestamp"]) - sent_ms) < SOON_S * 1000
    client.delete_message(QueueUrl=orders, ReceiptHandle=message["ReceiptHandle"])
    goes_on(machine)
    assert machine.health["clock"] == "ok"
    assert "was set ahead by" in machine.warnings
    assert "was set back by" in machine.warnings
