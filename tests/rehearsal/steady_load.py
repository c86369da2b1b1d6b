"""Clients that call a server all the time, whatever it answers, and note how it went."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from botocore.exceptions import ClientError

from tests.integration.server_process import ServerProcess

UNAVAILABLE = 503


class Answered(NamedTuple):
    """One call: what it was, when it began (`time.monotonic`), how long it took, its status."""

    kind: str
    began_s: float
    took_s: float
    status: int


class SteadyLoad:
    """A thread for each kind of call, which makes one after the other."""

    def __init__(self, server: ServerProcess, calls: dict[str, Callable[[Any], object]]) -> None:
        self.answered: list[Answered] = []
        self._stop = threading.Event()
        self._threads = [
            threading.Thread(target=self._repeat, args=(server.client(), kind, call), daemon=True)
            for kind, call in calls.items()
        ]

    def during(self, begun_s: float, ended_s: float, kind: str = "") -> list[Answered]:
        """Calls that began within this time."""
        return [
            one
            for one in list(self.answered)
            if begun_s <= one.began_s < ended_s and kind in ("", one.kind)
        ]

    def _repeat(self, client: Any, kind: str, call: Callable[[Any], object]) -> None:
        while not self._stop.is_set():
            began_s, status = time.monotonic(), 200
            try:
                call(client)
            except ClientError as error:
                status = int(error.response["ResponseMetadata"]["HTTPStatusCode"])
            took_s = time.monotonic() - began_s
            self.answered.append(Answered(kind, began_s, took_s, status))
            self._stop.wait(0.01)  # some hundred calls a second are enough

    @contextmanager
    def running(self) -> Iterator[None]:
        for thread in self._threads:
            thread.start()
        try:
            yield
        finally:
            self._stop.set()
            for thread in self._threads:
                thread.join(60)


def run_for(seconds: float) -> tuple[float, float]:
    """Let so much time pass; from when to when."""
    begun_s = time.monotonic()
    time.sleep(seconds)  # what is measured is what happens in this time
    return begun_s, time.monotonic()


def served(answered: list[Answered]) -> int:
    return sum(one.status == 200 for one in answered)


def median_s(answered: list[Answered]) -> float:
    return sorted(one.took_s for one in answered)[len(answered) // 2]


def wait_for_service(load: SteadyLoad, since_s: float, kinds: set[str], limit_s: float) -> float:
    """How long it took, from `since_s` on, until a call of each kind was served."""
    while time.monotonic() < since_s + limit_s:
        back = {one.kind: one for one in reversed(load.during(since_s, 1e12)) if one.status == 200}
        if kinds <= back.keys():
            return max(back[kind].began_s + back[kind].took_s for kind in kinds) - since_s
        time.sleep(0.05)  # between two looks at what was answered
    raise AssertionError(f"not served within {limit_s} s: {kinds}")
