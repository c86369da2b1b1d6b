"""The state machine on a server: a child process interprets it, and asks here for its tasks.

The child (interpreting.py) has the packages of requirements/cells.txt, and no socket, file or
cell: two pipes of JSON lines are all it knows.
"""

import asyncio
import json
import os
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, Final

NEEDED_PACKAGE: Final = "moto"

LINE_BYTES_MAX: Final = 4 * 1024 * 1024
"""Step Functions itself carries 256 KiB from state to state."""

_END_S_MAX: Final = 2.0
_CHILD: Final = "control_plane.cluster.interpreting"

Event = Mapping[str, Any]
Perform = Callable[[Event], Awaitable[Mapping[str, Any]]]


@dataclass(frozen=True, slots=True)
class Finished:
    """How an execution ended; `results` are those of its tasks."""

    status: str
    results: tuple[Mapping[str, Any], ...] = ()
    error: str = ""
    cause: str = ""

    @property
    def succeeded(self) -> bool:
        """Whether it did, all of its tasks included."""
        return self.status == "SUCCEEDED"


class InterpreterError(Exception):
    """The child ended, or never began; whatever was under way is cut off."""


def is_installed() -> bool:
    """Whether the interpreter's package is there."""
    return find_spec(NEEDED_PACKAGE) is not None


class Interpreter:
    """A child process, started with the first execution and again when it has ended.

    `perform` does a task in this process. What it raises the state machine is told by the name of
    its class, as Lambda does.
    """

    def __init__(self, perform: Perform) -> None:
        self._perform = perform
        self._child: Process | None = None
        self._reading: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._ready: asyncio.Future[None] | None = None
        self._runs: dict[int, asyncio.Future[Finished]] = {}
        self._last_run = 0

    async def start(self) -> None:
        """Start the child, and wait until it can execute. Raises InterpreterError."""
        if self._child is None:
            self._ready = asyncio.get_running_loop().create_future()
            self._child = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", _CHILD),
                stdin=PIPE,
                stdout=PIPE,
                # No other variable: the SDK in there is to look for nobody's credentials.
                env={"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
                limit=LINE_BYTES_MAX,
            )
            self._reading = asyncio.create_task(self._read(self._child), name="interpreter")
        if self._ready is not None:
            await asyncio.shield(self._ready)

    async def execute(self, given: Mapping[str, Any]) -> Finished:
        """Execute the state machine with this input, beside others. Raises InterpreterError."""
        await self.start()
        self._last_run += 1
        number = self._last_run
        ended: asyncio.Future[Finished] = asyncio.get_running_loop().create_future()
        self._runs[number] = ended
        self._tell(run=number, input=given)
        return await ended

    async def close(self) -> None:
        """End the child, whatever it does."""
        child, reading = self._child, self._reading
        if child is None or reading is None:
            return
        if child.stdin is not None:
            child.stdin.close()
        try:
            await asyncio.wait_for(child.wait(), _END_S_MAX)
        except TimeoutError:
            child.kill()
            await child.wait()
        await reading

    def _tell(self, **line: Any) -> None:
        if self._child is None or self._child.stdin is None:
            raise InterpreterError("the interpreter has ended")
        self._child.stdin.write(json.dumps(line).encode() + b"\n")

    async def _read(self, child: Process) -> None:
        assert child.stdout is not None  # noqa: S101 - it was asked for
        try:
            while text := await child.stdout.readline():
                self._hear(json.loads(text))
        except BaseException:  # nobody hears it any more
            child.kill()
            raise
        finally:
            self._ended(await child.wait())

    def _hear(self, line: dict[str, Any]) -> None:
        if "task" in line:
            task = asyncio.create_task(self._do(line["task"], line["event"]))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        elif "finished" in line:
            told = line["output"].get("results", ())
            finished = Finished(line["status"], tuple(told), line["error"], line["cause"])
            ended = self._runs.pop(line["finished"])
            if not ended.done():  # nobody waits any more for one that was cut off
                ended.set_result(finished)
        elif self._ready is not None and not self._ready.done():
            self._ready.set_result(None)

    async def _do(self, number: int, event: Event) -> None:
        try:
            result = await self._perform(event)
        except Exception as error:  # noqa: BLE001 - as Lambda, it tells of every one
            answer: dict[str, Any] = {"error": type(error).__name__, "message": str(error)}
        else:
            answer = {"result": dict(result)}
        if self._child is not None:  # else nobody waits for it any more
            self._tell(answer=number, **answer)

    def _ended(self, code: int) -> None:
        self._child = None
        error = InterpreterError(f"the interpreter of the state machine ended with code {code}")
        waiting: list[asyncio.Future[Any]] = [*self._runs.values()]
        if self._ready is not None:
            waiting.append(self._ready)
        self._runs.clear()
        for one in waiting:
            if not one.done():
                one.set_exception(error)
                one.exception()  # somebody may not wait for it
