"""Processes that are forked in these tests are as those that the system starts."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.forked import ForkServer, Starts, starter
from tests.integration.server_process import ServerProcess, run_command

pytestmark = pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="only Linux can")


@pytest.fixture
def both(tmp_path: Path, fork_server: ForkServer) -> Iterator[tuple[ServerProcess, ServerProcess]]:
    """A server that the system has started, and one that was forked."""
    servers = []
    for name, by in (("one", None), ("two", fork_server)):
        Starts.by = by
        server = ServerProcess(tmp_path / name, tmp_path / f"{name}.log")
        server.start()
        servers.append(server)
    first, second = servers
    yield first, second
    for server in servers:
        server.kill()


def process(server: ServerProcess) -> Path:
    assert server.process is not None
    return Path(f"/proc/{server.process.pid}")


def files(server: ServerProcess) -> set[str]:
    """What it has open: names in its folder, and kinds of what has no name."""
    found = {str(file.readlink()) for file in (process(server) / "fd").iterdir()}
    return {
        name.replace(str(server.log), "log").replace(str(server.data), "data").partition(":")[0]
        for name in found
    }


def fields(server: ServerProcess, *names: str) -> dict[str, str]:
    lines = (process(server) / "status").read_text().splitlines()
    told = dict(line.split(":\t") for line in lines if ":\t" in line)
    return {name: told[name] for name in names}


def test_a_forked_server_is_as_one_that_the_system_starts(
    both: tuple[ServerProcess, ServerProcess],
) -> None:
    """Its files, its session, and what it does about signals."""
    system, forked = both
    assert files(system) == files(forked)
    signals = ("SigBlk", "SigIgn", "SigCgt")
    assert fields(system, *signals) == fields(forked, *signals)
    for server in both:
        assert server.process is not None
        assert os.getsid(server.process.pid) == server.process.pid
        assert server.process.poll() is None
        assert server.stop() == 0
        assert server.process.returncode == 0


def test_how_a_process_ends_is_told(
    both: tuple[ServerProcess, ServerProcess],
) -> None:
    for server in both:
        assert server.stop(signal.SIGKILL) == -signal.SIGKILL


@pytest.mark.parametrize(
    "arguments", [("queue", "--help"), ("queue", "list"), ("rescue", "--nonsense"), ("health",)]
)
def test_a_forked_command_says_the_same(
    fork_server: ForkServer, arguments: tuple[str, ...]
) -> None:
    Starts.by = None
    system = run_command(*arguments)
    Starts.by = fork_server
    forked = run_command(*arguments)
    assert (forked.returncode, forked.stdout, forked.stderr) == (
        system.returncode,
        system.stdout,
        system.stderr,
    )


def test_what_counts_before_a_program_runs_is_left_to_the_system() -> None:
    here = dict(os.environ)
    assert starter(here | {"TIDEGATE_PORT": "1"}) is not None
    assert starter(here | {"LD_PRELOAD": "libfaketime.so.1"}) is None
    assert starter(here | {"PYTHONUTF8": "1"}) is None
