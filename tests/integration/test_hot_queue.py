"""A hot queue moves alone, under load, while the server is killed and a cell fails."""

import http.client
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import pytest
from botocore.exceptions import BotoCoreError, ClientError

from tests.integration.server_process import ServerProcess, run_command

NEIGHBOURS: Final = 8
WAIT_S_MAX: Final = 150
TWO_COPIES: Final = {"TidegateReplicationFactor": "2"}
FIFO: Final = {"FifoQueue": "true", "ContentBasedDeduplication": "true"}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    options = ("--cells", "4", "--usage", "off", "--log-level", "error")
    started = ServerProcess(tmp_path / "data", tmp_path / "log", options=options)
    started.start()
    yield started
    started.kill()


class Load:
    """Somebody who sends to a queue all the time, and somebody who receives and deletes."""

    def __init__(self, server: ServerProcess, url: str) -> None:
        self.server = server
        self.url = url
        self.is_fifo = url.endswith(".fifo")
        self.sent: list[str] = []
        self.received: list[str] = []
        self.deleted: dict[str, int] = {}
        self.ended = threading.Event()
        self.threads = [threading.Thread(target=self._send), threading.Thread(target=self._take)]
        for thread in self.threads:
            thread.start()

    def _send(self) -> None:
        client, number = self.server.client(), 0
        group = {"MessageGroupId": "g"} if self.is_fifo else {}
        while not self.ended.is_set():
            body = f"{number:06}"
            number += 1
            with suppress(BotoCoreError, ClientError):  # It is down, or has just failed over.
                client.send_message(QueueUrl=self.url, MessageBody=body, **group)
                self.sent.append(body)

    def _take(self) -> None:
        client = self.server.client()
        while not self.ended.is_set():
            with suppress(BotoCoreError, ClientError):
                self.take(client, wait_s=1)

    def take(self, client: Any, wait_s: int) -> int:
        got = client.receive_message(
            QueueUrl=self.url, MaxNumberOfMessages=10, WaitTimeSeconds=wait_s, VisibilityTimeout=8
        )
        messages = got.get("Messages", [])
        for message in messages:
            self.received.append(message["Body"])
        for message in messages:
            client.delete_message(QueueUrl=self.url, ReceiptHandle=message["ReceiptHandle"])
            self.deleted.setdefault(message["Body"], len(self.received))
        return len(messages)

    def end(self) -> None:
        """Nobody sends any more, and everything is taken."""
        self.ended.set()
        for thread in self.threads:
            thread.join(timeout=60)
        client, silent = self.server.client(attempts=5), 0
        while silent < 2:  # One wait is longer than a visibility.
            silent = 0 if self.take(client, wait_s=10) else silent + 1


def ask(server: ServerProcess, act: str, **params: object) -> dict[str, Any]:
    """What an operator asks for."""
    headers = {
        "Content-Type": "application/x-amz-json-1.0",
        "X-Amz-Target": f"AmazonSQS.{act}",
    }
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
    try:
        connection.request("POST", "/", json.dumps(params).encode(), headers)
        response = connection.getresponse()
        told = response.read()
    finally:
        connection.close()
    assert response.status == 200, told
    answer: dict[str, Any] = json.loads(told or b"{}")
    return answer


def until(is_met: Callable[[], bool]) -> None:
    begun_s = time.monotonic()
    while not is_met():
        assert time.monotonic() - begun_s < WAIT_S_MAX
        time.sleep(0.2)  # until the manager has taken its next step


def placements(server: ServerProcess) -> dict[str, list[tuple[str, str]]]:
    """By group, or the queue that has it alone, its members and what they are."""
    told = ask(server, "TidegateListCells")
    return {
        one.get("QueueName", one["GroupName"]): [
            (member["CellName"], member["State"]) for member in one["Members"]
        ]
        for one in told["PlacementGroups"]
    }


@pytest.mark.nightly
def test_a_hot_queue_moves_alone_and_nothing_is_lost(server: ServerProcess) -> None:
    client = server.client()
    urls = {
        name: client.create_queue(QueueName=name, Attributes={**TWO_COPIES, **more})["QueueUrl"]
        for name, more in (("hot", {}), ("hot.fifo", FIFO))
    }
    neighbours = {}
    for number in range(NEIGHBOURS):
        url = client.create_queue(QueueName=f"n{number}", Attributes=TWO_COPIES)["QueueUrl"]
        neighbours[url] = {f"{number} {n}" for n in range(5)}
        for body in neighbours[url]:
            client.send_message(QueueUrl=url, MessageBody=body)
    loads = [Load(server, url) for url in urls.values()]
    try:
        before = placements(server)
        chosen, groups = {}, set()
        for name in urls:
            own = ask(server, "TidegateMoveQueue", QueueName=name, CellNames=["cell-1"])
            groups.add(own["GroupName"].rpartition(".")[0])
            present = {cell for cell, _ in placements(server)[name]}
            chosen[name] = sorted({f"cell-{n}" for n in range(1, 5)} - present)[:2]
            ask(server, "TidegateMoveQueue", QueueName=name, CellNames=chosen[name])
        until(lambda: any(state == "joining" for _, state in placements(server)["hot"]))
        server.kill()
        server.start()
        for name, cells in chosen.items():
            where = ("--to", ",".join(cells), "--endpoint", server.url)
            moved = run_command("cells", "move-queue", name, *where)
            assert (moved.returncode, moved.stderr) == (0, ""), moved.stderr
            assert moved.stdout.endswith(f"{name} has moved.\n")
        after = placements(server)
        for name, cells in chosen.items():
            assert sorted(after.pop(name)) == [(cell, "full") for cell in cells]
        # Groups that nobody uses may be moved, for cells to have as many; theirs have stayed.
        for group in groups:
            assert after[group] == before[group]
        ask(server, "TidegateFailCell", CellName=chosen["hot"][0])
    finally:
        for load in loads:
            load.end()
    hot, ordered = loads
    assert min(len(hot.sent), len(ordered.sent)) > 50
    assert set(hot.sent) <= set(hot.received)
    assert set(ordered.sent) <= set(ordered.received)
    # What comes once more comes before it was deleted; else it goes on in order.
    first = list(dict.fromkeys(ordered.received))
    assert first == sorted(first)
    for body, at in ordered.deleted.items():
        assert body not in ordered.received[at:]
    for url, bodies in neighbours.items():
        found: set[str] = set()
        while len(found) < len(bodies):
            got = client.receive_message(QueueUrl=url, MaxNumberOfMessages=10, WaitTimeSeconds=20)
            assert "Messages" in got, url
            found |= {message["Body"] for message in got["Messages"]}
        assert found == bodies
