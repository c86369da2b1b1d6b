"""The server that drills and benchmarks start: it counts as started when it says so itself."""

import socket
import sys
from pathlib import Path

from tests.benchmarks.server_process import ServerProcess

PROBE_S_MAX = 0.2

PROGRAM = f"""
import signal, socket, sys
from pathlib import Path

port = int(sys.argv[sys.argv.index("--port") + 1])
with socket.create_server(("127.0.0.1", port)) as probe:
    probe.settimeout({PROBE_S_MAX})
    try:
        probe.accept()
        Path(sys.argv[0]).with_name("taken in").touch()
    except TimeoutError:
        pass
with socket.create_server(("127.0.0.1", port)):
    print(f"It serves SQS on http://127.0.0.1:{{port}}, data in a folder", flush=True)
    signal.pause()
"""
"""Listens for a moment to see whether the port is free, as a server does, and later for good."""


def test_a_listener_that_looks_whether_the_port_is_free_does_not_pass_for_the_server(
    tmp_path: Path,
) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    server = ServerProcess(
        tmp_path / "data", tmp_path / "log", wrapper=(sys.executable, str(program))
    )
    server.start()
    try:
        assert "serves SQS" in server.log.read_text()
        socket.create_connection(("127.0.0.1", server.port)).close()
        assert not (tmp_path / "taken in").exists()
    finally:
        server.kill()
