"""Queues that a server makes by itself: those of a file, and those of first messages."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.server_process import ServerProcess, run_command
from tests.ports import free_port

SHOP = """
[queues.orders]
VisibilityTimeout = 60
dead_letters = { queue = "orders-dead", max_receive_count = 5 }

[queues.orders-dead]
"""


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[ServerProcess]:
    file = tmp_path / "queues.toml"
    file.write_text(SHOP)
    process = ServerProcess(
        tmp_path / "data",
        tmp_path / "log",
        options=("--queues", str(file), "--auto-create-queues"),
    )
    process.start()
    yield process
    process.stop()


def events(server: ServerProcess, *names: str) -> list[tuple[str, str, str]]:
    logged = map(json.loads, server.log.read_text().splitlines())
    return [
        (event["event"], event["queue"], event.get("attribute", ""))
        for event in logged
        if event["event"] in names
    ]


def test_the_queues_of_a_file_are_there_and_stay_as_they_are(shop: ServerProcess) -> None:
    client = shop.client()
    names = [url.rpartition("/")[2] for url in client.list_queues()["QueueUrls"]]
    assert names == ["orders", "orders-dead"]
    made = [("queue created", "orders-dead", ""), ("queue created", "orders", "")]
    assert events(shop, "queue created") == made
    client.set_queue_attributes(QueueUrl="orders", Attributes={"VisibilityTimeout": "5"})
    shop.stop()
    shop.start()
    differs = ("queue differs from the file", "orders", "VisibilityTimeout")
    assert events(shop, "queue created", differs[0]) == [*made, differs]
    answer = shop.client().get_queue_attributes(
        QueueUrl="orders", AttributeNames=["VisibilityTimeout"]
    )
    assert answer["Attributes"] == {"VisibilityTimeout": "5"}


def test_a_first_message_can_be_browsed(shop: ServerProcess) -> None:
    shop.client().send_message(QueueUrl="new", MessageBody="first")
    shown = run_command("queue", "--endpoint", shop.url, "browse", "new")
    assert shown.returncode == 0, shown.stderr
    header, row = shown.stdout.splitlines()
    assert header.split()[0] == "STATE"
    assert row.split()[0] == "visible"
    assert row.endswith("first")


def test_a_wrong_file_ends_the_start_with_one_line(tmp_path: Path) -> None:
    file = tmp_path / "queues.toml"
    file.write_text("[queues.orders]\nVisibilityTimeout = 43_201")
    where = ("--port", str(free_port()), "--data", str(tmp_path / "data"))
    ended = run_command("serve", *where, "--queues", str(file))
    assert (ended.returncode, ended.stdout) == (2, "")
    reason = "queue orders: Invalid value for the parameter VisibilityTimeout."
    assert ended.stderr == f"tidegate: queues: {file}: {reason}\n"
