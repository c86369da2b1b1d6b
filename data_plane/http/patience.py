"""What becomes of requests that take long, at next to no cost for all the others.

A timer of its own for each request would cost more than the whole watch does. So those that wait
are kept in the order in which they began to, and one task looks at the eldest now and then.
"""

import asyncio
from collections import Counter
from time import monotonic
from typing import Any, Final

PATIENCE_S: Final = 0.25
"""Requests whose body or answer takes longer are looked after one by one."""

_LOOK_PERIOD_S: Final = 0.05


class Patience:
    """The watches that wait, the eldest first. `slow_bodies` of them wait for slow clients.

    Each connection may have one of these, and all together `more_bodies_max` more: in HTTP/2 a
    stranger could have a hundred on each, with what they hold.
    """

    def __init__(self, more_bodies_max: int) -> None:
        self._more_bodies_max = more_bodies_max
        self._bodies: Counter[int] = Counter()
        self._since_s: dict[Watch, float] = {}
        self._slow: Counter[int] = Counter()
        self.slow_bodies = 0

    def begin(self, watch: "Watch") -> None:
        """It waits from now on."""
        self._since_s.pop(watch, None)
        self._since_s[watch] = monotonic()

    def end(self, watch: "Watch") -> None:
        """It does not wait any more."""
        self._since_s.pop(watch, None)

    def slow(self, port: int, change: int) -> None:
        """A request that takes long has come from this port, or is over."""
        self._slow[port] += change
        if not self._slow[port]:
            del self._slow[port]

    def may_wait_for_body(self, port: int) -> bool:
        """Whether one more body from this port of a client may be slow to come."""
        more = self.slow_bodies - len(self._bodies)
        return port not in self._bodies or more < self._more_bodies_max

    def slow_body(self, port: int, change: int) -> None:
        """A body from this port is slow to come, or is not waited for any more."""
        self.slow_bodies += change
        self._bodies[port] += change
        if not self._bodies[port]:
            del self._bodies[port]

    def is_slow(self, port: int) -> bool:
        """Whether a request from this port of a client takes long just now."""
        return port in self._slow

    async def run(self) -> None:
        """Tell those that have waited for PATIENCE_S, for ever."""
        while True:
            await asyncio.sleep(_LOOK_PERIOD_S)
            due_s = monotonic() - PATIENCE_S
            for watch, since_s in list(self._since_s.items()):
                if since_s > due_s:
                    break
                del self._since_s[watch]
                watch.lose_patience()


class Watch:
    """Looks after the current task, which serves one request, while it waits.

    A body that is slow to come is counted, and the task is cancelled where it takes too long
    (`is_over`). A task whose answer takes long is cancelled when the client closes its connection.
    """

    __slots__ = (
        *("_body_timeout_s", "_patience", "_port", "_proto", "_scope", "_task", "_timer"),
        *("_watcher", "is_over"),
    )

    def __init__(self, patience: Patience, scope: Any, proto: Any) -> None:
        self._patience = patience
        self._scope = scope
        self._proto = proto
        self._port = -1
        self._task = asyncio.current_task()
        self._body_timeout_s: float | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._watcher: asyncio.Task[None] | None = None
        self.is_over = False

    def wait_for_body(self, timeout_s: float) -> None:
        """The body is under way, and has so long."""
        self._body_timeout_s = timeout_s
        self._patience.begin(self)

    def wait_for_answer(self) -> None:
        """The request was read, and is being answered."""
        self._body_timeout_s = None
        self._patience.begin(self)

    def lose_patience(self) -> None:
        """What it waits for takes long."""
        if self._port < 0:
            self._port = int(self._scope.client.rpartition(":")[2])
            self._patience.slow(self._port, 1)
        if self._body_timeout_s is None:
            self._watcher = asyncio.create_task(self._watch_client())
            return
        if not self._patience.may_wait_for_body(self._port):
            self._stop()
            return
        self._patience.slow_body(self._port, 1)
        left_s = max(0.0, self._body_timeout_s - PATIENCE_S)
        self._timer = asyncio.get_running_loop().call_later(left_s, self._stop)

    async def _watch_client(self) -> None:
        await self._proto.client_disconnect()
        if self._task is not None:
            self._task.cancel()

    def _stop(self) -> None:
        self.is_over = True
        if self._task is not None:
            self._task.cancel()

    def end_of_body(self) -> None:
        """The body is there, or will not come."""
        if self._timer is not None or self.is_over:
            self.end()

    def end(self) -> None:
        """What was waited for is there, or will not come: leave the task alone."""
        self._patience.end(self)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
            self._patience.slow_body(self._port, -1)
        if self._port >= 0:
            self._patience.slow(self._port, -1)
            self._port = -1
        if self._watcher is not None:
            self._watcher.cancel()
            self._watcher = None
        if self.is_over and self._task is not None:
            self.is_over = False
            self._task.uncancel()
