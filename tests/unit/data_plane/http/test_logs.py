import asyncio
import json
import logging
import sys
import threading
import warnings
from pathlib import Path
from typing import Any

import pytest

from data_plane.http.logs import LogHandler, LogWriter, take_over
from data_plane.http.tracebacks import traceback_text
from tests.unit.data_plane.http.test_metrics import served


class Clock:
    def now_us(self) -> int:
        return 1_800_000_000_000_000


def lines(written: list[bytes]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in b"".join(written).splitlines()]


@pytest.mark.parametrize(
    ("level", "statuses"),
    [("info", [200, 400, 503]), ("warning", [400, 503]), ("error", [503])],
)
def test_the_level_chooses_among_served_refused_and_failed(level: str, statuses: list[int]) -> None:
    written: list[bytes] = []
    writer = LogWriter(written.append, Clock(), level)
    for status in (200, 400, 503):
        writer.served(served("SendMessage", status=status))
    writer.flush()
    assert [line["status"] for line in lines(written)] == statuses


def test_a_line_says_who_did_what_and_how_long_it_took() -> None:
    written: list[bytes] = []
    writer = LogWriter(written.append, Clock(), "info")
    writer.served(served("SendMessage", messages=1, bytes=9, code="OverLimit", status=403))
    (line,) = lines(written)
    assert line == {
        "time_us": 1_800_000_000_000_000,
        "level": "warning",
        "event": "request",
        "request_id": "r",
        "operation": "SendMessage",
        "account": "111111111111",
        "region": "us-east-1",
        "queue": "orders",
        "protocol": "json",
        "status": 403,
        "code": "OverLimit",
        "duration_ms": 3.0,
        "messages": 1,
        "bytes": 9,
        "failed_entries": 0,
        "client": "127.0.0.1:1",
    }


def test_a_denial_says_whose_it_was_where_a_signature_proved_that() -> None:
    written: list[bytes] = []
    writer = LogWriter(written.append, Clock(), "info")
    who = {"principal": "arn:aws:iam::111111111111:user/ann", "access_key_id": "AKIAX"}
    for status in (403, 200):
        writer.served(served("SendMessage", status=status, **who))
    writer.flush()
    denied, allowed = lines(written)
    assert {name: denied[name] for name in who} == who
    assert not who.keys() & allowed.keys()


def failed() -> Exception:
    try:
        int("a secret")
    except ValueError as error:
        return error
    raise AssertionError


def test_a_failure_brings_its_traceback_without_its_message_in_the_same_line() -> None:
    written: list[bytes] = []
    writer = LogWriter(written.append, Clock(), "error")
    writer.served(served("SendMessage", status=500, exception=failed()))
    (line,) = lines(written)
    assert line["traceback"].endswith("ValueError")
    assert ", in failed" in line["traceback"]
    assert "a secret" not in json.dumps(line).replace('int(\\"a secret\\")', "")


def test_what_a_loop_has_nobody_to_tell_of_is_logged_without_its_message() -> None:
    written: list[bytes] = []

    async def main() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(LogWriter(written.append, Clock(), "error").loop_error)
        loop.call_soon(int, "secret" * 2)
        await asyncio.sleep(0)

    asyncio.run(main())
    (line,) = lines(written)
    assert (line["event"], line["traceback"].splitlines()[-1]) == ("loop", "ValueError")
    assert b"secretsecret" not in written[0]


def test_of_errors_of_the_system_the_number_is_told_and_of_all_what_they_came_from() -> None:
    try:
        try:
            Path("/nowhere/at/all").read_bytes()
        except OSError as error:
            raise KeyError("a secret") from error
    except KeyError as error:
        text = traceback_text(error)
    assert "FileNotFoundError (ENOENT)\n" in text
    assert text.endswith("KeyError")
    assert text.index("ENOENT") < text.index("KeyError")


