"""How a server stops: signals to it alone and to its process group, a terminal that closes."""

import asyncio
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest

from control_plane import process as process_module
from data_plane.http.answers import LONG_ANSWER_BYTES, Answers
from data_plane.http.connections import bind
from data_plane.http.overload import Overload, OverloadSettings
from data_plane.http.server import HttpServer, HttpSettings
from data_plane.protocol.http import HttpRequest, HttpResponse
from data_plane.settings import ServerSettings
from data_plane.system import SystemEntropy
from tests.integration.server_process import ROOT, STOP_S_MAX, ServerProcess, command
from tests.ports import free_port

MAKE_SERVE = ("serve", "AUTH=off")

HELD = (
    b"POST / HTTP/1.1\r\nhost: x\r\nx-amz-target: AmazonSQS.ListQueues\r\n"
    b"content-type: application/x-amz-json-1.0\r\ncontent-length: 1000\r\n\r\n{"
)
"""A request that is in flight until its body is there."""


ON_TERMINAL = """
import fcntl, os, signal, sys, termios
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # tests may run under nohup
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.argv[1], sys.argv[1:])
"""
"""Makes standard input the session's terminal, and runs a command there."""


def events(log: Path) -> list[str]:
    """Of the server itself: a disk may get full meanwhile."""
    found = [json.loads(line)["event"] for line in log.read_text().splitlines()]
    return [event for event in found if event != "log"]


def closed_marks(data: Path) -> list[bool]:
    """Of each server that counted usage here, whether it stored all to its end."""
    marks: list[dict[str, Any]] = [
        json.loads(path.read_text()) for path in data.glob("usage/writers/**/*.json")
    ]
    return [mark["closed"] for mark in marks if mark["kind"] == "server"]


def use(server: ServerProcess) -> None:
    client = server.client(attempts=5)
    queue = client.create_queue(QueueName="orders")["QueueUrl"]
    client.send_message(QueueUrl=queue, MessageBody="one")


@pytest.mark.parametrize(
    "numbers", list(permutations((signal.SIGTERM, signal.SIGINT, signal.SIGHUP), 2))
)
def test_two_signals_in_the_same_moment_are_one_stop(
    server: ServerProcess, numbers: tuple[int, int]
) -> None:
    """Different ones: two of a kind would be one before the server knows of them."""
    use(server)
    assert server.process is not None
    for number in numbers:
        os.killpg(server.process.pid, number)
    assert server.process.wait(STOP_S_MAX) == 0
    assert events(server.log)[-2:] == ["stopping", "stopped"]
    assert closed_marks(server.data) == [True]


def test_a_second_signal_later_ends_at_once(tmp_path: Path) -> None:
    options = ("--grace", "600")
    server = ServerProcess(tmp_path / "data", tmp_path / "log", port=0, options=options)
    server.start()
    assert server.process is not None
    with socket.create_connection(("127.0.0.1", server.port)) as connection:
        connection.sendall(HELD)
        while "tidegate_requests_in_flight 2.0" not in server.get("/metrics")[1]:
            assert server.process.poll() is None
        began_s = time.monotonic()
        while server.process.poll() is None:
            assert time.monotonic() - began_s < STOP_S_MAX
            server.process.terminate()
            time.sleep(0.1)  # between two signals
    assert server.process.returncode == 128 + signal.SIGTERM
    assert time.monotonic() - began_s > 1.9
    assert events(server.log)[-1] == "stopping"
    server.kill()


def test_what_cannot_finish_in_time_is_refused_so_that_clients_repeat_it(tmp_path: Path) -> None:
    options = ("--grace", "0.2")
    server = ServerProcess(tmp_path / "data", tmp_path / "log", port=0, options=options)
    server.start()
    with socket.create_connection(("127.0.0.1", server.port), STOP_S_MAX) as connection:
        connection.sendall(HELD)
        while "tidegate_requests_in_flight 2.0" not in server.get("/metrics")[1]:
            assert server.process is not None
            assert server.process.poll() is None
        assert server.stop() == 0
        answer = connection.recv(65_536)
    assert answer.startswith(b"HTTP/1.1 503 ")
    assert b"ServiceUnavailable" in answer
    assert "cut off" in events(server.log)


@pytest.mark.usefixtures("started_by_the_system")  # A fork ignores what its own parent does.
def test_a_server_outlives_its_terminal_where_that_is_asked_for(tmp_path: Path) -> None:
    server = ServerProcess(tmp_path / "data", tmp_path / "log", port=0)
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as nohup does
    try:
        server.start()
    finally:
        signal.signal(signal.SIGHUP, before)
    assert server.process is not None
    os.kill(server.process.pid, signal.SIGHUP)
    assert server.get("/health")[0] == 200
    assert server.stop() == 0
    assert events(server.log)[-2:] == ["stopping", "stopped"]
    assert '"signal":"SIGTERM"' in server.log.read_text()


