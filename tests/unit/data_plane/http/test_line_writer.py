import errno
import json
import os
from functools import partial
from pathlib import Path

import pytest

from data_plane.http import line_writer
from data_plane.http.line_writer import LineWriter
from data_plane.http.logs import lost_line
from tests.pipes import Pipe
from tests.unit.repeatable import HandClock

PATIENCE_S = 30.0
MUCH = b"".join(b"%d\n" % number for number in range(100_000))
"""More than a pipe holds."""


def writer(file: int, bytes_max: int = line_writer.BYTES_MAX) -> LineWriter:
    clock = HandClock()
    return LineWriter(file, clock, partial(lost_line, clock), bytes_max)


def test_lines_are_there_when_it_is_closed(tmp_path: Path) -> None:
    with (tmp_path / "log").open("wb", buffering=0) as file:
        lines = writer(file.fileno())
        lines.write(b"one\n")
        lines.write(b"two\nthree\n")
        assert lines.close(PATIENCE_S)
    assert (tmp_path / "log").read_bytes() == b"one\ntwo\nthree\n"


def test_who_does_not_read_holds_up_neither_writing_nor_the_end(pipe: Pipe) -> None:
    lines = writer(pipe.writer.fileno())
    lines.write(MUCH)
    lines.write(b"last\n")
    assert not lines.close(0.0)
    seen = pipe.reader.read(1 << 16)
    while not seen.endswith(b"last\n"):
        seen += pipe.reader.read(1 << 16)
    assert lines.close(PATIENCE_S)
    assert seen == MUCH + b"last\n"
    assert lines.dropped == {"stalled": 0, "failed": 0}


def test_what_a_stalled_reader_leaves_no_room_for_is_counted_and_told(pipe: Pipe) -> None:
    lines = writer(pipe.writer.fileno(), 200_000)
    for number in range(0, len(MUCH), 1000):
        lines.write(MUCH[number : number + 999] + b"\n")
    dropped = lines.dropped["stalled"]
    assert dropped > 0
    assert not lines.close(0.0)
    seen = b""
    while b"log lines dropped" not in seen.rpartition(b"\n")[0]:
        seen += pipe.reader.read(1 << 16)
    assert lines.close(PATIENCE_S)
    told = json.loads(seen.splitlines()[-1])
    assert (told["event"], told["lines"]) == ("log lines dropped", dropped)


def test_a_reader_that_is_gone_costs_the_lines_and_nothing_else(pipe: Pipe) -> None:
    pipe.reader.close()
    lines = writer(pipe.writer.fileno())
    lines.write(b"one\n")
    assert not lines.close(PATIENCE_S)


def test_where_writing_fails_it_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    taken = b""
    room = iter([0, 2, 0, 100])

    def write(_file: int, lines: memoryview) -> int:
        nonlocal taken
        size = min(next(room), len(lines))
        if not size:
            raise OSError(errno.ENOSPC, "full")
        taken += bytes(lines[:size])
        return size

    monkeypatch.setattr(line_writer, "_RETRY_S", 0.0)
    monkeypatch.setattr(os, "write", write)
    lines = writer(2)
    lines.write(b"one line\n")
    while taken != b"one line\n":
        pass
    assert lines.close(PATIENCE_S)
    assert not any(lines.dropped.values())


def test_a_file_that_does_not_block_is_waited_for(pipe: Pipe) -> None:
    os.set_blocking(pipe.writer.fileno(), False)
    lines = writer(pipe.writer.fileno())
    lines.write(MUCH)
    seen = b""
    while len(seen) < len(MUCH):
        seen += pipe.reader.read(1 << 16)
    assert lines.close(PATIENCE_S)
    assert seen == MUCH
