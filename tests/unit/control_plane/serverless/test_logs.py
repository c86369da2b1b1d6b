"""Lines of the functions' logs: JSON, one a line, and nothing of what was sent."""

import json
import logging
from typing import Any

from control_plane.serverless.logs import FunctionLog, FunctionLogHandler
from data_plane.frontend.served import Served
from tests.unit.repeatable import HandClock

SERVED = Served(
    request_id="5f1b3a52-8a3e-4d2c-9a44-0d6d1f0c1c5e",
    operation="SendMessage",
    account="111122223333",
    region="eu-west-1",
    queue="orders",
    protocol="json",
    status=200,
    code="",
    started_us=1_000,
    finished_us=3_500,
    messages=1,
    bytes=5,
    failed_entries=0,
    client="203.0.113.7",
)


def lines_of(level: str = "info") -> tuple[FunctionLog, list[str]]:
    lines: list[str] = []
    return FunctionLog(lines.append, HandClock(), level), lines


def test_a_request_is_a_line_as_the_server_writes_it() -> None:
    log, lines = lines_of()
    log.served(SERVED)
    (line,) = lines
    assert line.endswith("}\n")
    assert line.count("\n") == 1
    fields: dict[str, Any] = json.loads(line)
    assert fields.pop("time_us") == HandClock().now_us()
    assert fields == {
        "level": "info",
        "event": "request",
        "request_id": "5f1b3a52-8a3e-4d2c-9a44-0d6d1f0c1c5e",
        "operation": "SendMessage",
        "account": "111122223333",
        "region": "eu-west-1",
        "queue": "orders",
        "protocol": "json",
        "status": 200,
        "code": "",
        "duration_ms": 2.5,
        "messages": 1,
        "bytes": 5,
        "failed_entries": 0,
        "client": "203.0.113.7",
    }


def test_levels() -> None:
    log, lines = lines_of("warning")
    log.served(SERVED)
    log.event("info", "nothing")
    log.event("error", "something", of="it")
    log.act("administration", act="CreateUser")
    assert [json.loads(line)["event"] for line in lines] == ["something", "administration"]


def test_what_modules_log_tells_no_secret() -> None:
    log, lines = lines_of()
    logger = logging.getLogger("tests.of.functions")
    handler = FunctionLogHandler(log)
    logger.addHandler(handler)
    try:
        int("what was sent")
    except ValueError:
        logger.exception("it failed %d times", 2)
    logger.removeHandler(handler)
    (line,) = lines
    fields = json.loads(line)
    assert fields["message"] == "it failed 2 times"
    assert "ValueError" in fields["traceback"]
    assert "invalid literal" not in line, "it would tell what was sent"


def test_a_line_that_cannot_be_written_fails_nobody_and_is_told_when_one_can() -> None:
    lines: list[str] = []
    broken = [True, True, False]

    def write(line: str) -> None:
        if broken.pop(0):
            raise BrokenPipeError
        lines.append(line)

    log = FunctionLog(write, HandClock(), "info")
    log.served(SERVED)
    FunctionLogHandler(log).emit(logging.LogRecord("cell", 40, "", 0, "full", (), None))
    log.act("administration", act="CreateUser")
    lost, act = [json.loads(line) for line in "".join(lines).splitlines()]
    assert (lost["event"], lost["lines"]) == ("log lines dropped", 2)
    assert act["event"] == "administration"
