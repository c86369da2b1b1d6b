"""An engine under drill that is stopped stands still, all of its threads."""

import subprocess
import sys
from pathlib import Path

from tests.drills.engines import Engine

ROUNDS = 50
WRITES = """
import sys, threading
from pathlib import Path

def write(name):
    path = Path(sys.argv[1], name)
    while True:
        path.write_bytes(bytes(100_000))
        path.unlink()

for number in range(8):
    threading.Thread(target=write, args=(str(number),)).start()
print("writes", flush=True)
"""


def states(pid: int) -> set[str]:
    """Of all threads, as `/proc` has them: `T` is stopped."""
    threads = Path(f"/proc/{pid}/task").glob("*/stat")
    return {thread.read_text().rpartition(")")[2].split()[0] for thread in threads}


def test_nothing_of_an_engine_goes_on_once_it_is_stopped(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    command = [sys.executable, "-c", WRITES, str(data)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        engine = Engine("one", data, tmp_path / "log", port=0, process=process)
        try:
            assert process.stdout is not None
            process.stdout.readline()
            for _ in range(ROUNDS):
                engine.stop()
                assert states(process.pid) == {"T"}
                engine.go_on()
            copy = tmp_path / "copy"
            engine.copy(copy)
            # It stands still already, and may be told so again.
            engine.stop()
            engine.stop()
        finally:
            engine.kill()
    assert copy.is_dir()
