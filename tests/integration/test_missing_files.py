"""Data files that are deleted, replaced, moved or cut under a running server."""

import json
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.integration.server_process import ServerProcess, run_command

_WAIT_S_MAX = 120.0
_LOOK_S = 0.1


def deleted(folder: Path) -> None:
    shutil.rmtree(folder)


def replaced(folder: Path) -> None:
    """By a copy of itself, as backups are put back."""
    shutil.copyfile(folder / "data.mdb", folder / "copy")
    (folder / "copy").replace(folder / "data.mdb")


def moved(folder: Path) -> None:
    folder.rename(folder.with_name(f"{folder.name}-elsewhere"))


def cut(folder: Path) -> None:
    """To less than was allocated, and more than is used: nothing else sees that."""
    with (folder / "data.mdb").open("r+b") as file:
        file.truncate(8 * 1024 * 1024)


WAYS = (deleted, replaced, moved, cut)
Way = Callable[[Path], None]


def awaited(holds: Callable[[], bool], what: str) -> None:
    until_s = time.monotonic() + _WAIT_S_MAX
    while not holds():
        assert time.monotonic() < until_s, what
        time.sleep(_LOOK_S)  # between two looks at what the server sees


def health(server: ServerProcess) -> tuple[int, dict[str, str]]:
    status, text = server.get("/health")
    return status, json.loads(text)["cells"]


def refused(call: Callable[[], object]) -> str:
    with pytest.raises(ClientError) as error:
        call()
    assert error.value.response["ResponseMetadata"]["HTTPStatusCode"] == 503
    return str(error.value)


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[ServerProcess]:
    server = ServerProcess(tmp_path / "data", tmp_path / "log")
    server.start()
    yield server
    server.kill()


def _not_served(server: ServerProcess) -> list[str]:
    return [line for line in server.log.read_text().splitlines() if "nothing is served" in line]


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_one_cell_acknowledges_nothing_that_its_file_will_not_have(
    alone: ServerProcess, way: Way
) -> None:
    sqs = alone.client()
    url = sqs.create_queue(QueueName="orders")["QueueUrl"]
    sqs.send_message(QueueUrl=url, MessageBody="kept")
    way(alone.data)
    refused(lambda: sqs.send_message(QueueUrl=url, MessageBody="lost"))
    awaited(lambda: health(alone) == (503, {"local": "unavailable"}), "/health says it is well")
    refused(lambda: sqs.receive_message(QueueUrl=url))
    awaited(lambda: bool(_not_served(alone)), "nobody says so")
    (said,) = _not_served(alone)
    assert "data.mdb" in said


def test_a_file_that_was_moved_is_served_again_when_it_is_back(alone: ServerProcess) -> None:
    sqs = alone.client()
    url = sqs.create_queue(QueueName="orders")["QueueUrl"]
    moved(alone.data)
    awaited(lambda: health(alone)[0] == 503, "/health says it is well")
    alone.data.with_name("data-elsewhere").rename(alone.data)
    awaited(lambda: health(alone)[0] == 200, "/health says it is not well")
    sqs.send_message(QueueUrl=url, MessageBody="kept")


def test_what_was_deleted_can_be_copied_while_the_server_runs(
    alone: ServerProcess, tmp_path: Path
) -> None:
    sqs = alone.client()
    url = sqs.create_queue(QueueName="orders")["QueueUrl"]
    sqs.send_message(QueueUrl=url, MessageBody="kept")
    (alone.data / "data.mdb").unlink()
    awaited(lambda: "/fd/" in alone.log.read_text(), "nobody says where it is")
    said = next(word for word in alone.log.read_text().split() if "/fd/" in word)
    shutil.copyfile(said, tmp_path / "saved")
    alone.stop()
    shutil.copyfile(tmp_path / "saved", alone.data / "data.mdb")
    alone.start()
    (message,) = sqs.receive_message(QueueUrl=url)["Messages"]
    assert message["Body"] == "kept"


