"""Bills in processes of their own, each with a Java of its own; some are killed on their way."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from signal import SIGKILL
from typing import Any, Final

from glue_jobs.arguments import JobError
from glue_jobs.billing_options import Options
from glue_jobs.billing_run import BillingRun
from glue_jobs.places import FolderPlace
from glue_jobs.progress import Progress
from glue_jobs.session import open_session

ROOT: Final = Path(__file__).parents[2]
_S_MAX: Final = 600


@dataclass(frozen=True)
class Machine:
    """What differs from machine to machine, and must make no difference."""

    environment: Mapping[str, str] = field(default_factory=dict)
    folder: Path = ROOT
    """Where it is run."""
    cores: str = "2"
    partitions: int = 2
    is_little: bool = True
    lists_backwards: bool = False
    """Whether folders list what is in them in another order."""


HERE: Final = Machine()


def bill_afresh(
    place: Path, out: Path, *, kill_at: str = "", machine: Machine = HERE, **options: Any
) -> dict[str, Any]:
    """What a bill in a new process says: `run` and `findings`, or `refused`.

    `kill_at` is how the line of progress begins, or the name of the object, at which that process
    kills itself: before a step, a list of drafts or a pointer, after any other object. The answer
    is empty then.
    """
    its = asdict(machine) | {"folder": ""}
    told = json.dumps([{"usage": str(place), "out": str(out), **options}, kill_at, its])
    ran = subprocess.run(
        [sys.executable, "-m", __name__, told],
        cwd=machine.folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), **machine.environment},
        capture_output=True,
        text=True,
        timeout=_S_MAX,
        check=False,
    )
    if kill_at:
        assert ran.returncode == -SIGKILL, ran.stdout + ran.stderr
        return {}
    assert ran.returncode == 0, ran.stderr
    said: dict[str, Any] = json.loads(ran.stdout)
    return said


def _main(told: str) -> None:
    given, kill_at, its = json.loads(told)
    machine = Machine(**its)

    def pass_by(what: str) -> None:
        if kill_at and what.startswith(kill_at):
            os.kill(os.getpid(), SIGKILL)

    session = open_session("fresh", cores=machine.cores, is_little=machine.is_little)
    session.conf.set("spark.sql.shuffle.partitions", str(machine.partitions))
    if machine.lists_backwards:
        _list_backwards()
    _tell_of_objects(pass_by)
    progress = Progress("", lambda line: pass_by(line.removeprefix(":").strip()))
    try:
        its = BillingRun(session, Options(**given), progress).run()
    except JobError as error:
        said: dict[str, Any] = {"refused": str(error)}
    else:
        said = {"run": its.run, "findings": list(its.findings)}
    session.stop()
    print(json.dumps(said))


def _list_backwards() -> None:
    rglob = Path.rglob

    def backwards(self: Path, pattern: str) -> Iterator[Path]:
        return reversed(list(rglob(self, pattern)))

    Path.rglob = backwards  # type: ignore[method-assign,assignment]


def _tell_of_objects(pass_by: Callable[[str], None]) -> None:
    """Tell of each object that this process puts, or of which it reads a draft."""
    put_new, read = FolderPlace.put_new, FolderPlace.read

    def put(self: FolderPlace, name: str, content: bytes) -> bool:
        if name.startswith("runs/"):
            pass_by(name)
        is_new = put_new(self, name, content)
        pass_by(name)
        return is_new

    def read_one(self: FolderPlace, name: str) -> bytes:
        if name.startswith("_drafts/"):
            pass_by(name)
        return read(self, name)

    FolderPlace.put_new = put  # type: ignore[method-assign]
    FolderPlace.read = read_one  # type: ignore[method-assign]


if __name__ == "__main__":
    _main(sys.argv[1])
