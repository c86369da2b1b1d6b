"""Who reads the log may stop reading, leave, or have no room: the server does not notice."""

import fcntl
import http.client
import json
import os
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import BufferedReader, FileIO
from pathlib import Path
from typing import Any

import pytest

from tests.integration.pipelined import refuse
from tests.integration.server_process import (
    LAG_S_MAX,
    ROOT,
    STOP_S_MAX,
    ServerProcess,
    command,
    run_command,
)
from tests.integration.test_slow_clients import await_fact
from tests.pipes import Pipe
from tests.ports import free_port

PIPE_BYTES = 1 << 16

FILLING = 1_000
"""Refused requests, whose lines are more than a pipe of 64 KiB holds."""

OVERFLOWING = 15_000
"""And these more than the server keeps for a reader that will read on."""

REST_S_MAX = 60
LOOKS = 10


@contextmanager
def serving(folder: Path, stderr: int, *, auth: str = "off") -> Iterator[ServerProcess]:
    server = ServerProcess(folder / "data", folder / "log", port=0, auth=auth, stderr=stderr)
    server.start()
    try:
        yield server
    finally:
        server.kill()


def assert_serves(server: ServerProcess) -> None:
    client = server.client()
    queue = client.create_queue(QueueName="orders")["QueueUrl"]
    client.send_message(QueueUrl=queue, MessageBody="one")
    (message,) = client.receive_message(QueueUrl=queue, WaitTimeSeconds=20)["Messages"]
    client.delete_message(QueueUrl=queue, ReceiptHandle=message["ReceiptHandle"])


def lines_dropped(server: ServerProcess) -> int:
    _, text = server.get("/metrics")
    name = 'tidegate_log_lines_dropped_total{reason="stalled"} '
    (value,) = [line.removeprefix(name) for line in text.splitlines() if line.startswith(name)]
    return int(float(value))


def read_lines(file: FileIO) -> Iterator[dict[str, Any]]:
    """What is read of a log, to its end."""
    with BufferedReader(file) as log:
        for line in log:
            yield json.loads(line)


def waiting_bytes(pipe: Pipe) -> int:
    """What nobody has read yet."""
    waiting = fcntl.ioctl(pipe.reader, termios.FIONREAD, bytes(4))
    return int.from_bytes(waiting, sys.byteorder)


