"""`tidegate stream` from a shell: records there and back, shards, and a stream that is followed."""

import json
import os
import pty
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from control_plane.cli.main import tidegate
from control_plane.cli.start import INTERRUPTED
from tests.integration.server_process import ANSWER_S_MAX, ROOT, START_S_MAX, ServerProcess, command

COLUMNS = 80
FIRST, SECOND = "shardId-000000000000", "shardId-000000000001"


class Shell:
    def __init__(self, server: ServerProcess) -> None:
        self.server = server

    def run(self, *words: str, typed: str | None = None) -> Result:
        arguments = ["stream", "--endpoint", self.server.url, *words]
        environment = {"COLUMNS": str(COLUMNS)}
        return CliRunner().invoke(tidegate, arguments, input=typed, env=environment)

    def __call__(self, *words: str, typed: str | None = None) -> str:
        ended = self.run(*words, typed=typed)
        assert ended.exit_code == 0, ended.output
        return ended.stdout


@pytest.fixture
def stream(server: ServerProcess) -> Shell:
    shell = Shell(server)
    assert shell("create", "clicks", "--shards", "2").endswith(":stream/clicks\n")
    return shell


def test_records_go_there_and_back(stream: Shell, tmp_path: Path) -> None:
    (tmp_path / "picture").write_bytes(b"\0\xff\n")
    assert stream("put", "clicks", "hello", "--key", "ann") == "Put 1 record.\n"
    assert stream("put", "clicks", "--file", str(tmp_path / "picture")) == "Put 1 record.\n"
    assert stream("put", "clicks", typed="one\n\ntwo") == "Put 3 records.\n"
    lines = [json.loads(line) for line in stream("get", "clicks", "--json").splitlines()]
    assert sorted(line["Data"] for line in lines) == ["", "AP8K", "aGVsbG8=", "b25l", "dHdv"]
    (hello,) = [line for line in lines if line["PartitionKey"] == "ann"]
    number, shard = hello["SequenceNumber"], hello["ShardId"]
    assert stream("get", "clicks", "--from", number, "--raw").startswith("hello\n")
    assert hello in [
        json.loads(line)
        for line in stream("get", "clicks", "--json", "--shard", shard).splitlines()
    ]
    assert stream("get", "clicks", "--from", "latest", "--raw") == ""
    assert len(stream("get", "clicks", "--from", "1h", "--json").splitlines()) == 5


def test_lines_of_one_key_keep_their_order(stream: Shell) -> None:
    lines = [f"line {number}" for number in range(1_200)]
    told = stream("put", "clicks", "--key", "ann", "--json", typed="\n".join(lines))
    assert {json.loads(line)["ShardId"] for line in told.splitlines()} == {FIRST}
    assert stream("get", "clicks", "--raw", "--limit", "2000").splitlines() == lines
    cut = stream.run("get", "clicks", "--raw", "--limit", "3")
    assert cut.stdout.splitlines() == lines[:3]
    assert cut.stderr == "tidegate: there are more than 3; --limit shows more\n"
    assert stream("tail", "clicks", "-n", "2", "--raw").splitlines() == lines[-2:]
    assert stream("tail", "clicks", "-n", "0", "--raw") == ""


def test_a_table_fits_into_a_terminal(stream: Shell) -> None:
    stream("put", "clicks", "tab\there" + "x" * 100, "--key", "a key that is long")
    title, row = stream("get", "clicks").splitlines()
    assert title.split() == ["ARRIVED", "SHARD", "KEY", "DATA"]
    assert "      0  a key that …  tab·herexxx" in row
    assert len(row) == COLUMNS
    assert max(map(len, stream("describe", "clicks").splitlines())) <= COLUMNS


def test_shards_are_split_and_merged(stream: Shell) -> None:
    shown = stream("split", "clicks", "0").splitlines()
    assert [line.split() for line in shown] == [
        ["SHARD", "STATE", "PARENTS", "HASH", "KEYS"],
        ["shardId-000000000002", "open", "0", "0.00", "to", "25.00", "%"],
        ["shardId-000000000003", "open", "0", "25.00", "to", "50.00", "%"],
    ]
    merged = stream("merge", "clicks", "1", "shardId-000000000003").splitlines()[1]
    assert merged.split()[:4] == ["shardId-000000000004", "open", "3,", "1"]
    described: dict[str, Any] = json.loads(stream("describe", "clicks", "--json"))
    assert (described["OpenShardCount"], len(described["Shards"])) == (2, 5)
    states = re.findall(r"^shardId-\d+(\d)  (\w+)", stream("describe", "clicks"), re.MULTILINE)
    assert [number for number, state in states if state == "open"] == ["2", "4"]
    refused = stream.run("split", "clicks", "0")
    assert (refused.exit_code, refused.stderr.count("\n")) == (1, 1)
    at = stream("split", "clicks", "2", "--at", "1000").splitlines()[1]
    assert at.split()[3:] == ["0.00", "to", "0.00", "%"]


