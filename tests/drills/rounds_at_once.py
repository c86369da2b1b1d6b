"""Rounds in processes of their own, several at a time, each with all that it starts.

A round that goes on when nobody needs it any more is killed with what it has started: it may be in
the middle of anything, and to wait for its clients would take minutes, or for ever.
"""

import os
import signal
from collections import deque
from collections.abc import Callable, Generator, Iterable
from contextlib import suppress
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Generic, TypeVar

Asked = TypeVar("Asked")
Done = TypeVar("Done")


class RoundEndedError(Exception):
    """A round's process ended before it had told what came of the round."""


class RoundsAtOnce(Generic[Asked, Done]):
    """Performs rounds by `perform`, so many at a time; iterate to get what comes of them."""

    def __init__(
        self, perform: Callable[[Asked], Done], rounds: Iterable[Asked], at_once: int
    ) -> None:
        self._perform = perform
        self._waiting = deque(rounds)
        self._at_once = at_once
        self._running: dict[Connection, BaseProcess] = {}

    def __iter__(self) -> Generator[Done, None, None]:
        """What came of each, as they end. Raises RoundEndedError.

        Whoever stops iterating, or is told of an error, ends the others.
        """
        try:
            while self._waiting or self._running:
                while self._waiting and len(self._running) < self._at_once:
                    self._start(self._waiting.popleft())
                for pipe in wait(list(self._running)):
                    assert isinstance(pipe, Connection)
                    yield self._end(pipe)
        finally:
            for pipe in list(self._running):
                self._kill(pipe)

    def _start(self, asked: Asked) -> None:
        context = get_context("fork")
        ours, theirs = context.Pipe(duplex=False)
        process = context.Process(target=self._run, args=(asked, theirs))
        process.start()
        theirs.close()
        _lead(process.pid or 0)
        self._running[ours] = process

    def _run(self, asked: Asked, pipe: Connection) -> None:
        _lead(os.getpid())
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        pipe.send(self._perform(asked))

    def _end(self, pipe: Connection) -> Done:
        try:
            done: Done = pipe.recv()
        except EOFError:
            process = self._running[pipe]
            process.join()
            raise RoundEndedError(f"a round ended with {process.exitcode}") from None
        self._kill(pipe)  # it is done: what of it is left would be a client that hangs
        return done

    def _kill(self, pipe: Connection) -> None:
        process = self._running.pop(pipe)
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid or 0, signal.SIGKILL)
        process.join()
        pipe.close()


def _lead(pid: int) -> None:
    """Let the process have a group of its own; it and who started it both say so: one is first."""
    with suppress(ProcessLookupError, PermissionError):
        os.setpgid(pid, pid)
