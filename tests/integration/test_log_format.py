"""The log is JSON for programs, and readable on a terminal."""

import json
import os
from pathlib import Path

from tests.integration.server_process import ServerProcess


def test_a_terminal_gets_lines_for_people(tmp_path: Path) -> None:
    reader, terminal = os.openpty()
    server = ServerProcess(tmp_path / "data", tmp_path / "log", stderr=terminal)
    server.start()
    try:
        shown = b""
        while b"started" not in shown:
            shown += os.read(reader, 65_536)
        assert b"\x1b[33mwarning\x1b[0m" in shown, "authentication is off"
        assert b" info    started version=" in shown
    finally:
        server.kill()
        os.close(reader)
        os.close(terminal)


def test_elsewhere_it_is_json_unless_text_is_asked_for(tmp_path: Path) -> None:
    server = ServerProcess(tmp_path / "data", tmp_path / "log")
    server.start()
    server.stop()
    events = [json.loads(line)["event"] for line in server.log.read_text().splitlines()]
    assert {"started", "stopped"} <= set(events)
    plain = ServerProcess(tmp_path / "two", tmp_path / "plain", options=("--log-format", "text"))
    plain.start()
    plain.stop()
    said = plain.log.read_text()
    assert " info    started version=" in said
    assert "\x1b" not in said
