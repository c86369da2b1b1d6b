"""Starts a program from a process that has imported it: `python -m` this, a socket's fd, its name.

A request has the arguments, variables and folder of a process, and four files: what is to be its
standard input, output and error, and one to which is written how it ended. It is answered with the
process's id. What has ended has its id until that file has no reader any more.
"""

import gc
import json
import os
import pkgutil
import runpy
import select
import socket
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import control_plane
import data_plane

TIDEGATE: Final = "control_plane.cli"
AWS: Final = "awscli"
"""The AWS CLI: what `aws` runs."""

REQUEST_BYTES_MAX: Final = 100_000
FILES: Final = 4
STATUS_BYTES: Final = 4


def import_tidegate() -> None:
    """Import all of it.

    Granian stays out, and what needs it: its allocator has a thread, which no fork would have.
    """
    modules: dict[str, Any] = sys.modules
    modules["granian"] = None  # as if it was not installed
    for package in (data_plane, control_plane):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if not module.name.endswith(".__main__"):
                try:
                    import_module(module.name)
                except ImportError as error:
                    if "granian" not in str(error):
                        raise
    del modules["granian"]


def import_aws() -> None:
    """Import what it is made of."""
    import_module("awscli.clidriver")
    import_module("awscli.handlers")


PROGRAMS: Final[dict[str, Callable[[], None]]] = {TIDEGATE: import_tidegate, AWS: import_aws}


def import_all(program: str) -> dict[str, str]:
    """Import what commands are made of; the variables that libraries were given by that."""
    before = dict(os.environ)
    PROGRAMS[program]()
    gc.collect()
    gc.freeze()
    assert len([*Path("/proc/self/task").iterdir()]) == 1, "something has begun a thread"
    return {name: text for name, text in os.environ.items() if name not in before}


def serve(door: socket.socket, given: Mapping[str, str]) -> bool:
    """Start what is asked for, until nobody can ask: False. In what it starts it returns True."""
    poll = select.poll()
    poll.register(door, select.POLLIN)
    running: dict[int, tuple[int, int]] = {}
    told: dict[int, int] = {}
    while True:
        for ready, _ in poll.poll():
            poll.unregister(ready)
            if ready in running:
                pid, status = running.pop(ready)
                _tell(ready, status)
                told[status] = pid
                poll.register(status, 0)  # until it has no reader
            elif ready in told:
                os.waitpid(told.pop(ready), 0)
                os.close(ready)
            else:
                request, files, _, _ = socket.recv_fds(door, REQUEST_BYTES_MAX, FILES)
                if not request:
                    return False
                pid = os.fork()
                if pid == 0:
                    door.detach()
                    _become(json.loads(request), files, given)
                    return True
                *its, status = files
                for file in its:
                    os.close(file)
                process = os.pidfd_open(pid)
                running[process] = pid, status
                poll.register(process, select.POLLIN)
                door.send(str(pid).encode())
                poll.register(door, select.POLLIN)


def _tell(process: int, status: int) -> None:
    """Write how a process ended, and leave it to be waited for."""
    ended = os.waitid(os.P_PIDFD, process, os.WEXITED | os.WNOWAIT)
    assert ended is not None
    by_itself = ended.si_code == os.CLD_EXITED
    code = ended.si_status if by_itself else -ended.si_status
    os.close(process)
    with suppress(BrokenPipeError):  # nobody may want to know
        os.write(status, code.to_bytes(STATUS_BYTES, signed=True))


def _become(request: Mapping[str, Any], files: Sequence[int], given: Mapping[str, str]) -> None:
    """Be what a process is that the system has just started so."""
    *standard, _ = files
    for number, file in enumerate(standard):
        os.dup2(file, number)
    os.closerange(len(standard), os.sysconf("SC_OPEN_MAX"))
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update({**given, **request["variables"]})
    os.setsid()
    sys.argv[1:] = request["arguments"]


if __name__ == "__main__":
    _, fd, started = sys.argv
    if serve(socket.socket(fileno=int(fd)), import_all(started)):
        runpy.run_module(started, run_name="__main__", alter_sys=True)
