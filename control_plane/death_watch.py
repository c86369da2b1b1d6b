"""Tells in one line of a death that the process itself cannot tell of: a fatal signal.

LMDB reads its file through memory. A page that is damaged, or cut off, while a server runs may end
the process within LMDB. Python can then write where it was, and no more; a second, small process
reads that, tells what it means, and leaves a note by which the next start looks at the whole file.
This module is that process's program, too, so it imports nothing of ours.
"""

import contextlib
import faulthandler
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

_FATAL = "Fatal Python error: "


def watch_for_death(notes: Sequence[Path]) -> None:
    """From now on a fatal signal is told, and noted in these files. Call it once in a process."""
    reader, writer = os.pipe()
    try:
        subprocess.Popen(  # noqa: S603 - this very file
            [sys.executable, "-I", "-S", str(Path(__file__).resolve()), *map(str, notes)],
            stdin=reader,
            stdout=subprocess.DEVNULL,
            cwd="/",
        )
    except OSError:
        os.close(writer)
        faulthandler.enable()  # it cannot be told in one line, but not in none either
    else:
        faulthandler.enable(writer)
    finally:
        os.close(reader)


def main() -> None:
    """Wait until the server ends, and tell how if it could not."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    said = sys.stdin.buffer.read()
    if not said:
        return
    first, _, _ = said.decode(errors="replace").partition("\n")
    cause = first.removeprefix(_FATAL).strip().lower()
    notes = [Path(text) for text in sys.argv[1:]]
    for note in notes:
        with contextlib.suppress(OSError):
            note.write_bytes(said)
    folders = ", ".join(str(note.parent) for note in notes)
    first_folder = notes[0].parent if notes else ""
    with contextlib.suppress(OSError):
        sys.stderr.write(
            f"tidegate: a fatal signal ended the server ({cause}): data.mdb in {folders} may be"
            " damaged; the next start looks at all of it, and what is whole can be written into a"
            f" new directory: tidegate rescue {first_folder} NEW\n"
        )


if __name__ == "__main__":
    main()