def test_a_long_traceback_is_cut() -> None:
    def again(left: int) -> int:
        return again(left - 1) if left else 1 // left

    with pytest.raises(ZeroDivisionError) as raised:
        again(500)
    assert len(traceback_text(raised.value)) < 5000


def test_lines_are_gathered_within_an_event_loop() -> None:
    written: list[bytes] = []
    writer = LogWriter(written.append, Clock(), "info")

    async def main() -> None:
        for _ in range(3):
            writer.served(served("SendMessage"))
        assert written == []
        writer.event("info", "stopping")
        assert len(written) == 1

    asyncio.run(main())
    assert [line["event"] for line in lines(written)] == ["request"] * 3 + ["stopping"]


def test_what_modules_log_comes_out_as_lines() -> None:
    written: list[bytes] = []

    async def main() -> None:
        writer = LogWriter(written.append, Clock(), "warning")
        handler = LogHandler(writer, asyncio.get_running_loop())
        for level in (logging.DEBUG, logging.INFO, logging.WARNING, logging.CRITICAL):
            handler.emit(logging.LogRecord("cell", level, "", 0, "disk %s", ("full",), None))
        await asyncio.sleep(0)

    asyncio.run(main())
    found = lines(written)
    assert [line["level"] for line in found] == ["warning", "error"]
    assert found[0]["message"] == "disk full"
    assert found[0]["logger"] == "cell"


def test_what_does_not_fit_into_its_text_is_logged_as_far_as_it_goes() -> None:
    written: list[bytes] = []

    async def main() -> None:
        handler = LogHandler(LogWriter(written.append, Clock(), "info"), asyncio.get_running_loop())
        handler.emit(logging.LogRecord("cell", logging.INFO, "", 0, "disk %d", ("full",), None))
        await asyncio.sleep(0)

    asyncio.run(main())
    assert [line["message"] for line in lines(written)] == ["disk %d (its arguments do not fit)"]


def test_a_path_that_is_no_text_is_logged() -> None:
    written: list[bytes] = []
    LogWriter(written.append, Clock(), "info").event("error", "upkeep", error="/data/\udcff")
    assert [line["error"] for line in lines(written)] == ["'/data/\\udcff'"]


def test_what_is_logged_after_the_loop_is_not_lost() -> None:
    written: list[bytes] = []
    loop = asyncio.new_event_loop()
    handler = LogHandler(LogWriter(written.append, Clock(), "info"), loop)
    loop.close()
    handler.emit(logging.LogRecord("cell", logging.INFO, "", 0, "closed", (), None))
    assert [line["message"] for line in lines(written)] == ["closed"]


def test_nothing_of_python_goes_past_the_log(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither warnings, nor what threads and finalizers raise: all would wait for who reads."""
    for module, name in ((sys, "unraisablehook"), (threading, "excepthook")):
        monkeypatch.setattr(module, name, getattr(module, name))
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    written: list[bytes] = []

    class Failing:
        def __del__(self) -> None:
            raise ArithmeticError

    async def main() -> None:
        take_over(LogWriter(written.append, Clock(), "info"), asyncio.get_running_loop())
        with warnings.catch_warnings():
            logging.captureWarnings(capture=False)
            logging.captureWarnings(capture=True)
            warnings.simplefilter("always")
            warnings.warn("an old way", DeprecationWarning, stacklevel=1)
        Failing()
        thread = threading.Thread(target=int, args=("secret",), name="worker")
        thread.start()
        thread.join()
        await asyncio.sleep(0)

    try:
        asyncio.run(main())
    finally:
        logging.captureWarnings(capture=False)
        root.handlers[:] = handlers
        root.setLevel(level)
    warned, unraisable, failed = lines(written)
    assert "DeprecationWarning: an old way" in warned["message"]
    assert (unraisable["event"], failed["event"]) == ("unraisable", "thread")
    assert unraisable["traceback"].endswith("ArithmeticError")
    assert (failed["thread"], failed["traceback"].splitlines()[-1]) == ("worker", "ValueError")
