"""The program beside a server that tells how it ended."""

import subprocess
import sys
from pathlib import Path

from control_plane import death_watch


def told(said: bytes, *notes: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(  # noqa: S603 - the program itself
        [sys.executable, "-I", "-S", death_watch.__file__, *map(str, notes)],
        input=said.decode(),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_an_end_without_a_word_is_no_death(tmp_path: Path) -> None:
    ran = told(b"", tmp_path / "died")
    assert (ran.returncode, ran.stderr) == (0, "")
    assert not (tmp_path / "died").exists()


def test_a_fatal_signal_is_told_in_one_line_and_noted(tmp_path: Path) -> None:
    said = b"Fatal Python error: Aborted\n\nCurrent thread 0x1 (most recent call first):\n"
    ran = told(said, tmp_path / "died", tmp_path / "missing" / "died")
    assert ran.stderr.count("\n") == 1
    assert ran.stderr.startswith("tidegate: a fatal signal ended the server (aborted): data.mdb in")
    assert f"tidegate rescue {tmp_path} NEW" in ran.stderr
    assert (tmp_path / "died").read_bytes() == said
