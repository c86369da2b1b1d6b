"""Directories of cells that are lost, replaced, put back, and swapped between two starts."""

import json
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.server_process import ROOT, ServerProcess, command, run_command

MESSAGES = 12
WAIT_S_MAX = 180


class Operator:
    """A service of several cells, and what an operator does to it."""

    def __init__(self, folder: Path, cells: int) -> None:
        self.server = ServerProcess(folder / "data", folder / "log")
        self.copies = folder / "copies"
        self.set_cells(cells)

    def set_cells(self, cells: int, *further: str) -> None:
        self.server.options = ("--cells", str(cells), "--log-level", "warning", *further)

    @property
    def data(self) -> Path:
        return self.server.data

    def start(self, cells: int, *further: str) -> Any:
        self.set_cells(cells, *further)
        self.server.start()
        return self.server.client(attempts=5)

    def refused(self, cells: int, *further: str, code: int = 1) -> str:
        """The one line with which a start is refused."""
        self.set_cells(cells, *further)
        arguments = ("serve", "--port", str(self.server.port), "--data", str(self.data))
        ran = subprocess.run(
            command(*arguments, "--auth", "off", *self.server.options),
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert (ran.returncode, ran.stdout) == (code, ""), ran.stdout + ran.stderr
        return ran.stderr.splitlines()[-1].removeprefix("tidegate: ")

    def do(self, *arguments: str) -> None:
        """Also what is refused until the manager has let a cell join, or leave."""
        until_s = time.monotonic() + WAIT_S_MAX
        while True:
            ran = run_command("cells", "--endpoint", self.server.url, *arguments)
            if ran.returncode == 0:
                return
            assert time.monotonic() < until_s, ran.stderr
            time.sleep(0.5)  # between two tries

    def back_up(self, cell: str) -> None:
        shutil.copytree(self.data / cell, self.copies / cell)

    def put_back(self, cell: str) -> None:
        shutil.rmtree(self.data / cell, ignore_errors=True)
        shutil.copytree(self.copies / cell, self.data / cell)

    def lose(self, *cells: str) -> None:
        for cell in cells:
            shutil.rmtree(self.data / cell)

    def said(self, pattern: str) -> bool:
        return re.search(pattern, self.server.log.read_text()) is not None


@pytest.fixture
def operator(tmp_path: Path) -> Iterator[Operator]:
    one = Operator(tmp_path, 3)
    yield one
    if one.server.process is not None:
        one.server.kill()


def send(sqs: Any, prefix: str = "m") -> set[str]:
    """Send to a queue of each kind; what was acknowledged."""
    sent: set[str] = set()
    for name in ("standard", "ordered.fifo"):
        attributes = {"FifoQueue": "true"} if name.endswith(".fifo") else {}
        url = sqs.create_queue(QueueName=name, Attributes=attributes)["QueueUrl"]
        for number in range(MESSAGES):
            body = f"{name} {prefix} {number}"
            fifo = (
                {"MessageGroupId": "g", "MessageDeduplicationId": body.replace(" ", "-")}
                if attributes
                else {}
            )
            sqs.send_message(QueueUrl=url, MessageBody=body, **fifo)
            sent.add(body)
    return sent


def take_all(sqs: Any) -> set[str]:
    """Receive and delete what there is."""
    found: set[str] = set()
    for name in ("standard", "ordered.fifo"):
        url = sqs.get_queue_url(QueueName=name)["QueueUrl"]
        while True:
            got = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10, WaitTimeSeconds=2)
            messages = got.get("Messages", [])
            if not messages:
                break
            for message in messages:
                found.add(message["Body"])
                sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
    return found


def test_two_lost_directories_and_another_number_of_cells_begin_nothing_anew(
    operator: Operator,
) -> None:
    sent = send(operator.start(3))
    operator.server.stop()
    operator.lose("cell-1", "cell-2")
    refused = operator.refused(2)
    assert refused.startswith("cells: 1 of 3 cells can be read, which is not more than half: ")
    assert refused.endswith("which loses what no other cell has: --give-up cell-1,cell-2")
    assert operator.refused(3) == refused
    sqs = operator.start(2, "--give-up", "cell-1,cell-2")
    assert take_all(sqs) == sent


