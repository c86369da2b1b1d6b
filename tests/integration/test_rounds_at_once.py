"""Rounds of a drill that go on at the same time: what hangs in one holds up no end."""

import os
import signal
import subprocess
import threading
from contextlib import closing
from pathlib import Path

import pytest

from tests.drills.rounds_at_once import RoundEndedError, RoundsAtOnce

_END_S_MAX = 60.0


def _double(number: int) -> int:
    return 2 * number


def test_what_comes_of_each_round() -> None:
    assert sorted(RoundsAtOnce(_double, range(5), at_once=2)) == [0, 2, 4, 6, 8]


def _hang(pipe: str) -> int:
    """Start somebody who hangs, too, and has the pipe open; say so; then wait for ever."""
    with Path(pipe).open("wb") as file:
        subprocess.Popen(("sleep", "1000"), stdout=file)
        file.write(b"begun")
    threading.Thread(target=threading.Event().wait).start()  # the interpreter waits for it
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    threading.Event().wait()
    return 0


def _hang_or_end(asked: str) -> int:
    """The first hangs; the other ends when it is told to."""
    name, pipe = asked.split(" ", 1)
    return _hang(pipe) if name == "hang" else len(Path(pipe).read_bytes())


def test_a_round_that_hangs_is_killed_with_what_it_started(tmp_path: Path) -> None:
    hanging, ending = (tmp_path / name for name in ("hanging", "ending"))
    os.mkfifo(hanging)
    os.mkfifo(ending)
    left = threading.Event()

    def watch() -> None:
        with hanging.open("rb") as pipe:
            pipe.read(1)
            ending.write_bytes(b"end")
            pipe.read()  # to its end: when nobody has it open any more
        left.set()

    threading.Thread(target=watch, daemon=True).start()
    rounds = [f"hang {hanging}", f"end {ending}"]
    with closing(iter(RoundsAtOnce(_hang_or_end, rounds, at_once=2))) as ended:
        assert next(ended) == len(b"end")
        assert not left.is_set()
    assert left.wait(_END_S_MAX)


def _die(_number: int) -> int:
    os.kill(os.getpid(), signal.SIGKILL)
    return 0


def test_a_round_whose_process_dies_is_told() -> None:
    with pytest.raises(RoundEndedError, match="-9"):
        list(RoundsAtOnce(_die, [1], at_once=1))