@pytest.fixture
def terminal() -> Iterator[tuple[int, int]]:
    master, slave = os.openpty()
    yield master, slave
    os.close(slave)


def test_a_terminal_that_closes_stops_the_server(tmp_path: Path, terminal: tuple[int, int]) -> None:
    master, slave = terminal
    data, port = tmp_path / "data", free_port()
    serve = ("serve", "--port", str(port), "--auth", "off", "--data", str(data))
    options = ("--log-format", "json")
    with subprocess.Popen(
        [sys.executable, "-c", ON_TERMINAL, *command(*serve, *options)],
        cwd=ROOT,
        stdin=slave,
        stdout=slave,
        stderr=slave,
        start_new_session=True,
    ) as process:
        seen = b""
        while b'"started"' not in seen:
            seen += os.read(master, 4096)
        use(ServerProcess(data, tmp_path / "log", port=port))
        os.close(master)
        try:
            assert process.wait(STOP_S_MAX) == 0
        finally:
            process.kill()
    assert closed_marks(data) == [True]


def _is_makes_own(variable: str) -> bool:
    return variable.startswith("MAKE") or variable == "MFLAGS"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_stop_under_make_reaches_both_and_is_one(tmp_path: Path, number: int) -> None:
    """Ctrl-C, and what supervisors do: the group gets the signal, and make hands its own on."""
    if shutil.which("make") is None:
        pytest.skip("there is no make")
    data, port, log = tmp_path / "data", free_port(), tmp_path / "log"
    environment = Path(sys.prefix)
    settings = {"SERVE_ENV": environment, "SERVE_READY": "", "PORT": port, "DATA": data}
    command_line = ["make", *MAKE_SERVE]
    command_line += [f"{name}={value}" for name, value in settings.items()]
    with (
        log.open("wb") as file,
        subprocess.Popen(
            command_line,
            cwd=ROOT,
            # Of a make that runs this test nothing: below another one it says where it is.
            env={name: value for name, value in os.environ.items() if not _is_makes_own(name)},
            stdout=subprocess.PIPE,
            stderr=file,
            start_new_session=True,
        ) as process,
    ):
        try:
            assert process.stdout is not None
            assert b"Tidegate" in process.stdout.readline(), log.read_text()
            use(ServerProcess(data, log, port=port))
            os.killpg(process.pid, number)
            process.wait(STOP_S_MAX)
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            raise
    # Make may end before the server, and says things of its own.
    lines = [line for line in log.read_text().splitlines() if line.startswith("{")]
    assert [json.loads(line)["event"] for line in lines][-2:] == ["stopping", "stopped"]
    assert closed_marks(data) == [True]


def test_what_ends_a_server_unexpectedly_is_a_line_of_its_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Not what Python says of it on standard error, for whose reader it would wait."""

    async def fail(*_: object) -> int:
        raise ArithmeticError("a secret")

    monkeypatch.setattr(process_module, "_run", fail)
    assert process_module.run(ServerSettings(port=0, data=tmp_path)) == 1
    line = json.loads(capfd.readouterr().err)
    assert (line["event"], line["level"]) == ("failed", "error")
    assert line["traceback"].endswith("ArithmeticError")


def ends_of_pipe(file: int) -> int:
    """How many files of this process are ends of the pipe of which that is one: two at first."""
    files = Path("/proc/self/fd")
    pipe = (files / str(file)).readlink()
    return sum(link.is_symlink() and link.readlink() == pipe for link in files.iterdir())


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere answers go out in one piece")
def test_a_client_that_goes_before_it_has_anything_of_a_long_answer_holds_up_no_stop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Granian waits, when its last connection is gone, for its thread that reads the answer."""
    write = Answers._wait
    opened, gone = asyncio.Event(), asyncio.Event()

    async def write_late(self: Answers, reading: int, *answer: Any) -> None:
        while ends_of_pipe(reading) < 3:  # noqa: ASYNC110 - what Granian's thread brings about
            await asyncio.sleep(0.01)  # between two looks
        opened.set()
        await gone.wait()
        await asyncio.sleep(0.5)  # Granian has time to wait for a thread with nothing to read
        await write(self, reading, *answer)

    async def answer(_request: HttpRequest) -> HttpResponse:
        return HttpResponse(200, (), bytes(2 * LONG_ANSWER_BYTES))

    async def play() -> bool:
        listener = bind("127.0.0.1", 0)
        overload = Overload(OverloadSettings(), lambda: 0, SystemEntropy(), lambda _headers: None)
        server = HttpServer(answer, {}, HttpSettings(1 << 20), overload, None)
        stop, started = asyncio.Event(), asyncio.Event()
        port = listener.getsockname()[1]
        serving = asyncio.create_task(server.serve(stop, listener, started.set))
        await started.wait()
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /x HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        await opened.wait()
        stop.set()
        writer.transport.abort()
        gone.set()
        return await asyncio.wait_for(serving, STOP_S_MAX)

    monkeypatch.setattr(Answers, "_wait", write_late)
    assert asyncio.run(play())
