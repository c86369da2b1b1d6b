"""Processes that serve HTTP on a free port for as long as a test needs them."""

import http.client
import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

HOST: Final = "127.0.0.1"

_IN_OWN_NETWORK: Final = (
    ("unshare", "--net", "--"),
    ("unshare", "--map-root-user", "--net", "--"),
)
_WITH_LOOPBACK: Final = ("sh", "-c", 'ip link set lo up && exec "$@"', "sh")

_START_S_MAX: Final = 300
_STOP_S_MAX: Final = 60


class UnavailableError(Exception):
    """An engine cannot be had here; the message says why."""


def a_way_out_exists() -> bool:
    """Whether this network reaches others, so that others may reach what listens in it."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # sends nothing; an address for documentation
        except OSError:
            return False
    return True


def own_network() -> tuple[str, ...]:
    """What to put before a command so that it runs in a network of its own; empty: no way."""
    for unshare in _IN_OWN_NETWORK:
        prefix = (*unshare, *_WITH_LOOPBACK)
        try:
            tried = subprocess.run([*prefix, "true"], capture_output=True, check=False)
        except FileNotFoundError:
            return ()
        if tried.returncode == 0:
            return prefix
    return ()


@dataclass(frozen=True, slots=True)
class Program:
    """How to start a server, and how to see that it is ready: any answer below 500 will do."""

    name: str
    command: Sequence[str]
    port: int
    ready_path: str = "/"
    environment: dict[str, str] = field(default_factory=dict)
    folder: Path | None = None


@contextmanager
def running(program: Program, log: Path) -> Iterator[str]:
    """The URL of the program, which answers; it is stopped at the end, with all it started."""
    with log.open("ab") as output:
        process = subprocess.Popen(
            program.command,
            cwd=program.folder,
            env={**os.environ, **program.environment},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        _await_answer(program, process, log)
        yield f"http://{HOST}:{program.port}"
    finally:
        _stop(process)


def _await_answer(program: Program, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + _START_S_MAX
    while time.monotonic() < deadline and process.poll() is None:
        connection = http.client.HTTPConnection(HOST, program.port, timeout=30)
        try:
            connection.request("GET", program.ready_path)
            if connection.getresponse().status < 500:
                return
        except OSError:
            # Nothing tells when a listener opens but trying.
            time.sleep(0.02)  # between two looks at a process that starts
        finally:
            connection.close()
    raise AssertionError(f"{program.name} does not answer: {log.read_text(errors='replace')}")


def _stop(process: subprocess.Popen[bytes]) -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
        except ProcessLookupError:
            break
        try:
            process.wait(_STOP_S_MAX)
        except subprocess.TimeoutExpired:
            continue
        break
    process.wait(_STOP_S_MAX)