def test_a_reader_that_stalls_holds_up_neither_requests_nor_the_stop(
    tmp_path: Path, pipe: Pipe
) -> None:
    with serving(tmp_path, pipe.writer.fileno()) as server:
        refuse(server.port, FILLING)
        await_fact(lambda: waiting_bytes(pipe) > PIPE_BYTES // 2)  # so it is full
        assert_serves(server)
        assert server.stop() == 0


def test_a_start_that_fails_ends_whoever_reads_why(tmp_path: Path, pipe: Pipe) -> None:
    os.set_blocking(pipe.writer.fileno(), False)
    while pipe.writer.write(bytes(PIPE_BYTES)):
        pass
    os.set_blocking(pipe.writer.fileno(), True)
    (tmp_path / "file").write_text("no folder")
    serve = ("serve", "--port", "0", "--data", str(tmp_path / "file" / "data"))
    ran = subprocess.run(command(*serve), cwd=ROOT, stderr=pipe.writer, timeout=60, check=False)
    assert ran.returncode == 2


def test_a_terminal_that_shows_nothing_holds_up_neither_requests_nor_the_stop(
    tmp_path: Path,
) -> None:
    """As after Ctrl-S."""
    screen, terminal = os.openpty()
    try:
        with serving(tmp_path, terminal) as server:
            refuse(server.port, FILLING)
            assert_serves(server)
            assert server.stop() == 0
    finally:
        os.close(screen)
        os.close(terminal)


def test_what_a_stalled_reader_loses_it_is_told_when_it_reads_on(
    tmp_path: Path, pipe: Pipe
) -> None:
    with serving(tmp_path, pipe.writer.fileno()) as server:
        refuse(server.port, OVERFLOWING)
        lost = lines_dropped(server)
        assert 0 < lost < OVERFLOWING
        pipe.writer.close()
        seen: list[dict[str, Any]] = []
        for line in read_lines(pipe.reader):
            seen.append(line)
            if line["event"] == "log lines dropped" and server.process is not None:
                server.process.terminate()  # and read on: lines may follow
    assert server.stop() == 0
    names = [line["event"] for line in seen]
    assert names[-2:] == ["stopping", "stopped"]
    # Where the thread that writes is late, there is room again for some lines after those.
    places = [at for at, name in enumerate(names) if name == "log lines dropped"]
    assert set(names[places[0] : -2]) <= {"request", "log lines dropped"}
    told = [seen[at] for at in places]
    assert names.count("request") + sum(one["lines"] for one in told) == OVERFLOWING
    assert sum(one["lines"] for one in told) >= lost  # the last lines came after the metrics
    for at in places:
        of = seen[at]
        assert seen[at - 1]["time_us"] <= of["from_us"] <= of["to_us"] <= seen[at + 1]["time_us"]
    times = [line["time_us"] for line in seen if line not in told]
    assert times == sorted(times)


def test_a_reader_that_leaves_costs_its_lines_and_nothing_else(tmp_path: Path, pipe: Pipe) -> None:
    """As `make serve 2>&1 | head -2`."""
    with serving(tmp_path, pipe.writer.fileno(), auth="on") as server:
        pipe.reader.close()
        refuse(server.port, 20)
        to = ("--endpoint", server.url, "--data", str(server.data))
        user = run_command("user", "create", "worker", *to)
        assert user.returncode == 0, user.stderr
        key = run_command("key", "create", "--user", "worker", *to)
        assert key.returncode == 0, key.stderr
        assert_serves(server)
        assert server.process is not None
        await_rest(server.process.pid)
        os.kill(server.process.pid, signal.SIGTERM)
        assert server.stop() == 0


def await_rest(pid: int) -> None:
    """Return when all threads of the process slept, however often one looked.

    One that does something all the time never sleeps: on a busy machine, too, it wants to run.
    """
    until_s = time.monotonic() + REST_S_MAX
    asleep = 0
    while asleep < LOOKS:
        assert time.monotonic() < until_s, "it does something all the time"
        stats = [path.read_text() for path in Path(f"/proc/{pid}/task").glob("*/stat")]
        states = {stat.rpartition(")")[2].split()[0] for stat in stats}
        asleep = asleep + 1 if states == {"S"} else 0
        time.sleep(0.02)  # between two looks


def test_a_full_device_fails_no_request(tmp_path: Path) -> None:
    full = os.open("/dev/full", os.O_WRONLY)
    with serving(tmp_path, full) as server:
        os.close(full)
        refuse(server.port, FILLING)
        assert_serves(server)
        assert server.stop() == 0


@contextmanager
def small_disk(at: Path) -> Iterator[Path]:
    """A file system with room for few lines. Skips where one may not make one."""
    at.mkdir()
    options = ("-t", "tmpfs", "-o", "size=128k", "tmpfs", str(at))
    made = subprocess.run(["mount", *options], capture_output=True, text=True, check=False)
    if made.returncode:
        pytest.skip(f"a file system can be made by root alone: {made.stderr.strip()}")
    try:
        yield at
    finally:
        subprocess.run(["umount", "--lazy", str(at)], check=True)


def test_a_log_goes_on_without_a_gap_when_its_disk_has_room_again(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk") as disk:
        (disk / "old").write_bytes(b"x" * (100 << 10))
        log = os.open(disk / "log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        with serving(tmp_path, log) as server:
            refuse(server.port, 200)
            while not is_full(disk):
                assert server.get("/health")[0] == 200
            assert_serves(server)
            (disk / "old").unlink()
            assert server.stop() == 0
        os.close(log)
        events = [json.loads(line)["event"] for line in (disk / "log").read_bytes().splitlines()]
    assert events.count("request") == 200 + 4
    assert events[-1] == "stopped"


def is_full(disk: Path) -> bool:
    return not os.statvfs(disk).f_bavail


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&- >&- 2>&-"])
def test_no_file_of_the_server_takes_the_place_of_a_closed_stream(
    tmp_path: Path, closed: str
) -> None:
    port = free_port()
    serve = (
        *("serve", "--port", str(port), "--auth", "off", "--data", str(tmp_path / "data")),
        *("--lag", str(LAG_S_MAX)),
    )
    script = f'exec "$@" {closed}'
    with subprocess.Popen(["sh", "-c", script, "sh", *command(*serve)], cwd=ROOT) as process:
        server = ServerProcess(tmp_path / "data", tmp_path / "log", port=port)
        while process.poll() is None:
            with suppress(ConnectionError, http.client.HTTPException):
                assert server.get("/health")[0] == 200
                break
        refuse(port, 10)
        streams = {
            number: Path(f"/proc/{process.pid}/fd/{number}").readlink() for number in range(3)
        }
        assert_serves(server)
        process.terminate()
        assert process.wait(STOP_S_MAX) == 0
    assert not [at for at in streams.values() if at.is_relative_to(tmp_path)]


def test_a_command_whose_reader_has_enough_ends_quietly(server: ServerProcess) -> None:
    client = server.client()
    for number in range(300):
        client.create_queue(QueueName=f"{'long' * 16}-{number}")
    listing = " ".join(command("queue", "--endpoint", server.url, "list"))
    ran = subprocess.run(
        ["sh", "-c", f"{listing} | {{ read first; echo $first; }}"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ran.stdout.startswith("NAME ")
    assert ran.stderr == ""


NO_ROOM = "cannot write to /dev/full: the disk is full: No space left on device"


@pytest.mark.parametrize("arguments", [("--help",), ()])
def test_a_command_says_in_one_line_that_its_output_has_no_room(
    arguments: tuple[str, ...],
) -> None:
    with Path("/dev/full").open("wb") as full:
        ran = subprocess.run(
            command(*arguments), cwd=ROOT, stdout=full, stderr=subprocess.PIPE, check=False
        )
    assert ran.returncode == 1
    assert ran.stderr == f"tidegate: {NO_ROOM}\n".encode()


@pytest.mark.parametrize(
    ("script", "says"),
    [
        ('exec "$@" >/dev/full', f"{NO_ROOM}; the key AKIA"),
        ('exec "$@" >&-', "standard output is closed: name a --file for the key\n"),
        ('ulimit -f 0; exec "$@" --file key', "cannot write to key: File too large; the key AKIA"),
    ],
)
def test_no_key_is_left_whose_secret_nobody_has(tmp_path: Path, script: str, says: str) -> None:
    with (tmp_path / "log").open("wb") as log, serving(tmp_path, log.fileno(), auth="on") as server:
        to = ("--endpoint", server.url, "--data", str(server.data))
        ran = subprocess.run(
            ["sh", "-c", script, "sh", *command("key", "create", *to)],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert ran.returncode == 1
        assert ran.stderr.startswith(f"tidegate: {says}")
        assert ran.stderr.count("\n") == 1
        assert not (tmp_path / "key").exists()
        keys = json.loads(run_command("key", "list", "--json", *to).stdout)
        assert len(keys) == 1


def test_nothing_is_left_of_which_nobody_was_told(tmp_path: Path) -> None:
    def names(*listing: str) -> list[str]:
        found = json.loads(run_command(*listing, "--json", *to).stdout)
        return [one["name"] for one in found if not one.get("closed")]

    def refused(*arguments: str) -> str:
        with Path("/dev/full").open("wb") as full:
            ran = subprocess.run(
                command(*arguments, *to),
                cwd=ROOT,
                stdout=full,
                stderr=subprocess.PIPE,
                text=True,
                check=False,
            )
        assert ran.returncode == 1
        assert ran.stderr.count("\n") == 1
        return ran.stderr.removeprefix(f"tidegate: {NO_ROOM}; ")

    with (tmp_path / "log").open("wb") as log, serving(tmp_path, log.fileno(), auth="on") as server:
        to = ("--endpoint", server.url, "--data", str(server.data))
        accounts = names("account", "list")
        told = refused("user", "create", "ann")
        assert told == "the user ann is deleted, as nobody was told of it\n"
        assert names("user", "list") == []
        assert " is closed, as nobody was told of it\n" in refused("account", "create", "shop")
        assert names("account", "list") == accounts
        told = refused("account", "create", "shop", "--id", "123456789012")
        assert told == "the account 123456789012 was made\n"
        assert sorted(names("account", "list")) == sorted([*accounts, "shop"])