@pytest.mark.nightly
def test_disks_that_were_all_replaced_are_found_by_the_same_start(operator: Operator) -> None:
    sqs = operator.start(2)
    sent = send(sqs)
    operator.do("add", "cell-3")
    operator.do("add", "cell-4")
    for old in (1, 2):
        operator.do("drain", f"cell-{old}", "--no-wait")
        operator.do("remove", f"cell-{old}", "--yes")
    operator.server.stop()
    operator.lose("cell-1", "cell-2")
    sqs = operator.start(2)
    cells = json.loads(operator.server.get("/health")[1])["cells"]
    assert sorted(cells) == ["cell-3", "cell-4"]
    assert not (operator.data / "cell-1").exists()
    assert take_all(sqs) == sent


def test_all_directories_lost_begin_nothing_anew_unasked(operator: Operator) -> None:
    send(operator.start(3))
    operator.server.stop()
    operator.lose("cell-1", "cell-2", "cell-3")
    refused = operator.refused(3)
    assert refused.startswith("cells: no cell of this service can be read: cell-1 (cell-1) is mis")
    assert refused.endswith("which loses all queues and messages: --begin-anew")
    assert operator.refused(2) == refused
    assert operator.refused(1, code=2).startswith("cells: ")
    (operator.data / "manifest.json").unlink()
    assert "--begin-anew" in operator.refused(3)
    sqs = operator.start(3, "--begin-anew")
    assert "QueueUrls" not in sqs.list_queues()
    operator.server.stop()
    operator.start(3, "--begin-anew")
    assert operator.server.stop() == 0


def test_a_failed_cell_and_an_empty_directory_start(operator: Operator) -> None:
    sent = send(operator.start(3))
    operator.do("fail", "cell-3")
    operator.server.stop()
    operator.lose("cell-1")
    sqs = operator.start(3)
    assert operator.said(r"cells: cell-1 \(cell-1\) is missing")
    assert take_all(sqs) == sent


def test_one_of_two_directories_is_enough(operator: Operator) -> None:
    sent = send(operator.start(2))
    operator.server.stop()
    operator.lose("cell-1")
    sqs = operator.start(2)
    assert take_all(sqs) == sent
    operator.server.stop()
    (operator.data / "manifest.json").unlink()
    operator.lose("cell-1")
    refused = operator.refused(2)
    assert refused.startswith("cells: 1 of 2 cells can be read, which is not more than half: ")
    assert refused.endswith("--give-up cell-1")


@pytest.mark.nightly
def test_old_copies_of_directories_are_named_and_filled_from_the_others(
    operator: Operator,
) -> None:
    send(operator.start(3))
    operator.server.stop()
    operator.back_up("cell-2")
    sqs = operator.start(3)
    take_all(sqs)
    sent = send(sqs, "later")
    operator.server.stop()
    operator.put_back("cell-2")
    sqs = operator.start(3)
    assert operator.said(r"cells: cell-2 \(cell-2\) is stale: cell-2 as it was opened 20")
    assert (operator.data / "cell-2" / "data.mdb.set-aside-1").exists()
    assert take_all(sqs) == sent


@pytest.mark.nightly
def test_two_old_copies_are_not_read(operator: Operator) -> None:
    send(operator.start(3))
    operator.server.stop()
    operator.back_up("cell-2")
    operator.back_up("cell-3")
    sqs = operator.start(3)
    take_all(sqs)
    sent = send(sqs, "later")
    operator.server.stop()
    operator.put_back("cell-2")
    operator.put_back("cell-3")
    refused = operator.refused(3)
    assert refused.startswith("cells: 1 of 3 cells can be read, which is not more than half: ")
    assert refused.count("is stale") == 2
    sqs = operator.start(3, "--give-up", "cell-2,cell-3")
    assert take_all(sqs) == sent