@pytest.fixture
def three(tmp_path: Path) -> Iterator[ServerProcess]:
    server = ServerProcess(tmp_path / "data", tmp_path / "log", options=("--cells", "3"))
    server.start()
    yield server
    server.kill()


def listed(server: ServerProcess, *options: str) -> str:
    said = run_command("cells", "--endpoint", server.url, "list", *options)
    assert said.returncode == 0, said.stderr
    return said.stdout


def copies(server: ServerProcess, cell: str) -> int:
    """How many groups of three copies have one in this cell."""
    lines = [line for line in listed(server, "--groups").splitlines() if line.startswith("g3.")]
    return sum(cell in line and "joining" not in line for line in lines)


@pytest.mark.nightly
@pytest.mark.parametrize("way", [deleted, cut], ids=lambda way: way.__name__)
def test_the_others_go_on_where_one_of_three_is_missing(three: ServerProcess, way: Way) -> None:
    sqs = three.client()
    url = sqs.create_queue(QueueName="orders.fifo", Attributes={"FifoQueue": "true"})["QueueUrl"]

    def send(number: int) -> None:
        sqs.send_message(
            QueueUrl=url,
            MessageBody=str(number),
            MessageGroupId=str(number),
            MessageDeduplicationId=str(number),
        )

    send(0)
    way(three.data / "cell-2")
    send(1)  # it waits until the others do without
    assert copies(three, "cell-2") == 0
    assert health(three)[0] == 200
    assert health(three)[1]["cell-2"] == "unavailable"
    assert "`tidegate cells restore cell-2` goes on" in listed(three)
    run = run_command("cells", "--endpoint", three.url, "restore", "cell-2")
    assert run.returncode == 0, run.stderr
    awaited(lambda: copies(three, "cell-2") == 16, "it does not join again")
    send(2)
    received = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10)["Messages"]
    assert [message["Body"] for message in received] == ["0", "1", "2"]


@pytest.mark.nightly
def test_nothing_is_acknowledged_where_all_of_three_are_deleted(three: ServerProcess) -> None:
    sqs = three.client()
    url = sqs.create_queue(QueueName="orders")["QueueUrl"]
    for number in (1, 2, 3):
        deleted(three.data / f"cell-{number}")
    refused(lambda: sqs.send_message(QueueUrl=url, MessageBody="lost"))
    awaited(lambda: health(three)[0] == 503, "/health says it is well")
    assert set(health(three)[1].values()) == {"unavailable"}


def _swap(data: Path) -> None:
    """The directories of the cells, each for the next one's."""
    folders = sorted(data.glob("cell-*"))
    for folder in folders:
        folder.rename(folder.with_name(f"was-{folder.name}"))
    for folder, other in zip(folders, folders[1:] + folders[:1], strict=True):
        other.with_name(f"was-{other.name}").rename(folder)


@pytest.mark.nightly
def test_all_go_on_when_all_directories_are_back_where_they_were(three: ServerProcess) -> None:
    """Also where the registry, which lies in them, did not answer meanwhile."""
    sqs = three.client()
    url = sqs.create_queue(QueueName="orders")["QueueUrl"]
    sqs.send_message(QueueUrl=url, MessageBody="kept")
    _swap(three.data)
    refused(lambda: sqs.send_message(QueueUrl=url, MessageBody="lost"))
    awaited(lambda: set(health(three)[1].values()) == {"unavailable"}, "one is well")
    _swap(three.data)
    _swap(three.data)
    awaited(lambda: set(health(three)[1].values()) == {"available"}, "they are not found again")
    sqs.send_message(QueueUrl=url, MessageBody="and")
    assert received_of(sqs, url) >= {"kept", "and"}


def received_of(sqs: Any, url: str) -> set[str]:
    bodies: set[str] = set()
    while messages := sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10).get("Messages"):
        bodies |= {message["Body"] for message in messages}
    return bodies