def test_streams_are_listed_and_deleted(stream: Shell) -> None:
    stream("create", "audit", "--retention", "48")
    assert json.loads(stream("list", "--json")) == [
        {
            "name": "audit",
            "status": "ACTIVE",
            "mode": "ON_DEMAND",
            "shards": 4,
            "retention_hours": 48,
        },
        {
            "name": "clicks",
            "status": "ACTIVE",
            "mode": "PROVISIONED",
            "shards": 2,
            "retention_hours": 24,
        },
    ]
    kept = stream.run("delete", "audit", typed="n\n")
    assert kept.exit_code == 1
    assert stream("delete", "audit", "--yes") == "Deleted audit.\n"
    assert stream("list").splitlines()[1:] == ["clicks  ACTIVE  PROVISIONED  2       24"]


def test_what_is_wrong_is_said(stream: Shell) -> None:
    wrong = {
        ("get", "none"): 1,
        ("put", "none", "x"): 1,
        ("put", "clicks", "x", "--key", ""): 1,
        ("tail", "none", "-f"): 1,
        ("delete", "none"): 1,
        ("put", "clicks", "--file", "/nowhere/y"): 1,
        ("put", "clicks", "x", "--file", "y"): 2,
        ("get", "clicks", "--from", "soon"): 2,
        ("get", "clicks", "--raw", "--json"): 2,
        ("split", "clicks", "x"): 2,
    }
    for words, code in wrong.items():
        ended = stream.run(*words)
        assert (words, ended.exit_code, ended.stdout) == (words, code, "")
        assert "Traceback" not in ended.stderr
        assert ended.stderr.count("\n") == 1 or code == 2


class Emulator:
    """A terminal of 80 columns, with a command in it."""

    def __init__(self, *arguments: str) -> None:
        self._terminal, inside = pty.openpty()
        self.process = subprocess.Popen(
            command("stream", *arguments),
            cwd=ROOT,
            env={**os.environ, "COLUMNS": str(COLUMNS)},
            stdin=inside,
            stdout=inside,
            stderr=inside,
            start_new_session=True,
        )
        os.close(inside)
        self.shown = ""

    def wait_for(self, text: str) -> None:
        """Read what is shown until it has the text."""
        until_s = time.monotonic() + START_S_MAX + ANSWER_S_MAX
        while text not in self.shown:
            assert time.monotonic() < until_s, self.shown
            self.shown += os.read(self._terminal, 65_536).decode()

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self._terminal)


@pytest.fixture
def tail(stream: Shell) -> Iterator[Emulator]:
    stream("put", "clicks", "before", "--key", "ann")
    terminal = Emulator("--endpoint", stream.server.url, "tail", "clicks", "-f")
    terminal.wait_for("before")
    yield terminal
    terminal.close()


def test_a_tail_follows_shards_that_are_split_and_a_server_that_starts_again(
    stream: Shell, server: ServerProcess, tail: Emulator
) -> None:
    stream("put", "clicks", "to the first", "--key", "ann")
    stream("put", "clicks", "to the second", "--key", "bob")
    tail.wait_for("to the first")
    tail.wait_for("to the second")
    stream("split", "clicks", "0")
    stream("put", "clicks", "to a child", "--key", "ann")
    tail.wait_for("to a child")
    server.kill()
    tail.wait_for("; it is asked again")
    server.start()
    stream("put", "clicks", "behind the crash", "--key", "ann")
    tail.wait_for("behind the crash")
    tail.process.send_signal(signal.SIGINT)
    assert tail.process.wait(ANSWER_S_MAX) == INTERRUPTED
    assert "Traceback" not in tail.shown
    assert tail.shown.count("to the first") == 1


@contextmanager
def running(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A command with pipes, ended with the block."""
    with subprocess.Popen(
        command("stream", *arguments),
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def test_a_tail_ends_when_nobody_reads_it(stream: Shell) -> None:
    stream("put", "clicks", "before")
    arguments = ("--endpoint", stream.server.url, "tail", "clicks", "-f", "--raw")
    with running(*arguments) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == "before\n"
        process.stdout.close()
        assert process.wait(ANSWER_S_MAX) == 1
        assert process.stderr.read() == ""


def test_a_tail_that_nobody_reads_ends_while_the_server_is_away(
    stream: Shell, server: ServerProcess
) -> None:
    stream("put", "clicks", "before")
    arguments = ("--endpoint", stream.server.url, "tail", "clicks", "-f", "--raw")
    with running(*arguments) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == "before\n"
        server.kill()
        assert "it is asked again" in process.stderr.readline()
        process.stdout.close()
        assert process.wait(ANSWER_S_MAX) == 1


def test_lines_are_put_as_they_come(stream: Shell) -> None:
    with running("--endpoint", stream.server.url, "put", "clicks", "--json") as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for text in ("one", "two"):
            process.stdin.write(f"{text}\n")
            process.stdin.flush()
            assert "SequenceNumber" in json.loads(process.stdout.readline())
        assert sorted(stream("get", "clicks", "--raw").split()) == ["one", "two"]
        process.stdin.close()
        assert process.wait(ANSWER_S_MAX) == 0
