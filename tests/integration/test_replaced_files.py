"""Copies that are put in the place of what a server has open: never taken for it."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.server_process import ServerProcess, run_command
from tests.integration.test_missing_files import awaited, health

SOCKET = shutil.ignore_patterns("copies")
EARLY, LATE = [f"early {n}" for n in range(5)], [f"late {n}" for n in range(5)]


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[ServerProcess]:
    server = ServerProcess(tmp_path / "data", tmp_path / "log")
    server.start()
    yield server
    server.kill()


@pytest.fixture
def three(tmp_path: Path) -> Iterator[ServerProcess]:
    server = ServerProcess(tmp_path / "data", tmp_path / "log", options=("--cells", "3"))
    server.start()
    yield server
    server.kill()


def send(sqs: Any, url: str, bodies: list[str]) -> None:
    for body in bodies:
        sqs.send_message(QueueUrl=url, MessageBody=body)


def received(sqs: Any, url: str) -> list[str]:
    bodies: list[str] = []
    while messages := sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10).get("Messages"):
        bodies += [message["Body"] for message in messages]
    return sorted(bodies)


def put_back_a_copy(server: ServerProcess) -> tuple[Any, str]:
    """Of before the last messages, while it serves; the queue."""
    sqs = server.client()
    url = sqs.create_queue(QueueName="orders")["QueueUrl"]
    send(sqs, url, EARLY)
    shutil.copy2(server.data / "data.mdb", server.data / "copy")
    send(sqs, url, LATE)
    (server.data / "data.mdb").rename(server.data / "real")
    (server.data / "copy").rename(server.data / "data.mdb")
    return sqs, url


def test_one_cell_does_not_start_with_a_copy_that_was_swapped_in(alone: ServerProcess) -> None:
    sqs, url = put_back_a_copy(alone)
    alone.stop()
    arguments = ("serve", "--port", "0", "--data", str(alone.data), "--auth", "off")
    refused = run_command(*arguments)
    assert refused.returncode != 0
    assert "lacks what was acknowledged last" in refused.stderr
    assert f"remove {alone.data / 'replaced'}" in refused.stderr
    assert len(refused.stderr.splitlines()) == 1
    (alone.data / "real").rename(alone.data / "data.mdb")
    alone.start()
    assert received(sqs, url) == sorted(EARLY + LATE)


def test_one_cell_goes_on_with_the_copy_if_that_is_wanted(alone: ServerProcess) -> None:
    sqs, url = put_back_a_copy(alone)
    alone.stop()
    (alone.data / "replaced").unlink()
    alone.start()
    assert received(sqs, url) == EARLY


def test_what_is_put_back_while_it_runs_is_served_and_started_with(alone: ServerProcess) -> None:
    sqs, url = put_back_a_copy(alone)
    awaited(lambda: health(alone)[0] == 503, "/health says it is well")
    (alone.data / "real").rename(alone.data / "data.mdb")
    awaited(lambda: health(alone)[0] == 200, "/health says it is not well")
    alone.stop()
    assert not (alone.data / "replaced").exists()
    alone.start()
    assert received(sqs, url) == sorted(EARLY + LATE)


def test_a_copy_of_all_that_was_acknowledged_is_as_good(alone: ServerProcess) -> None:
    sqs = alone.client()
    url = sqs.create_queue(QueueName="orders")["QueueUrl"]
    send(sqs, url, EARLY)
    shutil.copy2(alone.data / "data.mdb", alone.data / "copy")
    (alone.data / "copy").rename(alone.data / "data.mdb")
    awaited(lambda: health(alone)[0] == 503, "/health says it is well")
    alone.stop()
    alone.start()
    assert received(sqs, url) == EARLY


def test_of_three_cells_a_copy_that_was_swapped_in_is_filled_anew(three: ServerProcess) -> None:
    sqs = three.client()
    urls = [sqs.create_queue(QueueName=f"queue-{n}")["QueueUrl"] for n in range(4)]
    for url in urls:
        send(sqs, url, EARLY)
    copy = three.data.with_name("copy")
    shutil.copytree(three.data / "cell-3", copy, ignore=SOCKET)
    for url in urls:
        send(sqs, url, LATE)
    shutil.rmtree(three.data / "cell-3")
    copy.rename(three.data / "cell-3")
    three.stop()
    three.start()
    assert "cell-3 (cell-3) is stale: a copy that took the place" in three.log.read_text()
    for url in urls:
        assert received(sqs, url) == sorted(EARLY + LATE)


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_two_of_three_directories_that_were_swapped_till_the_end_are_found(
    three: ServerProcess, end: str
) -> None:
    sqs = three.client()
    url = sqs.create_queue(QueueName="orders")["QueueUrl"]
    send(sqs, url, EARLY)
    one, other, aside = (three.data / name for name in ("cell-1", "cell-2", "aside"))
    one.rename(aside)
    other.rename(one)
    aside.rename(other)
    awaited(lambda: "is another file" in three.log.read_text(), "nobody notices it")
    getattr(three, end)()
    three.start()
    assert "stale" not in three.log.read_text()
    assert received(sqs, url) == EARLY


def test_the_only_copy_of_a_queue_is_not_restored_from_what_was_swapped_in(
    three: ServerProcess,
) -> None:
    sqs = three.client()
    attributes = {"TidegateReplicationFactor": "1"}
    # Five of 16 groups lie in the cell: once in three million times no queue would be in one.
    urls = [
        sqs.create_queue(QueueName=f"queue-{n}", Attributes=attributes)["QueueUrl"]
        for n in range(40)
    ]
    for url in urls:
        send(sqs, url, EARLY)
    real, copy = three.data.with_name("real"), three.data.with_name("copy")
    shutil.copytree(three.data / "cell-2", copy, ignore=SOCKET)
    for url in urls:
        send(sqs, url, LATE)
    (three.data / "cell-2").rename(real)
    copy.rename(three.data / "cell-2")
    awaited(lambda: "is another file" in three.log.read_text(), "nobody notices it")
    for act in ("fail", "restore"):
        assert "--lose-messages" in run_cells(three, act, "cell-2")
    (three.data / "cell-2").rename(copy)
    real.rename(three.data / "cell-2")
    assert run_cells(three, "restore", "cell-2") == ""
    for url in urls:
        assert received(sqs, url) == sorted(EARLY + LATE)


def run_cells(server: ServerProcess, *act: str) -> str:
    """What it was refused for; "": it was done."""
    said = run_command("cells", "--endpoint", server.url, *act)
    return said.stderr if said.returncode else ""
