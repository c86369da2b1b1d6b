"""`tidegate queue` from a shell: messages there and back, dead letters, attributes, JSON."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from control_plane.cli.main import tidegate
from tests.integration.server_process import ServerProcess


class Shell:
    def __init__(self, server: ServerProcess) -> None:
        self.server = server

    def run(self, *words: str, typed: str | None = None) -> Result:
        command = ["queue", "--endpoint", self.server.url, *words]
        return CliRunner().invoke(tidegate, command, input=typed)

    def __call__(self, *words: str, typed: str | None = None) -> str:
        ended = self.run(*words, typed=typed)
        assert ended.exit_code == 0, ended.output
        return ended.stdout


@pytest.fixture
def queue(server: ServerProcess) -> Shell:
    return Shell(server)


def test_messages_go_there_and_back(queue: Shell) -> None:
    queue("create", "orders")
    assert len(queue("send", "orders", "two coffees").strip()) == 36
    queue("send", "orders", typed="from a pipe\n")
    assert queue("receive", "orders", "--max", "1", "--visibility", "0").strip()
    bodies = set()
    while (ended := queue.run("receive", "orders", "--max", "10", "--delete")).exit_code == 0:
        bodies |= set(ended.stdout.splitlines())
    assert (ended.exit_code, ended.stdout) == (3, "")
    assert bodies == {"two coffees", "from a pipe", ""}
    (listed,) = json.loads(queue("list", "--json"))
    assert listed == {"name": "orders", "visible": 0, "in_flight": 0, "delayed": 0}


def test_a_fifo_queue_needs_a_group(queue: Shell) -> None:
    queue("create", "orders.fifo", "--attribute", "FifoQueue=true")
    assert queue.run("send", "orders.fifo", "x").exit_code == 1
    queue("send", "orders.fifo", "x", "--group", "g", "--deduplication-id", "1")
    told: dict[str, Any] = json.loads(queue("receive", "orders.fifo", "--json"))
    assert (told["Body"], told["Attributes"]["MessageGroupId"]) == ("x", "g")


def test_dead_letters_are_moved_back(queue: Shell) -> None:
    queue("create", "dead")
    arn = json.loads(queue("attributes", "dead", "--json"))["QueueArn"]
    policy = json.dumps({"deadLetterTargetArn": arn, "maxReceiveCount": "1"})
    queue("create", "orders", "--attribute", f"RedrivePolicy={policy}")
    queue("send", "orders", "poison")
    assert queue("receive", "orders", "--visibility", "0") == "poison\n"
    assert queue.run("receive", "orders").exit_code == 3
    (task,) = json.loads(queue("redrive", "dead", "--json"))
    assert task["status"] in {"RUNNING", "COMPLETED"}
    moved = queue.run("receive", "orders", "--wait", "20")
    assert moved.stdout == "poison\n"


def test_attributes_are_shown_and_changed(queue: Shell) -> None:
    queue("create", "orders")
    shown = queue("attributes", "orders", "VisibilityTimeout=77")
    assert ["VisibilityTimeout", "77"] in [line.split() for line in shown.splitlines()]
    refused = queue.run("attributes", "orders", "VisibilityTimeout")
    assert (refused.exit_code, "is not NAME=VALUE" in refused.output) == (2, True)


def test_a_purge_asks_first(queue: Shell) -> None:
    queue("create", "orders")
    queue("send", "orders", "x")
    assert queue.run("purge", "orders", typed="n\n").exit_code == 1
    assert queue("purge", "orders", "--yes") == "Purged orders.\n"
    assert queue.run("receive", "orders").exit_code == 3


@pytest.mark.parametrize("command", ["purge", "delete"])
def test_nobody_is_asked_about_a_queue_that_is_not_there(queue: Shell, command: str) -> None:
    refused = queue.run(command, "none", typed="y\n")
    assert refused.exit_code == 1
    assert refused.output.startswith("tidegate: The specified queue does not exist")


def test_what_is_not_there_is_said_in_a_line(queue: Shell) -> None:
    for words in (
        ("send", "none", "x"),
        ("receive", "none"),
        ("redrive", "none"),
        ("purge", "none", "--yes"),
        ("delete", "none", "--yes"),
    ):
        ended = queue.run(*words)
        assert (ended.exit_code, ended.stdout) == (1, "")
        assert ended.stderr.count("\n") == 1


def test_a_url_is_as_good_as_a_name(queue: Shell) -> None:
    dead = queue("create", "dead").strip()
    arn = json.loads(queue("attributes", dead, "--json"))["QueueArn"]
    policy = json.dumps({"deadLetterTargetArn": arn, "maxReceiveCount": "1"})
    url = queue("create", "orders", "--attribute", f"RedrivePolicy={policy}").strip()
    queue("send", url, "two coffees")
    assert queue("receive", url, "--delete") == "two coffees\n"
    assert queue("redrive", dead, "--to", url)
    assert queue("purge", url, "--yes") == f"Purged {url}.\n"
    assert queue("delete", url, "--yes") == f"Deleted {url}.\n"
    assert [one["name"] for one in json.loads(queue("list", "--json"))] == ["dead"]


def test_a_command_needs_no_rights_but_those_of_what_it_does(tmp_path: Path) -> None:
    guarded = ServerProcess(
        tmp_path / "data", tmp_path / "log", options=("--auto-create-queues",), auth="on"
    )
    guarded.start()
    policy, key = tmp_path / "worker.json", tmp_path / "worker"
    actions = ["sqs:ReceiveMessage", "sqs:DeleteMessage"]
    statement = {"Effect": "Allow", "Action": actions, "Resource": "*"}
    policy.write_text(json.dumps({"Version": "2012-10-17", "Statement": statement}))

    def done(*words: str, credentials: Path = guarded.data / "credentials") -> str:
        group, *others = words
        options = (group, "--endpoint", guarded.url, "--credentials", str(credentials))
        ended = CliRunner().invoke(tidegate, [*options, *others])
        assert ended.exit_code == 0, ended.output
        return ended.stdout

    try:
        done("user", "create", "worker", "--policy", str(policy))
        done("key", "create", "--user", "worker", "--file", str(key))
        done("queue", "send", "fresh", "two coffees")  # which makes the queue
        received = done("queue", "receive", "fresh", "--delete", credentials=key)
        assert received == "two coffees\n"
    finally:
        guarded.kill()
